package inventory

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// pageOf is an answer with a page of so many resources, as Neutron writes one, and their number.
func pageOf(resources string, n int) []byte {
	const cluster = "11111111-2222-3333-4444-555555555555"
	items := make([]map[string]any, n)
	for i := range items {
		id := fmt.Sprintf("%08d-bbbb-cccc-dddd-eeeeeeeeeeee", i)
		items[i] = map[string]any{
			"id": id, "name": fmt.Sprintf("team-network-%d", i), "revision_number": 3,
			"description": plan.Owner{Cluster: cluster, Object: id}.Marker(),
		}
		switch resources {
		case "networks":
			items[i]["subnets"] = []string{id}
			items[i]["admin_state_up"], items[i]["mtu"], items[i]["port_security_enabled"] = true, 1450, true
			items[i]["created_at"] = "2026-01-01T00:00:00Z"
		case "subnets":
			items[i]["network_id"], items[i]["cidr"] = id, fmt.Sprintf("10.%d.%d.0/24", i/256, i%256)
			items[i]["gateway_ip"], items[i]["enable_dhcp"] = fmt.Sprintf("10.%d.%d.1", i/256, i%256), true
			items[i]["allocation_pools"] = []map[string]string{
				{"start": fmt.Sprintf("10.%d.%d.2", i/256, i%256), "end": fmt.Sprintf("10.%d.%d.254", i/256, i%256)},
			}
			items[i]["dns_nameservers"], items[i]["host_routes"] = []string{}, []string{}
		case "ports":
			// A hundred ports are on one network.
			on := fmt.Sprintf("%08d-bbbb-cccc-dddd-ffffffffffff", i/100)
			items[i]["network_id"], items[i]["mac_address"] = on, fmt.Sprintf("fa:16:3e:00:%02x:%02x", i/256, i%256)
			items[i]["fixed_ips"] = []map[string]string{{"subnet_id": on, "ip_address": fmt.Sprintf("10.0.%d.%d", i/256, i%256)}}
			items[i]["security_groups"], items[i]["admin_state_up"] = []string{on}, true
			items[i]["created_at"] = "2026-01-01T00:00:00Z"
		}
	}
	text, err := json.Marshal(map[string]any{resources: items, resources + "_links": []any{}})
	if err != nil {
		panic(err)
	}
	return text
}

// decoded is what a page holds, brought into the domain's form.
func decoded[W, T any](tb testing.TB, resources string, text []byte, observed func(W) (T, error)) []T {
	tb.Helper()
	var answer map[string]json.RawMessage
	expect.NoError(tb, json.Unmarshal(text, &answer))
	var page []W
	expect.NoError(tb, json.Unmarshal(answer[resources], &page))
	all := make([]T, len(page))
	for i, w := range page {
		one, err := observed(w)
		expect.NoError(tb, err)
		all[i] = one
	}
	return all
}

func itself[W any](w W) (W, error) { return w, nil }

// heldBytes is how much of the heap what a function makes holds, by the object.
func heldBytes(t *testing.T, n int, hold func() any) float64 {
	t.Helper()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.GC() // what sync.Pools held goes with the second
	runtime.ReadMemStats(&before)
	held := hold()
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(held)
	return (float64(after.HeapAlloc) - float64(before.HeapAlloc)) / float64(n)
}

// TestBytesHeld holds what an Inventory keeps of each resource below bounds that are half as much again as was measured
// when they were set.
func TestBytesHeld(t *testing.T) {
	if testing.CoverMode() != "" {
		t.Skip("coverage changes what is allocated")
	}
	const n = 10_000
	for kind, c := range map[string]struct {
		most float64
		fill func(*Inventory)
	}{
		"networks with a subnet": {1500, func(i *Inventory) {
			listed := map[string]*plan.ObservedNetwork{}
			subnets := decoded(t, "subnets", pageOf("subnets", n), itself[wireSubnet])
			for at, w := range decoded(t, "networks", pageOf("networks", n), itself[wireNetwork]) {
				observed, err := assemble(w, subnets[at:at+1])
				expect.NoError(t, err)
				listed[w.ID] = observed
			}
			i.networks.takeIn(listed, 0, map[string]bool{})
		}},
		"ports": {1100, func(i *Inventory) {
			listed := map[string]*plan.ObservedPort{}
			known := shared{}
			for _, observed := range decoded(t, "ports", pageOf("ports", n), wirePort.observed) {
				known.in(&observed)
				listed[observed.ID] = &observed
			}
			i.ports.takeIn(listed, 0, map[string]bool{})
		}},
	} {
		t.Run(kind, func(t *testing.T) {
			bytes := heldBytes(t, n, func() any {
				i := New(client.NewCloud(client.Credentials{}, client.Options{}), "11111111-2222-3333-4444-555555555555", Options{Ports: true})
				c.fill(i)
				return i
			})
			t.Logf("%.0f bytes each", bytes)
			if bytes > c.most {
				t.Errorf("%.0f bytes are held of each, want at most %.0f", bytes, c.most)
			}
		})
	}
}
