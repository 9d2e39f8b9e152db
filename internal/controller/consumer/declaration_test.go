package consumer

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// Containers of a Pod without our gate may use what is bound to it, whatever its annotations say by now.
func TestAPortIsUselessOnlyForAGatedPodOrByItsAllocations(t *testing.T) {
	ours := func(string, cache.ObjectName) Kind { return Ours }
	for name, c := range map[string]struct {
		networks, allocations, port string
		gated, want, unscheduled    bool
	}{
		"a gated Pod requests another network": {networks: "blue", port: "web-net-0", gated: true, want: true},
		"a gated Pod requests its network":     {networks: "net", port: "web-net-0", gated: true},
		"a gated Pod requests nothing":         {port: "web-net-0", gated: true, want: true},
		"a gated Pod's port is deleted":        {networks: "net", port: "web-net-0 going", gated: true, want: true},
		"a Pod without a node: its port is deleted": {
			networks: "net", port: "web-net-0 going", unscheduled: true, want: true,
		},
		"a Pod without a node requests its network":    {networks: "net", port: "web-net-0", unscheduled: true},
		"a running Pod lost its allocations":           {networks: "net", port: "web-net-0"},
		"a running Pod lost them and declares another": {networks: "blue", port: "web-net-0"},
		"a running Pod lost them, its port is deleted": {networks: "net", port: "web-net-0 going"},
		"a running Pod lost both annotations":          {port: "web-net-0"},
		"a running Pod was given another port":         {"blue", `[{"port":"web-blue-0"}]`, "web-net-0", false, true, false},
		"a running Pod was given this port":            {"blue", `[{"port":"web-net-0"}]`, "web-net-0", false, false, false},
		"a running Pod's allocations are overwritten":  {"blue", "?", "web-net-0", false, false, false},
		"a gated Pod has the allocations of another":   {"net", `[{"port":"web-net-1"}]`, "web-net-0", true, false, false},
		"a gated Pod's declaration cannot be read":     {networks: "[", port: "web-net-0", gated: true},
		"a running Pod's declaration cannot be read":   {networks: "[", port: "web-net-0"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "a", Annotations: map[string]string{
				selection.Annotation: c.networks, cloudteamv1.AnnotationAllocations: c.allocations,
			}}}
			if pod.Spec.NodeName = "node-1"; c.unscheduled {
				pod.Spec.NodeName = ""
			}
			if c.gated {
				pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: cloudteamv1.SchedulingGate}}
			}
			declaration := func() Declaration { return DeclarationOf(pod, ours) }
			expect.Equal(t, c.want, Useless(pod, portOf(c.port), declaration), "useless")
		})
	}
}
