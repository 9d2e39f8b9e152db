package agent

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/node/agentapi"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// The target of a live migration starts with an interface that is not plugged. It is plugged when the port is attached
// to its node.
func TestTheTargetOfAMigrationIsPluggedWhenThePortIsAttached(t *testing.T) {
	inModes(t, func(t *testing.T, w *world) {
		w.bind(1)
		w.bind(2)
		object, _, err := w.ports.GetByKey("team-a/p1")
		expect.NoError(t, err)
		attached := object.(*cloudteamv1.NetworkPort)
		elsewhere := attached.DeepCopy()
		elsewhere.Status.BoundTo.UID, elsewhere.Status.Attachment.PodUID = "source", "source"
		elsewhere.Status.Attachment.Node = "node2"
		elsewhere.Status.Standby = &cloudteamv1.PortStandby{Node: testNode, PodUID: podUID(1)}
		expect.NoError(t, w.ports.Delete(attached))
		// The id of the port begins as that of another Pod's, which a cloud can choose so: their devices have one name.
		alike := elsewhere.DeepCopy()
		alike.Status.PortID = portID(2)[:11] + "0-0000-0000-000000000000"
		expect.NoError(t, w.next.Add(alike))
		w.agent.portsChanged.Change()

		other := w.sandbox(2, "c2")
		other.must("ADD")
		target := w.sandbox(1, "c1")
		if _, refused := target.run("ADD"); refused == nil || !strings.Contains(refused.Error(), "is not this Pod's") {
			t.Errorf("with the device of another Pod it says %v", refused)
		}
		w.plugged(portID(2))
		target.must("DEL")
		w.plugged(portID(2))
		expect.NoError(t, w.next.Update(elsewhere))
		w.agent.portsChanged.Change()
		target.must("ADD")
		target.must("CHECK")
		w.plugged(portID(2))
		expect.NoError(t, w.agent.repair(t.Context()))
		w.plugged(portID(2))

		// The source has ended, and the port is attached here.
		expect.NoError(t, w.next.Delete(elsewhere))
		expect.NoError(t, w.ports.Add(attached))
		w.agent.portsChanged.Change()
		w.plugged(portID(1), portID(2))
		w.attached("p1", metav1.ConditionTrue)
		w.connected(target, other)
		target.must("CHECK")
		target.must("DEL")
		other.must("DEL")
		w.plugged()
	})
}

// A Pod gets the interface only of a port that the controller names it for, on this node, in its namespace.
func TestStandby(t *testing.T) {
	port := &cloudteamv1.NetworkPort{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "p1", UID: "port-1"}}
	port.Status.PortID, port.Status.MAC = portID(1), portMAC(1)
	port.Status.Standby = &cloudteamv1.PortStandby{Node: testNode, PodUID: "target"}
	a := newAgentWith(t, port)
	for name, c := range map[string]struct {
		request agentapi.Request
		want    bool
	}{
		"its target":           {agentapi.Request{PodNamespace: "team-a", PodUID: "target"}, true},
		"with the MAC":         {agentapi.Request{PodNamespace: "team-a", PodUID: "target", MAC: portMAC(1)}, true},
		"with another MAC":     {agentapi.Request{PodNamespace: "team-a", PodUID: "target", MAC: portMAC(2)}, false},
		"another Pod":          {agentapi.Request{PodNamespace: "team-a", PodUID: "other"}, false},
		"of another namespace": {agentapi.Request{PodNamespace: "team-b", PodUID: "target"}, false},
		"a Pod without a UID":  {agentapi.Request{PodNamespace: "team-a"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := a.standby(c.request); (got != nil) != c.want {
				t.Errorf("the port is %v", got)
			}
		})
	}
	a.node = "node2"
	if got := a.standby(agentapi.Request{PodNamespace: "team-a", PodUID: "target"}); got != nil {
		t.Errorf("another node has the port %v", got)
	}
}

// newAgentWith is an agent with a port that a Pod gets next.
func newAgentWith(t *testing.T, port *cloudteamv1.NetworkPort) *Agent {
	t.Helper()
	next := cache.NewIndexer(cache.MetaNamespaceKeyFunc, standbyIndexers())
	expect.NoError(t, next.Add(port))
	return &Agent{node: testNode, standbys: next}
}
