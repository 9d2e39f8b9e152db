package managed_test

import (
	"testing"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// routers are those that Neutron has.
func (w *world) routers() []plan.ObservedRouter { return w.Neutron.Everything().Routers }

// TestARouterOfALostCreateIsFoundByItsNameInNeutron covers two faults at once: the answer to the create is lost, and
// the lists that follow leave the router out.
func TestARouterOfALostCreateIsFoundByItsNameInNeutron(t *testing.T) {
	for name, networkName := range map[string]string{"the object's name": "", "spec.networkName": "of-the-team"} {
		for end, live := range map[string]func(w *world){
			"no second router is created": func(w *world) {
				w.MustSync()
				w.WantState("Ready=True Available")
				expect.Len(w.T, 1, w.routers(), "routers in Neutron")
			},
			"no router stays when the object is deleted": func(w *world) {
				w.DeleteAndSync()
				if w.Exists() || len(w.routers()) > 0 || len(w.Neutron.Has()) > 0 {
					w.T.Errorf("object exists: %t; networks: %v; routers: %+v", w.Exists(), w.Neutron.Has(), w.routers())
				}
			},
			"no router stays when the network was deleted by hand, too": func(w *world) {
				w.Neutron.Remove(w.status().NetworkID)
				w.Neutron.Audit(w.T)
				w.DeleteAndSync()
				if w.Exists() || len(w.routers()) > 0 {
					w.T.Errorf("object exists: %t; routers: %+v", w.Exists(), w.routers())
				}
			},
		} {
			t.Run(name+": "+end, func(t *testing.T) {
				obj := example()
				obj.Spec.Gateway, obj.Spec.Router = cloudteamv1.GatewayNone, &cloudteamv1.RouterSpec{}
				obj.Spec.NetworkName = networkName
				inWorld(t, func(t *testing.T, w *world) {
					w.Neutron.After = func(step plan.Step) error {
						if step.Action != plan.CreateRouter {
							return nil
						}
						w.Neutron.Missed = map[string]bool{w.routers()[0].ID: true}
						return &client.Error{Kind: client.Transient, Op: "create router", MaybeDone: true}
					}
					w.SyncFails()
					w.Neutron.After = nil
					live(w)
				}, obj)
			})
		}
	}
}

func TestANetworkThatAListLeavesOutIsNotCreatedBesideItsRouter(t *testing.T) {
	obj := example()
	obj.Spec.Gateway, obj.Spec.Router = cloudteamv1.GatewayNone, &cloudteamv1.RouterSpec{}
	inWorld(t, func(t *testing.T, w *world) {
		w.MustSync()
		w.Neutron.Missed = map[string]bool{w.status().NetworkID: true}
		w.restart()
		w.MustSync()
		if len(w.Neutron.Has()) != 1 || len(w.routers()) != 1 {
			t.Errorf("networks: %v; routers: %+v; want one each", w.Neutron.Has(), w.routers())
		}
		w.WantState("Ready=True Available")
	}, obj)
}

func TestARouterGoesWithItsObjectThoughTheNetworkLostItsMarker(t *testing.T) {
	obj := example()
	obj.Spec.Gateway, obj.Spec.Router = cloudteamv1.GatewayNone, &cloudteamv1.RouterSpec{}
	inWorld(t, func(t *testing.T, w *world) {
		w.MustSync()
		w.Neutron.Edit(t, w.status().NetworkID, func(n *plan.ObservedNetwork) { n.Description = "" })
		w.Neutron.Missed = map[string]bool{w.routers()[0].ID: true}
		w.Neutron.Audit(t)
		w.DeleteAndSync()
		if w.Exists() || len(w.Neutron.Has()) != 1 || len(w.routers()) != 0 {
			t.Errorf("object exists: %t; networks: %v; routers: %+v; want the network alone",
				w.Exists(), w.Neutron.Has(), w.routers())
		}
	}, obj)
}

// unlisted has the lists of routers and ports fail.
func (w *world) unlisted() {
	w.Neutron.Reads = func(line string) error {
		if line == "list routers" || line == "list ports" {
			return &client.Error{Kind: client.Transient, Op: line, Reason: "no answer in time"}
		}
		return nil
	}
}

func TestARouterIsNotTakenForGoneBecauseItsListFails(t *testing.T) {
	for name, router := range map[string]*cloudteamv1.RouterSpec{"its own": {}, "an existing one": {Existing: "router-0"}} {
		t.Run(name, func(t *testing.T) {
			obj := example()
			obj.Spec.Router, obj.Spec.DriftPolicy = router, cloudteamv1.DriftPolicyReport
			inWorld(t, func(t *testing.T, w *world) {
				w.Neutron.PutRouter(plan.ObservedRouter{ID: "router-0", Revision: 1})
				w.MustSync()
				w.WantState("Ready=True Available")
				w.Edit(func(obj *cloudteamv1.Network) { obj.Spec.Router = nil })
				w.restart()
				w.unlisted()
				w.SyncFails()
				if w.status().Router == nil {
					t.Error("the status no longer names the router")
				}
				w.Neutron.Reads = nil
				controllertest.Settle(5 * time.Second) // a list that failed is not repeated at once
				w.restart()
				w.MustSync()
				w.WantState("Ready=True Available")
				if left := w.Neutron.Everything(); w.status().Router != nil || len(left.Ports) > 0 {
					t.Errorf("the status names %+v; ports: %+v", w.status().Router, left.Ports)
				}
			}, obj)
		})
	}
}

func TestANetworkWithoutARouterNeedsNoListOfRouters(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.unlisted()
		w.MustSync()
		w.WantState("Ready=True Available")
	}, example())
}
