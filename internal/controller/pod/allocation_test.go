package pod

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestAnnotationsFor(t *testing.T) {
	dual := portOf("web-net-0")
	dual.Status.MAC, dual.Status.MTU = "FA:16:3E:00:00:01", 1450
	dual.Status.Addresses = []cloudteamv1.PortAddress{
		{Address: "192.168.0.7/16", Gateway: "192.168.0.1"}, {Address: "fd00::7/64", Gateway: "fd00::1"},
		{Address: "10.0.0.7/24", Gateway: "10.0.0.1"}, {Address: "10.0.1.7/24"},
	}
	elsewhere := portOf("web-blue-0")
	elsewhere.Spec.NetworkNamespace = "shared"
	unread := portOf("web-net-0")
	unread.Status.Addresses[0].Address = "192.168.0.7"
	for name, test := range map[string]struct {
		annotation            string
		ports                 []*cloudteamv1.NetworkPort
		declared, allocations string
		err                   string
	}{
		"addresses of all families, and one gateway of each": {
			annotation: "net@eth1", ports: []*cloudteamv1.NetworkPort{dual},
			declared: `[{"name":"net","namespace":"team","interface":"eth1","ips":["192.168.0.7/16","fd00::7/64",` +
				`"10.0.0.7/24","10.0.1.7/24"],"mac":"fa:16:3e:00:00:01"}]`,
			allocations: `[{"name":"team/net","interface":"eth1","ips":["192.168.0.7/16","fd00::7/64","10.0.0.7/24",` +
				`"10.0.1.7/24"],"mac":"fa:16:3e:00:00:01","gateway":["192.168.0.1","fd00::1"],"mtu":1450,` +
				`"portID":"web-net-0","port":"web-net-0"}]`,
		},
		"what is not ours stays, and keeps its place": {
			annotation: `[{"name":"theirs","ips":["10.0.0.1/24"],"cni-args":{"a":1}},` +
				`{"name":"blue","namespace":"shared","default-route":["192.168.0.1"]}]`,
			ports: []*cloudteamv1.NetworkPort{nil, elsewhere},
			declared: `[{"name":"theirs","namespace":"team","ips":["10.0.0.1/24"],"cni-args":{"a":1}},` +
				`{"name":"blue","namespace":"shared","ips":["192.168.0.7/16"],"mac":"fa:16:3e:00:00:01",` +
				`"default-route":["192.168.0.1"]}]`,
			allocations: `[{"name":"shared/blue","ips":["192.168.0.7/16"],"mac":"fa:16:3e:00:00:01",` +
				`"portID":"web-blue-0","port":"web-blue-0"}]`,
		},
		"the addresses that were asked for get their prefix lengths": {
			annotation: `[{"name":"net","ips":["192.168.0.7"]}]`, ports: []*cloudteamv1.NetworkPort{portOf("web-net-0")},
			declared: `[{"name":"net","namespace":"team","ips":["192.168.0.7/16"],"mac":"fa:16:3e:00:00:01"}]`,
			allocations: `[{"name":"team/net","ips":["192.168.0.7/16"],"mac":"fa:16:3e:00:00:01","portID":"web-net-0",` +
				`"port":"web-net-0"}]`,
		},
		"an address without a prefix length is refused": {
			annotation: "net", ports: []*cloudteamv1.NetworkPort{unread}, err: `NetworkPort "web-net-0"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			selections, err := selection.Parse(test.annotation, "team")
			expect.NoError(t, err)
			declared, allocations, err := annotationsFor(selections, test.ports)
			if test.err != "" {
				expect.ErrorSays(t, err, test.err)
				return
			}
			expect.NoError(t, err)
			expect.Equal(t, test.declared, declared, "declared")
			expect.Equal(t, test.allocations, allocations, "allocations")
			// What is read back asks for the same ports, so that a Pod that is looked at again is told nothing new.
			again, err := selection.Parse(declared, "team")
			expect.NoError(t, err)
			for i, s := range again {
				if consumer.RequestOf(s, consumer.Extras{}).Network != consumer.RequestOf(selections[i], consumer.Extras{}).Network {
					t.Errorf("%v became %v", selections[i], s)
				}
			}
		})
	}
}

func TestWaiting(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*corev1.Pod)
		want bool
	}{
		"a Pod that declares networks waits":  {func(*corev1.Pod) {}, true},
		"one that is going does not":          {func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }, false},
		"one that has ended does not":         {func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, false},
		"one that runs already does":          {func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }, true},
		"the mirror of a static one does not": {func(p *corev1.Pod) { p.Annotations[corev1.MirrorPodAnnotationKey] = "" }, false},
		"one that declares nothing does not":  {func(p *corev1.Pod) { p.Annotations[selection.Annotation] = "" }, false},
		"one that has its allocations does not": {
			func(p *corev1.Pod) { p.Annotations[cloudteamv1.AnnotationAllocations] = "[]" }, false},
		"one that is gated has none, whatever it says": {func(p *corev1.Pod) {
			p.Annotations[cloudteamv1.AnnotationAllocations] = "[]"
			p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: cloudteamv1.SchedulingGate}}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{selection.Annotation: "net"}}}
			test.edit(pod)
			expect.Equal(t, test.want, consumer.Waiting(pod), "whether it waits")
		})
	}
}

func TestOwnPortName(t *testing.T) {
	pod := func(name, uid string) *corev1.Pod {
		p := &corev1.Pod{}
		p.Namespace, p.Name, p.UID = "team", name, types.UID(uid)
		return p
	}
	base := ownPortName(pod("web", "1"), nil, 0, requestFor("net"))
	if again := ownPortName(pod("web", "1"), nil, 0, requestFor("net")); again != base || !strings.HasPrefix(base, "web-net-") {
		t.Errorf("the names are %s and %s", base, again)
	}
	for name, other := range map[string]string{
		"a Pod that comes back": ownPortName(pod("web", "2"), nil, 0, requestFor("net")),
		"another selection":     ownPortName(pod("web", "1"), nil, 1, requestFor("net")),
		"another network":       ownPortName(pod("web", "1"), nil, 0, requestFor("blue")),
		"another MAC":           ownPortName(pod("web", "1"), nil, 0, requestFor("net mac")),
	} {
		if other == base {
			t.Errorf("%s has the name %s, too", name, base)
		}
	}
	slot := &consumer.Slot{Namespace: "team", Set: "db", Number: 0}
	first := ownPortName(pod("db-0", "1"), slot, 0, requestFor("net"))
	if again := ownPortName(pod("db-0", "2"), slot, 0, requestFor("net")); again != first {
		t.Errorf("the Pod of a StatefulSet that comes back has the port %s after %s", again, first)
	}
	if second := ownPortName(pod("db-0", "1"), slot, 1, requestFor("net")); second == first {
		t.Errorf("its second interface has the port %s, too", first)
	}
}

// What a slot had for a request goes on to serve it, whatever comes before it.
func TestPortsStayWhenOtherRequestsComeAndGo(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "db-0", UID: "1"}}
	slot := &consumer.Slot{Namespace: "team", Set: "db"}
	requests := func(texts ...string) (all []consumer.Request) {
		for _, text := range texts {
			all = append(all, requestFor(text))
		}
		return all
	}
	first := requests("net", "blue", "blue")
	names := ownPortNames(pod, slot, first, nil)
	var own []*cloudteamv1.NetworkPort
	for i, name := range names {
		own = append(own, newOwnPort(pod, slot, name, first[i]))
	}
	net, blue, second := names[0], names[1], names[2]
	for _, c := range []struct{ now, want []string }{
		{[]string{"net", "blue", "blue"}, names},
		{[]string{"blue", "blue"}, []string{second, blue}},
		{[]string{"blue"}, []string{blue}},
		{[]string{"blue", "net"}, []string{blue, net}},
		{[]string{"net"}, []string{net}},
		{[]string{"net", "net"}, []string{net, ownPortName(pod, slot, 1, requestFor("net"))}},
	} {
		slices.Reverse(own) // their order tells nothing
		if got := ownPortNames(pod, slot, requests(c.now...), own); !slices.Equal(got, c.want) {
			t.Errorf("%v have the ports %v, want %v", c.now, got, c.want)
		}
	}
	// One that is being deleted serves nothing more.
	own[slices.IndexFunc(own, func(p *cloudteamv1.NetworkPort) bool { return p.Name == blue })].DeletionTimestamp = &metav1.Time{}
	if got := ownPortNames(pod, slot, requests("blue"), own); got[0] != second {
		t.Errorf("it has the port %v, want %s", got, second)
	}
}
