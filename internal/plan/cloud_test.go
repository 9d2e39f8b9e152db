package plan

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"
	"unicode/utf8"
)

// cloud is as much of Neutron as a plan can meet, without the network in between. Its rules are those of Neutron 21.0:
// neutron.db.db_base_plugin_v2 and neutron.db.ipam_backend_mixin for subnets and ports, the revisions service plugin for
// revision numbers.
type cloud struct {
	networks []ObservedNetwork
	ports    []ObservedPort
	routers  []ObservedRouter
	serial   int
	// interfaces are the ports, by id, that were made to be routers' interfaces.
	interfaces map[string]bool
}

// cloudMTU is what a network has where none is asked for.
const cloudMTU = 1450

// All networks are vlans of one physical network, as what cannot change must not differ from spec to spec. cloudVLAN is
// the one that a network has where none is asked for.
const cloudVLAN = 100

var cloudProvider = Provider{NetworkType: "vlan", PhysicalNetwork: "physnet1", SegmentationID: cloudVLAN}

// cloudEpoch is when the first network was made.
var cloudEpoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// errMoved is Neutron's 412: the resource's revision is not the one that the step names.
var errMoved = errors.New("RevisionNumberConstraintFailed")

func (c *cloud) clone() *cloud {
	all := c.everything()
	return &cloud{
		networks: all.Networks, ports: all.Ports, routers: all.Routers, serial: c.serial,
		interfaces: maps.Clone(c.interfaces),
	}
}

// everything is the whole project, whoever's it is, in a copy that shares nothing with the cloud.
func (c *cloud) everything() Observed {
	return cloneObserved(Observed{Networks: c.networks, Ports: c.ports, Routers: c.routers})
}

// observe gives what bears the owner's marker, in a copy that shares nothing with the cloud.
func (c *cloud) observe(owner Owner) Observed {
	var observed Observed
	for _, n := range c.networks {
		if owner.Owns(n.Description) {
			observed.Networks = append(observed.Networks, n)
		}
	}
	for _, p := range c.ports {
		if owner.Owns(p.Description) {
			observed.Ports = append(observed.Ports, p)
		}
	}
	for _, r := range c.routers {
		if owner.Owns(r.Description) {
			observed.Routers = append(observed.Routers, r)
		}
	}
	return cloneObserved(observed)
}

func (c *cloud) id(kind string) string {
	c.serial++
	return fmt.Sprintf("%s-%04d", kind, c.serial)
}

// find gives the network of an id, or nil.
func (c *cloud) find(id string) *ObservedNetwork {
	for i := range c.networks {
		if c.networks[i].ID == id {
			return &c.networks[i]
		}
	}
	return nil
}

// findSubnet gives the subnet of an id and its network, or nil.
func (c *cloud) findSubnet(id string) (*ObservedNetwork, *ObservedSubnet) {
	for i := range c.networks {
		for j := range c.networks[i].Subnets {
			if c.networks[i].Subnets[j].ID == id {
				return &c.networks[i], &c.networks[i].Subnets[j]
			}
		}
	}
	return nil, nil
}

// findPort gives the port of an id, or nil.
func (c *cloud) findPort(id string) *ObservedPort {
	for i := range c.ports {
		if c.ports[i].ID == id {
			return &c.ports[i]
		}
	}
	return nil
}

// apply takes the steps until one fails, and says which.
func (c *cloud) apply(change Change) error {
	_, err := c.takeAll(change)
	return err
}

// takeAll is apply that returns the steps that were taken.
func (c *cloud) takeAll(change Change) (taken Change, err error) {
	revisions := map[string]int{} // of the routers that the steps have moved, as Inventory.Apply knows them
	for i, step := range change {
		step = step.Resolve(taken)
		if revision, moved := revisions[step.ID]; moved {
			step.Revision = revision
		}
		id, err := c.take(step)
		if err != nil {
			return taken, fmt.Errorf("step %d, %s: %w", i, step, err)
		}
		step.ID = id
		taken = append(taken, step)
		for _, router := range []string{step.ID, step.RouterRef.ID} {
			if found := c.findRouter(router); found != nil {
				revisions[router] = found.Revision
			}
		}
	}
	return taken, nil
}

func (c *cloud) take(step Step) (id string, err error) {
	if step.Reason == "" || len(step.Differences) == 0 {
		return "", errors.New("a step without a reason or without differences")
	}
	switch step.Action {
	case CreateNetwork:
		return c.createNetwork(step)
	case UpdateNetwork:
		return step.ID, c.updateNetwork(step)
	case TagNetwork:
		n := c.find(step.ID)
		if n == nil {
			return "", fmt.Errorf("no network %q", step.ID)
		}
		n.Tags = slices.Clone(step.Attributes.Tags)
		n.Revision++
		return step.ID, nil
	case ShareNetwork, UnshareNetwork:
		return c.takeShare(step)
	case DeleteNetwork:
		n := c.find(step.ID)
		if n == nil {
			return "", fmt.Errorf("no network %q", step.ID)
		}
		if n.Revision != step.Revision {
			return "", errMoved
		}
		if slices.ContainsFunc(c.ports, func(p ObservedPort) bool { return p.NetworkID == step.ID }) {
			return "", errors.New("NetworkInUse")
		}
		c.networks = slices.DeleteFunc(c.networks, func(n ObservedNetwork) bool { return n.ID == step.ID })
		return step.ID, nil
	case CreateSubnet:
		return c.createSubnet(step)
	case UpdateSubnet:
		return step.ID, c.updateSubnet(step)
	case DeleteSubnet:
		n, s := c.findSubnet(step.ID)
		if s == nil || n.ID != step.NetworkRef.ID {
			return "", fmt.Errorf("network %q has no subnet %q", step.NetworkRef.ID, step.ID)
		}
		if s.Revision != step.Revision {
			return "", errMoved
		}
		if c.addressed(step.ID, netip.Addr{}) {
			return "", errors.New("SubnetInUse")
		}
		n.Revision++
		n.Subnets = slices.DeleteFunc(n.Subnets, func(s ObservedSubnet) bool { return s.ID == step.ID })
		return step.ID, nil
	case CreatePort:
		return c.createPort(step)
	case UpdatePort:
		return step.ID, c.updatePort(step)
	case DeletePort:
		p := c.findPort(step.ID)
		if p == nil {
			return "", fmt.Errorf("no port %q", step.ID)
		}
		if p.Revision != step.Revision {
			return "", errMoved
		}
		c.ports = slices.DeleteFunc(c.ports, func(p ObservedPort) bool { return p.ID == step.ID })
		return step.ID, nil
	}
	return c.takeRouter(step)
}

func checkTexts(name, description string) error {
	if utf8.RuneCountInString(name) > 255 || utf8.RuneCountInString(description) > 255 {
		return errors.New("a text is longer than 255 characters")
	}
	return nil
}

func (c *cloud) createNetwork(step Step) (string, error) {
	if step.ID != "" || step.Revision != 0 {
		return "", errors.New("a create names what exists")
	}
	n := ObservedNetwork{ID: c.id("net"), Attributes: step.Attributes}
	n.Created = cloudEpoch.Add(time.Duration(c.serial) * time.Second)
	if n.MTU == 0 {
		n.MTU = cloudMTU
	}
	if n.PortSecurity == nil {
		n.PortSecurity = new(true)
	} else {
		n.PortSecurity = new(*n.PortSecurity)
	}
	if n.DNSDomain == nil {
		n.DNSDomain = new("")
	}
	if n.QoSPolicy == nil {
		n.QoSPolicy = new("")
	}
	if n.Shared == nil {
		n.Shared = new(false)
	}
	if n.External == nil {
		n.External = new(false)
	}
	if n.Provider.SegmentationID == 0 {
		n.Provider.SegmentationID = cloudVLAN
	}
	n.Provider.NetworkType, n.Provider.PhysicalNetwork = cloudProvider.NetworkType, cloudProvider.PhysicalNetwork
	n.Tags = nil
	if err := checkTexts(n.Name, n.Description); err != nil {
		return "", err
	}
	c.networks = append(c.networks, n)
	return n.ID, nil
}

func (c *cloud) updateNetwork(step Step) error {
	n := c.find(step.ID)
	if n == nil {
		return fmt.Errorf("no network %q", step.ID)
	}
	if n.Revision != step.Revision {
		return errMoved
	}
	for _, d := range step.Differences {
		switch d.Field {
		case FieldName:
			n.Name = step.Attributes.Name
		case FieldDescription:
			n.Description = step.Attributes.Description
		case FieldAdminState:
			n.AdminStateUp = step.Attributes.AdminStateUp
		case FieldMTU:
			n.MTU = step.Attributes.MTU
		case FieldPortSecurity:
			n.PortSecurity = new(*step.Attributes.PortSecurity)
		case FieldDNSDomain:
			n.DNSDomain = new(*step.Attributes.DNSDomain)
		case FieldQoSPolicy:
			n.QoSPolicy = new(*step.Attributes.QoSPolicy)
		case FieldShared:
			n.Shared = new(*step.Attributes.Shared)
		case FieldExternal:
			n.External = new(*step.Attributes.External)
		case FieldSegmentationID:
			n.Provider.SegmentationID = step.Attributes.Provider.SegmentationID
		default:
			return fmt.Errorf("a network has no field %q", d.Field)
		}
	}
	n.Revision++
	return checkTexts(n.Name, n.Description)
}

func (c *cloud) createSubnet(step Step) (string, error) {
	n := c.find(step.NetworkRef.ID)
	if n == nil {
		return "", fmt.Errorf("no network %q", step.NetworkRef.ID)
	}
	if step.ID != "" || step.Revision != 0 {
		return "", errors.New("a create names what exists")
	}
	s := ObservedSubnet{
		ID: c.id("sub"), Name: step.SubnetName, Description: step.SubnetDescription, Subnet: cloneSubnet(step.Subnet),
	}
	if s.From != nil {
		if s.CIDR.IsValid() || s.Gateway.IsValid() || s.Pools != nil {
			return "", errors.New("a create says what is to come from a pool")
		}
		c.allocate(*n, &s)
	}
	for _, other := range n.Subnets {
		if s.CIDR.Overlaps(other.CIDR) {
			return "", fmt.Errorf("%s overlaps subnet %s (%s)", s.CIDR, other.ID, other.CIDR)
		}
	}
	if err := checkSubnet(s, false); err != nil {
		return "", err
	}
	n.Revision++
	n.Subnets = append(n.Subnets, s)
	return s.ID, nil
}

func (c *cloud) updateSubnet(step Step) error {
	n, s := c.findSubnet(step.ID)
	if s == nil || n.ID != step.NetworkRef.ID {
		return fmt.Errorf("network %q has no subnet %q", step.NetworkRef.ID, step.ID)
	}
	if s.Revision != step.Revision {
		return errMoved
	}
	served := s.DHCP
	want := cloneSubnet(step.Subnet)
	// Neutron bumps the network for the subnet's own columns, and not for what lies in tables of their own.
	for _, d := range step.Differences {
		switch d.Field {
		case FieldName:
			s.Name = step.SubnetName
			n.Revision++
		case FieldDescription:
			s.Description = step.SubnetDescription
			n.Revision++
		case FieldGateway:
			if s.Gateway.IsValid() && c.addressed(s.ID, s.Gateway) {
				return errors.New("GatewayIpInUse")
			}
			s.Gateway = want.Gateway
			n.Revision++
		case FieldDHCP:
			s.DHCP = want.DHCP
			n.Revision++
		case FieldAllocationPools:
			s.Pools = want.Pools
		case FieldDNSServers:
			s.DNSServers = want.DNSServers
		case FieldHostRoutes:
			s.HostRoutes = want.HostRoutes
		case FieldServiceTypes:
			s.ServiceTypes = want.ServiceTypes
		case FieldDNSPublishFixedIP:
			s.DNSPublishFixedIP = want.DNSPublishFixedIP
		default:
			return fmt.Errorf("a subnet has no field %q that can change", d.Field)
		}
	}
	s.Revision++
	return checkSubnet(*s, served)
}

// checkSubnet is what Neutron checks of a subnet as it would be after a request. served says whether DHCP was on
// before.
func checkSubnet(s ObservedSubnet, served bool) error {
	if err := checkTexts(s.Name, s.Description); err != nil {
		return err
	}
	cidr, v4 := s.CIDR, s.CIDR.Addr().Is4()
	last := netip.PrefixFrom(lastAddr(cidr), cidr.Bits())
	if cidr != cidr.Masked() || cidr.Bits() == 0 {
		return fmt.Errorf("%s is no CIDR", cidr)
	}
	if s.DHCP && !served {
		if cidr.Addr().BitLen()-cidr.Bits() < 2 {
			return fmt.Errorf("%s is too small for DHCP", cidr)
		}
		for _, special := range []string{"224.0.0.0/4", "ff00::/8", "127.0.0.0/8"} {
			if p := netip.MustParsePrefix(special); p.Overlaps(cidr) && p.Bits() <= cidr.Bits() {
				return fmt.Errorf("no DHCP on %s", cidr)
			}
		}
		if cidr.Addr() == netip.IPv4Unspecified() {
			return fmt.Errorf("no DHCP on %s", cidr)
		}
	}
	if g := s.Gateway; g.IsValid() {
		if g.Is4() != v4 || v4 && (g == cidr.Addr() || g == last.Addr()) {
			return fmt.Errorf("%s is no gateway of %s", g, cidr)
		}
	}
	if address, ra := s.IPv6AddressMode, s.IPv6RAMode; address != "" || ra != "" {
		if v4 || !s.DHCP || address != "" && ra != "" && address != ra {
			return fmt.Errorf("the modes %q and %q do not fit", address, ra)
		}
		if makesOwn(s.Subnet) && cidr.Bits() != 64 {
			return fmt.Errorf("no addresses of hosts' own in %s", cidr)
		}
	}
	for i, p := range s.Pools {
		if !cidr.Contains(p.Start) || !cidr.Contains(p.End) || p.End.Less(p.Start) || p.Start == cidr.Addr() ||
			v4 && p.End == last.Addr() {
			return fmt.Errorf("pool %s is no range of %s", p, cidr)
		}
		if s.Gateway.IsValid() && !s.Gateway.Less(p.Start) && !p.End.Less(s.Gateway) {
			return fmt.Errorf("gateway %s lies in pool %s", s.Gateway, p)
		}
		for _, other := range s.Pools[:i] {
			if !p.End.Less(other.Start) && !other.End.Less(p.Start) {
				return fmt.Errorf("pools %s and %s overlap", p, other)
			}
		}
	}
	for i, server := range s.DNSServers {
		if server.Is4() != v4 || slices.Contains(s.DNSServers[:i], server) {
			return fmt.Errorf("name server %s is of the other family or stands twice", server)
		}
	}
	for i, owner := range s.ServiceTypes {
		if slices.Contains(s.ServiceTypes[:i], owner) {
			return fmt.Errorf("service type %s stands twice", owner)
		}
	}
	for i, r := range s.HostRoutes {
		if r.Destination.Addr().Is4() != v4 || r.NextHop.Is4() != v4 || r.Destination != r.Destination.Masked() ||
			slices.Contains(s.HostRoutes[:i], r) {
			return fmt.Errorf("route %s is of the other family, has host bits or stands twice", r)
		}
	}
	return nil
}

// makesOwn reports whether ports make their addresses themselves, those that are routers' interfaces excepted.
func makesOwn(s Subnet) bool {
	own := []IPv6Mode{"slaac", "dhcpv6-stateless"}
	return slices.Contains(own, s.IPv6AddressMode) || slices.Contains(own, s.IPv6RAMode)
}

// ownAddress is the one that a port makes itself: the last two groups are the port's.
func ownAddress(s Subnet, mac string) netip.Addr {
	bytes := s.CIDR.Addr().As16()
	var m [6]int
	_, _ = fmt.Sscanf(mac, "%x:%x:%x:%x:%x:%x", &m[0], &m[1], &m[2], &m[3], &m[4], &m[5])
	for i, at := range []int{8, 9, 10, 13, 14, 15} {
		bytes[at] = byte(m[i])
	}
	bytes[8], bytes[11], bytes[12] = bytes[8]^2, 0xff, 0xfe
	return netip.AddrFrom16(bytes)
}

// markInterface notes that a port is made to be a router's interface.
func (c *cloud) markInterface(id string) {
	if c.interfaces == nil {
		c.interfaces = map[string]bool{}
	}
	c.interfaces[id] = true
}

// isInterface reports whether a port is a router's interface, or was made to be one.
func (c *cloud) isInterface(p *ObservedPort) bool { return p.Router != "" || c.interfaces[p.ID] }

// addOwn gives the port the addresses that it makes itself, which it has whatever is asked for.
func (c *cloud) addOwn(p *ObservedPort) {
	if c.isInterface(p) {
		return
	}
	for _, s := range c.find(p.NetworkID).Subnets {
		if makesOwn(s.Subnet) {
			p.Addresses = slices.DeleteFunc(slices.Clone(p.Addresses), func(a PortAddress) bool { return a.SubnetID == s.ID })
			p.Addresses = append(p.Addresses, PortAddress{s.ID, ownAddress(s.Subnet, p.MAC)})
		}
	}
}

// defaultGroup is the security group of a port that asks for none.
const defaultGroup = "sg-default"

func (c *cloud) createPort(step Step) (string, error) {
	if step.ID != "" || step.Revision != 0 {
		return "", errors.New("a create names what exists")
	}
	p := clonePort(ObservedPort{ID: c.id("port"), NetworkID: step.NetworkRef.ID, PortAttributes: step.Port})
	p.Created = cloudEpoch.Add(time.Duration(c.serial) * time.Second)
	if p.MAC == "" {
		p.MAC = c.mac()
	}
	if p.SecurityGroups == nil {
		p.SecurityGroups = []string{defaultGroup}
	}
	if step.Action == CreateInterface {
		c.markInterface(p.ID)
	}
	if err := c.settlePort(&p, nil); err != nil {
		return "", err
	}
	c.ports = append(c.ports, p)
	return p.ID, nil
}

// mac is one that Neutron chooses.
func (c *cloud) mac() string {
	c.serial++
	return fmt.Sprintf("fa:16:3e:ff:%02x:%02x", c.serial>>8, c.serial&0xff)
}

func (c *cloud) updatePort(step Step) error {
	p := c.findPort(step.ID)
	if p == nil || p.NetworkID != step.NetworkRef.ID {
		return fmt.Errorf("network %q has no port %q", step.NetworkRef.ID, step.ID)
	}
	if p.Revision != step.Revision {
		return errMoved
	}
	changed, want := clonePort(*p), clonePort(ObservedPort{PortAttributes: step.Port})
	for _, d := range step.Differences {
		switch d.Field {
		case FieldName:
			changed.Name = want.Name
		case FieldDescription:
			changed.Description = want.Description
		case FieldAdminState:
			changed.AdminStateUp = want.AdminStateUp
		case FieldAddresses:
			changed.Addresses = want.Addresses
		case FieldMAC:
			changed.MAC = want.MAC
		case FieldSecurityGroups:
			changed.SecurityGroups = asSet(want.SecurityGroups)
		default:
			return fmt.Errorf("a port has no field %q that can change", d.Field)
		}
	}
	changed.Revision++
	if err := c.settlePort(&changed, p.Addresses); err != nil {
		return err
	}
	*p = changed
	return nil
}

// settlePort gives the port the addresses that it leaves to Neutron, and checks what Neutron checks of a port as it
// would be after a request. had are the addresses that it has before.
func (c *cloud) settlePort(p *ObservedPort, had []PortAddress) error {
	if err := checkTexts(p.Name, p.Description); err != nil {
		return err
	}
	n := c.find(p.NetworkID)
	if n == nil {
		return fmt.Errorf("no network %q", p.NetworkID)
	}
	taken := map[netip.Addr]bool{}
	for _, other := range c.ports {
		if other.ID == p.ID || other.NetworkID != p.NetworkID {
			continue
		}
		if other.MAC == p.MAC {
			return fmt.Errorf("MacAddressInUse: %s", p.MAC)
		}
		for _, a := range other.Addresses {
			taken[a.Address] = true
		}
	}
	use := func(a netip.Addr) error {
		if taken[a] {
			return fmt.Errorf("IpAddressAlreadyAllocated: %s", a)
		}
		taken[a] = true
		return nil
	}
	defer c.addOwn(p)
	p.Addresses = slices.DeleteFunc(p.Addresses, func(a PortAddress) bool {
		_, s := c.findSubnet(a.SubnetID)
		return s != nil && makesOwn(s.Subnet) && !c.isInterface(p) && (!a.Address.IsValid() || slices.Contains(had, a))
	})
	for _, a := range p.Addresses {
		if !a.Address.IsValid() {
			continue
		}
		on, s := c.findSubnet(a.SubnetID)
		if s == nil || on.ID != n.ID {
			return fmt.Errorf("network %q has no subnet %q", n.ID, a.SubnetID)
		}
		kept := len(s.ServiceTypes) > 0 && !slices.Contains(s.ServiceTypes, "network:router_interface")
		if c.isInterface(p) && kept && !slices.Contains(had, a) {
			return fmt.Errorf("fixed_ips included invalid subnet %s", s.ID)
		}
		if makesOwn(s.Subnet) && !c.isInterface(p) {
			return fmt.Errorf("AllocationOnAutoAddressSubnet: %s", a.Address)
		}
		if first, last := usable(s.CIDR); !(Range{first, last}).contains(a.Address) {
			return fmt.Errorf("InvalidIpForSubnet: %s of %s", a.Address, s.CIDR)
		}
		if err := use(a.Address); err != nil {
			return err
		}
	}
	for i, a := range p.Addresses {
		if a.Address.IsValid() {
			continue
		}
		on, s := c.findSubnet(a.SubnetID)
		if s == nil || on.ID != n.ID {
			return fmt.Errorf("network %q has no subnet %q", n.ID, a.SubnetID)
		}
		free, last := usable(s.CIDR)
		for taken[free] || free == s.Gateway {
			free = free.Next()
		}
		if last.Less(free) {
			return fmt.Errorf("IpAddressGenerationFailure: %s", s.CIDR)
		}
		taken[free] = true
		p.Addresses[i].Address = free
	}
	return nil
}

func clonePort(p ObservedPort) ObservedPort {
	p.Addresses = slices.Clone(p.Addresses)
	p.SecurityGroups = slices.Clone(p.SecurityGroups)
	return p
}

func clonePortSpec(spec PortSpec) PortSpec {
	spec.Addresses = slices.Clone(spec.Addresses)
	spec.SecurityGroups = slices.Clone(spec.SecurityGroups)
	return spec
}

func cloneSubnet(s Subnet) Subnet {
	s.Pools = slices.Clone(s.Pools)
	s.DNSServers = slices.Clone(s.DNSServers)
	s.HostRoutes = slices.Clone(s.HostRoutes)
	s.ServiceTypes = slices.Clone(s.ServiceTypes)
	s.From = clonePointer(s.From)
	return s
}

// keepUnset gives what the spec leaves as it is the values that it had.
func (a *Attributes) keepUnset(spec Spec, had Attributes) {
	if spec.MTU == 0 {
		a.MTU = had.MTU
	}
	if spec.PortSecurity == nil {
		a.PortSecurity = had.PortSecurity
	}
	if spec.DNSDomain == nil {
		a.DNSDomain = had.DNSDomain
	}
	if spec.QoSPolicy == nil {
		a.QoSPolicy = had.QoSPolicy
	}
	if spec.Shared == nil {
		a.Shared = had.Shared
	}
	if spec.External == nil {
		a.External = had.External
	}
	if spec.Provider.SegmentationID == 0 {
		a.Provider.SegmentationID = had.Provider.SegmentationID
	}
	a.Provider.NetworkType, a.Provider.PhysicalNetwork = had.Provider.NetworkType, had.Provider.PhysicalNetwork
	if spec.Tags == nil {
		a.Tags = slices.Sorted(slices.Values(had.Tags))
	}
}

func cloneSpec(spec Spec) Spec {
	a := cloneAttributes(spec.Attributes())
	spec.PortSecurity, spec.DNSDomain, spec.Tags, spec.Shared, spec.External = a.PortSecurity, a.DNSDomain, a.Tags, a.Shared, a.External
	spec.ZoneHints, spec.QoSPolicy, spec.SharedWith = a.ZoneHints, a.QoSPolicy, slices.Clone(spec.SharedWith)
	spec.Subnets = slices.Clone(spec.Subnets)
	for i, s := range spec.Subnets {
		spec.Subnets[i] = cloneSubnet(s)
	}
	if spec.Router != nil {
		spec.Router = new(*spec.Router)
		spec.Router.Routes = slices.Clone(spec.Router.Routes)
		spec.Router.HA, spec.Router.Distributed = clonePointer(spec.Router.HA), clonePointer(spec.Router.Distributed)
	}
	return spec
}

func cloneAttributes(a Attributes) Attributes {
	a.PortSecurity, a.DNSDomain = clonePointer(a.PortSecurity), clonePointer(a.DNSDomain)
	a.Shared, a.External, a.QoSPolicy = clonePointer(a.Shared), clonePointer(a.External), clonePointer(a.QoSPolicy)
	a.Tags, a.ZoneHints = slices.Clone(a.Tags), slices.Clone(a.ZoneHints)
	return a
}

func clonePointer[T any](p *T) *T {
	if p == nil {
		return nil
	}
	return new(*p)
}

func cloneObserved(o Observed) Observed {
	o.Networks = slices.Clone(o.Networks)
	for i := range o.Networks {
		n := &o.Networks[i]
		n.Attributes = cloneAttributes(n.Attributes)
		n.Subnets, n.Shares = slices.Clone(n.Subnets), slices.Clone(n.Shares)
		for j := range n.Subnets {
			n.Subnets[j].Subnet = cloneSubnet(n.Subnets[j].Subnet)
		}
	}
	o.Ports = slices.Clone(o.Ports)
	for i, p := range o.Ports {
		o.Ports[i] = clonePort(p)
	}
	o.Routers = slices.Clone(o.Routers)
	for i, r := range o.Routers {
		o.Routers[i] = cloneRouter(r)
	}
	return o
}
