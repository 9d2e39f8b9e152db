package neutron

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
)

// pageSize is how many resources the controller asks for on a page.
const pageSize = 500

// BenchmarkDecodePage is what it costs to read a page of a list into the form in which it is compared.
func BenchmarkDecodePage(b *testing.B) {
	const network = `{"id": "net-%[1]d", "name": "example-%[1]d", "description": ` +
		`"[owner=11111111-2222-3333-4444-555555555555/aaaaaaaa-bbbb-cccc-dddd-%012[1]d]", "admin_state_up": true, ` +
		`"mtu": 1450, "port_security_enabled": true, "revision_number": 2, "created_at": "2026-01-02T03:04:05Z", ` +
		`"subnets": ["sub-%[1]d"]}`
	const subnet = `{"id": "sub-%[1]d", "network_id": "net-%[1]d", "name": "example-%[1]d", "description": ` +
		`"[owner=11111111-2222-3333-4444-555555555555/aaaaaaaa-bbbb-cccc-dddd-%012[1]d]", "cidr": "192.168.0.0/16", ` +
		`"gateway_ip": "192.168.0.1", "allocation_pools": [{"start": "192.168.0.2", "end": "192.168.255.254"}], ` +
		`"enable_dhcp": true, "dns_nameservers": [], "host_routes": [], "revision_number": 0}`
	b.Run("networks", func(b *testing.B) {
		benchmarkDecode(b, "networks", network, func(w wireNetwork) error { _, err := w.observed(); return err })
	})
	b.Run("subnets", func(b *testing.B) {
		benchmarkDecode(b, "subnets", subnet, func(w wireSubnet) error { _, err := w.observed(); return err })
	})
}

// benchmarkDecode decodes a page of items of a form.
func benchmarkDecode[W any](b *testing.B, collection, form string, observe func(W) error) {
	b.Helper()
	var text bytes.Buffer
	fmt.Fprintf(&text, `{%q: [`, collection)
	for i := range pageSize {
		if i > 0 {
			text.WriteString(", ")
		}
		fmt.Fprintf(&text, form, i)
	}
	text.WriteString("]}")
	b.SetBytes(int64(text.Len()))
	b.ReportAllocs()
	for b.Loop() {
		var answer map[string]json.RawMessage
		if err := json.Unmarshal(text.Bytes(), &answer); err != nil {
			b.Fatal(err)
		}
		page, err := decodePage[W]("list", collection, answer)
		if err != nil || len(page) != pageSize {
			b.Fatal(len(page), err)
		}
		for _, w := range page {
			if err := observe(w); err != nil {
				b.Fatal(err)
			}
		}
	}
}
