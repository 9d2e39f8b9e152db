package managed_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// routedCloud is a Cloud that also has routers, without interfaces. Routers in hidden are missing from its lists until
// they are read by id or found by name.
type routedCloud struct {
	*controllertest.Cloud

	routers []plan.ObservedRouter
	hidden  map[string]bool
	// hideCreated hides each router when it is created; lose fails its creation after the router was made.
	hideCreated bool
	lose        error
}

func (c *routedCloud) Observed(
	ctx context.Context, owner plan.Owner, since time.Time, need ...plan.Kind,
) (plan.Observed, error) {
	observed, err := c.Cloud.Observed(ctx, owner, since, need...)
	for _, r := range c.routers {
		if owner.Owns(r.Description) && !c.hidden[r.ID] {
			observed.Routers = append(observed.Routers, r)
		}
	}
	return observed, err
}

func (c *routedCloud) Find(ctx context.Context, of plan.Kind, name string, owner plan.Owner) (found bool, err error) {
	if of != plan.KindRouter {
		return c.Cloud.Find(ctx, of, name, owner)
	}
	for _, r := range c.routers {
		if r.Name == name && owner.Owns(r.Description) {
			delete(c.hidden, r.ID)
			found = true
		}
	}
	return found, nil
}

func (c *routedCloud) Reread(ctx context.Context, resource plan.Resource) (bool, error) {
	if resource.Kind != plan.KindRouter {
		return c.Cloud.Reread(ctx, resource)
	}
	delete(c.hidden, resource.ID)
	return slices.ContainsFunc(c.routers, func(r plan.ObservedRouter) bool { return r.ID == resource.ID }), nil
}

func (c *routedCloud) Apply(ctx context.Context, change plan.Change) (done plan.Change, err error) {
	for len(change) > 0 {
		others := slices.IndexFunc(change, func(s plan.Step) bool {
			return s.Action == plan.CreateRouter || s.Action == plan.DeleteRouter
		})
		if others != 0 {
			if others < 0 {
				others = len(change)
			}
			taken, err := c.Cloud.Apply(ctx, change[:others])
			if done = append(done, taken...); err != nil {
				return done, err
			}
			change = change[others:]
			continue
		}
		step := change[0]
		if step.Action == plan.CreateRouter {
			step.ID = fmt.Sprintf("router-%d", len(c.routers)+1)
			c.routers = append(c.routers, plan.ObservedRouter{ID: step.ID, RouterAttributes: step.Router})
			c.hidden[step.ID] = c.hideCreated
			if c.lose != nil {
				return done, c.lose
			}
		} else {
			c.routers = slices.DeleteFunc(c.routers, func(r plan.ObservedRouter) bool { return r.ID == step.ID })
		}
		done, change = append(done, step), change[1:]
	}
	return done, nil
}

// TestARouterOfALostCreateIsFoundByItsNameInNeutron covers two faults at once: the answer to the create is lost, and
// the lists that follow leave the router out.
func TestARouterOfALostCreateIsFoundByItsNameInNeutron(t *testing.T) {
	for name, networkName := range map[string]string{"the object's name": "", "spec.networkName": "of-the-team"} {
		for end, live := range map[string]func(w *world, cloud *routedCloud){
			"no second router is created": func(w *world, cloud *routedCloud) {
				w.MustSync()
				w.WantState("Ready=True Available")
				if len(cloud.routers) != 1 {
					w.T.Errorf("routers in Neutron: %+v, want one", cloud.routers)
				}
			},
			"no router stays when the object is deleted": func(w *world, cloud *routedCloud) {
				w.Delete()
				w.MustSync()
				if w.Exists() || len(cloud.routers) > 0 || len(w.Cloud.Has()) > 0 {
					w.T.Errorf("object exists: %t; networks: %v; routers: %+v", w.Exists(), w.Cloud.Has(), cloud.routers)
				}
			},
			"no router stays when the network was deleted by hand, too": func(w *world, cloud *routedCloud) {
				w.Cloud.Remove(w.status().NetworkID)
				w.Cloud.Audit(w.T)
				w.Delete()
				w.MustSync()
				if w.Exists() || len(cloud.routers) > 0 {
					w.T.Errorf("object exists: %t; routers: %+v", w.Exists(), cloud.routers)
				}
			},
		} {
			t.Run(name+": "+end, func(t *testing.T) {
				obj := example()
				obj.Spec.Gateway, obj.Spec.Router = cloudteamv1.GatewayNone, &cloudteamv1.RouterSpec{}
				obj.Spec.NetworkName = networkName
				inWorld(t, func(t *testing.T, w *world) {
					cloud := &routedCloud{Cloud: w.Cloud, hidden: map[string]bool{}}
					w.restartOn(cloud)
					cloud.hideCreated, cloud.lose = true, &client.Error{Kind: client.Transient, Op: "create router", MaybeDone: true}
					w.SyncFails()
					cloud.lose = nil
					live(w, cloud)
				}, obj)
			})
		}
	}
}

func TestANetworkThatAListLeavesOutIsNotCreatedBesideItsRouter(t *testing.T) {
	obj := example()
	obj.Spec.Gateway, obj.Spec.Router = cloudteamv1.GatewayNone, &cloudteamv1.RouterSpec{}
	inWorld(t, func(t *testing.T, w *world) {
		cloud := &routedCloud{Cloud: w.Cloud, hidden: map[string]bool{}}
		w.restartOn(cloud)
		w.MustSync()
		w.Cloud.Missed = map[string]bool{w.status().NetworkID: true}
		w.restartOn(cloud)
		w.MustSync()
		if len(w.Cloud.Has()) != 1 || len(cloud.routers) != 1 {
			t.Errorf("networks: %v; routers: %+v; want one each", w.Cloud.Has(), cloud.routers)
		}
		w.WantState("Ready=True Available")
	}, obj)
}

func TestARouterGoesWithItsObjectThoughTheNetworkLostItsMarker(t *testing.T) {
	obj := example()
	obj.Spec.Gateway, obj.Spec.Router = cloudteamv1.GatewayNone, &cloudteamv1.RouterSpec{}
	inWorld(t, func(t *testing.T, w *world) {
		cloud := &routedCloud{Cloud: w.Cloud, hidden: map[string]bool{}}
		w.restartOn(cloud)
		w.MustSync()
		w.Cloud.Edit(t, w.status().NetworkID, func(n *plan.ObservedNetwork) { n.Description = "" })
		w.Cloud.Audit(t)
		cloud.hidden["router-1"] = true
		w.Delete()
		w.MustSync()
		if w.Exists() || len(w.Cloud.Has()) != 1 || len(cloud.routers) != 0 {
			t.Errorf("object exists: %t; networks: %v; routers: %+v; want the network alone",
				w.Exists(), w.Cloud.Has(), cloud.routers)
		}
	}, obj)
}

// unlisted is a Cloud whose Inventory has no list of routers and ports: they fail.
type unlisted struct{ *controllertest.Cloud }

func (c unlisted) Observed(
	ctx context.Context, owner plan.Owner, since time.Time, need ...plan.Kind,
) (plan.Observed, error) {
	if len(need) != 1 || need[0] != plan.KindNetwork {
		return plan.Observed{}, &client.Error{Kind: client.Transient, Op: "list ports", Reason: "no answer in time"}
	}
	observed, err := c.Cloud.Observed(ctx, owner, since, need...)
	return plan.Observed{Networks: observed.Networks}, err
}

func TestARouterIsNotTakenForGoneBecauseItsListFails(t *testing.T) {
	for name, router := range map[string]*cloudteamv1.RouterSpec{"its own": {}, "an existing one": {Existing: "router-0"}} {
		t.Run(name, func(t *testing.T) {
			obj := example()
			obj.Spec.Router, obj.Spec.DriftPolicy = router, cloudteamv1.DriftPolicyReport
			inWorld(t, func(t *testing.T, w *world) {
				w.Cloud.PutRouter(plan.ObservedRouter{ID: "router-0", Revision: 1})
				w.MustSync()
				w.WantState("Ready=True Available")
				w.Edit(func(obj *cloudteamv1.Network) { obj.Spec.Router = nil })
				w.restartOn(unlisted{w.Cloud})
				w.SyncFails()
				if w.status().Router == nil {
					t.Error("the status no longer names the router")
				}
				w.restart()
				w.MustSync()
				w.WantState("Ready=True Available")
				if left := w.Cloud.Everything(); w.status().Router != nil || len(left.Ports) > 0 {
					t.Errorf("the status names %+v; ports: %+v", w.status().Router, left.Ports)
				}
			}, obj)
		})
	}
}

func TestANetworkWithoutARouterNeedsNoListOfRouters(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.restartOn(unlisted{w.Cloud})
		w.MustSync()
		w.WantState("Ready=True Available")
	}, example())
}
