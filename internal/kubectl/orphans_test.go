package kubectl

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"cloudteam.ztgame.com/network-controller/internal/kubectl/orphans"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	domain "cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// lastMonth is the clock of a cloud whose resources are older than the examples.
func lastMonth() time.Time { return now.Add(-28 * 24 * time.Hour) }

// left is an owner of this cluster whose object is gone, unless a test makes one of its UID.
func left(name string) domain.Owner {
	return domain.Owner{Cluster: newCluster, Object: "uid-of-" + name}
}

// make creates what a user makes in Neutron, and gives its id.
func (r *rebuilt) make(one string, body map[string]any) string {
	r.t.Helper()
	return r.do(http.MethodPost, one+"s", map[string]any{one: body})
}

// orphaned fills the cloud of the example.
func orphaned(t *testing.T, server *neutrontest.Server) map[string]string {
	r := &rebuilt{t: t, server: server}
	r.connect()
	in := r.inventory(newCluster, nil)
	id := r.network(in, left("frontend"), "frontend", "192.168.0.0/29")
	r.make("port", map[string]any{"network_id": id, "name": "db", "device_owner": "compute:nova",
		"device_id": "d5c1f4b2-52e0-4b0c-8f7a-1f7f5f1f0c11"})
	return r.documented("db", "9a41b9c3-7f58-4f44-a3f5-90b5c9a5b0de")
}

// address makes a floating IP as the controller does for a FloatingIP.
func (r *rebuilt) address(in *inventory.Inventory, spec domain.FloatingSpec) domain.ObservedFloatingIP {
	r.t.Helper()
	change, err := domain.FloatingIP(spec, domain.Observed{})
	r.applyIn(in, change, err)
	observed, err := in.Observed(r.t.Context(), spec.Owner, time.Time{}, domain.KindFloatingIP)
	if err != nil || len(observed.FloatingIPs) != 1 {
		r.t.Fatal(observed.FloatingIPs, err)
	}
	return observed.FloatingIPs[0]
}

// TestOrphansKnowsFloatingIPs has an address whose FloatingIP is there, and one whose FloatingIP is gone.
func TestOrphansKnowsFloatingIPs(t *testing.T) {
	r := startRebuilt(t)
	outside, _ := r.outside()
	in := r.inventory(newCluster, nil)
	r.address(in, domain.FloatingSpec{Owner: left("public"), NetworkID: outside})
	gone := r.address(in, domain.FloatingSpec{Owner: left("gone"), NetworkID: outside})
	is := &cloudteamv1.FloatingIP{ObjectMeta: named("public")}
	got, out, code := states(t, r.objects(is, running()))
	want := map[string]orphans.State{"floating IP " + gone.Address.String(): orphans.Due}
	if diff := cmp.Diff(want, got); diff != "" || code != 2 {
		t.Errorf("exit code %d, -want +got:\n%s\n%s", code, diff, out)
	}
}

// states are those of the orphans, by kind and name.
func states(t *testing.T, objects []runtime.Object) (states map[string]orphans.State, out string, code int) {
	t.Helper()
	out, code = run(t, objects, "orphans --cloud mycloud -o json")
	var all []orphans.Orphan
	printed, _, _ := strings.Cut(out, "Note:")
	if err := json.Unmarshal([]byte(printed), &all); err != nil {
		t.Fatalf("%v in\n%s", err, out)
	}
	states = map[string]orphans.State{}
	for _, o := range all {
		states[o.Kind+" "+o.Name] = o.State
	}
	return states, out, code
}

func TestOrphansSaysWhatTheControllerDoes(t *testing.T) {
	are := func(network, router orphans.State) map[string]orphans.State {
		return map[string]orphans.State{"network gone": network, "subnet 10.1.0.0/24": network, "router gone": router, "port gone": router}
	}
	describe := func(r *rebuilt, id, description string) {
		r.do(http.MethodPut, "networks/"+id, map[string]any{"network": map[string]any{"description": description}})
	}
	for sentence, c := range map[string]struct {
		// does changes the cloud after the network "gone" and its port were made.
		does func(r *rebuilt, in *inventory.Inventory, id string)
		want map[string]orphans.State
		says string
	}{
		"what nothing uses goes": {
			does: func(*rebuilt, *inventory.Inventory, string) {},
			want: are(orphans.Due, orphans.Due), says: "grace period",
		},
		"a server's port keeps the network, and not the router": {
			does: func(r *rebuilt, _ *inventory.Inventory, id string) {
				r.make("port", map[string]any{"network_id": id, "device_owner": "compute:nova", "device_id": "server"})
			},
			want: are(orphans.Blocked, orphans.Due), says: "compute:nova, device server",
		},
		"a subnet of somebody keeps it": {
			does: func(r *rebuilt, _ *inventory.Inventory, id string) {
				r.make("subnet", map[string]any{"network_id": id, "cidr": "10.9.0.0/24", "ip_version": 4})
			},
			want: are(orphans.Blocked, orphans.Blocked), says: "10.9.0.0/24",
		},
		"more than the share are withheld": {
			does: func(r *rebuilt, in *inventory.Inventory, _ string) {
				r.network(in, left("too"), "too", "10.2.0.0/24")
			},
			want: map[string]orphans.State{
				"network gone": orphans.Withheld, "subnet 10.1.0.0/24": orphans.Withheld,
				"router gone": orphans.Withheld, "port gone": orphans.Withheld,
				"network too": orphans.Withheld, "subnet 10.2.0.0/24": orphans.Withheld,
				"router too": orphans.Withheld, "port too": orphans.Withheld},
			says: "2 of 3 owners are gone, and one audit removes at most 1",
		},
		"what said Retain stays": {
			does: func(r *rebuilt, _ *inventory.Inventory, id string) {
				describe(r, id, "[retain] "+left("gone").Marker())
			},
			want: are(orphans.Retained, orphans.Retained), says: "loses its marker",
		},
		"a subnet on a network without the marker is not looked for": {
			does: func(r *rebuilt, _ *inventory.Inventory, id string) { describe(r, id, "") },
			want: map[string]orphans.State{"subnet 10.1.0.0/24": orphans.Ignored, "router gone": orphans.Blocked,
				"port gone": orphans.Blocked}, // its interface is on a network that is not the object's any more
			says: "does not bear the object's marker",
		},
		"another cluster's is not listed": {
			does: func(r *rebuilt, _ *inventory.Inventory, _ string) {
				r.network(r.old, frontendOfOld, "old", "10.3.0.0/24")
			},
			want: are(orphans.Due, orphans.Due), says: "grace period",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			r := startRebuilt(t)
			in := r.inventory(newCluster, nil)
			alive := r.applied("shop", "alive", "10.8.0.0/24")
			r.network(in, domain.Owner{Cluster: newCluster, Object: string(alive.UID)}, "alive", "10.8.0.0/24")
			id := r.network(in, left("gone"), "gone", "10.1.0.0/24")
			c.does(r, in, id)
			writes := r.server.CallCounts()
			got, out, code := states(t, r.objects(alive, running()))
			if diff := cmp.Diff(c.want, got); diff != "" || code != 2 {
				t.Errorf("exit code %d, -want +got:\n%s", code, diff)
			}
			expect.Contains(t, out, c.says, "what it says")
			for call, n := range r.server.CallCounts() {
				if !strings.HasPrefix(call, "GET") && !strings.Contains(call, "tokens") && n != writes[call] {
					t.Errorf("it writes: %s", call)
				}
			}
			gone := r.applied("shop", "gone", "10.1.0.0/24")
			gone.UID = types.UID(left("gone").Object)
			too := r.applied("shop", "too", "10.2.0.0/24")
			too.UID = types.UID(left("too").Object)
			if got, out, code := states(t, r.objects(alive, gone, too)); len(got) > 0 || code != 0 {
				t.Errorf("with the objects, the exit code is %d:\n%s", code, out)
			}
		})
	}
}
