package managed_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// Objects that wait for room are looked at when one leaves their class, and at no other event.
func TestRoomWakesWhoWaitsWhenOneLeavesItsClass(t *testing.T) {
	asked := 0
	room := &managed.Room[*cloudteamv1.Network]{
		InClass: func(n *cloudteamv1.Network) *cloudteamv1.Network { return n },
		Beside:  func(string) ([]*cloudteamv1.Network, error) { asked++; return nil, nil },
	}
	var nobody *managed.Reconciler[*cloudteamv1.Network] // there is nobody to wake
	handler := room.Handler(nobody)
	in := func(class string, cloud bool) *cloudteamv1.Network {
		n := example()
		if n.Spec.ClassName = class; cloud {
			n.Spec.Cloud = &cloudteamv1.CloudReference{}
		}
		return n
	}
	for name, c := range map[string]struct {
		was, is any
		want    int
	}{
		"the same class":         {in("a", false), in("a", false), 0},
		"another class":          {in("a", false), in("b", false), 1},
		"a cloud of its own":     {in("", false), in("", true), 1},
		"no cloud of its own":    {in("", true), in("", false), 1},
		"a cloud, as before":     {in("", true), in("", true), 0},
		"what is no such object": {"was", in("b", false), 0},
		"or becomes none":        {in("a", false), "is", 0},
		"it is deleted":          {in("a", false), nil, 1},
		"nobody saw it deleted":  {cache.DeletedFinalStateUnknown{Key: "team/a", Obj: in("a", false)}, nil, 1},
		"what has no name":       {"was", nil, 0},
	} {
		asked = 0
		if c.is == nil {
			handler.OnDelete(c.was)
		} else {
			handler.OnUpdate(c.was, c.is)
		}
		if asked != c.want {
			t.Errorf("%s: looked %d times, want %d", name, asked, c.want)
		}
	}
}

// Endpoints differ in what makes no difference.
func TestEndpointsAreComparedInOneForm(t *testing.T) {
	same, err := managed.ParseSameClouds([]string{"HTTP://Neutron.Old:9696=https://Neutron.test/"})
	if err != nil {
		t.Fatal(err)
	}
	if !same.SameNeutron(renamed, here) {
		t.Error("a name in capitals is another cloud")
	}
	if same.SameNeutron(renamed, elsewhere) || same.SameNeutron(client.Identity{Endpoint: "http://neutron.old:9697/"}, here) {
		t.Error("another endpoint is the same cloud")
	}
}

// With driftPolicy Report, only what is superfluous goes, with what has to be detached from it before.
func TestWhatIsDoneThoughDriftIsLeft(t *testing.T) {
	differs := func(field string) []plan.Difference { return []plan.Difference{{Resource: "r", Field: field}} }
	keeper := plan.Keeper{Resource: plan.Resource{Kind: plan.KindFloatingIP, ID: "kept"}}
	change := plan.Change{
		{Action: plan.DetachInterface, RouterRef: plan.Ref{ID: "goes"}, Differences: differs("of the one that goes")},
		{Action: plan.DetachInterface, RouterRef: plan.Ref{ID: "stays"}, Differences: differs("of the one that stays")},
		{Action: plan.DeleteRouter, Ref: plan.Ref{ID: "goes"}, Differences: differs("the router")},
		{Action: plan.DeleteSubnet, Ref: plan.Ref{ID: "subnet"}, Differences: differs("the subnet")},
		{Action: plan.DeleteFloatingIP, Ref: plan.Ref{ID: "wanted"}, Differences: differs("an address")},
		{Action: plan.DeleteFloatingIP, Ref: plan.Ref{ID: "double"}, Keeper: keeper, Differences: differs("a duplicate")},
		{
			Action: plan.UpdateRouter, Ref: plan.Ref{ID: "stays"},
			Differences: slices.Concat(differs("name"), differs(plan.FieldDeletionPolicy), differs("routes")),
		},
	}
	rest, drift := managed.LeaveDrift(change)
	var done, left []string
	for _, step := range rest {
		for _, d := range step.Differences {
			done = append(done, d.Field)
		}
	}
	for _, d := range drift {
		left = append(left, d.Field)
	}
	want := []string{"of the one that goes", "the router", "a duplicate", plan.FieldDeletionPolicy}
	if diff := cmp.Diff(want, done); diff != "" {
		t.Errorf("what is done (-want +got):\n%s", diff)
	}
	want = []string{"of the one that stays", "the subnet", "an address", "name", "routes"}
	if diff := cmp.Diff(want, left); diff != "" {
		t.Errorf("what is left (-want +got):\n%s", diff)
	}
}
