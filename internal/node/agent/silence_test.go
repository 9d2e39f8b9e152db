package agent

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/node"
	"cloudteam.ztgame.com/network-controller/internal/node/link"
	"cloudteam.ztgame.com/network-controller/internal/node/mark"
	"cloudteam.ztgame.com/network-controller/internal/node/ovs"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/virtual"
)

// quiet is a switch with one port, at which nothing happens.
type quiet struct {
	vswitch
	node.Signal
	port ovs.Port
}

func (q *quiet) Changed() <-chan struct{}                  { return q.Signal.Changed() }
func (q *quiet) Remove(context.Context, ...ovs.Port) error { return nil }
func (q *quiet) State(context.Context) (ovs.State, error) {
	return ovs.State{OVN: true, Bridge: true, Ports: map[string]ovs.Port{q.port.Name: q.port}}, nil
}

// TestSilenceIsToldInTime: when no packets flow any more, the controller is to hear of it although nothing else happens.
func TestSilenceIsToldInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &cloudteamv1.NetworkPort{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "p1", UID: "port-1"}}
		p.Status.PortID, p.Status.MAC = portID(1), portMAC(1)
		p.Status.BoundTo = &cloudteamv1.PortBinding{Kind: "Pod", Name: "web", UID: podUID(1)}
		p.Status.Attachment = &cloudteamv1.PortAttachment{
			Node: testNode, Mode: cloudteamv1.AttachmentOVN, PortID: portID(1), PodUID: podUID(1),
		}
		p.Status.Conditions = []metav1.Condition{{Type: cloudteamv1.ConditionAttached, Status: metav1.ConditionTrue}}
		m := mark.Mark{Sandbox: "c1", IfName: "net1", PodUID: podUID(1), PortUID: p.UID}
		v := &quiet{port: ovs.Port{Name: device(1), Ours: true, Mark: m, IfaceID: portID(1), MAC: portMAC(1), Open: true}}
		told := make(chan condition, 9)
		a := &Agent{
			node: testNode, wait: 20 * time.Second, vswitch: v, synced: func() bool { return true },
			ports:  cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexers()),
			links:  func() ([]link.Device, error) { return []link.Device{{Name: device(1), Mark: m}}, nil },
			claims: map[types.UID]string{}, names: map[types.UID]string{}, silent: map[types.UID]time.Time{}, told: map[types.UID]telling{},
			write: func(_ context.Context, _ *cloudteamv1.NetworkPort, c condition) error { told <- c; return nil },
		}
		expect.NoError(t, a.ports.Add(p))
		ctx, cancel := context.WithCancel(t.Context())
		go a.Run(ctx)
		began := time.Now()
		expect.Equal(t, cloudteamv1.ReasonPlugFailed, (<-told).reason, "the reason that is told")
		if took := virtual.Since(began); took < silenceLimit || took > silenceLimit+time.Second {
			t.Errorf("told after %s, want %s", took, silenceLimit)
		}
		// What lasts costs no more than before.
		synctest.Wait()
		expect.Equal(t, repairInterval, a.untilRepair(), "the next repair is in")
		cancel()
	})
}
