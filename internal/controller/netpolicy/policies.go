// Package netpolicy is the controller of MultiNetworkPolicies, and tells other controllers what these decide about
// ports.
//
// MultiNetworkPolicy is a kind of the Kubernetes Network Plumbing Working Group. Clusters without it do not serve it.
// For the policies of each namespace the controller keeps SecurityGroups, as package policy says; the controller of
// SecurityGroups makes them in Neutron. The controller of NetworkPorts asks Policies which of them a port is in, and
// the controller of Pods whether a port is in them yet: no Pod starts before.
package netpolicy

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/policy"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions/cloudteam/v1"
)

// Resource is the API resource of MultiNetworkPolicies, and Kind the kind of their objects.
var (
	Resource = schema.GroupVersionResource{
		Group: "k8s.cni.cncf.io", Version: "v1beta1", Resource: "multi-networkpolicies",
	}
	Kind = Resource.GroupVersion().WithKind("MultiNetworkPolicy")
)

// TooManyLabels is the only label that caches have of an object with more labels than they keep. What selects such an
// object is unknown.
const TooManyLabels = "cloudteam.ztgame.com/too-many-labels"

// Object is a MultiNetworkPolicy in a cache. Of it, says alone may change.
type Object struct {
	metav1.ObjectMeta
	// On are the Networks that it is for. Without Read, it is unknown which Pods it is about, on these Networks, or on
	// any if there are none.
	On   []cache.ObjectName
	Read bool
	// namesOthers and namesPorts are the policy's, and cost is the most SecurityGroups that it needs.
	namesOthers, namesPorts bool
	cost                    int
	// says is nil while it is not kept: see maxWhole.
	says atomic.Pointer[content]
}

// content is what a policy says, and what Neutron cannot do of it.
type content struct {
	policy   policy.Policy
	problems []string
}

// Transform is a cache.TransformFunc: it reads a MultiNetworkPolicy once, and drops the rest of it. What it does not
// know, such as its own results, it leaves as it is.
func Transform(obj any) (any, error) {
	from, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	p, problems, read := policy.Parse(from)
	o := &Object{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: from.GetNamespace(), Name: from.GetName(), UID: from.GetUID(),
			ResourceVersion: from.GetResourceVersion(), Generation: from.GetGeneration(),
		},
		On: p.On, Read: read, namesOthers: p.NamesOthers(), namesPorts: p.NamesPorts(),
		cost: len(p.On) * p.MaxGroups(),
	}
	if len(p.On) > 0 || !read {
		o.says.Store(&content{p, problems})
	}
	return o, nil
}

// Policies tell what MultiNetworkPolicies decide. A nil *Policies has none. The methods are safe for concurrent use.
type Policies struct {
	// Informer is that of MultiNetworkPolicies. Its objects are *Object.
	Informer cache.SharedIndexInformer

	objects cache.Store
	ledger  *ledger
	ports   cache.Indexer
	groups  cache.Indexer // of SecurityGroups, by indexMade
	caches  *consumer.Caches
	synced  []cache.InformerSynced
	// namespace gives the labels of a namespace.
	namespace func(name string) labels.Set

	// woken get the keys of ports about which policies may decide otherwise now, without an event that says so.
	woken []func(ports ...cache.ObjectName)

	mu sync.Mutex
	// changed is when policies of each namespace changed last, for as long as they settle.
	changed map[string]time.Time
	// touched are the names of groups that have changed since InTouched was called last, by namespace.
	touched map[string]map[string]bool
	// decided has a hash of what Decide gave for each port last; none for ports about which nobody decides.
	decided map[cache.ObjectName]uint64
	seed    maphash.Seed
}

// indexPorts is the index of NetworkPorts by their namespaces and Networks.
const indexPorts = "policies/ports"

// indexAddressed is the index of NetworkPorts with addresses by their Networks. Anybody can write ports that name a
// Network of others, and only a controller addresses: those without any cost no policy anything.
const indexAddressed = "policies/addressed"

// indexMade is the index of the SecurityGroups that are made for policies by their namespaces, and by these and their
// ids in Neutron.
const indexMade = "policies/made"

// valueOfMade is the value of indexMade for an id, or for all of a namespace if that is empty.
func valueOfMade(namespace, id string) string { return namespace + "/" + id }

func byMade(group *cloudteamv1.SecurityGroup) []string {
	if group.Annotations[consumer.AnnotationMadeFor] != MadeFor {
		return nil
	}
	return slices.Compact([]string{
		valueOfMade(group.Namespace, ""), valueOfMade(group.Namespace, group.Status.SecurityGroupID),
	})
}

// NewPolicies watches the informer of MultiNetworkPolicies, which MUST NOT run yet, and sets its transform. caches are
// those of the controllers of Pods and Deployments. namespace gives the labels of a namespace.
func NewPolicies(
	objects cache.SharedIndexInformer, groups informers.SecurityGroupInformer, caches *consumer.Caches,
	namespace func(name string) labels.Set,
) (*Policies, error) {
	p := &Policies{
		Informer: objects, objects: objects.GetStore(), ledger: newLedger(), ports: caches.Ports.Informer().GetIndexer(),
		groups: groups.Informer().GetIndexer(), caches: caches,
		namespace: namespace, changed: map[string]time.Time{}, decided: map[cache.ObjectName]uint64{},
		touched: map[string]map[string]bool{}, seed: maphash.MakeSeed(),
	}
	noted, err := objects.AddEventHandler(
		controller.Following(func(is *Object) { p.note(cache.MetaObjectToName(is)) }, p.note))
	if err == nil {
		err = errors.Join(
			objects.SetTransform(func(obj any) (any, error) {
				was := obj
				obj, err := Transform(obj)
				if o, ok := obj.(*Object); ok && was != obj {
					p.ledger.admit(o)
				}
				return obj, err
			}),
			groups.Informer().AddIndexers(cache.Indexers{indexMade: controller.IndexBy(byMade)}),
			controller.IndexPorts(caches.Ports.Informer()),
			caches.Ports.Informer().AddIndexers(cache.Indexers{
				indexPorts: controller.IndexBy(func(port *cloudteamv1.NetworkPort) []string {
					return []string{placeOf(port).String()}
				}),
				indexAddressed: controller.IndexBy(func(port *cloudteamv1.NetworkPort) []string {
					if len(port.Status.Addresses) == 0 {
						return nil
					}
					return []string{port.Network().String()}
				}),
			}),
		)
	}
	if err != nil {
		return nil, fmt.Errorf("watching MultiNetworkPolicies: %w", err)
	}
	p.synced = []cache.InformerSynced{
		noted.HasSynced, caches.Pods.Informer().HasSynced, caches.Deployments.Informer().HasSynced,
		caches.StatefulSets.Informer().HasSynced,
	}
	return p, nil
}

// note has the ledger agree with the cache about a policy. Who handles an event of a policy MUST call it first: nobody
// knows whose handler is called first.
func (p *Policies) note(key cache.ObjectName) {
	o, _ := controller.Cached[*Object](p.objects, key)
	p.ledger.note(key.Namespace, key.Name, o)
}

// Wakes has enqueue called with the keys of ports about which policies may decide otherwise now, where no event of an
// object says so. It MUST be called before controllers run.
func (p *Policies) Wakes(enqueue func(ports ...cache.ObjectName)) {
	p.woken = append(p.woken, enqueue)
}

// wake does that for the ports that policies of a namespace may decide about.
func (p *Policies) wake(namespace string, policies []*Object) {
	if len(policies) == 0 {
		return
	}
	p.settle(namespace)
	at := map[Place]bool{}
	for _, o := range policies {
		for _, place := range PlacesOf(o) {
			at[place] = true
		}
	}
	for place := range at {
		otherwise := p.Otherwise(place)
		keys := slices.DeleteFunc(p.PortsAt(place), func(key cache.ObjectName) bool { return !otherwise(key) })
		for _, enqueue := range p.woken {
			enqueue(keys...)
		}
	}
}

// settlesAfter is how long policies settle after a change: the time in which Neutron should have their new groups. For
// that long a change may be delayed for ports that run.
const settlesAfter = 10 * time.Second

// Changed records an event of a policy with its states, as handlers get them; nil for one that is new or gone. The code
// that decides about ports by Member or Settling MUST call it before that.
func (p *Policies) Changed(was, is any) {
	old, oldOK := was.(*Object)
	updated, ok := is.(*Object)
	same := oldOK && ok && old.UID == updated.UID && SamePolicy(old, updated)
	key, err := cache.DeletionHandlingObjectToName(cmp.Or(is, was))
	if err != nil {
		return // it is no object
	}
	p.note(key)
	if !same {
		p.settle(key.Namespace)
	}
}

// SamePolicy reports whether two states of a policy are the same for ports.
func SamePolicy(was, is *Object) bool {
	return was.Generation == is.Generation && is.Generation != 0 && was.Read == is.Read && slices.Equal(was.On, is.On)
}

// settle records that policies of a namespace have changed.
func (p *Policies) settle(namespace string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changed[namespace] = time.Now()
	time.AfterFunc(settlesAfter, func() { p.Settling(namespace) }) // forgets it, also if nobody asks any more
}

// Settling gives for how long from now a missing group of the policies of a namespace may be on its way; 0 if they have
// not changed for long.
func (p *Policies) Settling(namespace string) time.Duration {
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	at, ok := p.changed[namespace]
	left := settlesAfter - time.Since(at)
	if !ok || left <= 0 {
		delete(p.changed, namespace)
		return 0
	}
	return left
}

// Coming reports whether a group that policies need is on its way: it does not exist, or has never had its rules. One
// that is being deleted, or that somebody else made, is not.
func (p *Policies) Coming(namespace, name string) bool {
	group, exists := p.group(namespace, name)
	return !exists || group.DeletionTimestamp == nil && group.Annotations[consumer.AnnotationMadeFor] == MadeFor &&
		(group.Status.SecurityGroupID == "" || group.Status.AppliedGeneration == 0)
}

// group gives a SecurityGroup in the cache.
func (p *Policies) group(namespace, name string) (group *cloudteamv1.SecurityGroup, exists bool) {
	return controller.Cached[*cloudteamv1.SecurityGroup](p.groups, cache.NewObjectName(namespace, name))
}

// standing is what a Network is to the policies of a namespace.
type standing int

const (
	// serves is a Network whose ports can be in groups of the namespace.
	serves standing = iota
	// lost is a Network that is not there, or is not for the namespace (any more). Ports that the namespace has on it stay
	// as they are.
	lost
	// without is a Network on which policies of the namespace do nothing.
	without
)

// on says what a Network is to the policies of a namespace, and why. If it serves, groups for it have the cloud or the
// class in spec.
func (p *Policies) on(
	namespace string, on cache.ObjectName,
) (is standing, spec cloudteamv1.SecurityGroupSpec, why string) {
	network := p.caches.Network(on)
	switch {
	case network == nil || !controller.Allows(network, namespace):
		return lost, spec, fmt.Sprintf("there is no Network %s that namespace %s may use: the policy changes nothing there",
			on, namespace)
	case network.Spec.Cloud != nil && network.Namespace != namespace:
		return without, spec, fmt.Sprintf("Network %s has its own cloud, by a Secret of its namespace, and a security group "+
			"of namespace %s cannot be there: the policy does nothing there", on, namespace)
	case network.Spec.PortSecurity != nil && !*network.Spec.PortSecurity:
		return without, spec, fmt.Sprintf("Network %s has portSecurity: false, so its ports are in no security group: the "+
			"policy does nothing there", on)
	}
	spec.Cloud, spec.ClassName = controller.PlaceOf(network)
	return serves, spec, ""
}

// HasSynced reports whether the caches are full that Member reads. A nil *Policies has none.
func (p *Policies) HasSynced() bool {
	return p == nil || !slices.ContainsFunc(p.synced, func(synced cache.InformerSynced) bool { return !synced() })
}

// Member gives what policies decide about a port. known is false while it is unknown which policies there are or
// whom they select, which Pod the port is for, or which labels that has. A port that is for no Pod counts by its own
// labels, so that a virtual machine's can be selected.
func (p *Policies) Member(port *cloudteamv1.NetworkPort) (m policy.Membership, known bool) {
	if p == nil {
		return m, true
	}
	return p.members(placeOf(port))(port)
}

// members gives Member for the ports at a place, as the policies are now. It asks once about equal labels: Pods of one
// workload have the same ones. It MUST NOT be kept, and is not safe for concurrent use.
func (p *Policies) members(at Place) func(*cloudteamv1.NetworkPort) (policy.Membership, bool) {
	always := func(known bool) func(*cloudteamv1.NetworkPort) (policy.Membership, bool) {
		return func(*cloudteamv1.NetworkPort) (policy.Membership, bool) { return policy.Membership{}, known }
	}
	if !p.HasSynced() {
		return always(false)
	}
	within, others := p.ledger.concerning(at.Namespace, at.On)
	if len(within) == 0 && !others {
		return always(true)
	}
	switch is, _, _ := p.on(at.Namespace, at.On); {
	case is == without:
		return always(true)
	case is == lost || others:
		return always(false)
	}
	policies := make([]policy.Policy, len(within))
	for i, o := range within {
		says := o.says.Load()
		if !o.Read || says == nil {
			return always(false)
		}
		policies[i] = says.policy
	}
	member, asked := policy.Members(policies, at.On), map[uint64]policy.Membership{}
	return func(port *cloudteamv1.NetworkPort) (policy.Membership, bool) {
		of, known := p.labelsOf(port)
		if !known {
			return policy.Membership{}, false
		}
		sum := p.sum(of)
		m, ok := asked[sum]
		if !ok {
			m = member(of)
			asked[sum] = m
		}
		return m, true
	}
}

// sum tells labels from others, in whatever order, without memory for each port: a tenant chooses how long they are.
func (p *Policies) sum(of labels.Set) (sum uint64) {
	for key, value := range of {
		sum += maphash.Comparable(p.seed, [2]string{key, value})
	}
	return sum
}

// Decide is Member for who follows what it says, and remembers that for Otherwise. It MUST NOT run twice at a time for
// one port.
func (p *Policies) Decide(port *cloudteamv1.NetworkPort) (m policy.Membership, known bool) {
	if p == nil {
		return m, true
	}
	key := cache.MetaObjectToName(port)
	p.remember(key, deciding) // the policies may change before the result is remembered
	m, known = p.Member(port)
	p.remember(key, p.hash(m, known))
	return m, known
}

// deciding is remembered of a port about which the policies are being asked. No hash is equal to it.
const deciding = 1

func (p *Policies) remember(key cache.ObjectName, decided uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// Forget is called after the port has left the cache.
	if _, there := controller.Cached[*cloudteamv1.NetworkPort](p.ports, key); decided != 0 && there {
		p.decided[key] = decided
	} else {
		delete(p.decided, key)
	}
}

// Forget handles the deletion of a port, about which it then has nothing.
func (p *Policies) Forget(port any) {
	key, err := cache.DeletionHandlingObjectToName(port)
	if err != nil {
		return // it is no object
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	// Another port of the name may have been decided about before this event came.
	if _, there := controller.Cached[*cloudteamv1.NetworkPort](p.ports, key); !there {
		delete(p.decided, key)
	}
}

// hash is 0 for what is decided where there are no policies.
func (p *Policies) hash(m policy.Membership, known bool) uint64 {
	if known && !m.Selected && len(m.Groups) == 0 {
		return 0
	}
	var h maphash.Hash
	h.SetSeed(p.seed)
	maphash.WriteComparable(&h, known)
	maphash.WriteComparable(&h, m.Selected)
	for _, group := range m.Groups {
		maphash.WriteComparable(&h, group)
	}
	return max(h.Sum64(), deciding+1)
}

// Otherwise gives the function that reports whether policies now decide otherwise about a port at a place than Decide
// said last. The ports of a Network are many, and most policies are about few of them: to sync all would cost a
// thousand times as much.
func (p *Policies) Otherwise(at Place) func(port cache.ObjectName) bool {
	members := p.members(at)
	return p.aboutPorts(func(key cache.ObjectName, port *cloudteamv1.NetworkPort) bool {
		is := p.hash(members(port))
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.decided[key] != is
	})
}

// Touched notes that a group of policies has changed, for InTouched.
func (p *Policies) Touched(group cache.ObjectName) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.touched[group.Namespace] == nil {
		p.touched[group.Namespace] = map[string]bool{}
	}
	p.touched[group.Namespace][group.Name] = true
}

// InTouched gives the function that reports whether policies put a port of a namespace into a group that has changed
// since InTouched was called last, or it is unknown whether they do. So the ports are looked at once for all groups of
// a namespace that change together.
func (p *Policies) InTouched(namespace string) func(port cache.ObjectName) bool {
	if p == nil {
		return func(cache.ObjectName) bool { return false }
	}
	p.mu.Lock()
	touched := p.touched[namespace]
	delete(p.touched, namespace)
	p.mu.Unlock()
	at := map[Place]func(*cloudteamv1.NetworkPort) (policy.Membership, bool){}
	return p.aboutPorts(func(_ cache.ObjectName, port *cloudteamv1.NetworkPort) bool {
		place := placeOf(port)
		if at[place] == nil {
			at[place] = p.members(place)
		}
		m, known := at[place](port)
		return !known || slices.ContainsFunc(m.Groups, func(group string) bool { return touched[group] })
	})
}

// aboutPorts gives a function about keys of ports. It is true for one that is not in the cache.
func (p *Policies) aboutPorts(
	is func(cache.ObjectName, *cloudteamv1.NetworkPort) bool,
) func(cache.ObjectName) bool {
	return func(key cache.ObjectName) bool {
		port, ok := controller.Cached[*cloudteamv1.NetworkPort](p.ports, key)
		return !ok || is(key, port)
	}
}

// labelsOf gives the labels that policies select a port by.
func (p *Policies) labelsOf(port *cloudteamv1.NetworkPort) (of labels.Set, known bool) {
	of, known = p.labelsOfUser(port)
	if _, tooMany := of[TooManyLabels]; tooMany {
		return nil, false
	}
	return of, known
}

func (p *Policies) labelsOfUser(port *cloudteamv1.NetworkPort) (of labels.Set, known bool) {
	if port.Status.BoundTo != nil {
		pod := p.caches.PodOf(port)
		if pod == nil {
			return nil, false
		}
		return pod.Labels, true
	}
	// The Pod that gets the port has at least the labels of its template.
	if consumer.OfDeployment(port) {
		deployment := p.caches.DeploymentControlling(port)
		if deployment == nil {
			return nil, false
		}
		return deployment.Spec.Template.Labels, true
	}
	slot, ok := consumer.SlotOf(port)
	switch {
	case ok && slot.Machine != "":
		for _, pod := range p.caches.PodsOfMachine(slot) {
			if consumer.Waiting(pod) {
				return pod.Labels, true
			}
		}
		return nil, false // it is stopped
	case ok:
		set := p.caches.StatefulSet(cache.NewObjectName(slot.Namespace, slot.Set))
		if set == nil {
			return nil, false
		}
		return set.Spec.Template.Labels, true
	}
	if name, ok := consumer.MadeFor(port, consumer.PodKind); ok {
		pod := p.caches.Pod(name)
		if pod == nil {
			return nil, false
		}
		return pod.Labels, true
	}
	return port.Labels, true
}

// Lacks says why a port is not yet as the policies want it for the Pod that it is bound to; empty if it is. A port that
// nobody decides about lacks nothing.
func (p *Policies) Lacks(port *cloudteamv1.NetworkPort) string {
	if p == nil {
		return ""
	}
	m, known := p.Member(port)
	switch {
	case known:
	case !p.HasSynced():
		return "The MultiNetworkPolicies have not been listed yet. If this lasts, see the controller's log, and give its " +
			"account the right to list and watch multi-networkpolicies"
	default:
		return fmt.Sprintf("The controller cannot determine which MultiNetworkPolicies select NetworkPort %s: one of them "+
			"cannot be read or exceeds a limit, the Network is not for the namespace, the Pod has more labels than the "+
			"controller keeps, or its cache is behind. See the Events PolicyIncomplete of the namespace", port.Name)
	}
	// It looks at the port's own groups alone: each sync of a Pod asks, and a namespace can have many.
	for _, name := range m.Groups {
		group, exists := p.group(port.Namespace, name)
		switch {
		case !exists || group.Annotations[consumer.AnnotationMadeFor] != MadeFor || group.Status.SecurityGroupID == "" ||
			!meta.IsStatusConditionTrue(group.Status.Conditions, cloudteamv1.ConditionReady):
			return notReady(name)
		case !slices.Contains(port.Status.SecurityGroupIDs, group.Status.SecurityGroupID):
			return fmt.Sprintf("NetworkPort %s joins the groups of MultiNetworkPolicies that select the Pod", port.Name)
		}
	}
	for _, id := range port.Status.SecurityGroupIDs {
		for _, group := range controller.Indexed[*cloudteamv1.SecurityGroup](
			p.groups, indexMade, valueOfMade(port.Namespace, id)) {
			if !slices.Contains(m.Groups, group.Name) {
				return fmt.Sprintf("NetworkPort %s leaves the groups of MultiNetworkPolicies that do not select the Pod", port.Name)
			}
		}
	}
	if m.Selected && len(port.Status.SecurityGroupIDs) > len(m.Groups) {
		return fmt.Sprintf("NetworkPort %s leaves the groups that MultiNetworkPolicies do not give it", port.Name)
	}
	return ""
}

func notReady(group string) string {
	return fmt.Sprintf("SecurityGroup %s, or another one of the MultiNetworkPolicies that select the Pod, is not Ready. "+
		"Run kubectl describe to see why", group)
}

// OfPod gives the keys of the NetworkPorts that a Pod has.
func (p *Policies) OfPod(pod metav1.Object) []cache.ObjectName {
	return controller.KeysOf(p.caches.PortsBoundTo(cache.MetaObjectToName(pod)))
}

// Pods is the informer of Pods.
func (p *Policies) Pods() cache.SharedIndexInformer { return p.caches.Pods.Informer() }

// SameForPolicies reports whether two states of a Pod are the same for what selects it and names its ports.
func SameForPolicies(was, is *corev1.Pod) bool {
	return maps.Equal(was.Labels, is.Labels) && equality.Semantic.DeepEqual(was.Spec.Containers, is.Spec.Containers)
}

// Place is the ports of a namespace on a Network, about which a policy of the namespace may decide.
type Place struct {
	Namespace string
	On        cache.ObjectName
}

// PlacesOf gives the places of a policy.
func PlacesOf(obj metav1.Object) (places []Place) {
	o, ok := obj.(*Object)
	if !ok {
		return nil // its last state is unknown
	}
	for _, on := range o.On {
		places = append(places, Place{o.Namespace, on})
	}
	return places
}

// String is the place's value in indexPorts.
func (at Place) String() string { return at.Namespace + "/" + at.On.String() }

func placeOf(port *cloudteamv1.NetworkPort) Place {
	return Place{port.Namespace, cache.ObjectName(port.Network())}
}

// PortsAt gives the keys of the NetworkPorts at a place.
func (p *Policies) PortsAt(at Place) []cache.ObjectName {
	return controller.KeysOf(controller.Indexed[*cloudteamv1.NetworkPort](p.ports, indexPorts, at.String()))
}

// PortsOf gives the keys of the NetworkPorts that the policies of a namespace may decide about.
func (p *Policies) PortsOf(namespace string) (ports []cache.ObjectName) {
	if p == nil {
		return nil
	}
	for _, on := range p.ledger.networksOf(namespace) {
		ports = append(ports, p.PortsAt(Place{namespace, on})...)
	}
	return ports
}
