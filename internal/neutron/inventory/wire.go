package inventory

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// The types in this file are resources in Neutron's JSON. Fields that a request must be able to omit are pointers.

func (w wireNetwork) Key() string { return w.ID }
func (w wireSubnet) Key() string  { return w.ID }
func (w wirePort) Key() string    { return w.ID }

// described is a resource with a description, which may contain its owner's marker.
type described interface {
	client.Identified
	described() string
}

func (w wireNetwork) described() string { return w.Description }
func (w wirePort) described() string    { return w.Description }

type wireNetwork struct {
	ID           string `json:"id"`
	Name         string `json:"name"`
	Description  string `json:"description"`
	AdminStateUp bool   `json:"admin_state_up"`
	MTU          int    `json:"mtu"`
	PortSecurity *bool  `json:"port_security_enabled"`
	Revision     int    `json:"revision_number"`
	Created      string `json:"created_at"`
	// Subnets are the ids of all its subnets.
	Subnets   []string `json:"subnets"`
	DNSDomain *string  `json:"dns_domain"`
	Tags      []string `json:"tags"`
	QoSPolicy *string  `json:"qos_policy_id"`
	Shared    *bool    `json:"shared"`
	External  *bool    `json:"router:external"`
	ZoneHints []string `json:"availability_zone_hints"`
	// Only administrators see these, by Neutron's default policy.
	NetworkType     string  `json:"provider:network_type"`
	PhysicalNetwork *string `json:"provider:physical_network"`
	SegmentationID  *int64  `json:"provider:segmentation_id"`
}

// networkFields are the fields that a list requests: those of wireNetwork.
var networkFields = []string{
	"id", "name", "description", "admin_state_up", "mtu", "port_security_enabled", "revision_number", "created_at",
	"subnets", "dns_domain", "tags", "qos_policy_id", "shared", "router:external", "availability_zone_hints",
	"provider:network_type", "provider:physical_network", "provider:segmentation_id",
}

func (w wireNetwork) observed() (plan.ObservedNetwork, error) {
	if w.ID == "" {
		return plan.ObservedNetwork{}, fmt.Errorf("a network has no id")
	}
	created, err := time.Parse(time.RFC3339, w.Created)
	if err != nil {
		return plan.ObservedNetwork{}, fmt.Errorf("network %s: created_at is no time", w.ID)
	}
	return plan.ObservedNetwork{
		ID:       w.ID,
		Revision: w.Revision,
		Created:  created,
		Attributes: plan.Attributes{
			Name:         w.Name,
			Description:  w.Description,
			AdminStateUp: w.AdminStateUp,
			MTU:          w.MTU,
			PortSecurity: w.PortSecurity,
			DNSDomain:    w.DNSDomain,
			Tags:         slices.Sorted(slices.Values(w.Tags)),
			QoSPolicy:    w.QoSPolicy,
			Shared:       w.Shared,
			External:     w.External,
			Provider:     w.provider(),
			ZoneHints:    slices.Sorted(slices.Values(w.ZoneHints)),
		},
	}, nil
}

func (w wireNetwork) provider() plan.Provider {
	p := plan.Provider{NetworkType: w.NetworkType}
	if w.PhysicalNetwork != nil {
		p.PhysicalNetwork = *w.PhysicalNetwork
	}
	if w.SegmentationID != nil {
		p.SegmentationID = *w.SegmentationID
	}
	return p
}

type wireSubnet struct {
	ID          string      `json:"id"`
	NetworkID   string      `json:"network_id"`
	Name        string      `json:"name"`
	Description string      `json:"description"`
	CIDR        string      `json:"cidr"`
	Gateway     *string     `json:"gateway_ip"`
	Pools       []wirePool  `json:"allocation_pools"`
	DHCP        bool        `json:"enable_dhcp"`
	DNSServers  []string    `json:"dns_nameservers"`
	HostRoutes  []wireRoute `json:"host_routes"`
	AddressMode string      `json:"ipv6_address_mode"`
	RAMode      string      `json:"ipv6_ra_mode"`
	PoolID      string      `json:"subnetpool_id"`
	// ServiceTypes and DNSPublish are missing if the cloud lacks their extensions.
	ServiceTypes []string `json:"service_types"`
	DNSPublish   bool     `json:"dns_publish_fixed_ip"`
	Revision     int      `json:"revision_number"`
	Created      string   `json:"created_at"`
}

// subnetFields are the fields that a list requests: those of wireSubnet.
var subnetFields = []string{
	"id", "network_id", "name", "description", "cidr", "gateway_ip", "allocation_pools", "enable_dhcp",
	"dns_nameservers", "host_routes", "ipv6_address_mode", "ipv6_ra_mode", "subnetpool_id", "service_types",
	"dns_publish_fixed_ip", "revision_number", "created_at",
}

type wirePool struct {
	Start string `json:"start"`
	End   string `json:"end"`
}

type wireRoute struct {
	Destination string `json:"destination"`
	NextHop     string `json:"nexthop"`
}

func (w wireSubnet) observed() (plan.ObservedSubnet, error) {
	fail := func(field string) (plan.ObservedSubnet, error) {
		return plan.ObservedSubnet{}, fmt.Errorf("subnet %q: %s is no address of a known form", w.ID, field)
	}
	if w.ID == "" || w.NetworkID == "" {
		return plan.ObservedSubnet{}, fmt.Errorf("a subnet has no id or no network_id")
	}
	s := plan.ObservedSubnet{
		ID: w.ID, Revision: w.Revision, Name: w.Name, Description: w.Description, PoolID: w.PoolID,
		Subnet: plan.Subnet{
			DHCP: w.DHCP, IPv6AddressMode: plan.IPv6Mode(w.AddressMode), IPv6RAMode: plan.IPv6Mode(w.RAMode),
			ServiceTypes: w.ServiceTypes, DNSPublishFixedIP: w.DNSPublish,
		},
	}
	var err error
	// Only subnets from a pool need the time, to find the older of two.
	if w.PoolID != "" {
		if s.Created, err = time.Parse(time.RFC3339, w.Created); err != nil {
			return plan.ObservedSubnet{}, fmt.Errorf("subnet %s: created_at is no time", w.ID)
		}
	}
	if s.CIDR, err = netip.ParsePrefix(w.CIDR); err != nil {
		return fail("cidr")
	}
	if w.Gateway != nil && *w.Gateway != "" {
		if s.Gateway, err = netip.ParseAddr(*w.Gateway); err != nil {
			return fail("gateway_ip")
		}
	}
	for _, pool := range w.Pools {
		start, errStart := netip.ParseAddr(pool.Start)
		end, errEnd := netip.ParseAddr(pool.End)
		if errStart != nil || errEnd != nil {
			return fail("allocation_pools")
		}
		s.Pools = append(s.Pools, plan.Range{Start: start, End: end})
	}
	for _, server := range w.DNSServers {
		addr, err := netip.ParseAddr(server)
		if err != nil {
			return fail("dns_nameservers")
		}
		s.DNSServers = append(s.DNSServers, addr)
	}
	if s.HostRoutes, err = routesOf(w.HostRoutes); err != nil {
		return fail("host_routes")
	}
	s.Subnet = s.Canonical()
	return s, nil
}

type wirePort struct {
	ID             string        `json:"id"`
	NetworkID      string        `json:"network_id"`
	Name           string        `json:"name"`
	Description    string        `json:"description"`
	AdminStateUp   bool          `json:"admin_state_up"`
	FixedIPs       []wireFixedIP `json:"fixed_ips"`
	MAC            string        `json:"mac_address"`
	SecurityGroups []string      `json:"security_groups"`
	DeviceOwner    string        `json:"device_owner"`
	DeviceID       string        `json:"device_id"`
	Revision       int           `json:"revision_number"`
	Created        string        `json:"created_at"`
}

// portFields are the fields that a list requests: those of wirePort.
var portFields = []string{
	"id", "network_id", "name", "description", "admin_state_up", "fixed_ips", "mac_address", "security_groups",
	"device_owner", "device_id", "revision_number", "created_at",
}

type wireFixedIP struct {
	SubnetID string `json:"subnet_id,omitempty"`
	// Address is omitted from a request if Neutron chooses it.
	Address string `json:"ip_address,omitempty"`
}

func (w wirePort) observed() (plan.ObservedPort, error) {
	if w.ID == "" || w.NetworkID == "" {
		return plan.ObservedPort{}, fmt.Errorf("a port has no id or no network_id")
	}
	created, err := time.Parse(time.RFC3339, w.Created)
	if err != nil {
		return plan.ObservedPort{}, fmt.Errorf("port %s: created_at is no time", w.ID)
	}
	p := plan.ObservedPort{
		ID:        w.ID,
		Revision:  w.Revision,
		Created:   created,
		NetworkID: w.NetworkID,
		Router:    w.routerOf(),
		PortAttributes: plan.PortAttributes{
			Name:           w.Name,
			Description:    w.Description,
			AdminStateUp:   w.AdminStateUp,
			MAC:            canonicalMAC(w.MAC),
			SecurityGroups: slices.Sorted(slices.Values(w.SecurityGroups)),
		},
	}
	for _, fixed := range w.FixedIPs {
		addr, err := netip.ParseAddr(fixed.Address)
		if err != nil {
			return plan.ObservedPort{}, fmt.Errorf("port %s: fixed_ips is no address of a known form", w.ID)
		}
		p.Addresses = append(p.Addresses, plan.PortAddress{SubnetID: fixed.SubnetID, Address: addr})
	}
	slices.SortFunc(p.Addresses, func(a, b plan.PortAddress) int {
		return cmp.Or(a.Address.Compare(b.Address), cmp.Compare(a.SubnetID, b.SubnetID))
	})
	return p, nil
}

// canonicalMAC returns a MAC address in lower case, with colons. Neutron keeps the form that it received (measured). A
// MAC in an unusual form still equals only itself.
func canonicalMAC(text string) string {
	if mac, err := net.ParseMAC(text); err == nil {
		return mac.String()
	}
	return strings.ToLower(text)
}

// wireAvailability is an item of /network-ip-availabilities. The total number of addresses follows from the subnet
// (plan.Subnet.Addresses). Used is a JSON number of any size.
type wireAvailability struct {
	Subnets []struct {
		ID   string      `json:"subnet_id"`
		Used json.Number `json:"used_ips"`
	} `json:"subnet_ip_availability"`
}

// count converts a number of any size to int64. Larger numbers become math.MaxInt64, invalid and negative ones nil.
func count(n json.Number) *int64 {
	whole, ok := new(big.Int).SetString(n.String(), 10)
	if !ok || whole.Sign() < 0 {
		return nil
	}
	value := int64(math.MaxInt64)
	if whole.IsInt64() {
		value = whole.Int64()
	}
	return &value
}

// setterOf returns a function that sets a field in a request's body: always for a create (all), else if the step
// changes the field.
func setterOf(body map[string]any, step plan.Step, all bool) func(field, key string, value any) {
	return func(field, key string, value any) {
		if all || step.Changes(field) {
			body[key] = value
		}
	}
}

// networkBody is the body of a create (all fields) or of an update (the fields that the step changes).
func networkBody(step plan.Step, all bool) map[string]any {
	a := step.Attributes
	body := map[string]any{}
	set := setterOf(body, step, all)
	set(plan.FieldName, "name", a.Name)
	set(plan.FieldDescription, "description", a.Description)
	set(plan.FieldAdminState, "admin_state_up", a.AdminStateUp)
	if a.MTU != 0 {
		set(plan.FieldMTU, "mtu", a.MTU)
	}
	if a.PortSecurity != nil {
		set(plan.FieldPortSecurity, "port_security_enabled", *a.PortSecurity)
	}
	// A cloud without DNS refuses the field, and a new network has no domain.
	if a.DNSDomain != nil && (!all || *a.DNSDomain != "") {
		set(plan.FieldDNSDomain, "dns_domain", *a.DNSDomain)
	}
	if a.QoSPolicy != nil && *a.QoSPolicy != "" {
		set(plan.FieldQoSPolicy, "qos_policy_id", *a.QoSPolicy)
	} else if a.QoSPolicy != nil && !all { // a cloud without QoS refuses the field; a new network normally has none
		set(plan.FieldQoSPolicy, "qos_policy_id", nil)
	}
	// By default a new network is neither, and a policy may forbid even to send false.
	if a.Shared != nil && (!all || *a.Shared) {
		set(plan.FieldShared, "shared", *a.Shared)
	}
	if a.External != nil && (!all || *a.External) {
		set(plan.FieldExternal, "router:external", *a.External)
	}
	if a.Provider.NetworkType != "" {
		set(plan.FieldNetworkType, "provider:network_type", a.Provider.NetworkType)
	}
	if a.Provider.PhysicalNetwork != "" {
		set(plan.FieldPhysicalNetwork, "provider:physical_network", a.Provider.PhysicalNetwork)
	}
	if a.Provider.SegmentationID != 0 {
		set(plan.FieldSegmentationID, "provider:segmentation_id", a.Provider.SegmentationID)
	}
	if len(a.ZoneHints) > 0 {
		set(plan.FieldZoneHints, "availability_zone_hints", a.ZoneHints)
	}
	return body
}

// subnetBody is the body of a create (all fields) or of an update (the fields that the step changes).
func subnetBody(step plan.Step, all bool) map[string]any {
	s := step.Subnet
	body := map[string]any{}
	if all {
		body["network_id"] = step.NetworkRef.ID
		body["ip_version"] = s.IPVersion()
		if s.Pending() {
			body["subnetpool_id"] = s.From.Pool.ID
			if s.From.PrefixLength != 0 {
				body["prefixlen"] = s.From.PrefixLength
			}
		} else {
			body["cidr"] = s.CIDR.String()
		}
		if s.IPv6AddressMode != "" {
			body["ipv6_address_mode"] = string(s.IPv6AddressMode)
		}
		if s.IPv6RAMode != "" {
			body["ipv6_ra_mode"] = string(s.IPv6RAMode)
		}
	}
	set := setterOf(body, step, all)
	set(plan.FieldName, "name", step.SubnetName)
	set(plan.FieldDescription, "description", step.SubnetDescription)
	set(plan.FieldDHCP, "enable_dhcp", s.DHCP)
	if !s.Pending() { // otherwise Neutron derives them from the CIDR that it allocates
		var gateway any // null: no gateway
		if s.Gateway.IsValid() {
			gateway = s.Gateway.String()
		}
		set(plan.FieldGateway, "gateway_ip", gateway)
		pools := []wirePool{}
		for _, pool := range s.Pools {
			pools = append(pools, wirePool{pool.Start.String(), pool.End.String()})
		}
		set(plan.FieldAllocationPools, "allocation_pools", pools)
	}
	servers := []string{}
	for _, server := range s.DNSServers {
		servers = append(servers, server.String())
	}
	set(plan.FieldDNSServers, "dns_nameservers", servers)
	set(plan.FieldHostRoutes, "host_routes", routesBody(s.HostRoutes))
	// By default a new subnet serves all ports and is not published. A cloud without these extensions refuses the fields.
	if !all || len(s.ServiceTypes) > 0 {
		set(plan.FieldServiceTypes, "service_types", append([]string{}, s.ServiceTypes...))
	}
	if !all || s.DNSPublishFixedIP {
		set(plan.FieldDNSPublishFixedIP, "dns_publish_fixed_ip", s.DNSPublishFixedIP)
	}
	return body
}

// portBody is the body of a create (all fields) or of an update (the fields that the step changes). It omits what the
// cloud chooses.
func portBody(step plan.Step, all bool) map[string]any {
	p := step.Port
	body := map[string]any{}
	if all {
		body["network_id"] = step.NetworkRef.ID
		body["device_owner"] = plan.PortDeviceOwner
	}
	set := setterOf(body, step, all)
	set(plan.FieldName, "name", p.Name)
	set(plan.FieldDescription, "description", p.Description)
	if !all && p.Name != "" && step.Changes(plan.FieldDescription) {
		// Neutron keeps a description outside the port's own database row. An update that does not touch that row moves the
		// revision once more after the answer. An update with the name, even unchanged, does not (measured; the contract
		// suite checks both).
		body["name"] = p.Name
	}
	set(plan.FieldAdminState, "admin_state_up", p.AdminStateUp)
	addresses := []wireFixedIP{}
	for _, a := range p.Addresses {
		fixed := wireFixedIP{SubnetID: a.SubnetID}
		if a.Address.IsValid() {
			fixed.Address = a.Address.String()
		}
		addresses = append(addresses, fixed)
	}
	set(plan.FieldAddresses, "fixed_ips", addresses)
	if p.MAC != "" {
		set(plan.FieldMAC, "mac_address", p.MAC)
	}
	if p.SecurityGroups != nil {
		set(plan.FieldSecurityGroups, "security_groups", p.SecurityGroups)
	}
	return body
}
