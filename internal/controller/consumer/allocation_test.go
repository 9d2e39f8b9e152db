package consumer

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestAllocationsAreBounded(t *testing.T) {
	element := `{"name":"net","port":"web-net-0","portID":"port-0"}`
	for name, c := range map[string]struct {
		text string
		want int
	}{
		"one":                        {"[" + element + "]", 1},
		"as many as a Pod can get":   {"[" + strings.Repeat(element+",", selection.MaxSelections-1) + element + "]", 32},
		"more than a Pod can get":    {"[" + strings.Repeat(element+",", selection.MaxSelections) + element + "]", -1},
		"many empty ones":            {"[" + strings.Repeat("{},", 10000) + "{}]", -1},
		"a giant":                    {`[{"name":"` + strings.Repeat("x", 256<<10) + `"}]`, -1},
		"a port's name that is none": {`[{"port":"` + strings.Repeat("x", 254) + `"}]`, -1},
		"an id that is none":         {`[{"portID":"` + strings.Repeat("x", 256) + `"}]`, -1},
		"no JSON":                    {"x", -1},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Namespace: "team", Name: "a", Annotations: map[string]string{cloudteamv1.AnnotationAllocations: c.text},
			}}
			got, err := Allocations(pod)
			if (err != nil) != (c.want < 0) || err == nil && len(got) != c.want {
				t.Errorf("%d allocations, error %v; want %d", len(got), err, c.want)
			}
			expect.Len(t, max(c.want, 0), byAllocated(pod), "keys in the index")
		})
	}
}

// A Pod's allocation names ports of its own namespace, whatever a user writes.
func TestAnAllocationGivesNoPortOfAnotherNamespace(t *testing.T) {
	caches := newCaches(t)
	port := portOf("web-net-0")
	show(t, caches, port)
	for i, namespace := range []string{"evil", port.Namespace} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "a", UID: types.UID(namespace), Annotations: map[string]string{
				cloudteamv1.AnnotationAllocations: fmt.Sprintf(
					`[{"name":"team/net","port":"team/web-net-0","portID":%q},{"port":"web-net-0","portID":"team/%[1]s"}]`,
					port.Status.PortID),
			},
		}}
		show(t, caches, pod)
		expect.Len(t, i, caches.GivenTo(port), "Pods that the port was given to, with the Pod of %s", namespace)
	}
}

// A port that a user annotates with what is no name was made for nobody.
func TestMadeForIsAName(t *testing.T) {
	for value, want := range map[string]bool{
		"Deployment/web": true, "Deployment/": false, "Deployment/a/b": false, "Deployment/A": false, "Job/web": false,
		"Deployment/" + strings.Repeat("a", 254): false,
	} {
		port := portOf("web-net-0")
		port.Annotations = map[string]string{AnnotationMadeFor: value}
		if _, made := MadeFor(port, DeploymentKind); made != want {
			t.Errorf("%.20s: made for a Deployment: %t, want %t", value, made, want)
		}
	}
}
