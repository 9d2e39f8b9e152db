package inventory

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

func deleteNetwork(id string) plan.Step {
	return plan.Step{Action: plan.DeleteNetwork, Ref: plan.Ref{ID: id}, Revision: 1}
}

func TestABlockersTextNamesThePortAndWhatHasIt(t *testing.T) {
	long := strings.Repeat("x", 300)
	for sentence, test := range map[string]struct {
		port Blocker
		want string
	}{
		"a server's port": {
			Blocker{ID: "1f", DeviceOwner: "compute:nova", DeviceID: "9a"}, "port 1f (compute:nova, device 9a)",
		},
		"a port with a name": {
			Blocker{ID: "1f", Name: "web", DeviceOwner: "compute:nova", DeviceID: "9a"},
			`port 1f "web" (compute:nova, device 9a)`,
		},
		"a router's interface": {
			Blocker{ID: "1f", DeviceOwner: "network:router_interface", DeviceID: "r1"}, "port 1f (interface of router r1)",
		},
		"a distributed router's interface": {
			Blocker{ID: "1f", DeviceOwner: "network:router_interface_distributed", DeviceID: "r1"},
			"port 1f (interface of router r1)",
		},
		"an owner without a device":  {Blocker{ID: "1f", DeviceOwner: "trunk:subport"}, "port 1f (trunk:subport)"},
		"a device without an owner":  {Blocker{ID: "1f", DeviceID: "9a"}, "port 1f (device 9a)"},
		"a port that nothing has":    {Blocker{ID: "1f"}, "port 1f (of no device)"},
		"a cluster's, perhaps gone":  {Blocker{ID: "1f", Cluster: "c9"}, "port 1f of cluster c9 (of no device)"},
		"others' words keep to size": {Blocker{ID: "1f", DeviceID: long}, "port 1f (device " + long[:maxForeign] + "…)"},
		"others' words are one line": {Blocker{ID: "1f", DeviceID: "a\n\x1b[31mb"}, "port 1f (device a [31mb)"},
	} {
		t.Run(sentence, func(t *testing.T) {
			expect.Equal(t, test.want, test.port.String(), "the port as text")
		})
	}
}

func TestBlockersNameThreeAndCountTheOthers(t *testing.T) {
	for ports, wants := range map[int]struct{ all, page string }{
		1: {"port 1 (device d)", "port 1 (device d) and at least 1 more"},
		3: {"port 1 (device d), port 2 (device d), port 3 (device d)",
			"port 1 (device d), port 2 (device d), port 3 (device d) and at least 1 more"},
		7: {"port 1 (device d), port 2 (device d), port 3 (device d) and 4 more",
			"port 1 (device d), port 2 (device d), port 3 (device d) and at least 5 more"},
	} {
		var b Blockers
		for i := range ports {
			b.Ports = append(b.Ports, Blocker{ID: fmt.Sprint(i + 1), DeviceID: "d"})
		}
		expect.Equal(t, wants.all, b.String(), "what blocks, as text")
		b.Further = true
		expect.Equal(t, wants.page, b.String(), "a page of what blocks, as text")
	}
}

// portsInTheWay has Neutron answer to lists of one network's ports, and gives the queries.
func (b *bench) portsInTheWay(ports func() []Blocker) (asked func() []url.Values) {
	var queries []url.Values
	b.neutron.setBefore(func(w http.ResponseWriter, r *http.Request) bool {
		query := r.URL.Query()
		if !strings.HasSuffix(r.URL.Path, "/ports") || !query.Has("network_id") {
			return false
		}
		var items []item
		b.neutron.change(func() {
			queries = append(queries, query)
			for _, p := range ports() {
				items = append(items, item{p.ID, p})
			}
		})
		writePage(w, r, "ports", 1000, items)
		return true
	})
	return func() (all []url.Values) {
		b.neutron.change(func() { all = slices.Clone(queries) })
		return all
	}
}

func TestBlockersAreOnePageOfPortsThatNeutronWouldNotRemoveItself(t *testing.T) {
	b := newBench(t, Options{Ports: true})
	b.put("net", ownerOf("o").Marker())
	b.audit(t)
	server := Blocker{ID: "p2", Name: "web", DeviceOwner: "compute:nova", DeviceID: "9a", ProjectID: "project-2"}
	asked := b.portsInTheWay(func() []Blocker {
		return []Blocker{{ID: "p1", DeviceOwner: "network:dhcp"}, server, {ID: "p3"}, {ID: "p4"}}
	})
	got, err := b.Blockers(t.Context(), deleteNetwork("net"))
	expect.NoError(t, err)
	expect.Equal(t, Blockers{Ports: []Blocker{server}, Further: true}, got, "in the way of the network")
	_, err = b.Blockers(t.Context(), plan.Step{
		Action: plan.DeleteSubnet, Ref: plan.Ref{ID: "sub-net"}, NetworkRef: plan.Ref{ID: "net"},
	})
	expect.NoError(t, err)
	if none, err := b.Blockers(t.Context(), deletePort("p", 1)); err != nil || len(none.Ports) > 0 {
		t.Errorf("in the way of a port: %v, %v", none, err)
	}
	common := url.Values{
		"network_id": {"net"}, "limit": {"2"}, "sort_key": {"id"}, "sort_dir": {"asc"}, "fields": {
			"id", "name", "device_owner", "device_id", "project_id", "description",
		},
	}
	ofSubnet := url.Values{"fixed_ips": {"subnet_id=sub-net"}}
	maps.Copy(ofSubnet, common)
	expect.Equal(t, []url.Values{common, ofSubnet}, asked(), "asked")
}

func TestABlockerOfAnotherClusterIsNamedAfterIt(t *testing.T) {
	e := newEmulated(t, Options{})
	id := e.byHand(http.MethodPost, "networks", "network", map[string]any{"name": "n"})
	for _, cluster := range []string{"c9", e.owner.Cluster} {
		e.byHand(http.MethodPost, "ports", "port", map[string]any{
			"network_id": id, "description": plan.Owner{Cluster: cluster, Object: "o"}.Marker(),
		})
	}
	got, err := e.Blockers(t.Context(), deleteNetwork(id))
	expect.NoError(t, err)
	if text := got.String(); !strings.Contains(text, "of cluster c9") || strings.Count(text, "of cluster ") != 1 {
		t.Errorf("in the way is %s", text)
	}
}

func TestAListOfBlockersThatFailsIsNotNone(t *testing.T) {
	b := newBench(t, Options{Ports: true})
	b.put("net", ownerOf("o").Marker())
	b.audit(t)
	for _, body := range []string{`{}`, `{"ports":null}`, `<html>`, `{"ports":[],"ports_links":1}`} {
		b.neutron.answers("", "", http.StatusOK, body)
		if got, err := b.Blockers(t.Context(), deleteNetwork("net")); err == nil {
			t.Errorf("%s: %v", body, got)
		}
	}
}
