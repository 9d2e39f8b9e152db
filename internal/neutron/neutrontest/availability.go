package neutrontest

import (
	"math/big"
	"net/http"
	"slices"
	"strconv"
)

// subnetAvailability and networkAvailability say how many addresses there are and how many are taken. An IPv6 network
// has more than fit into 64 bits.
type subnetAvailability struct {
	SubnetID  string   `json:"subnet_id"`
	IPVersion int      `json:"ip_version"`
	CIDR      string   `json:"cidr"`
	Name      string   `json:"subnet_name"`
	UsedIPs   int      `json:"used_ips"`
	TotalIPs  *big.Int `json:"total_ips"`

	Details *availabilityDetails `json:"ip_availability_details,omitempty"`
}

// availabilityDetails tell what is in the pools apart from what is beside them.
type availabilityDetails struct {
	TotalInPools  *big.Int `json:"total_ips_in_allocation_pool"`
	TotalInSubnet *big.Int `json:"total_ips_in_subnet"`
	UsedInPools   int      `json:"used_ips_in_allocation_pool"`
	UsedInSubnet  int      `json:"used_ips_in_subnet"`
}

func newAvailabilityDetails() availabilityDetails {
	return availabilityDetails{TotalInPools: new(big.Int), TotalInSubnet: new(big.Int)}
}

// add counts what a subnet has in.
func (d *availabilityDetails) add(of *availabilityDetails) {
	d.TotalInPools.Add(d.TotalInPools, of.TotalInPools)
	d.TotalInSubnet.Add(d.TotalInSubnet, of.TotalInSubnet)
	d.UsedInPools += of.UsedInPools
	d.UsedInSubnet += of.UsedInSubnet
}

// details counts a subnet's addresses.
func (sub *subnet) details() *availabilityDetails {
	d := newAvailabilityDetails()
	for _, pool := range sub.pools {
		d.TotalInPools.Add(d.TotalInPools, pool.size())
	}
	d.TotalInSubnet.Lsh(big.NewInt(1), uint(sub.prefix.Addr().BitLen()-sub.prefix.Bits()))
	if sub.version == 4 {
		d.TotalInSubnet.Sub(d.TotalInSubnet, big.NewInt(2)) // the network's own and the broadcast address
	}
	for address := range sub.taken {
		d.UsedInSubnet++
		if slices.ContainsFunc(sub.pools, func(pool addressRange) bool { return pool.contains(address) }) {
			d.UsedInPools++
		}
	}
	return &d
}

type networkAvailability struct {
	standard
	network *network
	subnets []subnetAvailability
	used    int
	total   *big.Int
	details availabilityDetails
}

func availabilitySchema() *schema[*networkAvailability] {
	s := &schema[*networkAvailability]{
		singular: "network_ip_availability", plural: "network_ip_availabilities", notFound: networkNotFound,
		seenBy: func(v *view, _ *networkAvailability) bool { return v.caller.admin },
	}
	s.attributes = []attribute[*networkAvailability]{
		{name: "network_id", access: visible | filterable | sortable,
			get: func(_ *view, a *networkAvailability) any { return a.network.id }},
		{name: "network_name", access: visible | filterable,
			get: func(_ *view, a *networkAvailability) any { return a.network.name }},
		{name: "tenant_id", access: visible | filterable,
			get: func(_ *view, a *networkAvailability) any { return a.network.project }},
		{name: "total_ips", access: visible, get: func(_ *view, a *networkAvailability) any { return a.total }},
		{name: "used_ips", access: visible, get: func(_ *view, a *networkAvailability) any { return a.used }},
		{name: "subnet_ip_availability", access: visible,
			get: func(_ *view, a *networkAvailability) any { return a.subnets }},
		{name: "ip_availability_details", access: visible, get: func(v *view, a *networkAvailability) any {
			if !v.server.since(AvailabilityHasDetails) {
				return omitted{}
			}
			return a.details
		}},
		{name: "ip_version", access: filterable,
			match: func(*view, *networkAvailability, []string) bool { return true }},
		{name: "id", get: func(_ *view, a *networkAvailability) any { return a.network.id }},
	}
	return s.init()
}

// availability counts the addresses of a network, those of the wanted IP versions; all versions if none is named.
func (s *Server) availability(n *network, versions []string) *networkAvailability {
	a := &networkAvailability{network: n, subnets: []subnetAvailability{}, total: new(big.Int),
		details: newAvailabilityDetails()}
	a.id = n.id
	for _, sub := range s.subnets.with("network_id", n.id) {
		if len(versions) > 0 && !slices.Contains(versions, strconv.Itoa(sub.version)) {
			continue
		}
		total := sub.total()
		of := subnetAvailability{
			SubnetID: sub.id, IPVersion: sub.version, CIDR: sub.prefix.String(), Name: sub.name,
			UsedIPs: len(sub.taken), TotalIPs: total,
		}
		if s.since(AvailabilityHasDetails) {
			of.Details = sub.details()
			a.details.add(of.Details)
		}
		a.subnets = append(a.subnets, of)
		a.used += len(sub.taken)
		a.total.Add(a.total, total)
	}
	return a
}

// serveAvailabilities answers what is below /v2.0/network-ip-availabilities. A tenant may ask, but sees nothing.
func (s *Server) serveAvailabilities(req *request, path []string) *apiError {
	if req.Method != http.MethodGet || len(path) > 1 {
		return hidden()
	}
	schema := availabilitySchema()
	q, err := schema.parse(req.URL.RawQuery)
	if err != nil {
		return err
	}
	v := &view{caller: req.caller, server: s}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if len(path) == 1 {
		n, ok := s.networks.byID[path[0]]
		switch {
		case !ok:
			return networkNotFound(path[0])
		case !req.caller.admin:
			return hidden()
		}
		buf := append([]byte("{"), `"`+schema.singular+`": `...)
		writeBody(req.w, http.StatusOK, append(schema.render(buf, v, s.availability(n, nil), q.fields), '}'))
		return nil
	}
	filters := make(map[string][]string)
	for from, to := range map[string]string{"network_id": "id", "network_name": "name", "project_id": "project_id",
		"tenant_id": "project_id"} {
		if values, ok := q.filters[from]; ok {
			filters[to] = values
		}
	}
	// The page is cut by this collection's own rules: a marker that names no network gives an empty page.
	all := []*networkAvailability{}
	for n := range inOrder(s.networks.candidates(filters), "", false) {
		a := &networkAvailability{network: n}
		if schema.passes(v, a, q.filters) {
			all = append(all, a)
		}
	}
	page := cut(all, q)
	for i, a := range page {
		page[i] = s.availability(a.network, q.filters["ip_version"])
	}
	if len(q.filters["ip_version"]) > 0 {
		page = slices.DeleteFunc(page, func(a *networkAvailability) bool { return len(a.subnets) == 0 })
	}
	req.call.Items = len(page)
	buf := append([]byte("{"), `"`+schema.plural+`": [`...)
	var first, last string
	for i, a := range page {
		if i == 0 {
			first = a.network.id
		} else {
			buf = append(buf, ", "...)
		}
		last = a.network.id
		buf = schema.render(buf, v, a, q.fields)
	}
	buf = append(buf, ']')
	if links := q.links(s.base(req.Request)+req.URL.EscapedPath(), first, last, len(page)); len(links) > 0 {
		buf = append(buf, `, "`+schema.plural+`_links": `...)
		buf = appendJSON(buf, links)
	}
	writeBody(req.w, http.StatusOK, append(buf, '}'))
	return nil
}

// cut takes a page out of a list.
func cut(all []*networkAvailability, q *listQuery) []*networkAvailability {
	if q.limit == 0 {
		return all
	}
	i := 0
	if q.backward {
		i = len(all)
	}
	if q.marker != "" {
		i = slices.IndexFunc(all, func(a *networkAvailability) bool { return a.network.id == q.marker })
		if i < 0 {
			return nil
		}
		if !q.backward {
			i++
		}
	}
	if q.backward {
		return all[max(i-q.limit, 0):i]
	}
	return all[i:min(i+q.limit, len(all))]
}
