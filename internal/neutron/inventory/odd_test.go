package inventory

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestAResourceThatCannotBeDecodedCostsItsOwner(t *testing.T) {
	for sentence, c := range map[string]struct {
		// path ends a list's path whose answer has was replaced by is. kind is the resource's; names is what the error says.
		path, was, is string
		kind          plan.Kind
		names         string
	}{
		"a network's name is an object":   {"/networks", `"id":"odd","mtu":0,"name":"n"`, `"id":"odd","mtu":0,"name":{}`, plan.KindNetwork, "network odd: field name is a object"},
		"a network's id is an object":     {"/networks", `"id":"odd"`, `"id":{}`, plan.KindNetwork, "a network without an id: field id is a object"},
		"a network has no id":             {"/networks", `"id":"odd"`, `"id":null`, plan.KindNetwork, "a network without an id"},
		"a subnet's cidr is none":         {"/subnets", `"cidr":"10.0.0.0/24","created_at":"0001-01-01T00:00:00Z","description":"ODD"`, `"cidr":"x","created_at":"0001-01-01T00:00:00Z","description":"ODD"`, plan.KindNetwork, "subnet \"sub-odd\": cidr"},
		"a subnet's cidr is null":         {"/subnets", `"cidr":"10.0.0.0/24","created_at":"0001-01-01T00:00:00Z","description":"ODD"`, `"cidr":null,"created_at":"0001-01-01T00:00:00Z","description":"ODD"`, plan.KindNetwork, "subnet \"sub-odd\": cidr"},
		"a subnet's cidr is a number":     {"/subnets", `"cidr":"10.0.0.0/24","created_at":"0001-01-01T00:00:00Z","description":"ODD"`, `"cidr":7,"created_at":"0001-01-01T00:00:00Z","description":"ODD"`, plan.KindNetwork, "subnet sub-odd: field cidr is a number"},
		"a port's addresses are none":     {"/ports", `"fixed_ips":null,"id":"port-odd"`, `"fixed_ips":[{"ip_address":"x"}],"id":"port-odd"`, plan.KindPort, "port port-odd: fixed_ips"},
		"a port's addresses are a number": {"/ports", `"fixed_ips":null,"id":"port-odd"`, `"fixed_ips":7,"id":"port-odd"`, plan.KindPort, "port port-odd: field fixed_ips is a number"},
		"a port's groups are a text":      {"/ports", `"id":"port-odd"`, `"id":"port-odd","security_groups":"x"`, plan.KindPort, "port port-odd: field security_groups is a string"},

		"a router's gateway is a text":     {"/routers", `"external_gateway_info":null,"ha":null,"id":"router-odd"`, `"external_gateway_info":"x","ha":null,"id":"router-odd"`, plan.KindRouter, "router router-odd: field external_gateway_info is a string"},
		"a group's rules are a number":     {"/security-groups", `"id":"group-odd","name":"","revision_number":0,"security_group_rules":null`, `"id":"group-odd","name":"","revision_number":0,"security_group_rules":7`, plan.KindGroup, "security_group group-odd: field security_group_rules is a number"},
		"a rule's port is a word":          {"/security-groups", `"id":"group-odd","name":"","revision_number":0,"security_group_rules":null`, `"id":"group-odd","name":"","revision_number":0,"security_group_rules":[{"id":"r","security_group_id":"group-odd","port_range_min":"x"}]`, plan.KindGroup, "security group group-odd: a port of a rule is no number"},
		"a group's rule is of another":     {"/security-groups", `"id":"group-odd","name":"","revision_number":0,"security_group_rules":null`, `"id":"group-odd","name":"","revision_number":0,"security_group_rules":[{"id":"r","security_group_id":"x"}]`, plan.KindGroup, "security group group-odd: a rule has no id, or is another group's"},
		"a floating IP's address is none":  {"/floatingips", `"floating_ip_address":"203.0.113.9","floating_network_id":"outside","id":"floating-odd"`, `"floating_ip_address":"x","floating_network_id":"outside","id":"floating-odd"`, plan.KindFloatingIP, "floating IP floating-odd: floating_ip_address is no address"},
		"a floating IP's port is a number": {"/floatingips", `"id":"floating-odd","port_id":""`, `"id":"floating-odd","port_id":7`, plan.KindFloatingIP, "floatingip floating-odd: field port_id is a number"},
	} {
		t.Run(sentence, func(t *testing.T) {
			b := newBench(t, Options{Ports: true})
			b.neutron.others = map[string][]item{}
			for _, o := range []string{"odd", "good"} {
				marker, at := ownerOf(o).Marker(), created("2026-01-01T00:00:00Z")
				b.put(o, marker)
				b.neutron.ports["port-"+o] = &wirePort{wireBase: wireBase{ID: "port-" + o, Description: marker, Created: at}, NetworkID: o}
				for path, is := range map[string]client.Identified{
					"routers":         wireRouter{wireBase: wireBase{ID: "router-" + o, Description: marker, Created: at}},
					"security-groups": wireGroup{wireBase: wireBase{ID: "group-" + o, Description: marker, Created: at}},
					"floatingips": wireFloatingIP{
						wireBase:  wireBase{ID: "floating-" + o, Description: marker, Created: at},
						NetworkID: "outside", Address: "203.0.113.9",
					},
				} {
					b.neutron.others[path] = append(b.neutron.others[path], item{is.Key(), is})
				}
			}
			// sees holds that an owner sees all that is its own.
			sees := func(owner, when string) {
				t.Helper()
				o, err := b.Observed(t.Context(), ownerOf(owner), time.Time{})
				if has := o.Resources(); err != nil || len(has) != 5 {
					t.Errorf("%s, owner %s sees %v: %v", when, owner, has, err)
				}
			}
			was, is := strings.ReplaceAll(c.was, "ODD", ownerOf("odd").Marker()), strings.ReplaceAll(c.is, "ODD", ownerOf("odd").Marker())
			replaced := false
			b.neutron.setBefore(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, c.path) {
					return false
				}
				b.neutron.mu.Lock()
				defer b.neutron.mu.Unlock()
				recorder := httptest.NewRecorder()
				writePage(recorder, r, strings.Trim(c.path, "/"), 1000, b.neutron.listed(r, strings.Trim(c.path, "/")))
				// With the keys of each object in order.
				var document any
				if err := json.Unmarshal(recorder.Body.Bytes(), &document); err != nil {
					t.Error(err)
				}
				sorted, _ := json.Marshal(document)
				text := string(sorted)
				replaced = replaced || strings.Contains(text, was)
				answer(w, http.StatusOK, strings.ReplaceAll(text, was, is))
				return true
			})
			b.audit(t)
			if !replaced {
				t.Fatal("nothing was replaced")
			}
			sees("good", "beside what is odd")
			_, err := b.Observed(t.Context(), ownerOf("odd"), time.Time{})
			if !client.IsKind(err, client.Transient) || !strings.Contains(err.Error(), c.names) {
				t.Errorf("its owner is told %v, want %q", err, c.names)
			}
			if owners, _, _, ok := b.Owners(); !ok || len(owners["odd"][c.kind]) != 1 {
				t.Errorf("its owner has %v", owners["odd"])
			}
			b.takeMoved()
			b.audit(t)
			expect.Empty(t, b.takeMoved(), "objects told again of what stays odd")
			b.neutron.setBefore(nil)
			b.audit(t)
			if moved := b.takeMoved(); len(moved) == 0 || moved[0] != "odd" {
				t.Errorf("the owner was not told that it is mended: %v", moved)
			}
			sees("odd", "once mended")
		})
	}
}

func TestAForeignResourceThatCannotBeDecodedCostsNobody(t *testing.T) {
	b := newBench(t, Options{Ports: true})
	b.put("good", ownerOf("good").Marker())
	b.neutron.answers("", "/ports", http.StatusOK, `{"ports": [{"id": "a", "description": null, "fixed_ips": 7},
			{"id": {}, "description": "x"}, {"id": "c", "description": 7, "revision_number": "x"}]}`)
	b.audit(t)
}
