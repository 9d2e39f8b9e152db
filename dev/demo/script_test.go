//go:build unix

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// scripted runs hack/demo.sh with scripts in place of go build and of the programs. Each prints its name and its
// arguments. It gives the lines of both outputs, without the introduction, and the error that the script ends with.
func scripted(t *testing.T, assets, demo string, args ...string) (introduced bool, lines []string, err error) {
	t.Helper()
	script, err := os.ReadFile("../../hack/demo.sh")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for path, content := range map[string]string{
		"hack/demo.sh": string(script),
		"hack/go-build.sh": `for a; do case $a in ./*) echo build "$a"; esac; done
			case $* in *./dev/demo*) read -r _ <fetching ;; esac`,
		"bin/controlplane": "echo controlplane \"$@\" >&2; echo >fetching; " + assets,
		"bin/demo":         "echo demo \"$@\"; " + demo,
	} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(content, "#!") {
			content = "#!/bin/bash\n" + content + "\n"
		}
		if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	// The project's build ends after that of the control plane has begun, as builds do that take minutes. A test may have
	// the demo wait until that has ended.
	mkfifo := exec.Command("mkfifo", filepath.Join(dir, "fetching"), filepath.Join(dir, "ended"))
	if out, err := mkfifo.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "hack", "demo.sh"), args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "LDFLAGS=")
	out, err := cmd.CombinedOutput()
	lines = strings.Split(strings.TrimSpace(string(out)), "\n")
	for i, line := range lines {
		if line == "" {
			return i > 0, lines[i+1:], err
		}
	}
	return false, lines, err
}

var building = regexp.MustCompile(`^(build|demo) `)

func TestMakeDemoTellsFirstAndBuildsWhatTheStoryNeeds(t *testing.T) {
	needed := []string{
		"build ./dev/controlplane", "build ./cmd/network-controller", "build ./cmd/neutron-emulator", "build ./dev/demo",
	}
	if os.Geteuid() == 0 { // who sees packets
		needed = append(needed, "build ./cmd/network-agent", "build ./cmd/neutron-port")
	}
	for sentence, test := range map[string]struct {
		args, want []string
	}{
		"the demo": {
			args: []string{"--short"},
			want: append(slices.Clone(needed), "demo --short"),
		},
		"what stays has all programs": {
			args: []string{"--stay"},
			want: append(slices.Clone(needed), "build ./cmd/...", "demo --stay"),
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			introduced, lines, err := scripted(t, "", "", test.args...)
			if err != nil || !introduced {
				t.Errorf("introduced: %t, error %v:\n%s", introduced, err, strings.Join(lines, "\n"))
			}
			var got []string
			for _, line := range lines {
				if building.MatchString(line) {
					got = append(got, line)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if all := strings.Join(lines, "\n"); !strings.Contains(all, "controlplane assets --components=all") {
				t.Errorf("the control plane's programs are not fetched meanwhile:\n%s", all)
			}
		})
	}
}

func TestMakeDemoStopsTheBuildThatTheStoryDidNotNeed(t *testing.T) {
	// Were it left running, it would hold the output open, and the script would not seem to end.
	_, lines, err := scripted(t, "exec sleep 600", "")
	if err != nil {
		t.Errorf("%v:\n%s", err, strings.Join(lines, "\n"))
	}
}

func TestMakeDemoShowsTheErrorOfTheOtherBuildAndEndsAsTheDemoDoes(t *testing.T) {
	_, lines, err := scripted(t, "echo build kwok: no room >&2; echo >ended; exit 1", "read -r _ <ended; exit 3")
	if exit := (&exec.ExitError{}); !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("it ends with %v, want exit status 3", err)
	}
	if all := strings.Join(lines, "\n"); !strings.Contains(all, "build kwok: no room") {
		t.Errorf("the error is not shown:\n%s", all)
	}
}
