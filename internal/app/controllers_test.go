package app

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// A kind has the controller of its name, or a flag that names it would be refused.
func TestEachKindHasAController(t *testing.T) {
	for _, name := range callsNeutron {
		if !slices.Contains(controllers, name) {
			t.Errorf("controllers lacks %q: write there the Name of the kind's controller", name)
		}
	}
}

// TestEachControllerAsksForWhatItNeeds runs the process against an API server that serves only some of the CRDs, and
// holds what it asks for. Nothing that is listed is ever answered.
func TestEachControllerAsksForWhatItNeeds(t *testing.T) {
	const (
		networks     = "/apis/cloudteam.ztgame.com/v1/networks"
		ports        = "/apis/cloudteam.ztgame.com/v1/networkports"
		foos         = "/apis/samplecontroller.k8s.io/v1alpha1/foos"
		attachments  = "/apis/k8s.cni.cncf.io/v1/network-attachment-definitions"
		deployments  = "/apis/apps/v1/deployments"
		replicaSets  = "/apis/apps/v1/replicasets"
		statefulSets = "/apis/apps/v1/statefulsets"
		pods         = "/api/v1/pods"
		machines     = "/apis/kubevirt.io/v1/virtualmachines"
		instances    = "/apis/kubevirt.io/v1/virtualmachineinstances"
	)
	ours := []string{networks, ports, foos}
	for name, c := range map[string]struct {
		controllers []string
		credentials bool
		crds        []string
		want, never []string
	}{
		"foos alone need no credentials": {
			[]string{"foo"}, false, ours, []string{foos, deployments}, []string{networks, ports, pods},
		},
		"networks alone watch nothing else": {
			[]string{"network"}, true, ours, []string{networks}, []string{foos, deployments, ports, pods},
		},
		"networkports need a cloud, and watch networks": {
			[]string{"networkport"}, true, ours, []string{networks, ports}, []string{foos, deployments, pods},
		},
		"deployments alone": {
			[]string{"deployment"}, false, ours, []string{networks, ports, deployments, replicaSets, pods},
			[]string{foos, statefulSets},
		},
		"pods alone": {
			[]string{"pod"}, false, ours, []string{networks, ports, replicaSets, statefulSets, pods},
			[]string{foos, attachments, machines, instances},
		},
		"pods where KubeVirt is installed": {
			[]string{"pod"}, false, append([]string{machines, instances}, ours...),
			[]string{networks, ports, pods, machines, instances}, []string{foos, attachments},
		},
		"pods where KubeVirt is half installed": {
			[]string{"pod"}, false, append([]string{machines}, ours...), []string{networks, ports, pods},
			[]string{machines, instances},
		},
		"attachments alone": {
			[]string{"attachment"}, false, append([]string{attachments}, ours...), []string{networks, attachments},
			[]string{ports, foos, deployments, replicaSets, pods},
		},
		"all but the controller of NetworkPorts": {
			[]string{"*", "-networkport"}, true, ours, []string{networks, ports, foos, deployments, replicaSets, pods}, nil,
		},
		"pods without the CRD of NetworkPort wait": {
			[]string{"pod"}, false, []string{networks}, []string{"/apis/cloudteam.ztgame.com/v1"},
			[]string{networks, ports, pods},
		},
		"all controllers watch all": {
			[]string{"*"}, true, append([]string{attachments}, ours...),
			[]string{networks, ports, foos, deployments, replicaSets, pods, attachments}, nil,
		},
		"without Multus there are no attachments": {
			[]string{"*"}, true, ours, []string{networks, ports, foos, "/apis/k8s.cni.cncf.io/v1"},
			[]string{attachments},
		},
		"without the CRD of Foo, networks are served": {
			[]string{"*"}, true, []string{networks}, []string{networks, "/apis/samplecontroller.k8s.io/v1alpha1"},
			[]string{foos, deployments},
		},
		"without the CRD of NetworkPort, networks are served": {
			[]string{"*"}, true, []string{networks, foos}, []string{networks, foos}, []string{ports, pods},
		},
		"without the CRD of Network, foos are served": {
			[]string{"*"}, true, []string{ports, foos}, []string{foos, deployments, "/apis/cloudteam.ztgame.com/v1"},
			[]string{networks, ports, pods},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if c.credentials {
				playCloud(t)
			} else {
				for _, variable := range os.Environ() {
					if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "OS_") {
						t.Setenv(name, "")
					}
				}
				t.Setenv("HOME", t.TempDir())
			}
			api := (&playedAPI{serves: c.crds, missing: true}).start(t)
			o := NewOptions()
			o.Master, o.Controllers = api.URL, c.controllers
			runUntil(t, o, func() error {
				if missing := api.unasked(c.want...); len(missing) > 0 {
					return fmt.Errorf("it does not ask for %v", missing)
				}
				return nil
			})
			if len(api.unasked(c.never...)) < len(c.never) {
				t.Errorf("it asks for one of %v", c.never)
			}
		})
	}
}
