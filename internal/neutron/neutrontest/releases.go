package neutrontest

import (
	"fmt"
	"slices"
	"strconv"
)

// Release is a version of Neutron that the emulator can answer as, by its first number.
type Release int

// The releases that were run. Of those between two of them nothing is known.
const (
	Neutron21 Release = 21 // Zed, 2022
	Neutron26 Release = 26 // 2025.1
	Neutron29 Release = 29 // 2026.2
)

// Releases are all of them, the oldest first.
var Releases = []Release{Neutron21, Neutron26, Neutron29}

// ParseRelease reads a release as users write it.
func ParseRelease(text string) (Release, error) {
	n, err := strconv.Atoi(text)
	if err != nil || !slices.Contains(Releases, Release(n)) {
		return 0, fmt.Errorf("%q is none of the releases %v", text, Releases)
	}
	return Release(n), nil
}

// Fact is an answer that changed between two releases. The emulator and the contract suite ask the facts below, and
// never for a release: each fact says in one place since when it holds. The suite holds them against real releases.
type Fact struct {
	// Since is the first release that answers so.
	Since Release
	// Changed says what is otherwise than before.
	Changed string
}

// In reports whether a release answers so. None does as the zero Fact says.
func (f Fact) In(r Release) bool { return f.Since != 0 && r >= f.Since }

// since reports whether the cloud answers so.
func (s *Server) since(f Fact) bool { return f.In(s.options.Release) }

// tenantWord is how some refusals call a project.
func (s *Server) tenantWord() string {
	if s.since(RefusalsSayProject) {
		return "project"
	}
	return "tenant"
}

// What a revision counts.
var (
	IdleUpdatesKeepRevision = Fact{26,
		"An update to what is there already moves no revision, if it has no description beside another attribute. Subnet " +
			"pools, floating IPs and the descriptions of subnets still move theirs."}
	SubnetListsKeepRevision = Fact{26,
		"DNS servers, host routes and pools of a subnet move no revision. They moved its own and its network's."}
	SubnetDescriptionKeepsNetwork = Fact{26,
		"A subnet's description moves its own revision alone, not its network's."}
	PortRevisionIsInItsAnswer = Fact{26,
		"No update of a port moves its revision after the answer was made. One of a description did."}
	OwnAddressMovesPortOnce = Fact{26,
		"A new subnet that gives a port an address moves the port's revision once, not twice."}
	BindingMovesPortThrice = Fact{26,
		"A host that is set moves the port's revision by three, not by one."}
	GatewayMovesRouterLess = Fact{26,
		"A gateway moves its router's revision by one when it comes, and by two when it goes. It was more."}
	InterfaceMovesPortOnce = Fact{26,
		"A port that becomes a router's interface moves once, not twice, and one that is made for it not at all."}
	SubportsKeepRevision = Fact{26,
		"Subports that come and go leave the revision of their trunk."}
)

// Who may do what.
var (
	TagsOfOthersAre403 = Fact{26,
		"Tags of what is another project's: 403. They were 404, and could be written where the project sees the rest."}
	TagsOfGoneAre500 = Fact{26,
		"Tags of what is gone: 500 HTTPInternalServerError, not 404 TagResourceNotFound."}
	RulesOfOthersAre403 = Fact{26,
		"A rule in another project's security group: 403 PolicyNotAuthorized, not 404 SecurityGroupNotFound."}
	SubnetsNeedTheirNetworksOwner = Fact{26,
		"A subnet on a network that is only shared with the project: 403, not 201."}
	HiddenNetworksRefuseSubnets = Fact{29,
		"A subnet on another project's network: 403, not 404. On one that is gone it is 404."}
	ExternalSubnetsAreSeen = Fact{26,
		"All projects see the subnets of external networks, and each subnet tells router:external."}
	ExternalPortsArePolicy = Fact{29,
		"A port on an external network: 403 PolicyNotAuthorized, not 403 HTTPForbidden."}
	MachinesPortsStay = Fact{29,
		"Only administrators and services delete ports of the owners compute:, baremetal: and manila:."}
	SharedPoliciesNeedField = Fact{26,
		"QoS policies of others that are shared are only seen in requests for the field shared, or for no fields."}
)

// What subnets are made of.
var (
	PoolsAreConverted = Fact{26,
		"Allocation pools may be null, for the default ones. What is no list of objects: InvalidInput, not HTTPBadRequest."}
	NullModesAreNone = Fact{29,
		"IPv6 modes may be null."}
	ShortCIDRsAreRefused = Fact{26,
		"A CIDR that is cut short, such as 20/8: 400, not 201."}
	EmptyIPv6IsRefused = Fact{26,
		"IPv6 subnets whose network is :: are refused, and ::/0 with other words."}
	RoutesHaveOtherWords = Fact{26,
		"A host route whose destination is an address, or has host bits: 400 with other words."}
	GatewaysHaveOtherWords = Fact{26,
		"A default gateway that is the broadcast address, of a /31: 409 with other words."}
	HostRoutesAreSorted = Fact{26,
		"Host routes come back sorted. They were in the order given, and after an update in none."}
	PooledSubnetsMayLackGateway = Fact{26,
		"A subnet from a pool may have no gateway. The word null gave it the first address."}
	PooledSubnetsAreChecked = Fact{26,
		"A subnet from a pool is checked as others are, such as the version of its DNS servers."}
)

// What ports, floating IPs, routers and trunks are.
var (
	GatewayMissesFirstSubnet = Fact{26,
		"A router whose gateway is older than the first subnet of its external network gets no IPv4 address there."}
	SLAACPortsGoInBulk = Fact{26,
		"Ports in bulk on a network with a SLAAC subnet: 201, not 500."}
	RefusedBulksLeakNothing = Fact{26,
		"Ports in bulk that are refused leave no address behind. Some did."}
	FloatingIPsKeepTheirPort = Fact{26,
		"Other addresses for a port with a floating IP: 400. The floating IP stayed with the old address."}
	MACsHaveOneForm = Fact{29,
		"MAC addresses come back in lower case, with colons, not as they were written."}
	SubportsTellMACs = Fact{29,
		"Subports in a port's trunk_details have mac_address in lists, too."}
	InterfacesTellProject = Fact{29,
		"The answers to adding and removing a router's interface have project_id, not tenant_id."}
	SecondIPv6PortHasOtherWords = Fact{26,
		"A second IPv6 interface of one network on a router: 400 with other words."}
)

// What else there is, and other words.
var (
	RulesTellDefaultGroup = Fact{26,
		"Security group rules tell belongs_to_default_sg."}
	QuotasSayProject = Fact{26,
		"A quota that is not there: 404 that says project, not tenant."}
	RoutesHaveQuota = Fact{29,
		"There is a quota router_route."}
	ShareTargetsAreUUIDs = Fact{29,
		"An RBAC policy for what is not like a UUID: 400, not 201."}
	AvailabilityHasDetails = Fact{29,
		"network-ip-availabilities have ip_availability_details."}
	RefusalsSayProject = Fact{29,
		"Refusals about another project, a pool's quota and sharing say project, not tenant."}
)
