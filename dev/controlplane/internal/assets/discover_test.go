// SPDX-License-Identifier: Apache-2.0

package assets

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fakeMachine is a linux/amd64 machine whose home and variables are the test's own.
func fakeMachine(home string, env map[string]string) Machine {
	return Machine{
		Getenv: func(name string) string { return env[name] },
		Home:   home, GOOS: "linux", GOARCH: "amd64",
	}
}

// install puts files under dir; those whose names end in ".txt" are not executable, and lose the ending.
func install(t *testing.T, dir string, names ...string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		mode := os.FileMode(0o755)
		plain, isText := strings.CutSuffix(name, ".txt")
		if isText {
			mode = 0o644
		}
		if err := os.WriteFile(filepath.Join(dir, plain), []byte(plain), mode); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDiscover(t *testing.T) {
	minor := strings.TrimPrefix(majorMinor(KubeAPIServer.Version()), "v")
	type files map[string][]string
	both := []string{"etcd", "kube-apiserver"}
	for sentence, test := range map[string]struct {
		files      files
		env        map[string]string
		components []Component
		want       string
		source     string
		notes      int
	}{
		"KUBEBUILDER_ASSETS that holds the components is used": {
			files: files{"mine": both}, env: map[string]string{EnvAssets: "mine"}, want: "mine", source: EnvAssets,
		},
		"KUBEBUILDER_ASSETS goes before setup-envtest's store": {
			files: files{"mine": both, ".local/share/kubebuilder-envtest/k8s/" + minor + ".0-linux-amd64": both},
			env:   map[string]string{EnvAssets: "mine"}, want: "mine", source: EnvAssets,
		},
		"KUBEBUILDER_ASSETS that lacks a component is not used, and that is said": {
			files: files{"mine": {"etcd"}}, env: map[string]string{EnvAssets: "mine"}, notes: 1,
		},
		"a file that may not be executed is no program": {
			files: files{"mine": {"etcd", "kube-apiserver.txt"}}, env: map[string]string{EnvAssets: "mine"}, notes: 1,
		},
		"kwok without its stages is not kwok": {
			files: files{"mine": append(both, "kwok")}, env: map[string]string{EnvAssets: "mine"},
			components: []Component{Kwok}, notes: 1,
		},
		"kwok with its stages is": {
			files: files{"mine": append(both, "kwok", StagesFile+".txt")}, env: map[string]string{EnvAssets: "mine"},
			components: []Component{Kwok}, want: "mine", source: EnvAssets,
		},
		"the store in the home directory is found": {
			files:  files{".local/share/kubebuilder-envtest/k8s/" + minor + ".0-linux-amd64": both},
			want:   ".local/share/kubebuilder-envtest/k8s/" + minor + ".0-linux-amd64",
			source: "setup-envtest's store",
		},
		"XDG_DATA_HOME moves the store": {
			files: files{"data/kubebuilder-envtest/k8s/" + minor + ".0-linux-amd64": both},
			env:   map[string]string{"XDG_DATA_HOME": "data"},
			want:  "data/kubebuilder-envtest/k8s/" + minor + ".0-linux-amd64", source: "setup-envtest's store",
		},
		"of several patches the newest is used, by number": {
			files: files{
				".local/share/kubebuilder-envtest/k8s/" + minor + ".9-linux-amd64":  both,
				".local/share/kubebuilder-envtest/k8s/" + minor + ".10-linux-amd64": both,
			},
			want: ".local/share/kubebuilder-envtest/k8s/" + minor + ".10-linux-amd64", source: "setup-envtest's store",
		},
		"another minor version in the store is not used": {
			files: files{".local/share/kubebuilder-envtest/k8s/1.20.2-linux-amd64": both},
		},
		"another platform in the store is not used": {
			files: files{".local/share/kubebuilder-envtest/k8s/" + minor + ".0-linux-arm64": both},
		},
		"a machine that has nothing yields nothing": {},
	} {
		t.Run(sentence, func(t *testing.T) {
			home := t.TempDir()
			for dir, names := range test.files {
				install(t, filepath.Join(home, dir), names...)
			}
			env := map[string]string{}
			for name, dir := range test.env {
				env[name] = filepath.Join(home, dir)
			}
			components := test.components
			if components == nil {
				components = Minimal()
			}
			got, notes, ok := fakeMachine(home, env).Discover(components)
			var want Found
			if test.want != "" {
				want = Found{filepath.Join(home, test.want), test.source}
			}
			if diff := cmp.Diff(want, got); diff != "" || ok != (test.want != "") {
				t.Errorf("found %t (-want +got):\n%s", ok, diff)
			}
			if len(notes) != test.notes {
				t.Errorf("notes %q, want %d", notes, test.notes)
			}
		})
	}
}

func TestDefaultCacheDir(t *testing.T) {
	for sentence, test := range map[string]struct {
		env  map[string]string
		home string
		want string
	}{
		"without variables it is under the home directory": {
			home: "/home/a", want: "/home/a/.cache/network-controller/controlplane",
		},
		"XDG_CACHE_HOME moves it": {
			env: map[string]string{"XDG_CACHE_HOME": "/x"}, home: "/home/a", want: "/x/network-controller/controlplane",
		},
		"its own variable goes first": {
			env: map[string]string{"XDG_CACHE_HOME": "/x", EnvCache: "/y"}, home: "/home/a", want: "/y",
		},
		"without a home there is an error": {},
	} {
		t.Run(sentence, func(t *testing.T) {
			got, err := fakeMachine(test.home, test.env).DefaultCacheDir()
			if got != test.want || (err == nil) != (test.want != "") {
				t.Errorf("got %q, %v; want %q", got, err, test.want)
			}
		})
	}
}
