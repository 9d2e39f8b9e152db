package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/node"
	"cloudteam.ztgame.com/network-controller/internal/node/agentapi"
	"cloudteam.ztgame.com/network-controller/internal/node/mark"
	"cloudteam.ztgame.com/network-controller/internal/node/nodetest"
	"cloudteam.ztgame.com/network-controller/internal/node/ovs"
	"cloudteam.ztgame.com/network-controller/internal/serving"
	"cloudteam.ztgame.com/network-controller/internal/version"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/virtual"
)

// TestMode says when a node is taken for a virtual machine with a trunk.
func TestMode(t *testing.T) {
	there := filepath.Join(t.TempDir(), "db.sock")
	expect.NoError(t, os.WriteFile(there, nil, 0o600))
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
		"network data that is not found":         {o: Options{Mode: "trunk", NetworkData: "data.json", OVSDB: "unix:" + there}, mode: "trunk", says: "--network-data"},
		"a certificate without its key":          {o: Options{Metrics: serving.Metrics{CertFile: "c"}, OVSDB: "unix:" + missing}, says: "--tls-private-key-file"},
		"a mode that only the controller writes": {o: Options{Mode: "ovn-unbound", OVSDB: "unix:" + there}, mode: "ovn-unbound", says: "ovn, ovs or trunk"},
	} {
		defaults := NewOptions()
		c.o.NodeName, c.o.Bridge, c.o.Socket, c.o.Wait = "n", defaults.Bridge, defaults.Socket, defaults.Wait
		expect.Equal(t, c.mode, c.o.mode(), "%s: got the mode", name)
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
	data := ""
	on := func(mode string, state ovs.State, want map[string]string) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		a := &Agent{node: "n", mode: mode, vswitch: &fixed{state: state}, networkData: data}
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
	trunk, state := map[string]string{
		"others": "x", cloudteamv1.AnnotationDataplane: "trunk", cloudteamv1.AnnotationDataplaneParent: portMAC(1),
		cloudteamv1.AnnotationDataplaneVersion: version.Version,
	}, ovs.State{Bridge: true, Parent: portMAC(1)}
	on("trunk", state, trunk)
	known := maps.Clone(trunk)
	known[cloudteamv1.AnnotationDataplaneParentPort] = portID(1)
	data = networkData(t, portMAC(1), portID(1))
	on("trunk", state, known)
	data = networkData(t, portMAC(2), portID(2))
	on("trunk", state, trunk)
	on("", ovs.State{OVN: true, Bridge: true, Hostname: "compute-1"}, ovn)
}

// networkData writes what a cloud says of a machine with one interface, and returns the file's path.
func networkData(t *testing.T, mac, id string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "network_data.json")
	text := fmt.Sprintf(`{"links":[{"id":"bond0","type":"bond"},{"id":"tap1","vif_id":%q,"ethernet_mac_address":%q}],
		"networks":[{"id":"network0","link":"tap1"}]}`, id, mac)
	expect.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// TestTheIdOfTheParentIsWhatTheCloudSays: nobody but Neutron chooses it.
func TestTheIdOfTheParentIsWhatTheCloudSays(t *testing.T) {
	metadata := http.NewServeMux()
	answer := func(path, text string) {
		metadata.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) })
	}
	answer("/known", `{"links":[{"vif_id":"`+portID(1)+`","ethernet_mac_address":"`+strings.ToUpper(portMAC(1))+`"}]}`)
	answer("/no-id", `{"links":[{"vif_id":"../../x","ethernet_mac_address":"`+portMAC(1)+`"}]}`)
	answer("/endless", `{"links":[`+strings.Repeat(" ", maxNetworkData)+`]}`)
	metadata.Handle("/elsewhere", http.RedirectHandler("/known", http.StatusFound))
	server := httptest.NewServer(metadata)
	defer server.Close()
	for from, want := range map[string]string{
		server.URL + "/known":                  portID(1),
		networkData(t, portMAC(1), portID(2)):  portID(2),
		networkData(t, portMAC(2), portID(2)):  "",
		server.URL + "/no-id":                  "",
		server.URL + "/endless":                "",
		server.URL + "/elsewhere":              "",
		server.URL + "/missing":                "",
		filepath.Join(t.TempDir(), "none"):     "",
		"http://127.0.0.1:1/network_data.json": "",
	} {
		id, err := portOf(t.Context(), from, portMAC(1))
		if id != want || (err == nil) != (want != "") || err != nil && !strings.Contains(err.Error(), "--network-data") {
			t.Errorf("%s: got %q, %v, want %q", from, id, err, want)
		}
	}
}

// TestTheIdOfTheParentIsReadSeldom: an id that was read stays while the cloud says nothing.
func TestTheIdOfTheParentIsReadSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &Agent{networkData: networkData(t, portMAC(1), portID(1))}
		data := func(mac, id string) {
			expect.NoError(t, os.Rename(networkData(t, mac, id), a.networkData))
		}
		learn := func(mac, want string) {
			t.Helper()
			expect.Equal(t, want, a.learn(t.Context(), mac), "%s", mac)
			at := &cloudteamv1.PortAttachment{ParentPortID: portID(1)}
			expect.Equal(t, want == portID(1), a.parentMAC(at) == mac, "a port that is prepared for %s is for %s", portID(1), mac)
		}
		learn(portMAC(2), "")
		data(portMAC(2), portID(2))
		learn(portMAC(2), "")
		virtual.Elapse(unknownInterval + 1)
		changed := a.portsChanged.Changed()
		learn(portMAC(2), portID(2))
		select {
		case <-changed:
		default:
			t.Error("nothing that waits for the id hears of it")
		}
		data(portMAC(1), portID(1))
		virtual.Elapse(announceInterval + 1)
		learn(portMAC(2), portID(2)) // it cannot be read
		learn(portMAC(1), portID(1)) // another interface
		data(portMAC(1), portID(3))
		learn(portMAC(1), portID(1))
		virtual.Elapse(announceInterval + 1)
		learn(portMAC(1), portID(3)) // the port was made again
	})
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
		expect.ErrorSays(t, err, word)
	}
}

// TestAPortOfANewerController: the mode is one that this agent does not know.
func TestAPortOfANewerController(t *testing.T) {
	ports := cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexers())
	p := &cloudteamv1.NetworkPort{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "p1"}}
	p.Status.PortID, p.Status.MAC = portID(1), portMAC(1)
	p.Status.BoundTo = &cloudteamv1.PortBinding{Kind: "Pod", Name: "web-1", UID: podUID(1)}
	p.Status.Attachment = &cloudteamv1.PortAttachment{Node: testNode, Mode: "sriov", PortID: portID(1), PodUID: podUID(1)}
	expect.NoError(t, ports.Add(p))
	a := &Agent{node: testNode, ports: ports}
	_, err := a.choose(agentapi.Request{PodNamespace: "team-a", PodName: "web-1", PodUID: podUID(1), IfName: "net1"})
	for _, word := range []string{`"sriov"`, "cannot be attached yet", "update the agent"} {
		expect.ErrorSays(t, err, word)
	}
}
