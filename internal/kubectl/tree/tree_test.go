package tree

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubefake "k8s.io/client-go/kubernetes/fake"

	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/text"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/fake"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

var ready = []metav1.Condition{{Type: "Ready", Status: "True", Reason: "Available"}}

// routed is a Network with a router, an IPv4 and an IPv6 subnet behind it, and one without a gateway.
func routed() *cloudteamv1.Network {
	n := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "frontend"}}
	n.Status.NetworkID, n.Status.Conditions = "net", ready
	n.Status.Router = &cloudteamv1.RouterStatus{ID: "r1", ExternalNetworkID: "public", ExternalIPs: []string{"203.0.113.9"}}
	n.Status.Subnets = []cloudteamv1.SubnetStatus{
		{ID: "v4", CIDR: "10.0.0.0/24", Gateway: "10.0.0.1", UsedAddresses: new(int64(3)), TotalAddresses: new(int64(253))},
		{ID: "v6", CIDR: "fd00::/64", Gateway: "fd00::1"},
		// Its status has not followed yet.
		{ID: "storage", CIDR: "10.9.0.0/24", Gateway: "none", UsedAddresses: new(int64(0)), TotalAddresses: new(int64(253))},
	}
	return n
}

func cluster() *ask.Cluster {
	bound := &cloudteamv1.NetworkPort{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0"}}
	bound.Spec.NetworkName = "frontend"
	bound.Status.PortID, bound.Status.Conditions = "p0", ready
	bound.Status.Addresses = []cloudteamv1.PortAddress{
		{Address: "10.0.0.7/24", SubnetID: "v4"}, {Address: "fd00::7/64", SubnetID: "v6"}}
	bound.Status.FloatingIP = &cloudteamv1.PortFloatingIPStatus{ID: "f", Address: "203.0.113.20", ExternalNetworkID: "public"}
	bound.Status.BoundTo = &cloudteamv1.PortBinding{Kind: "Pod", Name: "web-x", UID: "u"}
	waits := &cloudteamv1.NetworkPort{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "web-1"}}
	waits.Spec.NetworkName, waits.Spec.NetworkNamespace = "frontend", "shop"
	waits.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "False", Reason: "AddressInUse"}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-x", UID: "u"}}
	pod.Spec.NodeName, pod.Status.Phase = "node1", corev1.PodRunning
	floating := func(namespace, name, port, address, reason string) *cloudteamv1.FloatingIP {
		f := &cloudteamv1.FloatingIP{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		f.Spec.PortName, f.Status.Address, f.Status.Conditions = port, address, ready
		if reason != "" {
			f.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "False", Reason: reason}}
		}
		return f
	}
	return &ask.Cluster{Kubernetes: kubefake.NewClientset(pod), Networks: fake.NewSimpleClientset(routed(), bound, waits,
		floating("shop", "public", "web-0", "203.0.113.21", ""), floating("shop", "second", "web-0", "", "QuotaExceeded"),
		floating("shop", "early", "web-9", "203.0.113.22", "PortNotReady"),
		floating("team-a", "other", "web-0", "203.0.113.23", ""))}
}

// neutron knows the ports of a server, of the router, of nobody, and the bound one.
func neutron(context.Context, string) ([]Port, error) {
	at := func(subnet, address string) []FixedIP { return []FixedIP{{subnet, address}} }
	return []Port{
		{ID: "p0", FixedIPs: at("v4", "10.0.0.7")},
		{ID: "gw", DeviceOwner: "network:router_interface", DeviceID: "r1", FixedIPs: at("v4", "10.0.0.1")},
		{ID: "p9", Name: "db\x1b[31m", DeviceOwner: "compute:nova", DeviceID: "vm", FixedIPs: at("storage", "10.9.0.3")},
		{ID: "p8", FixedIPs: at("gone", "10.8.0.3")},
	}, nil
}

func TestATreeHasEachPortOnce(t *testing.T) {
	c := cluster()
	trees, err := Of(t.Context(), c, neutron, "shop", "")
	if err != nil || len(c.Notes) > 0 {
		t.Fatal(err, c.Notes)
	}
	var out bytes.Buffer
	expect.NoError(t, Print(&out, trees, text.Style{}))
	want := `Network shop/frontend  net
├ outside public  203.0.113.9
│ └ router r1
│   ├ subnet 10.0.0.0/24  gateway 10.0.0.1, 3 of 253 addresses in use
│   │ └ NetworkPort shop/web-0  10.0.0.7, fd00::7, floating IP 203.0.113.20
│   │   ├ Pod shop/web-x  Running on node1
│   │   ├ FloatingIP shop/public  203.0.113.21
│   │   └ FloatingIP shop/second  no address yet  QuotaExceeded
│   └ subnet fd00::/64  gateway fd00::1
├ subnet 10.9.0.0/24  no gateway, 1 of 253 addresses in use
│ └ port p9  10.9.0.3 "db\x1b[31m"
│   └ server vm
├ NetworkPort team-a/web-1  no address yet  AddressInUse
└ port p8  10.8.0.3, of no device
`
	expect.Equal(t, want, out.String(), "the tree")
}

func TestWithoutNeutronTheTreeSaysWhatIsMissing(t *testing.T) {
	c := cluster()
	if _, err := Of(t.Context(), c, nil, "shop", "frontend"); err != nil {
		t.Fatal(err)
	}
	expect.Contains(t, strings.Join(c.Notes, "\n"), "Servers and others' ports are missing", "the notes")
	c = cluster()
	fails := func(context.Context, string) ([]Port, error) { return nil, errors.New("HTTP 503") }
	trees, err := Of(t.Context(), c, fails, "shop", "frontend")
	if err != nil || len(trees) != 1 || !strings.Contains(strings.Join(c.Notes, "\n"), "HTTP 503") {
		t.Errorf("a failure of Neutron gives %v, %v and the notes %q", trees, err, c.Notes)
	}
}

func TestPictures(t *testing.T) {
	trees, err := Of(t.Context(), cluster(), neutron, "shop", "frontend")
	expect.NoError(t, err)
	var dot, mermaid bytes.Buffer
	expect.NoError(t, errors.Join(Dot(&dot, append(trees, trees...)), Mermaid(&mermaid, trees)))
	for _, part := range []string{"digraph", `n1 [label="outside public\n203.0.113.9"];`, "n1 -> n2;"} {
		expect.Contains(t, dot.String(), part, "the dot graph")
	}
	if strings.Count(dot.String(), `"router r1"`) != 1 {
		t.Errorf("a router of two Networks is not one node:\n%s", dot.String())
	}
	for _, part := range []string{"flowchart LR", `n1["outside public<br/>203.0.113.9"]`, "n1 --- n2"} {
		expect.Contains(t, mermaid.String(), part, "the flowchart")
	}
}
