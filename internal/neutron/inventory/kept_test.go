package inventory

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// The answer to a create shows whether the cloud keeps the marker. Without it nothing would be found again.
func TestWhatHasNoMarkerIsDeletedAndNotCreatedAgain(t *testing.T) {
	marker := plan.Owner{Cluster: "c", Object: "x"}.Describe(strings.Repeat("x", 60))
	for _, habit := range []neutrontest.Habit{
		neutrontest.EmptyDescriptions, neutrontest.ShortDescriptions, neutrontest.HiddenDescriptions,
	} {
		f := newFloats(t, Options{})
		network := f.spec.NetworkID
		subnet := plan.Subnet{CIDR: netip.MustParsePrefix("10.9.0.0/24"), DHCP: true}
		subnet.Pools = plan.DefaultPools(subnet.CIDR, netip.Addr{})
		for many, step := range map[string]plan.Step{
			"networks": {Action: plan.CreateNetwork, Attributes: plan.Attributes{Name: "x", Description: marker}},
			"subnets": {
				Action: plan.CreateSubnet, NetworkRef: plan.Ref{ID: network}, SubnetName: "x", SubnetDescription: marker,
				Subnet: subnet,
			},
			"ports": {
				Action: plan.CreatePort, NetworkRef: plan.Ref{ID: network},
				Port: plan.PortAttributes{Name: "x", Description: marker},
			},
			"routers": {Action: plan.CreateRouter, Router: plan.RouterAttributes{Name: "x", Description: marker}},
			"security-groups": {
				Action: plan.CreateGroup, Group: plan.GroupAttributes{Name: "x", Description: marker},
			},
			"floatingips": {Action: plan.CreateFloatingIP, FloatingIP: plan.FloatingIPAttributes{
				NetworkID: f.outside[1], Description: marker,
			}},
		} {
			there := func() (ids []string) {
				t.Helper()
				all, err := client.List[discarded](t.Context(), f.cloud, "list", client.Collection{Many: many}, url.Values{})
				expect.NoError(t, err)
				for _, one := range all {
					ids = append(ids, one.ID)
				}
				return ids
			}
			before := there()
			expect.NoError(t, f.habits.Set(habit))
			f.server.ResetCalls()
			for range 3 {
				_, err := f.Apply(t.Context(), plan.Change{step})
				if !client.IsKind(err, client.NotKept) || client.MaybeDone(err) {
					t.Errorf("%s: %s ends with %v", habit, step.Action, err)
				}
			}
			posts, deletes := f.server.Calls(http.MethodPost, "/v2.0/"+many), f.server.Calls(http.MethodDelete, "/v2.0/"+many+"/{id}")
			expect.NoError(t, f.habits.Set())
			if after := there(); posts != 1 || deletes != 1 || !slices.Equal(before, after) {
				t.Errorf("%s: %s was sent %d times and undone %d times; of %q there are %q", habit, step.Action, posts, deletes,
					before, after)
			}
		}
	}
}

// A marker that an update writes, as for an import, is looked at, too.
func TestAnUpdateWhoseMarkerIsNotKeptIsNotRepeated(t *testing.T) {
	e := newEmulated(t, Options{})
	id := e.byHand(http.MethodPost, "networks", "network", map[string]any{"name": "old"})
	expect.NoError(t, e.habits.Set(neutrontest.EmptyDescriptions))
	step := plan.Step{
		Action: plan.UpdateNetwork, Ref: plan.Ref{ID: id}, Attributes: plan.Attributes{Description: e.owner.Marker()},
		Differences: []plan.Difference{{Field: plan.FieldDescription}},
	}
	for step.Revision = range 3 {
		if _, err := e.Apply(t.Context(), plan.Change{step}); step.Revision > 0 && !client.IsKind(err, client.NotKept) {
			t.Errorf("it ends with %v", err)
		}
	}
	if puts := e.server.Calls(http.MethodPut, "/v2.0/networks/{id}"); puts > 2 {
		t.Errorf("it was sent %d times", puts)
	}
}

// unkept is an Inventory in virtual time, whose cloud answers writes of networks without the markers that come after
// some text; empty for all. hides is whether reads hide them, too, and front may answer a call.
type unkept struct {
	*Inventory
	neutron *fakeNeutron
	hides   bool
	after   string
	front   func(w http.ResponseWriter, r *http.Request) bool
}

func newUnkept(t *testing.T) *unkept {
	u := &unkept{neutron: newFakeNeutron(), hides: true}
	inside := false
	u.neutron.setBefore(func(w http.ResponseWriter, r *http.Request) bool {
		if inside || u.front != nil && u.front(w, r) {
			return !inside
		}
		if !strings.Contains(r.URL.Path, "/networks") || r.Method == http.MethodDelete || r.Method == http.MethodGet && !u.hides {
			return false
		}
		inside = true
		recorder := httptest.NewRecorder()
		u.neutron.ServeHTTP(recorder, r)
		inside = false
		answer(w, recorder.Code, strings.ReplaceAll(recorder.Body.String(), u.after+"[owner=", "[lost="))
		return true
	})
	_, cloud := inBubble(t, u.neutron.ServeHTTP, client.Options{})
	u.Inventory = New(cloud, cluster, Options{})
	return u
}

// create creates a network of an object. It has no marker.
func (u *unkept) create(t *testing.T, object string) error {
	t.Helper()
	_, err := u.Apply(t.Context(), plan.Change{create(object)})
	if err == nil {
		t.Fatal("a network without its marker was taken for one of ours")
	}
	return err
}

func TestACloudThatKeepsMarkersAgainIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUnkept(t)
		for range 3 {
			_ = u.create(t, "a")
			_ = u.create(t, "b")
		}
		if posts := u.neutron.count("POST networks"); posts != 2 { // each is counted twice
			t.Errorf("%d creates were sent, want 1", posts/2)
		}
		elapse(keptFirst)
		for range 3 {
			_ = u.create(t, "a")
			_ = u.create(t, "b")
		}
		if posts := u.neutron.count("POST networks"); posts != 4 || len(u.neutron.networks) != 0 {
			t.Errorf("after an hour, %d creates were sent, want 2; left: %v", posts/2, u.neutron.networks)
		}
		u.neutron.setBefore(nil)
		elapse(2 * keptFirst)
		for _, object := range []string{"a", "b"} {
			_, err := u.Apply(t.Context(), plan.Change{create(object)})
			expect.NoError(t, err)
		}
	})
}

// The answer alone may lack the description. A network that has its marker is found by it.
func TestWhatHasItsMarkerAllTheSameStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUnkept(t)
		_ = u.create(t, "b")
		elapse(keptFirst)
		u.hides = false
		if err := u.create(t, "a"); !client.MaybeDone(err) || len(u.kept.losses) != 0 {
			t.Errorf("it ends with %v, want a doubt; losses are %v", err, u.kept.losses)
		}
		if len(u.neutron.networks) != 1 || len(u.observedNow(t, "a")) != 1 {
			t.Errorf("there is %v", u.neutron.networks)
		}
	})
}

// If it has another owner's marker, the answer was of another network. Nothing is lost, and nothing is left.
func TestWhatHasAnotherMarkerHoldsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUnkept(t)
		u.hides = false
		u.front = func(_ http.ResponseWriter, r *http.Request) bool {
			if n := u.neutron.networks["net-0001"]; r.Method == http.MethodGet && n != nil {
				u.neutron.change(func() { n.Description = ownerOf("b").Marker() })
			}
			return false
		}
		if err := u.create(t, "a"); !client.MaybeDone(err) || len(u.neutron.networks) != 1 {
			t.Errorf("it ends with %v, want a doubt; there is %v", err, u.neutron.networks)
		}
		expect.NoError(t, u.Discard(t.Context(), ownerOf("a")))
		u.neutron.setBefore(nil)
		_, err := u.Apply(t.Context(), plan.Change{create("a")})
		expect.NoError(t, err)
	})
}

// A cloud may cut long descriptions, or filter some characters: that is one owner's text, and nobody else's concern.
func TestATextThatIsNotKeptCostsItsOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUnkept(t)
		u.after = "words "
		create := func(object, text string) error {
			step := create(object)
			step.Attributes.Description = ownerOf(object).Describe(text)
			_, err := u.Apply(t.Context(), plan.Change{step})
			return err
		}
		for range 3 {
			if err := create("a", "words"); !client.IsKind(err, client.NotKept) {
				t.Errorf("it ends with %v", err)
			}
		}
		expect.NoError(t, create("b", ""))
		expect.NoError(t, create("c", "text"))
		expect.NoError(t, create("a", "text"))
		if posts := u.neutron.count("POST networks"); posts != 8 { // each is counted twice
			t.Errorf("%d creates were sent, want 4", posts/2)
		}

		// Where all was lost, such a text is no evidence that it still is.
		u.after = ""
		_ = create("d", "")
		u.after = "words "
		elapse(keptFirst)
		if err := create("e", "words"); !client.IsKind(err, client.NotKept) || u.neutron.count("POST networks") != 12 {
			t.Errorf("it ends with %v", err)
		}
		elapse(keptAgain)
		expect.NoError(t, create("d", ""))
	})
}

// A create that is refused for another reason does not use up the hour's try.
func TestATryThatFindsOutNothingIsSoonRepeated(t *testing.T) {
	for status, kind := range map[int]string{
		http.StatusBadRequest: "HTTPBadRequest", http.StatusForbidden: "PolicyNotAuthorized",
		http.StatusConflict: "OverQuota", http.StatusServiceUnavailable: "",
	} {
		synctest.Test(t, func(t *testing.T) {
			u := newUnkept(t)
			_ = u.create(t, "a")
			elapse(keptFirst)
			u.front = func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodPost {
					refuse(w, status, kind, "refused")
				}
				return r.Method == http.MethodPost
			}
			if err := u.create(t, "a"); client.IsKind(err, client.NotKept) {
				t.Errorf("it was not sent: %v", err)
			}
			u.front = nil
			elapse(keptAgain)
			if err := u.create(t, "b"); u.neutron.count("POST networks") != 5 { // each is counted twice, but the refused one
				t.Errorf("after %d, none finds out: %v", status, err)
			}
			u.neutron.setBefore(nil)
			elapse(2 * keptFirst) // the pause has doubled once
			_, err := u.Apply(t.Context(), plan.Change{create("b")})
			expect.NoError(t, err)
		})
	}
}

// The answer to an update may be a part of the resource.
func TestAnUpdateIsJudgedByARead(t *testing.T) {
	for shown, want := range map[string]client.Kind{"": 0, ownerOf("b").Marker(): client.Conflict, "none": client.NotKept} {
		synctest.Test(t, func(t *testing.T) {
			u := newUnkept(t)
			u.hides = false
			u.neutron.networks["n"] = &wireNetwork{wireBase: wireBase{ID: "n", Revision: 1}, Name: "n"}
			u.front = func(_ http.ResponseWriter, r *http.Request) bool {
				if n := u.neutron.networks["n"]; r.Method == http.MethodGet && n.Revision > 1 && shown != "" {
					u.neutron.change(func() { n.Description = shown })
				}
				return false
			}
			_, err := u.Apply(t.Context(), plan.Change{{
				Action: plan.UpdateNetwork, Ref: plan.Ref{ID: "n"}, Attributes: plan.Attributes{Description: ownerOf("a").Marker()},
				Differences: []plan.Difference{{Field: plan.FieldDescription}}, Revision: 1,
			}})
			if (err != nil) != (shown != "") || err != nil && !client.IsKind(err, want) {
				t.Errorf("a read shows %q: it ends with %v", shown, err)
			}
			if lost := len(u.kept.losses); (lost == 1) != (want == client.NotKept) {
				t.Errorf("a read shows %q: losses are %v", shown, u.kept.losses)
			}
		})
	}
}

// What was created is deleted although its caller has gone, but nobody waits for that without end.
func TestADeletionOfWhatHasNoMarkerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUnkept(t)
		u.front = func(_ http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodDelete {
				<-r.Context().Done()
			}
			return r.Method == http.MethodDelete
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = u.Apply(t.Context(), plan.Change{create("a")})
		}()
		elapse(discardPatience + time.Second)
		select {
		case <-ended:
		default:
			t.Error("it still waits")
			<-ended
		}
	})
}

// The answer may be of a port or an address that was there before.
func TestWhatIsUsedIsNotDeleted(t *testing.T) {
	f := newFloats(t, Options{})
	f.apply(f.planOf(f.observed()))
	floating := f.observed().FloatingIPs[0]
	f.change(floating.ID, map[string]any{
		"description": "", "port_id": floating.PortID, "fixed_ip_address": floating.Fixed.String(),
	})
	port := f.byHand(http.MethodPost, "ports", "port", map[string]any{"network_id": f.spec.NetworkID, "device_id": "vm"})
	its := map[string]any{"port_id": floating.PortID}
	ofPort := portKind.discard(t.Context(), f.access, nil, port, time.Now())
	ofAnother := floatingKind.discard(t.Context(), f.access, nil, floating.ID, time.Now())
	if !errors.Is(ofPort, errTheirs) || !errors.Is(ofAnother, errTheirs) {
		t.Errorf("a VM's port: %v; an address of another port: %v", ofPort, ofAnother)
	}
	expect.NoError(t, floatingKind.discard(t.Context(), f.access, its, floating.ID, time.Now()))
}

func (u *unkept) observedNow(t *testing.T, object string) []plan.ObservedNetwork {
	t.Helper()
	elapse(time.Second)
	o, err := u.Observed(t.Context(), ownerOf(object), time.Now())
	expect.NoError(t, err)
	return o.Networks
}

func TestWhatCannotBeDeletedYetIsNotForgotten(t *testing.T) {
	for sentence, front := range map[string]func(w http.ResponseWriter, r *http.Request) bool{
		"its deletion fails": func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodDelete {
				answer(w, http.StatusBadGateway, "")
			}
			return r.Method == http.MethodDelete
		},
		"a read fails": func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodGet {
				answer(w, http.StatusServiceUnavailable, "")
			}
			return r.Method == http.MethodGet
		},
		"a read is late": func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodGet {
				refuse(w, http.StatusNotFound, "NetworkNotFound", "Network could not be found.")
			}
			return r.Method == http.MethodGet
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := newUnkept(t)
				u.front = front
				err := u.create(t, "a")
				if !client.IsKind(err, client.NotKept) || client.MaybeDone(err) || !strings.Contains(err.Error(), "net-0001") {
					t.Errorf("it ends with %v", err)
				}
				elapse(2 * keptFirst)
				if err := u.create(t, "a"); u.neutron.count("POST networks") != 2 {
					t.Errorf("while one is left, another was created: %v", err)
				}
				if err := u.create(t, "b"); u.neutron.count("POST networks") != 4 {
					t.Errorf("what is left of one object holds another: %v", err)
				}
				u.front = nil
				expect.NoError(t, u.Discard(t.Context(), ownerOf("b")))
				expect.Len(t, 1, u.neutron.networks, "networks, one object's deleted")
				expect.NoError(t, u.Discard(t.Context(), ownerOf("a")))
				expect.NoError(t, u.Discard(t.Context(), ownerOf("a")))
				expect.Empty(t, u.neutron.networks, "there is still")
			})
		})
	}
}

// A tenant's cloud can lose descriptions and refuse deletions, of objects that come and go.
func TestWhatACloudLosesIsNotRememberedWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeping()
		for i := range 3000 {
			description, of := fmt.Sprint("text ", i), plan.Owner{Cluster: cluster, Object: fmt.Sprint("uid-", i)}
			refuses := func(context.Context) error { return errors.New("no") }
			l := leftover{lostAt(networkKind.Collection, of.Describe(description)), fmt.Sprint(i), refuses}
			if k.discard(t.Context(), "create network", of.Object, l) == nil {
				t.Fatal("it is discarded")
			}
		}
		if len(k.losses) > mostLosses || len(k.left) > mostLeft {
			t.Errorf("%d losses and the leftovers of %d objects are remembered", len(k.losses), len(k.left))
		}
	})
}

// A gateway may answer with a network that was there before. It holds nobody.
func TestWhatIsOlderThanItsCreateIsNotDeleted(t *testing.T) {
	for sentence, change := range map[string]func(u *unkept, n *wireNetwork){
		"it is old": func(_ *unkept, n *wireNetwork) { n.Created.Time = time.Now().Add(-2 * newFor) },
		"it has another name, and nothing says how old it is": func(_ *unkept, n *wireNetwork) {
			n.Created.Time, n.Name = time.Time{}, "theirs"
		},
		"it has a subnet": func(u *unkept, n *wireNetwork) {
			u.neutron.subnets["s"] = &wireSubnet{wireBase: wireBase{ID: "s"}, NetworkID: n.ID, CIDR: "10.0.0.0/24"}
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := newUnkept(t)
				u.front = func(_ http.ResponseWriter, r *http.Request) bool {
					if n := u.neutron.networks["net-0001"]; r.Method == http.MethodGet && n != nil {
						u.neutron.change(func() { change(u, n) })
					}
					return false
				}
				if err := u.create(t, "a"); !client.IsKind(err, client.NotKept) || len(u.neutron.networks) != 1 {
					t.Errorf("it ends with %v; left: %v", err, u.neutron.networks)
				}
				expect.NoError(t, u.Discard(t.Context(), ownerOf("a")))
			})
		})
	}
}

// A gateway may say otherwise that something was created. The answer has it.
func TestACreateThatIsAcceptedIsKnown(t *testing.T) {
	e := newEmulated(t, Options{})
	expect.NoError(t, e.habits.Set(neutrontest.AcceptedCreates))
	e.network("10.0.0.0/24")
}
