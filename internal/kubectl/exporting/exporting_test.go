package exporting

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"pgregory.net/rapid"

	"cloudteam.ztgame.com/network-controller/internal/declare"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/exporting/exportingtest"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/planning"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/cloudtest"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/fake"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// cluster has the length of a UID.
const cluster = "c1a0b7d2-0000-4000-8000-000000000000"

// world is an emulated cloud, and a planner of a cluster whose class allows all.
type world struct {
	cloud   *client.Cloud
	in      *inventory.Inventory
	planner *planning.Planner
}

func newWorld(t *testing.T) *world {
	w := &world{}
	w.cloud, _ = cloudtest.Emulated(t, neutrontest.Options{}, nil)
	w.in = inventory.New(w.cloud, cluster, inventory.Options{Ports: true})
	open := &cloudteamv1.NetworkClass{}
	open.Name, open.Annotations = "open", map[string]string{"cloudteam.ztgame.com/is-default-class": "true"}
	open.Spec.AllowedFields = []cloudteamv1.PrivilegedField{
		cloudteamv1.FieldImport, cloudteamv1.FieldSharedWith, cloudteamv1.FieldShared, cloudteamv1.FieldExternal}
	open.Spec.AllowedRanges = []string{"0.0.0.0/0", "::/0"}
	c := &ask.Cluster{Kubernetes: kubefake.NewClientset(), Networks: fake.NewSimpleClientset(open)}
	var err error
	w.planner, err = planning.New(t.Context(), c, w.in, cluster)
	expect.NoError(t, err)
	return w
}

// fataler is a *testing.T or a *rapid.T.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
	Fatal(args ...any)
}

// make creates a resource as a user does, and gives its id.
func (w *world) make(t fataler, one string, body map[string]any) string {
	t.Helper()
	many := map[string]string{"rbac_policy": "rbac-policies"}[one]
	if many == "" {
		many = one + "s"
	}
	var answer map[string]struct{ ID string }
	if err := w.cloud.Do(context.Background(), client.Request{Op: "create " + one, Method: http.MethodPost, Path: many,
		Body: map[string]any{one: body}, Answer: &answer}); err != nil {
		t.Fatalf("%v: %v", body, err)
	}
	return answer[one].ID
}

// export exports one network.
func (w *world) export(t fataler, q Request) []Exported {
	t.Helper()
	q.Cluster, q.Namespace = cluster, "shop"
	all, _, err := Export(context.Background(), w.cloud, q, func() (map[string]bool, error) { return nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// network makes a drawn network, and gives its id.
func (w *world) network(t fataler, drawn exportingtest.Foreign) string {
	t.Helper()
	id := w.make(t, "network", drawn.Network)
	for _, s := range drawn.Subnets {
		s["network_id"] = id
		w.make(t, "subnet", s)
	}
	if len(drawn.Tags) > 0 {
		if err := w.cloud.Do(context.Background(), client.Request{Op: "tag", Method: http.MethodPut,
			Path: "networks/" + id + "/tags", Body: map[string]any{"tags": drawn.Tags}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, project := range drawn.SharedWith {
		w.make(t, "rbac_policy", map[string]any{"object_type": "network", "object_id": id, "action": "access_as_shared",
			"target_tenant": project})
	}
	return id
}

// TestPropertyAnImportOfWhatWasExportedWritesMarkersAlone exports random networks and applies that, by the controller's
// own code. Only descriptions change, and these only by the marker.
func TestPropertyAnImportOfWhatWasExportedWritesMarkersAlone(t *testing.T) {
	w, checks := newWorld(t), 0
	rapid.Check(t, func(t *rapid.T) {
		checks++
		id := w.network(t, exportingtest.Network(false).Draw(t, "network"))
		was := w.look(t, id)
		exported := w.export(t, Request{Names: []string{id}})
		if len(exported) != 1 || exported[0].Network == nil {
			t.Fatalf("exported %+v, want a Network", exported)
		}
		n := exported[0].Network
		n.UID, n.Generation = types.UID(fmt.Sprintf("%08d-0000-4000-8000-000000000000", checks)), 1
		for range 2 { // the network's marker, then those of its subnets
			if change := w.plan(t, n); len(change) == 0 {
				t.Fatalf("an import of %+v writes no marker", n.Spec)
			} else if _, err := w.in.Apply(context.Background(), change); err != nil {
				t.Fatal(err)
			}
			expect.NoError(t, w.in.Audit(context.Background()))
		}
		if change := w.plan(t, n); len(change) > 0 {
			t.Fatalf("after the import, the plan is\n%s", change)
		}
		ignored := cmp.FilterPath(func(p cmp.Path) bool {
			return slices.Contains([]string{"Revision", "Description", "Used"}, strings.TrimPrefix(p.Last().String(), "."))
		}, cmp.Ignore())
		sorted := cmpopts.SortSlices(func(a, b plan.ObservedSubnet) bool { return a.ID < b.ID })
		addresses := cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})
		if diff := cmp.Diff(was, w.look(t, id), ignored, sorted, addresses); diff != "" {
			t.Fatalf("the import changes\n%s", diff)
		}
		if err := w.cloud.Do(context.Background(), client.Request{Op: "delete", Method: http.MethodDelete,
			Path: "networks/" + id}); err != nil {
			t.Fatal(err)
		}
	})
}

// look reads a network.
func (w *world) look(t fataler, id string) plan.ObservedNetwork {
	t.Helper()
	is, found, err := w.in.Foreign(context.Background(), id)
	if err != nil || !found {
		t.Fatalf("network %s: %t, %v", id, found, err)
	}
	return is.ObservedNetwork
}

// plan plans a Network. Each step is to write a marker, and nothing else.
func (w *world) plan(t fataler, n *cloudteamv1.Network) plan.Change {
	t.Helper()
	planned, err := w.planner.Plan(context.Background(), n)
	if err != nil || planned.Problem != "" {
		t.Fatalf("planning %+v: %v %s", n.Spec, err, planned.Problem)
	}
	if len(planned.Steps) == 0 {
		return nil
	}
	change := plan.Change{}
	for _, s := range planned.Steps {
		step := s.Step()
		for _, d := range step.Differences {
			if d.Field != plan.FieldDescription {
				t.Fatalf("an import of %+v does: %s", n.Spec, step)
			}
		}
		change = append(change, step)
	}
	return change
}

func TestWhatANetworkCannotSayIsSaid(t *testing.T) {
	owner := plan.Owner{Cluster: cluster, Object: "00000000-1111-4000-8000-000000000000"}
	subnet := func(id, cidr string) map[string]any {
		return map[string]any{"network_id": id, "cidr": cidr, "ip_version": 4}
	}
	for sentence, c := range map[string]struct {
		network map[string]any
		// has is how many subnets it has: 10.0.0.0/24, 10.1.0.0/24 and so on. more makes what else there is.
		has  int
		more func(w *world, id string)
		// cidrs are those of the Network; none for no Network.
		cidrs []string
		says  string
		// refuse gives the field that the API server refuses.
		refuse     func(*cloudteamv1.Network) string
		incomplete bool
	}{
		"no subnet": {incomplete: true, says: "it has no subnet that a Network can declare"},
		"a description without room for the marker": {
			network: map[string]any{"description": strings.Repeat("x", 200)},
			has:     1, says: "description: with the ownership marker it has", incomplete: true,
		},
		"a text that looks like a marker": {
			network: map[string]any{"description": "[owner= of something"},
			has:     1, says: "begins the ownership marker", incomplete: true,
		},
		"more subnets than eight": {
			has: 9, cidrs: []string{"10.0.0.0/24", "10.1.0.0/24", "10.2.0.0/24", "10.3.0.0/24", "10.4.0.0/24", "10.5.0.0/24",
				"10.6.0.0/24", "10.7.0.0/24"},
			says: "1 more subnets are not declared, and stay", incomplete: true,
		},
		"a subnet for no hosts": {
			has: 1, more: func(w *world, id string) {
				w.make(t, "subnet", map[string]any{"network_id": id, "cidr": "10.1.0.0/31", "ip_version": 4, "gateway_ip": nil,
					"enable_dhcp": false})
			},
			cidrs: []string{"10.0.0.0/24"}, says: "10.1.0.0/31", incomplete: true,
		},
		"a router": {
			more: func(w *world, id string) {
				on := w.make(t, "subnet", subnet(id, "10.0.0.0/24"))
				router := w.make(t, "router", map[string]any{"name": "r"})
				if err := w.cloud.Do(t.Context(), client.Request{Op: "attach", Method: http.MethodPut,
					Path: "routers/" + router + "/add_router_interface", Body: map[string]any{"subnet_id": on}}); err != nil {
					t.Fatal(err)
				}
			},
			cidrs: []string{"10.0.0.0/24"}, says: "It stays, and the Network does not manage it",
		},
		"a field that the API server refuses": {
			has: 1, refuse: func(n *cloudteamv1.Network) string { return refusedIf(n.Spec.MTU != nil, "spec.mtu") },
			cidrs: []string{"10.0.0.0/24"}, says: "The field mtu is not declared, and stays: mtu: odd.", incomplete: true,
		},
		"a field that the API server refuses, and that an import would change": {
			network: map[string]any{"description": "odd"},
			has:     1, refuse: func(n *cloudteamv1.Network) string { return refusedIf(n.Spec.Description != "", "spec.description") },
			says: "No Network can import it: description: odd.", incomplete: true,
		},
		"the import itself": {
			has: 1, refuse: func(n *cloudteamv1.Network) string { return refusedIf(n.Spec.Import != nil, "spec.import.id") },
			says: "No Network can import it: import.id: odd.", incomplete: true,
		},
		"subnets that the API server refuses": {
			has: 4, refuse: func(n *cloudteamv1.Network) string {
				if n.Spec.CIDR == "10.0.0.0/24" {
					return "spec.gateway"
				}
				return refusedIf(len(n.Spec.AdditionalSubnets) > 1, "spec.additionalSubnets[1].allocationPools[0].start")
			},
			cidrs: []string{"10.1.0.0/24", "10.2.0.0/24"}, incomplete: true,
			says: "Subnet 10.3.0.0/24 is not declared, and stays: additionalSubnets[1].allocationPools[0].start: odd.",
		},
		"subnets that the API server refuses together": {
			has: 3, refuse: func(n *cloudteamv1.Network) string {
				return refusedIf(len(n.Spec.AdditionalSubnets) > 1, "spec.additionalSubnets")
			},
			cidrs: []string{"10.0.0.0/24", "10.1.0.0/24"}, incomplete: true,
			says: "Subnet 10.2.0.0/24 is not declared, and stays",
		},
		"an orphan": {
			network: map[string]any{"description": "it's mine " + owner.Marker()},
			more: func(w *world, id string) {
				s := subnet(id, "10.0.0.0/24")
				s["description"] = owner.Marker()
				w.make(t, "subnet", s)
			},
			cidrs: []string{"10.0.0.0/24"}, says: `openstack network set --description 'it'\''s mine' `,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newWorld(t)
			if c.network == nil {
				c.network = map[string]any{}
			}
			id := w.make(t, "network", c.network)
			for i := range c.has {
				w.make(t, "subnet", subnet(id, fmt.Sprintf("10.%d.0.0/24", i)))
			}
			if c.more != nil {
				c.more(w, id)
			}
			all := w.export(t, Request{Refusals: func(n *cloudteamv1.Network) []metav1.StatusCause {
				if c.refuse == nil || c.refuse(n) == "" {
					return nil
				}
				return []metav1.StatusCause{{Field: c.refuse(n), Message: "odd"}}
			}})
			if len(all) != 1 {
				t.Fatalf("%d networks are exported, want 1", len(all))
			}
			var cidrs []string
			if n := all[0].Network; n != nil {
				for _, s := range n.Spec.Subnets() {
					cidrs = append(cidrs, s.CIDR)
				}
				if _, err := declare.Network(n, owner); err != nil {
					t.Error(err)
				}
			}
			expect.Equal(t, c.cidrs, cidrs, "cidrs")
			expect.Contains(t, strings.Join(all[0].Notes, "\n"), c.says, "the notes")
			expect.Equal(t, c.incomplete, all[0].Incomplete, "Incomplete")
			orphan := c.network["description"] != nil && strings.Contains(fmt.Sprint(c.network["description"]), owner.Marker())
			if got := len(w.export(t, Request{Orphans: true})); got > 0 != orphan {
				t.Errorf("%d networks are exported as orphans", got)
			}
		})
	}
}

// refusedIf gives a field that is refused if something is so.
func refusedIf(so bool, field string) string {
	if so {
		return field
	}
	return ""
}

func TestObjectsOfExportHaveNamesOfTheirOwn(t *testing.T) {
	given := map[string]bool{}
	var names []string
	for _, name := range []string{"Front End", "front-end", "前端", "a", strings.Repeat("b", 70), strings.Repeat("b", 63), "-a-"} {
		names = append(names, unique(given, objectName(listed{ID: "0123456789", Name: name})))
	}
	want := []string{"front-end", "front-end-2", "network-01234567", "a", strings.Repeat("b", 63),
		strings.Repeat("b", 61) + "-2", "a-2"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
