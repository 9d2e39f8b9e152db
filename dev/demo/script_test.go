//go:build unix

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

// scripted runs hack/demo.sh with scripts in place of go build and of the programs, and gives what it prints and the
// error that it ends with.
func scripted(t *testing.T, assets, demo string, args ...string) (string, error) {
	t.Helper()
	script, err := os.ReadFile("../../hack/demo.sh")
	expect.NoError(t, err)
	dir := t.TempDir()
	for path, content := range map[string]string{
		"hack/demo.sh": string(script),
		// The project's build ends after that of the control plane has begun, as builds do that take minutes.
		"hack/go-build.sh": "#!/bin/bash\necho build \"$@\"\ncase $* in *./dev/demo*) read -r _ <fetching ;; esac",
		"bin/controlplane": "#!/bin/bash\necho controlplane \"$@\" >&2; echo >fetching; " + assets,
		"bin/demo":         "#!/bin/bash\necho demo \"$@\"; " + demo,
	} {
		path = filepath.Join(dir, path)
		expect.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		expect.NoError(t, os.WriteFile(path, []byte(content), 0o700))
	}
	// A test may have the demo wait until the build of the control plane has ended.
	mkfifo := exec.Command("mkfifo", filepath.Join(dir, "fetching"), filepath.Join(dir, "ended"))
	if out, err := mkfifo.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "hack", "demo.sh"), args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "LDFLAGS=")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestMakeDemoBuildsWhatTheStoryNeeds(t *testing.T) {
	for argument, want := range map[string]string{"--short": "./dev/demo", "--stay": "./cmd/..."} {
		// Were the other build left running, it would hold the output open, and the script would not seem to end.
		printed, err := scripted(t, "exec sleep 600", "", argument)
		for _, line := range []string{want, "controlplane assets --components=all", "demo " + argument} {
			if err != nil || !strings.Contains(printed, line) {
				t.Errorf("error %v, want the line %s in\n%s", err, line, printed)
			}
		}
	}
}

func TestMakeDemoShowsTheErrorOfTheOtherBuildAndEndsAsTheDemoDoes(t *testing.T) {
	printed, err := scripted(t, "echo build etcd: no room >&2; echo >ended; exit 1", "read -r _ <ended; exit 3")
	if exit := (&exec.ExitError{}); !errors.As(err, &exit) || exit.ExitCode() != 3 || !strings.Contains(printed, "no room") {
		t.Errorf("it ends with %v, want exit status 3 and the error in\n%s", err, printed)
	}
}
