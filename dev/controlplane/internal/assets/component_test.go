// SPDX-License-Identifier: Apache-2.0

package assets

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseComponents(t *testing.T) {
	for sentence, test := range map[string]struct {
		list string
		want []Component
		err  string
	}{
		"names come back in start order":       {list: "kwok,etcd", want: []Component{Etcd, Kwok}},
		"a name given twice counts once":       {list: "etcd,etcd", want: []Component{Etcd}},
		"spaces and empty names are no matter": {list: " etcd , ,kube-apiserver,", want: Minimal()},
		"all stands for every component":       {list: "all", want: All()},
		"an unknown name is told with the known ones": {
			list: "etcd,kube-proxy",
			err:  `unknown component "kube-proxy": choose from etcd,kube-apiserver,`,
		},
		"a node's programs can be named": {list: "multus,kubelet", want: Node()},
		"an empty list is an error":      {list: " ,", err: "no components are named"},
	} {
		t.Run(sentence, func(t *testing.T) {
			got, err := ParseComponents(test.list)
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Fatalf("error %v, want one that contains %q", err, test.err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("components (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPins(t *testing.T) {
	t.Run("every component has a version and a recipe", func(t *testing.T) {
		for _, c := range append(All(), Node()...) {
			if !regexp.MustCompile(`^v\d+\.\d+\.\d+$`).MatchString(c.Version()) {
				t.Errorf("%s has version %q", c, c.Version())
			}
			if !strings.HasPrefix(c.recipe().pkg, c.recipe().pin.module) {
				t.Errorf("%s is built from %s, which is not in %s", c, c.recipe().pkg, c.recipe().pin.module)
			}
		}
	})
	t.Run("Kubernetes is stamped with its version, major and minor", func(t *testing.T) {
		parts := strings.Split(strings.TrimPrefix(KubeAPIServer.Version(), "v"), ".")
		for _, want := range []string{
			"-X k8s.io/component-base/version.gitVersion=" + KubeAPIServer.Version(),
			"-X k8s.io/component-base/version.gitMajor=" + parts[0],
			"-X k8s.io/component-base/version.gitMinor=" + parts[1],
		} {
			if !strings.Contains(kubernetesPin.ldflags(), want) {
				t.Errorf("ldflags %q lack %q", kubernetesPin.ldflags(), want)
			}
		}
	})
	t.Run("the kubelet is of the control plane's version", func(t *testing.T) {
		if Kubelet.Version() != KubeAPIServer.Version() {
			t.Errorf("kubelet %s, kube-apiserver %s", Kubelet.Version(), KubeAPIServer.Version())
		}
	})
	t.Run("every module that Kubernetes replaces is of its own release", func(t *testing.T) {
		release := strings.Replace(KubeAPIServer.Version(), "v1.", "v0.", 1)
		replaces := regexp.MustCompile(`(?m)^\t(k8s\.io/\S+) => \S+ (\S+)$`).FindAllStringSubmatch(
			string(kubernetesPin.gomod()), -1)
		if len(replaces) == 0 {
			t.Error("there are no replace lines")
		}
		for _, replace := range replaces {
			if replace[2] != release {
				t.Errorf("%s is replaced by %s, want %s", replace[1], replace[2], release)
			}
		}
	})
}
