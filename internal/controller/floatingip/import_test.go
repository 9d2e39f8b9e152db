package floatingip

import (
	"cmp"
	"net/netip"
	"strings"
	"testing"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// fipID is the id of the floating IP that tests import.
const fipID = "fip-old"

// importing is a FloatingIP that imports it.
func importing(port string) *cloudteamv1.FloatingIP {
	obj := public(port)
	obj.Spec.Import = &cloudteamv1.FloatingIPImport{ID: fipID}
	return obj
}

// existing makes the floating IP in Neutron.
func (w *world) existing(change func(*plan.ObservedFloatingIP)) { w.existingIn(here.ProjectID, change) }

func (w *world) existingIn(project string, change func(*plan.ObservedFloatingIP)) {
	f := plan.ObservedFloatingIP{ID: fipID}
	f.NetworkID, f.Description, f.Address = "outside", "of the old site", netip.MustParseAddr("203.0.113.77")
	if change != nil {
		change(&f)
	}
	w.Neutron.PutFloatingIPIn(project, f)
}

// left is the only floating IP in Neutron.
func (w *world) left() plan.ObservedFloatingIP {
	w.T.Helper()
	all := w.Neutron.FloatingIPs()
	if len(all) != 1 {
		w.T.Fatalf("Neutron has the floating IPs %+v, want one", all)
	}
	return all[0]
}

// TestAFloatingIPIsImportedAndLeftAsItWas goes from one that somebody made to a port, and back.
func TestAFloatingIPIsImportedAndLeftAsItWas(t *testing.T) {
	inWorld(t, func(w *world) {
		w.wantReady(cloudteamv1.ReasonImportNotFound, "The floating IP "+fipID+" does not exist")
		expect.Empty(t, w.Neutron.FloatingIPs(), "floating IPs made for an import")
		w.existing(nil)
		w.edit(func(obj *cloudteamv1.FloatingIP) { obj.Spec.PortName = "web-0" })
		w.wantReady(cloudteamv1.ReasonPortNotReady, "NetworkPort web-0 does not exist")
		expect.Equal(t, fipID, w.wantLeads(""), "the floating IP before its port")
		w.onPort("web-0", "port-1", "10.0.0.7/24")
		w.WantState("Ready=True Available")
		expect.Equal(t, fipID, w.wantLeads("port-1"), "the floating IP")
		expect.Equal(t, "203.0.113.77", w.Get().Status.Address, "the address")
		if text := w.left().Description; !strings.HasPrefix(text, "of the old site [retain] [owner=") {
			t.Errorf("its description is %q", text)
		}
		w.restart()
		w.Neutron.Remove(fipID)
		w.audit()
		w.wantReady(cloudteamv1.ReasonImportNotFound, "does not exist")
		expect.Empty(t, w.Neutron.FloatingIPs(), "floating IPs made for an import that is gone")
		w.existing(func(f *plan.ObservedFloatingIP) { f.Description += " " + owner.Marker() })
		w.audit()
		w.edit(func(obj *cloudteamv1.FloatingIP) { obj.Spec.DeletionPolicy = cloudteamv1.DeletionPolicyRetain })
		w.WantState("Ready=True Available")
		w.Delete()
		w.settle()
		if is := w.left(); w.Exists() || is.Description != "of the old site" || is.PortID != "port-1" {
			t.Errorf("after the deletion there is %+v", is)
		}
	}, network(), importing(""))
}

// TestAnImportTakesNothingOfOthers holds that nothing is written to what an import may not have.
func TestAnImportTakesNothingOfOthers(t *testing.T) {
	for name, test := range map[string]struct {
		change       func(*plan.ObservedFloatingIP)
		spec         func(*cloudteamv1.FloatingIPSpec)
		project      string
		reason, says string
	}{
		"another namespace's": {
			change: func(f *plan.ObservedFloatingIP) {
				f.Description = plan.Owner{Cluster: owner.Cluster, Object: "uid-theirs"}.Marker()
			},
			reason: cloudteamv1.ReasonAlreadyOwned, says: "uid-theirs",
		},
		"another cluster's": {
			change: func(f *plan.ObservedFloatingIP) {
				f.Description = plan.Owner{Cluster: "c2", Object: "uid-web"}.Marker()
			},
			reason: cloudteamv1.ReasonAlreadyOwned, says: "c2/uid-web",
		},
		"one in use": {
			change: func(f *plan.ObservedFloatingIP) { f.PortID = "port-9" },
			reason: cloudteamv1.ReasonImportMismatch, says: "port is port-9, declared none",
		},
		"of another external network": {
			spec:   func(s *cloudteamv1.FloatingIPSpec) { s.ExternalNetwork = "partners" },
			reason: cloudteamv1.ReasonImportMismatch, says: "externalNetwork is outside, declared partners",
		},
		"of another address": {
			spec:   func(s *cloudteamv1.FloatingIPSpec) { s.Address = "203.0.113.78" },
			reason: cloudteamv1.ReasonImportMismatch, says: "address is 203.0.113.77, declared 203.0.113.78",
		},
		"another project's": {project: "p2", reason: cloudteamv1.ReasonProjectMismatch, says: "belongs to project"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.Neutron.Outside("partners", netip.MustParsePrefix("198.51.100.0/24"))
				w.putPort("victim", "port-9", "10.0.0.9")
				w.existingIn(cmp.Or(test.project, here.ProjectID), test.change)
				before := w.left()
				obj := importing("")
				if test.spec != nil {
					test.spec(&obj.Spec)
				}
				for _, policy := range []cloudteamv1.ManagementPolicy{
					cloudteamv1.ManagementPolicyObserve, cloudteamv1.ManagementPolicyManage,
				} {
					obj.Spec.ManagementPolicy = policy
					inUse := test.says == "port is port-9, declared none"
					if policy == cloudteamv1.ManagementPolicyObserve && (inUse || test.project != "") {
						continue // which may be seen
					}
					w.API.Create(t, obj.DeepCopy())
					w.settle()
					w.wantReady(test.reason, test.says)
					if shown := w.Get().Status; test.reason == cloudteamv1.ReasonAlreadyOwned && shown.FloatingIPID+shown.Address != "" {
						t.Errorf("with %s, the status shows another's: %+v", policy, shown)
					}
					w.Delete()
					w.settle()
					if w.Exists() {
						t.Error("it cannot be deleted")
					}
				}
				if is := w.left(); is.Description != before.Description || is.PortID != before.PortID || is.Revision != before.Revision {
					t.Errorf("it was %+v, and is %+v", before, is)
				}
			})
		})
	}
}

// TestAnImportThatDiffersIsKeptWhoeverMarksIt has somebody write the marker by hand, so that nothing is left to adopt.
func TestAnImportThatDiffersIsKeptWhoeverMarksIt(t *testing.T) {
	for says, spec := range map[string]cloudteamv1.FloatingIPSpec{
		"externalNetwork is outside, declared partners":  {ExternalNetwork: "partners"},
		"address is 203.0.113.77, declared 203.0.113.78": {ExternalNetwork: "outside", Address: "203.0.113.78"},
	} {
		inWorld(t, func(w *world) {
			w.Neutron.Outside("partners", netip.MustParsePrefix("198.51.100.0/24"))
			w.existing(nil)
			obj := importing("")
			obj.Spec.ExternalNetwork, obj.Spec.Address = spec.ExternalNetwork, spec.Address
			w.API.Create(t, obj)
			w.settle()
			w.Neutron.EditFloatingIP(t, fipID, func(f *plan.ObservedFloatingIP) { f.Description += " " + owner.Marker() })
			w.audit()
			w.edit(func(obj *cloudteamv1.FloatingIP) { obj.Spec.DeletionPolicy = cloudteamv1.DeletionPolicyRetain })
			w.wantReady(cloudteamv1.ReasonImportMismatch, says)
			expect.Equal(t, fipID, w.left().ID, "the floating IP that is left")
		})
	}
}

func TestAnObservedFloatingIPIsShownAndNotChanged(t *testing.T) {
	obj := importing("")
	obj.Spec.ManagementPolicy = cloudteamv1.ManagementPolicyObserve
	inWorld(t, func(w *world) {
		w.putPort("victim", "port-9", "10.0.0.9")
		w.existing(func(f *plan.ObservedFloatingIP) { f.PortID = "port-9" })
		before := w.left()
		w.API.Create(t, obj)
		w.settle()
		if ready := w.Ready(); ready.Reason != cloudteamv1.ReasonObserved {
			t.Errorf("Ready is %s: %s", ready.Reason, ready.Message)
		}
		shown := w.Get().Status
		if shown.FloatingIPID != fipID || shown.Address != "203.0.113.77" || shown.PortID != "port-9" {
			t.Errorf("the status shows %+v", shown)
		}
		w.Delete()
		w.settle()
		if is := w.left(); w.Exists() || is.Description != before.Description || is.PortID != "port-9" {
			t.Errorf("after the deletion there is %+v", is)
		}
	})
}

// TestAClassThatForbidsImportsByNowAdoptsNothing has one that was observed while the class allowed that.
func TestAClassThatForbidsImportsByNowAdoptsNothing(t *testing.T) {
	obj := importing("")
	obj.Spec.ManagementPolicy = cloudteamv1.ManagementPolicyObserve
	inWorld(t, func(w *world) {
		w.existing(nil)
		w.API.Create(t, obj)
		w.settle()
		closed := controllertest.OpenClass()
		closed.Spec.AllowedFields = []cloudteamv1.PrivilegedField{cloudteamv1.FieldFloatingIP}
		w.classes.Set(closed)
		w.edit(func(obj *cloudteamv1.FloatingIP) { obj.Spec.ManagementPolicy = "" })
		w.wantReady(cloudteamv1.ReasonForbiddenByClass, "forbids spec.import")
		expect.Equal(t, "of the old site", w.left().Description, "the description")
	})
}

// TestAFloatingIPHasItsAddressOfChoice also holds that it comes back with it.
func TestAFloatingIPHasItsAddressOfChoice(t *testing.T) {
	obj := public("")
	obj.Spec.Address = "203.0.113.99"
	inWorld(t, func(w *world) {
		w.WantState("Ready=True Available")
		expect.Equal(t, "203.0.113.99", w.left().Address.String(), "the address")
		w.Neutron.Remove(w.left().ID)
		w.audit()
		w.WantState("Ready=True Available")
		expect.Equal(t, "203.0.113.99", w.left().Address.String(), "the address of the next one")
	}, obj)
}

// TestAnAddressThatCannotBeHad holds what is said, and that others are not held back.
func TestAnAddressThatCannotBeHad(t *testing.T) {
	for name, test := range map[string]struct {
		address, reason, says string
		before                func(plan.Step) error
	}{
		"because it is taken": {
			address: "203.0.113.77", reason: cloudteamv1.ReasonAddressInUse,
			says: "address 203.0.113.77 of external network outside is in use: import the floating IP that has it",
		},
		"because the network has it not": {
			address: "192.0.2.1", reason: cloudteamv1.ReasonRejected,
			says: "address 192.0.2.1 is in no subnet of external network outside",
		},
		"because the cloud leaves the choice to administrators": {
			address: "203.0.113.99", reason: cloudteamv1.ReasonForbidden,
			says: "these credentials may not set address. Retrying periodically. Import a floating IP of the project",
			before: controllertest.Fails(plan.CreateFloatingIP, 1, &client.Error{
				Kind: client.Forbidden, Op: "create floating IP", Status: 403, Type: "HTTPForbidden", Reason: "not allowed",
			}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.existing(nil)
				w.Neutron.Before = test.before
				obj := public("")
				obj.Spec.Address = test.address
				w.API.Create(t, obj)
				w.settle()
				w.wantReady(test.reason, test.says)
				other := public("")
				other.Name, other.UID = "db", "uid-db"
				w.API.Create(t, other)
				w.settle()
				if made := w.Neutron.FloatingIPs(); len(made) != 2 {
					t.Errorf("another FloatingIP waits for it: Neutron has %+v", made)
				}
			})
		})
	}
}

// TestAnImportIsMadeOnce loses the answer to each write in turn, and restarts after it.
func TestAnImportIsMadeOnce(t *testing.T) {
	for lost := range 3 { // the adoption, the association and the release
		inWorld(t, func(w *world) {
			w.existing(nil)
			cut := &client.Error{Kind: client.Transient, Op: "update", Reason: "no answer in time", MaybeDone: true}
			left := lost
			w.Neutron.After = func(step plan.Step) error {
				if step.Action == plan.TakeFloatingIP || step.Action == plan.UpdateFloatingIP {
					if left--; left == -1 {
						return cut
					}
				}
				return nil
			}
			w.onPort("web-0", "port-1", "10.0.0.7/24")
			w.API.Create(t, importing("web-0"))
			w.settle()
			w.restart()
			controllertest.Settle(time.Minute)
			expect.Equal(t, fipID, w.wantLeads("port-1"), "the floating IP after answer %d was lost", lost)
			w.WantState("Ready=True Available")
			w.Delete()
			w.settle()
			w.restart()
			controllertest.Settle(time.Minute)
			if is := w.left(); w.Exists() || is.Description != "of the old site" || is.PortID != "port-1" || left >= 0 {
				t.Errorf("after the deletion there is %+v, and answer %d was lost: %t", is, lost, left < 0)
			}
		}, network())
	}
}

// TestOfTwoImportsOneGetsIt has another object write its marker between the read and the write.
func TestOfTwoImportsOneGetsIt(t *testing.T) {
	theirs := plan.Owner{Cluster: owner.Cluster, Object: "uid-theirs"}.Marker()
	inWorld(t, func(w *world) {
		w.existing(nil)
		w.Neutron.Before = func(step plan.Step) error {
			w.Neutron.Before = nil
			w.Neutron.EditFloatingIP(t, fipID, func(f *plan.ObservedFloatingIP) { f.Description = theirs })
			return nil
		}
		w.API.Create(t, importing(""))
		w.settle()
		w.wantReady(cloudteamv1.ReasonAlreadyOwned, "uid-theirs")
		expect.Equal(t, theirs, w.left().Description, "the description")
	})
}

// TestAnImportIsFoundByItsTags also holds that it stays the one that was found.
func TestAnImportIsFoundByItsTags(t *testing.T) {
	const id, next = "b0b5a1f0-3c2d-4e5f-8a9b-0c1d2e3f4a5b", "b0b5a1f0-3c2d-4e5f-8a9b-0c1d2e3f4a5c"
	obj := public("web-0")
	obj.Spec.Import = &cloudteamv1.FloatingIPImport{Filter: &cloudteamv1.FloatingIPImportFilter{Tags: []string{"web", "eu"}}}
	inWorld(t, func(w *world) {
		w.onPort("web-0", "port-1", "10.0.0.7/24")
		w.wantReady(cloudteamv1.ReasonImportNotFound, `no floating IP in their project that has the tag "web" and the tag "eu"`)
		for _, id := range []string{id, next} {
			w.existing(func(f *plan.ObservedFloatingIP) {
				f.ID = id
				if id == next {
					f.Address = netip.MustParseAddr("203.0.113.78")
				}
			})
			w.Neutron.TagFloatingIP(id, "eu", "old", "web")
		}
		controllertest.Settle(time.Minute)
		w.wantReady(cloudteamv1.ReasonImportAmbiguous, "2 floating IPs in their project have")
		w.Neutron.TagFloatingIP(next, "eu")
		controllertest.Settle(time.Minute)
		w.WantState("Ready=True Available")
		expect.Equal(t, id, w.wantLeads("port-1"), "the floating IP")
		w.Neutron.TagFloatingIP(id)
		w.Neutron.TagFloatingIP(next, "eu", "web")
		w.restart()
		controllertest.Settle(time.Minute)
		w.WantState("Ready=True Available")
		expect.Equal(t, id, w.wantLeads("port-1"), "the floating IP after a restart")
	}, network(), obj)
}
