package inventory

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

func TestAResourceThatCannotBeDecodedCostsItsOwner(t *testing.T) {
	for sentence, c := range map[string]struct {
		// path ends a list's path whose answer has was replaced by is. kind is the resource's; names is what the error says.
		path, was, is string
		kind          plan.Kind
		names         string
	}{
		"a network's number is a text":    {"/networks", `"id":"odd","mtu":0`, `"id":"odd","mtu":"x"`, plan.KindNetwork, "network odd: field mtu is a string"},
		"a network's revision is a text":  {"/networks", `"id":"odd","mtu":0`, `"id":"odd","revision_number":"7"`, plan.KindNetwork, "network odd: field revision_number is a string"},
		"a network's time is null":        {"/networks", `"created_at":"2026-01-02T03:04:05Z","description":"ODD"`, `"created_at":null,"description":"ODD"`, plan.KindNetwork, "network odd: created_at is no time"},
		"a network's name is an object":   {"/networks", `"id":"odd","mtu":0,"name":"n"`, `"id":"odd","mtu":0,"name":{}`, plan.KindNetwork, "network odd: field name is a object"},
		"a network has no id":             {"/networks", `"id":"odd"`, `"id":null`, plan.KindNetwork, "a network without an id"},
		"a subnet's cidr is none":         {"/subnets", `"cidr":"10.0.0.0/24","created_at":"","description":"ODD"`, `"cidr":"x","created_at":"","description":"ODD"`, plan.KindNetwork, "subnet \"sub-odd\": cidr"},
		"a subnet's cidr is null":         {"/subnets", `"cidr":"10.0.0.0/24","created_at":"","description":"ODD"`, `"cidr":null,"created_at":"","description":"ODD"`, plan.KindNetwork, "subnet \"sub-odd\": cidr"},
		"a subnet's cidr is a number":     {"/subnets", `"cidr":"10.0.0.0/24","created_at":"","description":"ODD"`, `"cidr":7,"created_at":"","description":"ODD"`, plan.KindNetwork, "subnet sub-odd: field cidr is a number"},
		"a port's addresses are none":     {"/ports", `"fixed_ips":null,"id":"port-odd"`, `"fixed_ips":[{"ip_address":"x"}],"id":"port-odd"`, plan.KindPort, "port port-odd: fixed_ips"},
		"a port's addresses are a number": {"/ports", `"fixed_ips":null,"id":"port-odd"`, `"fixed_ips":7,"id":"port-odd"`, plan.KindPort, "port port-odd: field fixed_ips is a number"},
		"a port's groups are a text":      {"/ports", `"id":"port-odd"`, `"id":"port-odd","security_groups":"x"`, plan.KindPort, "port port-odd: field security_groups is a string"},
	} {
		t.Run(sentence, func(t *testing.T) {
			b := newBench(t, Options{Ports: true})
			for _, o := range []string{"odd", "good"} {
				b.put(o, ownerOf(o).Marker())
				b.neutron.ports["port-"+o] = &wirePort{
					ID: "port-" + o, NetworkID: o, Description: ownerOf(o).Marker(), Created: "2026-01-01T00:00:00Z",
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
				recorder := &recorded{header: http.Header{}}
				writePage(recorder, r, strings.Trim(c.path, "/"), 1000, b.neutron.listed(r, strings.Trim(c.path, "/")))
				text := sortedJSON(recorder.body.Bytes())
				replaced = replaced || strings.Contains(text, was)
				answer(w, http.StatusOK, strings.ReplaceAll(text, was, is))
				return true
			})
			b.audit(t)
			if !replaced {
				t.Fatal("nothing was replaced")
			}
			if o, err := b.Observed(t.Context(), ownerOf("good"), time.Time{}); err != nil || len(o.Networks) != 1 || len(o.Ports) != 1 {
				t.Errorf("another owner sees %d networks and %d ports: %v", len(o.Networks), len(o.Ports), err)
			}
			_, err := b.Observed(t.Context(), ownerOf("odd"), time.Time{})
			if !client.IsKind(err, client.Transient) || !strings.Contains(err.Error(), c.names) {
				t.Errorf("its owner is told %v, want %q", err, c.names)
			}
			if owners, _, _, ok := b.Owners(); !ok || len(owners["odd"][c.kind]) != 1 {
				t.Errorf("its owner has %v", owners["odd"])
			}
			b.takeMoved()
			b.audit(t)
			if moved := b.takeMoved(); len(moved) != 0 {
				t.Errorf("what stays odd is told again: %v", moved)
			}
			b.neutron.setBefore(nil)
			b.audit(t)
			if moved := b.takeMoved(); len(moved) == 0 || moved[0] != "odd" {
				t.Errorf("the owner was not told that it is mended: %v", moved)
			}
			if o, err := b.Observed(t.Context(), ownerOf("odd"), time.Time{}); err != nil || len(o.Networks) != 1 || len(o.Ports) != 1 {
				t.Errorf("once mended, its owner sees %d networks and %d ports: %v", len(o.Networks), len(o.Ports), err)
			}
		})
	}
}

func TestAForeignResourceThatCannotBeDecodedCostsNobody(t *testing.T) {
	b := newBench(t, Options{Ports: true})
	b.put("good", ownerOf("good").Marker())
	b.neutron.setBefore(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/ports") {
			return false
		}
		answer(w, http.StatusOK, `{"ports": [{"id": "a", "description": null, "fixed_ips": 7},
			{"id": {}, "description": "x"}, {"id": "c", "description": 7, "revision_number": "x"}]}`)
		return true
	})
	b.audit(t)
}
