package adversary

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/nightly"
	"cloudteam.ztgame.com/network-controller/test/proxy"
)

// replay keeps what Neutron answers to lists of a project, and gives it again once it is frozen, as a cache or a replica
// that lags behind does.
type replay struct {
	mu     sync.Mutex
	frozen bool
	// last are the last answers, by the list's path and query.
	last map[string]*proxy.Answer
	// given is how many old answers were given.
	given int
}

// replayLists has all lists of a project go by a replay.
func replayLists(w *world) *replay {
	r := &replay{last: map[string]*proxy.Answer{}}
	rule := w.neutron.Break(func(c proxy.Call) bool {
		return c.Method == http.MethodGet && c.Query("project_id") != "" && c.Query("name") == "" && c.Query("id") == ""
	}, 0, r.answer)
	w.t.Cleanup(rule.Mend)
	return r
}

func (r *replay) answer(x *proxy.Exchange) {
	list := x.Request.URL.RequestURI()
	r.mu.Lock()
	old := r.last[list]
	if r.frozen && old != nil {
		r.given++
		r.mu.Unlock()
		x.Answer(old)
		return
	}
	r.mu.Unlock()
	answer, err := x.Forward()
	if err != nil {
		x.Reset()
	}
	r.mu.Lock()
	if answer.Status == http.StatusOK && !r.frozen {
		r.last[list] = answer
	}
	r.mu.Unlock()
	x.Answer(answer)
}

// freeze has all lists be as old as the last ones from now on, or ends that.
func (r *replay) freeze(frozen bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.frozen = frozen
}

// old is how many old lists were given.
func (r *replay) old() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.given
}

// TestOldListsDeleteAndDoubleNothing has all lists show what was deleted, and not what was just made.
func TestOldListsDeleteAndDoubleNothing(t *testing.T) {
	nightly.Only(t, "it waits for a dozen audits of the whole project; TestAnOldListReplacesNoNetwork has it in virtual time")
	interval := "1s"
	if openStack() {
		interval = "10s" // a sync takes seconds there, and has to look between two audits
	}
	w := newWorld(t, "--audit-interval="+interval, "--orphan-grace=1s", "--orphan-max-share=1")
	lists, who := replayLists(w), newTenant(t)
	t.Cleanup(func() { lists.freeze(false) })
	who.network("kept", "10.90.0.0/24", "10.90.0.1",
		func(s *cloudteamv1.NetworkSpec) { s.Router = &cloudteamv1.RouterSpec{} })
	who.network("gone", "10.91.0.0/24", "10.91.0.1")
	who.awaitReady("kept")
	who.awaitReady("gone")
	who.deployment("web", "kept", 2)
	who.awaitRunning(2)
	networks := who.networks.CloudteamV1().Networks(who.name)
	gone, err := networks.Get(t.Context(), "gone", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	audits := func(n int) {
		t.Helper()
		was := w.neutron.Count(http.MethodGet, "/v2.0/ports")
		surroundings.Eventually(t, func() error {
			if is := w.neutron.Count(http.MethodGet, "/v2.0/ports"); is < was+n {
				return fmt.Errorf("%d of %d audits", is-was, n)
			}
			return nil
		})
	}
	audits(3) // the lists show all of it

	lists.freeze(true)
	if err := networks.Delete(t.Context(), "gone", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	who.network("new", "10.92.0.0/24", "10.92.0.1",
		func(s *cloudteamv1.NetworkSpec) { s.Router = &cloudteamv1.RouterSpec{} })
	who.awaitReady("new")
	if err := scale(who, "web", 4); err != nil {
		t.Fatal(err)
	}
	who.awaitRunning(4)
	surroundings.Eventually(t, func() error {
		_, err := networks.Get(t.Context(), "gone", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("Network gone is still there (%w)", err)
	})
	before := who.inNeutron(w.cloud)
	audits(8)
	if lists.old() < 8 {
		t.Fatalf("only %d old lists were given", lists.old())
	}
	check := func(when string) {
		t.Helper()
		who.awaitReady("kept")
		who.awaitReady("new")
		is := who.inNeutron(w.cloud)
		for collection, want := range map[string]int{"networks": 2, "subnets": 2, "routers": 2, "ports": 4} {
			if len(is[collection]) != want || fmt.Sprint(is[collection]) != fmt.Sprint(before[collection]) {
				t.Errorf("%s: %s are %v, want %d, which were %v", when, collection, is[collection], want, before[collection])
			}
		}
		if left := w.cloud.List("networks", "id="+gone.Status.NetworkID); len(left) > 0 {
			t.Errorf("%s: network %s of the Network that was deleted is in Neutron", when, gone.Status.NetworkID)
		}
	}
	check("with old lists")
	lists.freeze(false)
	audits(3)
	check("with true lists again")
}

// inNeutron are the ids of what bears the marker of one of the tenant's objects, by collection.
func (who *tenant) inNeutron(cloud *harness.Cloud) map[string][]string {
	who.t.Helper()
	return markedBy(cloud, who.owners())
}

// owners are the UIDs of the tenant's Networks, NetworkPorts, SecurityGroups and FloatingIPs.
func (who *tenant) owners() (owners []string) {
	who.t.Helper()
	networks, err := who.networks.CloudteamV1().Networks(who.name).List(who.t.Context(), metav1.ListOptions{})
	if err != nil {
		who.t.Fatal(err)
	}
	for _, n := range networks.Items {
		owners = append(owners, string(n.UID))
	}
	for _, port := range who.ports() {
		owners = append(owners, string(port.UID))
	}
	groups, err := who.networks.CloudteamV1().SecurityGroups(who.name).List(who.t.Context(), metav1.ListOptions{})
	if err != nil {
		who.t.Fatal(err)
	}
	for _, g := range groups.Items {
		owners = append(owners, string(g.UID))
	}
	floating, err := who.networks.CloudteamV1().FloatingIPs(who.name).List(who.t.Context(), metav1.ListOptions{})
	if err != nil {
		who.t.Fatal(err)
	}
	for _, f := range floating.Items {
		owners = append(owners, string(f.UID))
	}
	return owners
}

// markedCollections are those whose resources bear an owner's marker.
var markedCollections = []string{"networks", "subnets", "routers", "ports", "floatingips", "security-groups"}

// markedBy are the ids of what bears the marker of one of the owners, by collection.
func markedBy(cloud *harness.Cloud, owners []string) map[string][]string {
	found := map[string][]string{}
	for _, collection := range markedCollections {
		for _, resource := range cloud.List(collection, "sort_key=id&sort_dir=asc") {
			for _, owner := range owners {
				text, _ := resource["description"].(string)
				// A router's interface has the marker, too, and is counted with its router.
				if strings.Contains(text, owner) && resource["device_owner"] != "network:router_interface" {
					found[collection] = append(found[collection], resource.ID())
				}
			}
		}
	}
	return found
}
