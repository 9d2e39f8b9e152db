package managed_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/virtual"
)

func TestACloudThatKeepsNoMarkerGetsOneNetworkAndLosesIt(t *testing.T) {
	for _, habit := range []neutrontest.Habit{
		neutrontest.EmptyDescriptions, neutrontest.ShortDescriptions, neutrontest.HiddenDescriptions,
	} {
		t.Run(string(habit), func(t *testing.T) {
			obj := example()
			obj.Spec.Description = strings.Repeat("x", 60)
			inWorld(t, func(t *testing.T, w *world) {
				w.Neutron.SetHabits(t, habit)
				w.SyncFails()
				w.Calls.Want(t, "write finalizers", "list", "apply create network", "reread network net-1",
					"apply delete network", "write status")
				for range 5 {
					w.SyncFails()
					virtual.Elapse(time.Minute)
				}
				w.Calls.Want(t)
				w.Events.WantReasons(t, "Warning MarkerNotKept")
				w.WantState("Ready=False Stalled=True MarkerNotKept")
				w.WantMessage("this cloud does not keep the description of a network", "Have the cloud store descriptions")
				wantNetworks(t, w.Neutron, 0)
				w.restart()
				w.SyncFails()
				wantNetworks(t, w.Neutron, 0)

				// The remedy.
				w.Neutron.SetHabits(t)
				virtual.Elapse(24 * time.Hour)
				w.MustSync()
				w.WantState("Ready=True Available")
				wantNetworks(t, w.Neutron, 1)
				w.DeleteAndSync()
				w.WantGone()
				wantNetworks(t, w.Neutron, 0)
			}, obj)
		})
	}
}

func TestAnObjectStaysUntilWhatHasNoMarkerIsDeleted(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Neutron.SetHabits(t, neutrontest.EmptyDescriptions)
		w.Neutron.Before = controllertest.Fails(plan.DeleteNetwork, 3,
			&client.Error{Status: http.StatusServiceUnavailable, Reason: "down"})
		w.SyncFails()
		w.WantMessage("net-1, which the cloud says it created, is not deleted")
		w.SyncFails()
		wantNetworks(t, w.Neutron, 1)
		w.Delete()
		w.SyncFails()
		if !w.Exists() {
			t.Error("the object went, and its network stays")
		}
		w.MustSync()
		w.WantGone()
		wantNetworks(t, w.Neutron, 0)
	}, example())
}

// A cloud may add a host route to each subnet, and sort name servers.
func TestAFieldThatTheCloudNormalizesCanBeIgnored(t *testing.T) {
	obj := example()
	obj.Spec.DNSServers = []string{"192.168.0.9", "192.168.0.8"}
	inWorld(t, func(t *testing.T, w *world) {
		w.Neutron.SetHabits(t, neutrontest.AddedHostRoutes, neutrontest.SortedDNSServers)
		w.SyncFails()
		w.WantState("Ready=False Stalled=True NotConverged")
		w.EditAndSync(func(obj *cloudteamv1.Network) {
			obj.Spec.IgnoreDrift = []cloudteamv1.NetworkDriftField{plan.FieldHostRoutes, plan.FieldDNSServers}
		})
		w.WantState("Ready=True Available")
		w.Quiet()
		w.MustSync()
		w.Calls.Want(t)

		// What is not ignored is still applied, and the rest costs no more than one update.
		w.EditAndSync(func(obj *cloudteamv1.Network) {
			obj.Spec.Description, obj.Spec.DNSServers = "words", []string{"192.168.0.7", "192.168.0.6"}
		})
		w.WantState("Ready=True Available")
		w.WantCalls("apply update network", "apply update subnet", "write status")
		if n := w.Neutron.Has()[0]; len(n.Subnets[0].DNSServers) != 2 || n.Subnets[0].DNSServers[0].String() != "192.168.0.7" {
			t.Errorf("the subnet is %+v", n.Subnets[0])
		}
	}, obj)
}
