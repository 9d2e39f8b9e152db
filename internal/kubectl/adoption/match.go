package adoption

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"cloudteam.ztgame.com/network-controller/internal/declare"
	"cloudteam.ztgame.com/network-controller/internal/kinds"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/osc"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// Request is what a user asks for.
type Request struct {
	// From is the UID of the cluster that is gone, Own that of the cluster of the objects.
	From, Own string
	// Project is the project of the survey.
	Project string
	// Chosen has the Networks to adopt for, by namespace/name, each with the id of its network in Neutron or none. It is
	// empty for all Networks.
	Chosen map[string]string
	// Objects are all Networks, NetworkPorts and FloatingIPs.
	Objects []kinds.Object
}

// Adoption is what one object gets.
type Adoption struct {
	Object ask.Object `json:"object"`
	// Takes are the resources to mark, in order. None means that the object has all it can get.
	Takes []Taken `json:"takes,omitempty"`
	// Problem says why nothing is done for the object.
	Problem string `json:"problem,omitempty"`

	owner plan.Owner
}

// Taken is a resource that an object gets.
type Taken struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
	// Says describes the resource, in words of its owner.
	Says string `json:"says"`

	of resource
}

func taken(r resource) Taken {
	says := fmt.Sprintf("%q", r.Name)
	switch {
	case r.kind.One == subnet.One:
		says = r.CIDR
	case r.kind.One == floatingIP.One:
		says = r.Address
	case r.kind.One == port.One && r.isInterface():
		says = "a router's interface"
	case r.kind.One == port.One:
		for _, ip := range r.FixedIPs {
			says += " " + ip.Address
		}
	}
	return Taken{Kind: r.kind.One, ID: r.ID, Says: says, of: r}
}

// Result is what an adoption does.
type Result struct {
	From    string     `json:"from"`
	Objects []Adoption `json:"objects"`
	// Left are resources of the cluster that no object gets.
	Left []Taken `json:"left,omitempty"`
}

// Writes counts the markers to write.
func (r *Result) Writes() (writes int) {
	for _, o := range r.Objects {
		writes += len(o.Takes)
	}
	return writes
}

// Problems reports whether an object has a problem.
func (r *Result) Problems() bool {
	return slices.ContainsFunc(r.Objects, func(a Adoption) bool { return a.Problem != "" })
}

// Match decides what each object gets. It reads nothing and writes nothing.
//
// The marker of a resource has only UIDs, and those of the old objects are gone. So a network is found by its name in
// Neutron and by spec.cidr, by spec.import, or by the user's choice. Where this fits several, none is given. All
// that bears the old object's marker comes with its network: subnets, its own router, interfaces. A floating IP is
// found by its port, or by the id or address that a FloatingIP names.
func (s *Survey) Match(q Request) *Result {
	m := matcher{
		Survey: s, Request: q, networks: ask.Known[*cloudteamv1.Network](q.Objects),
		ports: ask.Known[*cloudteamv1.NetworkPort](q.Objects), floating: ask.Known[*cloudteamv1.FloatingIP](q.Objects),
		networkOf: map[types.NamespacedName]string{}, portOf: map[types.NamespacedName]heldPort{},
		ofPort: map[string]string{},
	}
	result := &Result{From: q.From}
	add := func(a Adoption, concerned bool) {
		if concerned {
			result.Objects = append(result.Objects, a)
		}
	}
	for _, n := range m.networks {
		if len(q.Chosen) == 0 || m.isChosen(n) {
			add(m.network(n))
		}
	}
	for _, p := range m.ports {
		add(m.port(p))
	}
	for _, f := range m.floating {
		add(m.floatingIP(f))
	}
	given := map[string]bool{}
	for _, o := range result.Objects {
		for _, t := range o.Takes {
			given[t.ID] = true
		}
	}
	for _, r := range s.where(func(r resource) bool { return r.owner.Cluster == q.From && !given[r.ID] }) {
		result.Left = append(result.Left, taken(r))
	}
	return result
}

// matcher is one Match.
type matcher struct {
	*Survey
	Request
	networks []*cloudteamv1.Network
	ports    []*cloudteamv1.NetworkPort
	floating []*cloudteamv1.FloatingIP
	// networkOf are the ids of the networks that Networks have or get, and portOf the ports of NetworkPorts.
	networkOf map[types.NamespacedName]string
	portOf    map[types.NamespacedName]heldPort
	// ofPort are the NetworkPorts that get floating IPs, by the ids of these.
	ofPort map[string]string
}

// owner is an object of this cluster.
func (m *matcher) owner(object types.UID) plan.Owner {
	return plan.Owner{Cluster: m.Own, Object: string(object)}
}

// old gives the resources of a kind that have a marker of the old cluster, and fit.
func (m *matcher) old(k kind, fits func(resource) bool) []resource {
	return m.where(func(r resource) bool { return r.kind.One == k.One && r.owner.Cluster == m.From && fits(r) })
}

// owned gives the resources of a kind that have the marker of an object of this cluster.
func (m *matcher) owned(k kind, by plan.Owner) []resource {
	return m.where(func(r resource) bool { return r.kind.One == k.One && r.owner == by })
}

// isChosen reports whether the user named a Network.
func (m *matcher) isChosen(n *cloudteamv1.Network) bool {
	_, chosen := m.Chosen[n.Namespace+"/"+n.Name]
	return chosen
}

// network decides what a Network gets. It is not concerned if nothing of the old cluster can be its own.
func (m *matcher) network(n *cloudteamv1.Network) (a Adoption, concerned bool) {
	a = Adoption{Object: ask.Of(n), owner: m.owner(n.UID)}
	problem := func(format string, args ...any) (Adoption, bool) {
		a.Problem = fmt.Sprintf(format, args...)
		return a, true
	}
	has, fit := m.owned(network, a.owner), m.candidates(n)
	if len(has) == 1 && len(m.parts(has[0])) > 0 {
		fit = nil // it was adopted, though not all of it
	}
	key := types.NamespacedName{Namespace: n.Namespace, Name: n.Name}
	switch {
	case len(has) == 0 && len(fit) == 0:
		if len(m.Chosen) == 0 {
			return a, false
		}
		return problem("No network of the old cluster fits: none has its name and spec.cidr. Name one: %s=NETWORK-ID.",
			key)
	case n.DeletionTimestamp != nil:
		return problem("It is being deleted.")
	case n.Observes() && n.Spec.Import != nil:
		return problem("It only observes its network (managementPolicy Observe), which needs no marker.")
	case len(has) == 1 && len(fit) > 0, len(has) > 1:
		return problem("It has network %s already, which this cluster created. Delete the Network, start the controller "+
			"with firstStart=Report, and apply it again.", has[0].ID)
	case len(has) == 1:
		fit = has
	case len(fit) > 1:
		return problem("Several networks of the old cluster fit: %s. Choose one: %s=NETWORK-ID.", ids(fit), key)
	case n.Status.ObservedGeneration == 0:
		return problem("The controller has not seen it. Start it with firstStart=Report.")
	case n.Status.Cloud == nil && (n.Spec.Cloud != nil || n.Status.Credentials != nil) && !m.isChosen(n):
		return problem("It has its own credentials, and their project is not known here. If it is this one, name it: "+
			"%s.", key)
	}
	if others := m.rivals(n, fit[0]); len(others) > 0 && m.Chosen[key.String()] == "" {
		return problem("Network %s fits %s, too. Choose: %s=%s.", fit[0].ID, strings.Join(others, ", "), key, fit[0].ID)
	}
	m.networkOf[key] = fit[0].ID
	a.Takes = m.parts(fit[0])
	return a, len(a.Takes) > 0
}

// candidates are the networks of the old cluster that can be a Network's.
func (m *matcher) candidates(n *cloudteamv1.Network) []resource {
	if n.Status.Cloud != nil && n.Status.Cloud.ProjectID != m.Project {
		return nil
	}
	return m.old(network, func(r resource) bool {
		switch chosen := m.Chosen[n.Namespace+"/"+n.Name]; {
		case chosen != "":
			return r.ID == chosen
		case n.Spec.Import != nil:
			return m.importsNetwork(n, r)
		}
		return r.Name == declare.NetworkName(n) && m.hasSubnet(r, n.Spec)
	})
}

// importsNetwork reports whether a network is what a Network imports. With overwrite, the import gave it the Network's
// name. Many networks may fit a filter, so one that was created does not count.
func (m *matcher) importsNetwork(n *cloudteamv1.Network, r resource) bool {
	if declare.ImportID(n) != "" {
		return imports(n, r)
	}
	fits := imports(n, r) || n.Spec.Import.Overwrite && r.Name == declare.NetworkName(n)
	return fits && r.owner.Imported(r.Description) && m.hasSubnet(r, n.Spec)
}

// hasSubnet reports whether a network has the subnet that a spec declares first.
func (m *matcher) hasSubnet(of resource, s cloudteamv1.NetworkSpec) bool {
	return len(m.where(func(r resource) bool {
		if r.kind.One != subnet.One || r.NetworkID != of.ID {
			return false
		}
		if s.CIDR == "" {
			return r.PoolID != ""
		}
		return same(netip.ParsePrefix, r.CIDR, s.CIDR)
	})) > 0
}

// rivals are the other Networks whose network it may be.
func (m *matcher) rivals(n *cloudteamv1.Network, of resource) (names []string) {
	for _, other := range m.networks {
		if chosen := m.Chosen[other.Namespace+"/"+other.Name]; other.UID == n.UID || chosen != "" && chosen != of.ID {
			continue
		}
		if slices.ContainsFunc(m.candidates(other), func(r resource) bool { return r.ID == of.ID }) {
			names = append(names, ask.Of(other).String())
		}
	}
	return names
}

// parts are the resources with the old marker that belong to a network, and the network itself.
func (m *matcher) parts(of resource) (all []Taken) {
	// What an interruption left has the old object's marker, where the network has the new one.
	was := of.owner
	for _, r := range m.where(func(r resource) bool {
		return r.owner.Cluster == m.From && r.NetworkID == of.ID && (r.kind.One == subnet.One || r.isInterface())
	}) {
		if was.Cluster != m.From {
			was = r.owner
		}
	}
	for _, r := range m.where(func(r resource) bool {
		return r.owner == was && r.owner.Cluster == m.From && (r.kind.One != network.One || r.ID == of.ID)
	}) {
		all = append(all, taken(r))
	}
	return all
}

// port decides what a NetworkPort gets. It is not concerned if its Network is not.
func (m *matcher) port(p *cloudteamv1.NetworkPort) (a Adoption, concerned bool) {
	a = Adoption{Object: ask.Of(p), owner: m.owner(p.UID)}
	on, known := m.networkOf[p.Network()]
	if !known || p.DeletionTimestamp != nil {
		return a, false
	}
	fit := m.old(port, func(r resource) bool {
		return r.NetworkID == on && !r.isInterface() && r.Name == p.Name &&
			(p.Spec.MAC == "" || strings.EqualFold(p.Spec.MAC, r.MAC)) && r.has(p.Spec.Addresses)
	})
	has := m.owned(port, a.owner)
	switch {
	case len(fit) == 0 && len(has) == 1: // It was adopted, though maybe not all of it.
		a.Takes = m.floatingIPs(p, has[0])
		return a, len(a.Takes) > 0
	case len(fit) == 0:
		return a, false
	case len(has) > 0:
		a.Problem = fmt.Sprintf("It has port %s already, which this cluster created.", has[0].ID)
	case len(fit) > 1:
		a.Problem = fmt.Sprintf("Several ports of the old cluster fit: %s. It gets none.", ids(fit))
	default:
		for _, other := range m.ports {
			if other.UID != p.UID && other.Name == p.Name && other.Network() == p.Network() {
				a.Problem = fmt.Sprintf("Port %s fits NetworkPort %s/%s, too. None gets it.",
					fit[0].ID, other.Namespace, other.Name)
				return a, true
			}
		}
		// The port comes first: a controller that runs when that is interrupted then finds it, and creates no other.
		a.Takes = append([]Taken{taken(fit[0])}, m.floatingIPs(p, fit[0])...)
	}
	return a, true
}

// floatingIPs are those that a NetworkPort asks for, and that lead to its port or have that one's marker. One that a
// FloatingIP asks for, too, is the port's only if it has the same marker as the port.
func (m *matcher) floatingIPs(p *cloudteamv1.NetworkPort, of resource) (all []Taken) {
	m.portOf[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}] = heldPort{p, of}
	for _, r := range m.old(floatingIP, func(r resource) bool {
		return m.asks(p, r) && (r.owner == of.owner || r.PortID == of.ID && len(m.asking(p, r))+len(m.naming(r)) == 0)
	}) {
		m.ofPort[r.ID] = ask.Of(p).String()
		all = append(all, taken(r))
	}
	return all
}

// heldPort is a NetworkPort with the port that it has or gets.
type heldPort struct {
	by *cloudteamv1.NetworkPort
	is resource
}

// asks reports whether a NetworkPort asks for a floating IP of the external network of one.
func (m *matcher) asks(p *cloudteamv1.NetworkPort, r resource) bool {
	return p.Spec.FloatingIP != nil && m.isOn(r, p.Spec.FloatingIP.ExternalNetwork)
}

// asking names the FloatingIPs that ask for one of the external network of a floating IP, for a NetworkPort.
func (m *matcher) asking(p *cloudteamv1.NetworkPort, r resource) (names []string) {
	for _, f := range m.floating {
		if f.Namespace == p.Namespace && f.Spec.PortName == p.Name && !namesOne(f) && m.isOn(r, f.Spec.ExternalNetwork) {
			names = append(names, ask.Of(f).String())
		}
	}
	return names
}

// namesOne reports whether a FloatingIP says which floating IP it means, by an id or an address.
func namesOne(f *cloudteamv1.FloatingIP) bool { return f.Spec.Import != nil || f.Spec.Address != "" }

// fits reports whether a FloatingIP that names one means this one.
func (m *matcher) fits(f *cloudteamv1.FloatingIP, r resource) bool {
	ofProject := f.Status.Cloud == nil || f.Status.Cloud.ProjectID == m.Project
	return namesOne(f) && !f.Observes() && f.DeletionTimestamp == nil && ofProject && m.isOn(r, f.Spec.ExternalNetwork) &&
		(f.Spec.Import == nil || imports(f, r)) &&
		(f.Spec.Address == "" || same(netip.ParseAddr, f.Spec.Address, r.Address))
}

// imports reports whether a resource fits what an object imports: by the id, or by the filter while that has found
// none.
func imports(obj metav1.Object, r resource) bool {
	if id := declare.ImportID(obj); id != "" {
		return r.ID == id
	}
	return declare.ImportFilter(obj).Fits(r.Name, r.Tags)
}

// elsewhere reports whether a floating IP is associated with a port that cannot be a FloatingIP's: that of another
// NetworkPort than it names, or one on no network of its namespace.
func (m *matcher) elsewhere(f *cloudteamv1.FloatingIP, r resource) bool {
	if r.PortID == "" {
		return false
	}
	for of, to := range m.portOf {
		if to.is.ID == r.PortID {
			return of.Namespace != f.Namespace || f.Spec.PortName != "" && f.Spec.PortName != of.Name
		}
	}
	return len(m.where(func(at resource) bool {
		return at.kind.One == port.One && at.ID == r.PortID && m.isIn(f.Namespace, at.NetworkID)
	})) == 0
}

// isIn reports whether a network is that of a Network of a namespace.
func (m *matcher) isIn(namespace, network string) bool {
	for of, id := range m.networkOf {
		if of.Namespace == namespace && id == network {
			return true
		}
	}
	return false
}

// allowed are the reasons of Ready that a FloatingIP gets only once its class allows it, and its status shows whose
// credentials its class uses. Others may come earlier: a tenant can have an object paused, for example.
var allowed = []string{
	cloudteamv1.ReasonPlanned, cloudteamv1.ReasonPortNotReady, cloudteamv1.ReasonNetworkNotReady,
	cloudteamv1.ReasonAddressInUse, cloudteamv1.ReasonAlreadyOwned, cloudteamv1.ReasonImportMismatch,
	cloudteamv1.ReasonImportNotFound, cloudteamv1.ReasonImportAmbiguous,
}

// refusal says why a FloatingIP cannot have a floating IP that it names; empty if it can. Anyone may write an address.
// So the controller must have seen the object, and its class must allow it.
func (m *matcher) refusal(f *cloudteamv1.FloatingIP, r resource) string {
	ready, owner := meta.FindStatusCondition(f.Status.Conditions, cloudteamv1.ConditionReady), m.owner(f.UID)
	has := m.owned(floatingIP, owner)
	switch {
	case len(has) > 0:
		return fmt.Sprintf("It has floating IP %s already, which this cluster created.", has[0].ID)
	case ready == nil || ready.ObservedGeneration != f.Generation:
		return "The controller has not seen it. Start it with firstStart=Report."
	case !slices.Contains(allowed, ready.Reason):
		return fmt.Sprintf("Its condition does not show that its class allows it (%s): %s", ready.Reason, ready.Message)
	case f.Status.Cloud == nil && (f.Spec.Cloud != nil || f.Status.Credentials != nil):
		return "It has its own credentials, and their project is not known here."
	case m.elsewhere(f, r):
		return fmt.Sprintf("Floating IP %s is associated with port %s, which is not its own. Name that one's "+
			"NetworkPort in spec.portName, or run %s.", r.ID, r.PortID, osc.Disassociate(r.ID))
	}
	return ""
}

// naming are the FloatingIPs that name a floating IP, and can have it.
func (m *matcher) naming(r resource) (all []string) {
	for _, f := range m.floating {
		if m.fits(f, r) && m.refusal(f, r) == "" {
			all = append(all, ask.Of(f).String())
		}
	}
	return all
}

func severalFit(all []resource) string {
	return fmt.Sprintf("Several floating IPs of the old cluster fit: %s. It gets none.", ids(all))
}

// named decides what a FloatingIP gets that names its floating IP.
func (m *matcher) named(f *cloudteamv1.FloatingIP, a Adoption) (_ Adoption, concerned bool) {
	fit := m.old(floatingIP, func(r resource) bool { return m.fits(f, r) })
	if len(fit) == 0 {
		return a, false
	}
	_, known := m.portOf[types.NamespacedName{Namespace: f.Namespace, Name: f.Spec.PortName}]
	if len(m.Chosen) > 0 && !known {
		return a, false // it is of no chosen Network
	}
	if len(fit) > 1 {
		a.Problem = severalFit(fit)
		return a, true
	}
	is := fit[0]
	if of := m.ofPort[is.ID]; of != "" {
		a.Problem = fmt.Sprintf("Floating IP %s is of %s, which asks for it.", is.ID, of)
		return a, true
	}
	if a.Problem = m.refusal(f, is); a.Problem != "" {
		return a, true
	}
	asking := m.naming(is) // it looks at all FloatingIPs, so only for one that can have it
	for of, to := range m.portOf {
		if is.PortID != to.is.ID {
			continue
		}
		asking = append(asking, m.asking(to.by, is)...)
		if m.asks(to.by, is) {
			asking = append(asking, "NetworkPort "+of.String())
		}
	}
	if len(asking) > 1 {
		a.Problem = fmt.Sprintf("Floating IP %s fits several objects: %s. None gets it.", is.ID, strings.Join(asking, ", "))
	} else {
		a.Takes = []Taken{taken(is)}
	}
	return a, true
}

// floatingIP decides what a FloatingIP gets: the one that it names, or else what is associated with the port that it
// names, and is not that port's own. It is not concerned if there is none. A port that was adopted before no longer
// tells whether a floating IP is its own.
func (m *matcher) floatingIP(f *cloudteamv1.FloatingIP) (a Adoption, concerned bool) {
	a = Adoption{Object: ask.Of(f), owner: m.owner(f.UID)}
	if namesOne(f) {
		return m.named(f, a)
	}
	to, known := m.portOf[types.NamespacedName{Namespace: f.Namespace, Name: f.Spec.PortName}]
	if !known || f.DeletionTimestamp != nil {
		return a, false
	}
	fit := m.old(floatingIP, func(r resource) bool {
		return r.PortID == to.is.ID && m.isOn(r, f.Spec.ExternalNetwork) && (r.owner != to.is.owner || !m.asks(to.by, r))
	})
	if len(fit) == 0 {
		return a, false
	}
	has := m.owned(floatingIP, a.owner)
	asking := append(m.asking(to.by, fit[0]), m.naming(fit[0])...)
	if to.is.owner.Cluster != m.From && m.asks(to.by, fit[0]) {
		asking = append(asking, "NetworkPort "+f.Namespace+"/"+f.Spec.PortName)
	}
	switch {
	case len(has) > 0:
		a.Problem = fmt.Sprintf("It has floating IP %s already, which this cluster created.", has[0].ID)
	case len(fit) > 1:
		a.Problem = severalFit(fit)
	case len(asking) > 1:
		a.Problem = fmt.Sprintf("Floating IP %s fits several objects: %s. None gets it.", fit[0].ID,
			strings.Join(asking, ", "))
	default:
		a.Takes = []Taken{taken(fit[0])}
	}
	return a, true
}

// has reports whether a port has all of these addresses.
func (r resource) has(addresses []string) bool {
	for _, want := range addresses {
		has := func(ip fixedIP) bool {
			return same(netip.ParseAddr, ip.Address, want)
		}
		if !slices.ContainsFunc(r.FixedIPs, has) {
			return false
		}
	}
	return true
}

// same reports whether two texts mean one address.
func same[A comparable](parse func(string) (A, error), a, b string) bool {
	one, errOne := parse(a)
	two, errTwo := parse(b)
	return errOne == nil && errTwo == nil && one == two
}

func ids(of []resource) string {
	all := make([]string, len(of))
	for i, r := range of {
		all[i] = r.ID
	}
	return strings.Join(all, ", ")
}

// Apply writes the markers, object by object, and tells each that it wrote. After an error it can be run again from a
// new survey: it goes on where it stopped.
func (r *Result) Apply(ctx context.Context, cloud *client.Cloud, wrote func(Adoption, Taken)) error {
	for _, o := range r.Objects {
		for _, t := range o.Takes {
			if err := t.of.give(ctx, cloud, o.owner); err != nil {
				return fmt.Errorf("%s %s of %s: %w", t.Kind, t.ID, o.Object, err)
			}
			wrote(o, t)
		}
	}
	return nil
}
