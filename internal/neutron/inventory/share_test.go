package inventory

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// Projects, sorted. From Neutron 29 on, what a network is shared with has to be like a UUID.
const (
	projectA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	projectB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	projectC = "cccccccccccccccccccccccccccccccc"
)

// sharedSpec is a network without subnets that is shared with projects.
func (e emulated) sharedSpec(projects ...string) plan.Spec {
	return plan.Spec{Owner: e.owner, Name: "n", SharedWith: append([]string{}, projects...)}
}

// as is the same emulator with the credentials of another of its clouds.
func (e emulated) as(cloud string) *client.Cloud {
	e.t.Helper()
	credentials, err := client.LoadCredentials(cloud)
	expect.NoError(e.t, err)
	return client.NewCloud(credentials, client.Options{})
}

// projectsOf are those that a network is shared with, by what is held.
func (e emulated) projectsOf() []string {
	e.t.Helper()
	n, _ := e.observed().Network()
	projects := []string{}
	for _, s := range n.Shares {
		projects = append(projects, s.Project)
	}
	return projects
}

func TestSharesAreAsPlannedAfterTheirSteps(t *testing.T) {
	for _, who := range []string{"tenant", "admin"} {
		t.Run(who, func(t *testing.T) {
			moved := 0
			e := newEmulatedAs(t, who, Options{Moved: func(string) { moved++ }})
			for _, projects := range [][]string{{projectA, projectB}, {projectB, projectC}, {projectC}, {}} {
				spec := e.sharedSpec(projects...)
				// A tag comes after the shares, and a name before them: each is told the revision that it finds.
				spec.Tags, spec.Name = []string{"t"}, "n"+strings.Join(projects, "-")
				e.planned(spec)
				expect.Equal(t, projects, e.projectsOf(), "shared with")
			}
			// Each write's revision was known: no list told of anything new.
			if moved > 0 {
				t.Errorf("lists found %d objects moved by our own writes", moved)
			}
			e.apply(plan.Delete(e.owner, e.observed()))
			expect.Equal(t, 3, e.server.Calls(http.MethodDelete, "/v2.0/rbac-policies/{id}"), "policies that were deleted one by one, as a network's go with it")
		})
	}
}

// What others do to a network's shares moves its revision, of which an audit tells that does not list any.
func TestAnAuditTellsOfOthersSharesWhateverItLists(t *testing.T) {
	var moved []string
	e := newEmulated(t, Options{Moved: func(object string) { moved = append(moved, object) }})
	spec := e.sharedSpec()
	e.apply(plan.Network(spec, e.observed()))
	n, _ := e.observed().Network()
	step := plan.Step{Action: plan.ShareNetwork, NetworkRef: plan.Ref{ID: n.ID}, Share: plan.Share{Project: projectC}}
	e.wantTold(&moved, step)
	e.planned(spec)
}

func TestARepeatedShareIsTakenAsThere(t *testing.T) {
	e := newEmulated(t, Options{})
	spec := e.sharedSpec(projectA)
	change := e.apply(plan.Network(spec, e.observed()))
	n, _ := e.observed().Network()
	// The answer was lost, and nobody has looked since.
	e.changeShares(n.ID, 0, func([]plan.Share) []plan.Share { return nil })
	again := change[len(change)-1]
	again.ID = ""
	done := e.apply(plan.Change{again}, nil)
	expect.Equal(t, n.Shares[0].ID, done[0].ID, "the policy that is there")
	e.planned(spec)
}

// An administrator of another project may have shared the network already, by a policy that its project does not see.
func TestAShareThatIsNotSeenIsThereUntilTheNetworkMoves(t *testing.T) {
	e := newEmulated(t, Options{})
	e.planned(e.sharedSpec())
	n, _ := e.observed().Network()
	admin := e.as("admin")
	share := plan.Step{Action: plan.ShareNetwork, NetworkRef: plan.Ref{ID: n.ID}, Share: plan.Share{Project: projectA}}
	if _, err := New(admin, "another", Options{}).share(t.Context(), &share); err != nil {
		t.Fatal(err)
	}
	posts := func() int { return e.server.Calls(http.MethodPost, "/v2.0/rbac-policies") }
	expect.NoError(t, e.Audit(t.Context()))
	before := posts()
	spec := e.sharedSpec(projectA)
	e.planned(spec)
	e.planned(spec)
	expect.Equal(t, 1, posts()-before, "attempts to share what is shared")
	e.planned(e.sharedSpec()) // it is not this project's to take back
	spec.Name = "renamed"
	e.planned(spec)
}

func TestWhoUsesASharedNetworkIsNamed(t *testing.T) {
	e := newEmulated(t, Options{Ports: true})
	admin := e.as("admin")
	theirs, err := admin.Identity(t.Context())
	expect.NoError(t, err)
	e.planned(e.sharedSpec(theirs.ProjectID))
	n, _ := e.observed().Network()
	port := plan.Step{Action: plan.CreatePort, NetworkRef: plan.Ref{ID: n.ID}, Port: plan.PortAttributes{Name: "theirs"}}
	user := New(admin, "another", Options{Ports: true})
	if _, err := user.Observed(t.Context(), plan.Owner{}, time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := user.Apply(t.Context(), plan.Change{port}); err != nil {
		t.Fatal(err)
	}
	change, err := plan.Network(e.sharedSpec(), e.observed())
	expect.NoError(t, err)
	if _, err = e.Apply(t.Context(), change); client.KindOf(err) != client.InUse || client.MaybeDone(err) {
		t.Fatalf("%v, want a refusal of kind %s", err, client.InUse)
	}
	blockers, err := e.Blockers(t.Context(), change[0])
	if err != nil || len(blockers.Ports) != 1 || blockers.Ports[0].Name != "theirs" {
		t.Errorf("in the way is %v, %v", blockers, err)
	}
}

func TestQoSPoliciesAreFoundSetAndTakenOff(t *testing.T) {
	e := newEmulated(t, Options{})
	admin := e.as("admin")
	create := func(name string, shared bool) string {
		t.Helper()
		return byHand(t, admin, http.MethodPost, qosPolicyAPI.Many, "policy", map[string]any{"name": name, "shared": shared})
	}
	gold := create("gold", true)
	hidden := create("hidden", false)
	for _, idOrName := range []string{"gold", gold} {
		if id, err := e.QoSPolicy(t.Context(), idOrName); id != gold || err != nil {
			t.Errorf("%s is %q, %v", idOrName, id, err)
		}
	}
	for idOrName, want := range map[string]string{
		"hidden": `spec.qosPolicy: "hidden" is neither the id nor the name`,
		hidden:   `spec.qosPolicy: "` + hidden + `" is neither the id nor the name`,
	} {
		if _, err := e.QoSPolicy(t.Context(), idOrName); !client.IsKind(err, client.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", idOrName, err, want)
		}
	}
	for _, policy := range []*string{&gold, new(""), &gold, nil, new("")} {
		e.planned(plan.Spec{Owner: e.owner, Name: "n", QoSPolicy: policy})
	}
	e.apply(plan.Delete(e.owner, e.observed()))
	e.planned(plan.Spec{Owner: e.owner, Name: "n", QoSPolicy: &gold})

	change, err := plan.Network(plan.Spec{Owner: e.owner, Name: "n", QoSPolicy: &hidden}, e.observed())
	expect.NoError(t, err)
	if _, err := e.Apply(t.Context(), change); client.KindOf(err) != client.Invalid {
		t.Errorf("a policy that is another's: %v, want a refusal of kind %s", err, client.Invalid)
	}
}

// A cloud need have neither extension. That it lacks one is no reason for lists to fail.
func TestACloudWithoutSharingOrQoSIsToldSo(t *testing.T) {
	fake := newFakeCloud(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/networks"):
			answer(w, http.StatusOK, `{"networks":[]}`)
		case strings.HasSuffix(r.URL.Path, "/subnets"):
			answer(w, http.StatusOK, `{"subnets":[]}`)
		case strings.HasSuffix(r.URL.Path, "/ports"):
			answer(w, http.StatusOK, `{"ports":[]}`)
		default:
			refuse(w, http.StatusNotFound, "HTTPNotFound", "The resource could not be found.")
		}
	})
	i := New(fake.cloud(client.Options{}), "c1", Options{})
	if _, err := i.Observed(t.Context(), plan.Owner{Cluster: "c1", Object: "o"}, time.Now()); err != nil {
		t.Errorf("the list failed: %v", err)
	}
	if _, err := i.QoSPolicy(t.Context(), "gold"); !client.IsKind(err, client.Invalid) ||
		!strings.Contains(err.Error(), "leave spec.qosPolicy out") {
		t.Errorf("QoS: %v", err)
	}
	step := plan.Step{Action: plan.ShareNetwork, NetworkRef: plan.Ref{ID: "n"}, Share: plan.Share{Project: "p"}}
	if _, err := i.share(t.Context(), &step); !client.IsKind(err, client.Invalid) ||
		!strings.Contains(err.Error(), "leave spec.sharedWith out") {
		t.Errorf("sharing: %v", err)
	}
}

// A policy may forbid a tenant routers or RBAC policies. Its other networks need neither.
func TestAListThatPolicyForbidsKeepsWhatIsHeld(t *testing.T) {
	b := newBench(t, Options{})
	b.put("a", ownerOf("o").Marker())
	b.audit(t)
	b.changeShares("a", 0, func([]plan.Share) []plan.Share { return []plan.Share{{ID: "s", Project: "p"}} })
	b.routers.change("r", func(*plan.ObservedRouter) *plan.ObservedRouter {
		return &plan.ObservedRouter{ID: "r", RouterAttributes: plan.RouterAttributes{Description: ownerOf("o").Marker()}}
	})
	b.neutron.setBefore(func(w http.ResponseWriter, r *http.Request) bool {
		forbidden := strings.HasSuffix(r.URL.Path, "/routers") || strings.HasSuffix(r.URL.Path, "/rbac-policies")
		if forbidden {
			refuse(w, http.StatusForbidden, "PolicyNotAuthorized", "disallowed by policy")
		}
		return forbidden
	})
	b.audit(t)
	observed, err := b.Observed(t.Context(), ownerOf("o"), time.Time{})
	expect.NoError(t, err)
	if len(observed.Networks) != 1 || len(observed.Networks[0].Shares) != 1 || len(observed.Routers) != 1 {
		t.Errorf("held: %+v", observed)
	}
}

// What a forbidden list does not show may exist. Nothing may be taken back or forgotten because of it.
func TestSharesThatPolicyForbidsToListAreUnknown(t *testing.T) {
	b := newBench(t, Options{})
	b.put("a", ownerOf("o").Marker())
	b.neutron.setBefore(func(w http.ResponseWriter, r *http.Request) bool {
		forbidden := strings.HasSuffix(r.URL.Path, "/rbac-policies")
		if forbidden {
			refuse(w, http.StatusForbidden, "PolicyNotAuthorized", "disallowed by policy")
		}
		return forbidden
	})
	b.audit(t)
	plans := func(what string) {
		observed, err := b.Observed(t.Context(), ownerOf("o"), time.Time{})
		expect.NoError(t, err)
		spec := plan.Spec{Owner: ownerOf("o"), Name: "n"}
		if _, err := plan.Network(spec, observed); err != nil {
			t.Errorf("%s, without shares: %v", what, err)
		}
		spec.SharedWith = []string{}
		if change, err := plan.Network(spec, observed); err == nil {
			t.Errorf("%s, shares are taken back by guess: %s", what, change)
		}
	}
	plans("after a list")
	if _, err := b.Reread(t.Context(), networkOf("a")); err != nil {
		t.Fatal(err)
	}
	plans("after a read")
}
