package agent

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/node"
	"cloudteam.ztgame.com/network-controller/internal/node/agentapi"
	"cloudteam.ztgame.com/network-controller/internal/node/mark"
	"cloudteam.ztgame.com/network-controller/internal/node/nodetest"
	"cloudteam.ztgame.com/network-controller/internal/node/ovs"
	"cloudteam.ztgame.com/network-controller/internal/version"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// TestMode says when a node is taken for a virtual machine with a trunk.
func TestMode(t *testing.T) {
	there := filepath.Join(t.TempDir(), "db.sock")
	if err := os.WriteFile(there, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	missing := there + ".missing"
	for name, c := range map[string]struct {
		o    Options
		mode string
		says string
	}{
		"a flag decides":                         {o: Options{Mode: "trunk", OVSDB: "unix:" + there}, mode: "trunk"},
		"an interface and no Open vSwitch":       {o: Options{Parent: "eth0", OVSDB: "unix:" + missing}, mode: "trunk"},
		"an interface and Open vSwitch":          {o: Options{Parent: "eth0", OVSDB: "unix:" + there}},
		"neither":                                {o: Options{OVSDB: "unix:" + missing}},
		"an interface, and the database is far":  {o: Options{Parent: "eth0", OVSDB: "tcp:127.0.0.1:6640"}},
		"an interface in a mode that has none":   {o: Options{Mode: "ovn", Parent: "eth0", OVSDB: "unix:" + there}, mode: "ovn", says: "--parent"},
		"a mode that only the controller writes": {o: Options{Mode: "ovn-unbound", OVSDB: "unix:" + there}, mode: "ovn-unbound", says: "ovn, ovs or trunk"},
	} {
		defaults := NewOptions()
		c.o.NodeName, c.o.Bridge, c.o.Socket, c.o.Wait = "n", defaults.Bridge, defaults.Socket, defaults.Wait
		if got := c.o.mode(); got != c.mode {
			t.Errorf("%s: got the mode %q, want %q", name, got, c.mode)
		}
		err := c.o.Validate()
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: got the error %v, want %q", name, err, c.says)
		}
	}
}

// fixed is a switch that shows a state.
type fixed struct {
	vswitch
	node.Signal
	state ovs.State
}

func (f *fixed) State(context.Context) (ovs.State, error) { return f.state, nil }
func (f *fixed) Changed() <-chan struct{}                 { return f.Signal.Changed() }

// TestAnnouncements has a node change its mode: nothing of the former one stays on the Node, and nothing of others goes.
func TestAnnouncements(t *testing.T) {
	kube := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "n", Annotations: map[string]string{"others": "x"},
	}})
	on := func(mode string, state ovs.State, want map[string]string) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		a := &Agent{node: "n", mode: mode, vswitch: &fixed{state: state}}
		go func() { defer close(done); a.announce(ctx, kube) }()
		nodetest.Eventually(t, func() error {
			have, err := kube.CoreV1().Nodes().Get(ctx, "n", metav1.GetOptions{})
			if err == nil && !maps.Equal(have.Annotations, want) {
				err = errors.New("the annotations differ")
			}
			return err
		})
		cancel()
		<-done
	}
	ovn := map[string]string{
		"others": "x", cloudteamv1.AnnotationDataplane: "ovn", cloudteamv1.AnnotationDataplaneHost: "compute-1",
		cloudteamv1.AnnotationDataplaneVersion: version.Version,
	}
	on("", ovs.State{OVN: true, Bridge: true, Hostname: "compute-1"}, ovn)
	on("trunk", ovs.State{Bridge: true, Parent: "fa:16:3e:00:00:01"}, map[string]string{
		"others": "x", cloudteamv1.AnnotationDataplane: "trunk", cloudteamv1.AnnotationDataplaneParent: "fa:16:3e:00:00:01",
		cloudteamv1.AnnotationDataplaneVersion: version.Version,
	})
	on("", ovs.State{OVN: true, Bridge: true, Hostname: "compute-1"}, ovn)
}

// TestAPluggedPortThatIsUnboundSaysWhy: nothing is wrong with the Pod's packets, but Neutron shows the port DOWN.
func TestAPluggedPortThatIsUnboundSaysWhy(t *testing.T) {
	w := ovs.Wanted{Name: device(1), Mark: mark.Mark{IfName: "net1"}}
	const is = "Interface net1 of the Pod is plugged on node node1, as tap00000001-00."
	for mode, want := range map[cloudteamv1.AttachmentMode]string{
		cloudteamv1.AttachmentOVN:   is,
		cloudteamv1.AttachmentOVS:   is,
		cloudteamv1.AttachmentTrunk: is,
		cloudteamv1.AttachmentOVNUnbound: is + " Packets flow, and the port's status in Neutron stays DOWN: the controller " +
			"was not permitted to bind it. Give the controller credentials that may bind ports, by --binding-cloud, and " +
			"then replace the Pod.",
	} {
		if got := plugged(w, mode, testNode); got.message != want || got.status != metav1.ConditionTrue {
			t.Errorf("mode %s: got %+v, want %q", mode, got, want)
		}
	}
}

// TestAPodWithoutAPort names a NetworkAttachmentDefinition that somebody wrote: no NetworkPort has a condition to look at.
func TestAPodWithoutAPort(t *testing.T) {
	a := &Agent{node: testNode, ports: cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexers())}
	_, err := a.choose(agentapi.Request{PodNamespace: "team-a", PodName: "web-1", PodUID: podUID(1), IfName: "net1"})
	for _, word := range []string{
		"no NetworkPort of the Pod", "net1 of Pod team-a/web-1 cannot be attached yet", "see the condition Attached",
		"if the Pod has no NetworkPort", "name a Network in its annotation",
	} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("want %q, got %v", word, err)
		}
	}
}

// TestAPortOfANewerController: the mode is one that this agent does not know.
func TestAPortOfANewerController(t *testing.T) {
	ports := cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexers())
	p := &cloudteamv1.NetworkPort{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "p1"}}
	p.Status.PortID, p.Status.MAC = portID(1), portMAC(1)
	p.Status.BoundTo = &cloudteamv1.PortBinding{Kind: "Pod", Name: "web-1", UID: podUID(1)}
	p.Status.Attachment = &cloudteamv1.PortAttachment{Node: testNode, Mode: "sriov", PortID: portID(1), PodUID: podUID(1)}
	if err := ports.Add(p); err != nil {
		t.Fatal(err)
	}
	a := &Agent{node: testNode, ports: ports}
	_, err := a.choose(agentapi.Request{PodNamespace: "team-a", PodName: "web-1", PodUID: podUID(1), IfName: "net1"})
	for _, word := range []string{`"sriov"`, "cannot be attached yet", "update the agent"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("want %q, got %v", word, err)
		}
	}
}
