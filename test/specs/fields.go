package specs

import (
	"slices"
	"strings"

	"pgregory.net/rapid"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// The tables of networkFields and portFields are where the tests learn of a field: each field of pkg/apis has a row, or
// TestEveryFieldHasARow names it. What the API's own markers say, such as the attribute in Neutron, is not repeated:
// docs/fields.md has it.

// field is a field of a spec, and all that tests have to know of it.
type field[S any] struct {
	// path is the field's, as docs/fields.md writes it after "spec.". A row for a whole object draws its fields.
	path string
	// part is where the field belongs. Parts are drawn in the order of the table: a field may depend on those before it.
	part part
	// draw draws the field, unset included. Fields that a rule of the CRD ties together are drawn by one row, and with is
	// the path of that row in the others; "new" is for what is only drawn with a new object.
	draw func(t *rapid.T, l Limits, spec *S)
	with string
	// ofCloud is whether the field names what a cloud has, so that none is drawn where Limits tell of none.
	ofCloud bool
	// may reports whether the API server takes an edit of the field; nil takes all. keep puts back what an edit must not
	// change, in a field that is drawn.
	may  func(was, is S) bool
	keep func(was S, is *S)
	// open is how the field of a Network is where a spec leaves it open; nil where Neutron has the same then, each time.
	open *Open
	// lives are what TestEveryField tries, for a field that becomes an attribute in Neutron.
	lives []Life
}

// Open is what Neutron has of a field that a Network's spec leaves open: what only the cloud can choose stays as it was
// last declared or set, and of what is taken back, what others set stays.
type Open struct {
	// Attribute is that of a network, or where OfRouter says so of the Network's own router.
	Attribute string
	OfRouter  bool
	// TakenBack is whether what a spec sets is taken back when it sets it no longer.
	TakenBack bool
	// Initially is what Neutron may have before anybody asks, beside what the cloud chooses.
	Initially []any
	// Declared is what Neutron has of a spec, as JSON is read, and lists of texts sorted; ok is false where the spec
	// leaves the field open.
	Declared func(spec cloudteamv1.NetworkSpec) (value any, ok bool)
}

// OpenFields are the fields of Networks that Neutron keeps, or others may set, where a spec leaves them open.
func OpenFields() (fields []Open) {
	for _, f := range networkFields() {
		if f.open != nil {
			fields = append(fields, *f.open)
		}
	}
	return fields
}

// declared gives what a pointer of a spec declares.
func declared[T any](value *T) (any, bool) {
	if value == nil {
		return nil, false
	}
	return *value, true
}

// ofRouterSpec is declared for a setting of the router.
func ofRouterSpec(setting func(*cloudteamv1.RouterSpec) *bool) func(cloudteamv1.NetworkSpec) (any, bool) {
	return func(s cloudteamv1.NetworkSpec) (any, bool) {
		if s.Router == nil {
			return nil, false
		}
		return declared(setting(s.Router))
	}
}

// declaredText is declared for a text, of which one word says that there is to be none.
func declaredText(text, noneWord string, none any) (any, bool) {
	switch text {
	case "":
		return nil, false
	case noneWord:
		return none, true
	default:
		return text, true
	}
}

// declaredSet is declared for a list whose order is nothing.
func declaredSet(list []string) (any, bool) {
	return slices.Sorted(slices.Values(list)), list != nil
}

// part is a group of fields that are drawn together.
type part int

const (
	// What is drawn with a new object alone.
	_ part = iota
	// ofSubnet are settings of each subnet.
	ofSubnet
	// ofNetwork are settings of the network itself, or of the port.
	ofNetwork
	// ofAdministrator are those that take an administrator's credentials.
	ofAdministrator
	// ofPolicy are those that no field in Neutron represents.
	ofPolicy
	// ofRouter is the router as a whole.
	ofRouter
	// ofOwnRouter are settings of a router that is the Network's own.
	ofOwnRouter
)

// drawnIn are the rows of some parts that draw something.
func drawnIn[S any](table []field[S], parts ...part) []field[S] {
	return slices.DeleteFunc(slices.Clone(table), func(f field[S]) bool {
		return f.draw == nil || !slices.Contains(parts, f.part)
	})
}

// mayBecome reports whether the API server takes an edit.
func mayBecome[S any](table []field[S], was, is S) bool {
	return !slices.ContainsFunc(table, func(f field[S]) bool { return f.may != nil && !f.may(was, is) })
}

// keepFixed puts back what of an edit the API server would refuse: what came to fields that cannot be added later, or
// changed. What is only drawn with a new object is as it was.
func keepFixed[S any](table []field[S], was S, is *S) {
	for _, f := range table {
		if f.keep != nil && !f.may(was, *is) {
			f.keep(was, is)
		}
	}
}

// Trial is an object with the fields that TestEveryField takes through its life.
type Trial struct {
	// Name is the end of the object's, and what Tried.Other calls it by. Kind is that of pkg/apis.
	Name, Kind string
	// Cloud is the one of clouds.yaml whose credentials the controller has meanwhile.
	Cloud string
	Rows  []Row
}

// Row is a field in a trial.
type Row struct {
	// Field is the field's path, as docs/fields.md writes it.
	Field string
	Life
}

// Trials are those of TestEveryField, with the rows of the tables. They are deleted last to first: a NetworkPort comes
// after its Network.
func Trials() []Trial {
	trials := []Trial{
		{Name: "plain", Kind: "Network", Cloud: "tenant"},
		{Name: "ipv6", Kind: "Network", Cloud: "tenant"},
		{Name: "pooled", Kind: "Network", Cloud: "tenant"},
		{Name: "provided", Kind: "Network", Cloud: "admin"},
		{Name: "routed", Kind: "Network", Cloud: "admin"},
		{Name: "port", Kind: "NetworkPort", Cloud: "admin"},
		{Name: "group", Kind: "SecurityGroup", Cloud: "tenant"},
		{Name: "reachable", Kind: "Network", Cloud: "admin"},
		{Name: "open", Kind: "NetworkPort", Cloud: "admin"},
		{Name: "first", Kind: "NetworkPort", Cloud: "admin"},
		{Name: "second", Kind: "NetworkPort", Cloud: "admin"},
		{Name: "floating", Kind: "FloatingIP", Cloud: "admin"},
	}
	for i := range trials {
		of := &trials[i]
		of.Rows = slices.Concat(rowsOf(networkFields(), of.Name), rowsOf(portFields(Place{}), of.Name),
			rowsOf(groupFields(""), of.Name), rowsOf(floatingFields(), of.Name))
	}
	return trials
}

func rowsOf[S any](table []field[S], trial string) (rows []Row) {
	for _, f := range table {
		for _, life := range f.lives {
			if life.Trial == trial {
				rows = append(rows, Row{Field: "spec." + f.path, Life: life})
			}
		}
	}
	return rows
}

// Life is how TestEveryField takes a field from the spec to Neutron and back. To write one:
//
//   - Choose a trial whose cloud may set the field (an administrator's fields are for "admin") and whose other rows go
//     with it in one spec. What goes with none of them gets its own trial.
//   - Write what the spec says at first (Create), after an edit (Change) where the field can change, and what others
//     make of it in Neutron (Drift), which is another value than the last. Values are written as in JSON. One that is
//     only known later, such as an id, is a function (Late).
//   - Write what Neutron has once the spec sets the field no longer (Gone), in Neutron's form. A field that
//     docs/fields.md says stays needs none, and one that cannot be removed must have none. One whose object goes with
//     it names Needs.
//   - Where an empty value means something else than a field that is left out, write it (Empty), and what Neutron has
//     then (Emptied), where that is not Gone.
//   - Where Neutron shows the value in another form than the spec, say in which (Reads). Where docs/fields.md does not
//     name the very attribute that shows it, name that (Attribute), or say how to look for it (Sees) and how others
//     change it (Drifts).
//   - What others cannot change says why (Never). A life with Never and no Create is not tried at all.
//
// Fields of one element of a list have their own lives; the list has one element then.
type Life struct {
	// Trial is the name of the trial.
	Trial string
	// Create and Change are what the spec says, at first and after an edit.
	Create, Change any
	// Drift is what somebody else gives the attribute in Neutron. It is put back to Change or, without that, to Create.
	Drift any
	// Gone is what Neutron has once the spec sets the field no longer: isNil means null. Needs says why the field
	// nevertheless stays in the spec.
	Gone  any
	Needs string
	// Empty is the empty value that means something, and Emptied what Neutron has for it; nil means Gone.
	Empty, Emptied any
	// Never says why nobody else changes it, and without Create why it is not tried at all.
	Never string

	// Attribute is the one that shows the value, where that is not the one of docs/fields.md: a resource and a path in
	// its JSON, in which [] is the one element of a list.
	Attribute string
	// Reads gives how Neutron shows a declared value in an attribute; nil means the value itself.
	Reads func(o Tried, attribute string, declared any) any
	// Sees reads what Neutron has; nil means the attribute.
	Sees func(o Tried) any
	// Drifts changes it in Neutron, instead of Drift.
	Drifts func(o Tried)
	// Told is the name of the field in the Event about the correction; empty means the field's name.
	Told string
}

// Late is a value that is known once the objects have names and their surroundings are there.
type Late func(o Tried) any

// Tried is the object of a trial, with its surroundings. What has to be in Neutron for it is made when it is first
// asked for.
type Tried interface {
	// Called is the object's name, Namespace its namespace, and Marker what ends the descriptions of its resources.
	Called() string
	Namespace() string
	Marker() string
	// Other is the object of another trial of the same cloud.
	Other(trial string) Tried
	// ID is that of one of the object's resources: "network", "subnet", "router", "port", "security_group" or
	// "floatingip".
	ID(of string) string
	// VLAN is one of this attempt's VLAN IDs, from 0.
	VLAN(n int) int
	// SubnetPool is a pool of IPv4, and Outside an external network with a subnet of the cidr.
	SubnetPool() (id, name string)
	Outside(cidr string) (id, name string)
	// QoSPolicy is the id of a QoS policy of that name.
	QoSPolicy(name string) string
	// SecurityGroups is a list of a cloud's default security group.
	SecurityGroups(cloud string) any

	// CIDRs are those of the network's subnets; CIDR is the first subnet's.
	CIDRs() []string
	CIDR() string
	RemoveSubnet(cidr string)
	// Shares are the projects with which the network is shared.
	Shares() []string
	Unshare(project string)
	// Tag adds a tag to the network.
	Tag(tag string)
}

// Why nobody else changes a field.
const (
	fixedWhenMade = "Neutron fixes it when it makes the resource"
	fixedWhileOn  = "Neutron fixes it as long as the router is on: lifeOfANetwork has one switched off"
	fixedByFloat  = "Neutron fixes it as long as floating IPs use the router"
)

// isNil is a value of Gone and Emptied that is null in Neutron.
var isNil = Late(func(Tried) any { return nil })

// made is a life of a field that Neutron fixes when it makes the resource.
func made(trial string, create any) Life {
	return Life{Trial: trial, Create: create, Never: fixedWhenMade}
}

// as is a life whose value Neutron shows in another form.
func (l Life) as(reads func(o Tried, attribute string, declared any) any) Life {
	l.Reads = reads
	return l
}

// How Neutron shows what specs say.

func readCIDR(_ Tried, attribute string, declared any) any {
	switch {
	case attribute != "subnet.ip_version":
		return strings.ToLower(declared.(string))
	case strings.Contains(declared.(string), ":"):
		return 6
	default:
		return 4
	}
}

func readGateway(_ Tried, _ string, declared any) any {
	if declared == cloudteamv1.GatewayNone {
		return nil
	}
	return declared
}

func readDescription(o Tried, _ string, declared any) any { return withMarker(declared.(string))(o) }

func readAdminState(_ Tried, _ string, declared any) any { return declared == "Up" }

func readLower(_ Tried, _ string, declared any) any { return strings.ToLower(declared.(string)) }

func readSorted(_ Tried, _ string, declared any) any {
	return slices.Sorted(slices.Values(declared.([]string)))
}

func readAddresses(o Tried, _ string, declared any) any { return fixedIPs(declared.([]string)...)(o) }

// readNetwork reads the name of a Network, which is that of a trial.
func readNetwork(trial string) func(o Tried, attribute string, declared any) any {
	return func(o Tried, _ string, _ any) any { return o.Other(trial).ID("network") }
}

func readOutside(o Tried, _ string, declared any) any {
	for _, cidr := range []string{"203.0.113.0/24", "198.51.100.0/24", beyond} {
		if id, name := o.Outside(cidr); declared == name {
			return id
		}
	}
	return declared
}

func readPool(o Tried, attribute string, _ any) any {
	if attribute == "subnet.ip_version" {
		return 4
	}
	id, _ := o.SubnetPool()
	return id
}

// Further subnets of a network. All of them are of IPv6, and the first is not.

func subnetsOf(cidrs ...string) []map[string]any {
	subnets := make([]map[string]any, len(cidrs))
	for i, cidr := range cidrs {
		subnets[i] = map[string]any{"cidr": cidr}
	}
	return subnets
}

func readCIDRs(_ Tried, _ string, declared any) any {
	var cidrs []string
	for _, subnet := range declared.([]map[string]any) {
		cidrs = append(cidrs, subnet["cidr"].(string))
	}
	return cidrs
}

func seeIPv6Subnets(o Tried) any {
	return slices.DeleteFunc(o.CIDRs(), func(cidr string) bool { return !strings.Contains(cidr, ":") })
}

// Values that are known late.

func withMarker(text string) Late {
	return func(o Tried) any { return text + " " + o.Marker() }
}

func vlan(n int) Late { return func(o Tried) any { return o.VLAN(n) } }

// fixedIPs are addresses of a port. Their subnet is named, without which Neutron 21 fails where the MAC changes, too.
func fixedIPs(addresses ...string) Late {
	return func(o Tried) any {
		var all []map[string]any
		for _, address := range addresses {
			all = append(all, map[string]any{"ip_address": address, "subnet_id": o.Other("routed").ID("subnet")})
		}
		return all
	}
}

func qosPolicy(name string) Late { return func(o Tried) any { return o.QoSPolicy(name) } }

func outsideName(cidr string) Late {
	return func(o Tried) any {
		_, name := o.Outside(cidr)
		return name
	}
}

func outsideID(cidr string) Late {
	return func(o Tried) any {
		id, _ := o.Outside(cidr)
		return id
	}
}

func groupsOf(cloud string) Late { return func(o Tried) any { return o.SecurityGroups(cloud) } }
