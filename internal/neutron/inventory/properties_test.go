package inventory

import (
	"fmt"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// planned plans a spec, applies it, and holds that nothing is left to do: neither by what the writes left in the
// Inventory, nor by what a list finds.
func (e emulated) planned(spec plan.Spec) {
	e.t.Helper()
	e.apply(plan.Network(spec, e.observed()))
	for _, source := range []string{"the writes", "a list"} {
		if source == "a list" {
			expect.NoError(e.t, e.Audit(e.t.Context()))
		}
		left, err := plan.Network(spec, e.observed())
		if err != nil || !left.Empty() {
			e.t.Errorf("by %s, there is left %v\n%s", source, err, left)
		}
	}
}

func TestPropertiesAreAsPlannedAfterTheirSteps(t *testing.T) {
	moved := 0
	e := newEmulatedAs(t, "admin", Options{Moved: func(string) { moved++ }})
	vlan := plan.Provider{NetworkType: "vlan", PhysicalNetwork: "physnet1", SegmentationID: 7}
	for _, change := range []func(*plan.Spec){
		func(s *plan.Spec) { s.Tags, s.DNSDomain, s.Down = []string{"a", "b"}, new("a.org."), true },
		func(s *plan.Spec) { s.Tags, s.Name = []string{"b", "c"}, "renamed" },
		func(s *plan.Spec) { s.Tags, s.DNSDomain, s.Down = []string{}, new(""), false },
		func(s *plan.Spec) { s.Tags = nil },
		func(s *plan.Spec) { s.Shared, s.External, s.SharedWith = new(true), new(true), []string{} },
		func(s *plan.Spec) { s.Shared, s.External = new(false), new(false) },
		func(s *plan.Spec) {
			s.Subnets[0].ServiceTypes, s.Subnets[0].DNSPublishFixedIP = []string{"neutron:a", "compute:b"}, true
		},
		func(s *plan.Spec) {
			s.Subnets[0].ServiceTypes, s.Subnets[0].DNSPublishFixedIP = []string{"network:dhcp"}, true
		},
		func(s *plan.Spec) { s.Subnets[0].ServiceTypes = nil },
	} {
		cidr := netip.MustParsePrefix("10.0.0.0/24")
		subnet := plan.Subnet{CIDR: cidr, Pools: plan.DefaultPools(cidr, netip.Addr{})}
		spec := plan.Spec{Owner: e.owner, Name: "n", Subnets: []plan.Subnet{subnet}}
		change(&spec)
		e.planned(spec)
	}
	e.apply(plan.Delete(e.owner, e.observed()))
	for _, id := range []int64{7, 8} {
		vlan.SegmentationID = id
		e.planned(plan.Spec{Owner: e.owner, Name: "n", Provider: vlan})
	}
	// Each write's revision was known: no list told of anything new.
	if moved > 0 {
		t.Errorf("lists found %d objects moved by our own writes", moved)
	}
}

// Neutron knows no condition for tags and shares. A network that was let go meanwhile is not ours to tag or to share.
func TestANetworkThatLostItsMarkerIsNeitherTaggedNorShared(t *testing.T) {
	e := newEmulated(t, Options{})
	spec := plan.Spec{Owner: e.owner, Name: "n"}
	e.planned(spec)
	other := New(e.cloud, e.owner.Cluster, Options{})
	observed, err := other.Observed(t.Context(), e.owner, time.Time{})
	expect.NoError(t, err)
	released, err := other.Apply(t.Context(), plan.Release(e.owner, observed))
	expect.NoError(t, err)
	held, tagged, shared := e.observed(), spec, spec
	tagged.Tags, shared.SharedWith = []string{"a"}, []string{"a"}
	for _, spec := range []plan.Spec{tagged, shared} {
		change, err := plan.Network(spec, held)
		expect.NoError(t, err)
		if done, err := e.Apply(t.Context(), change); !client.IsConflict(err) || len(done) > 0 {
			t.Errorf("%v was done, with %v; want a conflict", done, err)
		}
	}
	w, err := client.Get[wireNetwork](t.Context(), e.cloud, "get network", networkKind.Collection, networkKind.fields, released[0].ID)
	if err != nil || len(w.Tags) > 0 {
		t.Errorf("the network has the tags %q, %v", w.Tags, err)
	}
}

// Neutron 21 answers 404 to the tags of a network that is gone, and later releases answer 500, as in an outage.
func TestTagsOfANetworkThatIsGone(t *testing.T) {
	for _, release := range neutrontest.Releases {
		t.Run(fmt.Sprint(release), func(t *testing.T) {
			e := newEmulatedOf(t, release, "tenant", Options{})
			e.planned(plan.Spec{Owner: e.owner, Name: "n"})
			id := e.observed().Networks[0].ID
			byHand(t, e.cloud, http.MethodDelete, networkKind.Path(id), networkKind.One, nil)
			step := plan.Step{Action: plan.TagNetwork, Ref: plan.Ref{ID: id}, Attributes: plan.Attributes{Tags: []string{"a"}}}
			if _, err := e.tag(t.Context(), &step); !client.IsNotFound(err) {
				t.Errorf("got %v, want that it is not there", err)
			}
		})
	}
}

// wantTold has others take a step, and holds that the next audit tells of the one object, in moved.
func (e emulated) wantTold(moved *[]string, step plan.Step) {
	e.t.Helper()
	other := New(e.cloud, e.owner.Cluster, Options{})
	if _, err := other.Apply(e.t.Context(), plan.Change{step}); err != nil {
		e.t.Fatal(err)
	}
	expect.NoError(e.t, e.Audit(e.t.Context()))
	if len(*moved) != 1 || (*moved)[0] != e.owner.Object {
		e.t.Errorf("the audit told of %q, want of the one object", *moved)
	}
}

// A vlan's id moves no revision, and is looked at all the same.
func TestAnotherSegmentationIDIsFoundByAnAudit(t *testing.T) {
	var moved []string
	e := newEmulatedAs(t, "admin", Options{Moved: func(object string) { moved = append(moved, object) }})
	vlan := plan.Provider{NetworkType: "vlan", PhysicalNetwork: "physnet1", SegmentationID: 7}
	spec := plan.Spec{Owner: e.owner, Name: "n", Provider: vlan}
	e.planned(spec)
	n, _ := e.observed().Network()
	step := plan.Step{
		Action: plan.UpdateNetwork, Ref: plan.Ref{ID: n.ID}, Revision: n.Revision,
		Attributes:  plan.Attributes{Provider: plan.Provider{SegmentationID: 8}},
		Differences: []plan.Difference{{Field: plan.FieldSegmentationID}}, Reason: "somebody wants it",
	}
	e.wantTold(&moved, step)
	e.planned(spec)
}
