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
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	listers "cloudteam.ztgame.com/network-controller/pkg/client/listers/cloudteam/v1"
)

// Resource is the API resource of MultiNetworkPolicies, and Kind the kind of their objects.
var (
	Resource = schema.GroupVersionResource{
		Group: "k8s.cni.cncf.io", Version: "v1beta1", Resource: "multi-networkpolicies",
	}
	Kind = Resource.GroupVersion().WithKind("MultiNetworkPolicy")
)

// TooManyLabels is the only label that caches have of an object with more labels than they keep. What such an object is
// selected by cannot be told.
const TooManyLabels = "cloudteam.ztgame.com/too-many-labels"

// Object is a MultiNetworkPolicy in a cache.
type Object struct {
	metav1.ObjectMeta
	// Policy is what it says, and Problems what Neutron cannot do of it. Without Read, it cannot be told which Pods it is
	// about, on its Networks, or on any if it has none.
	Policy   policy.Policy
	Problems []string
	Read     bool
	// namesOthers is the policy's NamesOthers.
	namesOthers bool
}

// concerns reports whether a policy is about ports on a Network, or may be.
func (o *Object) concerns(on cache.ObjectName) bool {
	return slices.Contains(o.Policy.On, on) || !o.Read && len(o.Policy.On) == 0
}

// cost is the most SecurityGroups that a policy needs.
func (o *Object) cost() int { return len(o.Policy.On) * o.Policy.MaxGroups() }

// maxGroups is the most SecurityGroups that the policies of a namespace may need. Those beyond it, in the order of the
// names, count as not read.
const maxGroups = 512

// Transform is a cache.TransformFunc: it reads a MultiNetworkPolicy once, and drops the rest of it. What it does not
// know, such as its own results, it leaves as it is.
func Transform(obj any) (any, error) {
	from, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	o := &Object{ObjectMeta: metav1.ObjectMeta{
		Namespace: from.GetNamespace(), Name: from.GetName(), UID: from.GetUID(),
		ResourceVersion: from.GetResourceVersion(), Generation: from.GetGeneration(),
	}}
	o.Policy, o.Problems, o.Read = policy.Parse(from)
	o.namesOthers = o.Policy.NamesOthers()
	return o, nil
}

const (
	indexNamespace = "policies/namespace"
	indexNetwork   = "policies/network"
	// indexOthers is indexNetwork for the policies that name Pods of other namespaces.
	indexOthers = "policies/others"
)

// Policies tell what MultiNetworkPolicies decide. A nil *Policies has none. The methods are safe for concurrent use.
type Policies struct {
	// Informer is that of MultiNetworkPolicies. Its objects are *Object.
	Informer cache.SharedIndexInformer

	objects  cache.Indexer
	ports    cache.Indexer
	networks listers.NetworkLister
	groups   listers.SecurityGroupLister
	caches   *consumer.Caches
	synced   []cache.InformerSynced
	// namespace gives the labels of a namespace.
	namespace func(name string) labels.Set

	mu sync.Mutex
	// changed is when policies of each namespace changed last, for as long as they settle.
	changed map[string]time.Time
}

// NewPolicies adds the indexes to the informer of MultiNetworkPolicies, which MUST NOT run yet and whose transform is
// Transform. caches are those of the controllers of Pods and Deployments. namespace gives the labels of a namespace.
func NewPolicies(
	objects cache.SharedIndexInformer, groups listers.SecurityGroupLister, caches *consumer.Caches,
	namespace func(name string) labels.Set,
) (*Policies, error) {
	if err := controller.IndexPorts(caches.Ports.Informer()); err != nil {
		return nil, err
	}
	err := objects.AddIndexers(cache.Indexers{
		indexNamespace: controller.IndexBy(func(o *Object) []string { return []string{o.Namespace} }),
		indexNetwork: controller.IndexBy(func(o *Object) (on []string) {
			for _, key := range o.Policy.On {
				on = append(on, key.String())
			}
			return on
		}),
		indexOthers: controller.IndexBy(func(o *Object) (on []string) {
			for _, key := range o.Policy.On {
				if o.namesOthers {
					on = append(on, key.String())
				}
			}
			return on
		}),
	})
	if err != nil {
		return nil, fmt.Errorf("indexing MultiNetworkPolicies: %w", err)
	}
	return &Policies{
		Informer: objects, objects: objects.GetIndexer(), ports: caches.Ports.Informer().GetIndexer(),
		networks: caches.Networks.Lister(), groups: groups, caches: caches, namespace: namespace,
		changed: map[string]time.Time{},
		synced: []cache.InformerSynced{
			objects.HasSynced, caches.Pods.Informer().HasSynced, caches.Deployments.Informer().HasSynced,
			caches.StatefulSets.Informer().HasSynced,
		},
	}, nil
}

// settlesAfter is how long policies settle after a change: the time in which Neutron should have their new groups. For
// that long a change may be delayed for ports that run.
const settlesAfter = 10 * time.Second

// Changed records that a policy of a namespace is new, has changed, or is gone. Whoever decides about ports by Settling
// MUST call it before that.
func (p *Policies) Changed(namespace string) {
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
	group, err := p.groups.SecurityGroups(namespace).Get(name)
	if err != nil {
		return apierrors.IsNotFound(err)
	}
	return group.DeletionTimestamp == nil && group.Annotations[consumer.AnnotationMadeFor] == MadeFor &&
		(group.Status.SecurityGroupID == "" || group.Status.AppliedGeneration == 0)
}

// of gives the policies of a namespace, in the order of their names, up to the first one that is beyond maxGroups, and
// those from there on.
func (p *Policies) of(namespace string) (within, beyond []*Object) {
	all := controller.Indexed[*Object](p.objects, indexNamespace, namespace)
	slices.SortFunc(all, func(a, b *Object) int { return cmp.Compare(a.Name, b.Name) })
	sum := 0
	for i, o := range all {
		if sum += o.cost(); sum > maxGroups {
			return all[:i], all[i:]
		}
	}
	return all, nil
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
	network, err := p.networks.Networks(on.Namespace).Get(on.Name)
	switch {
	case err != nil || !controller.Allows(network, namespace):
		return lost, spec, fmt.Sprintf("there is no Network %s that namespace %s may use: the policy changes nothing there",
			on, namespace)
	case network.Spec.Cloud != nil && network.Namespace != namespace:
		return without, spec, fmt.Sprintf("Network %s has a cloud of its own, by a Secret of its namespace, and a security "+
			"group of namespace %s cannot be there: the policy does nothing there", on, namespace)
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

// Member gives what policies decide about a port. known is false while it cannot be told which policies there are or
// whom they select, which Pod the port is for, or which labels that has. A port that is for no Pod counts by its own
// labels, so that a virtual machine's can be selected.
func (p *Policies) Member(port *cloudteamv1.NetworkPort) (m policy.Membership, known bool) {
	if p == nil {
		return m, true
	}
	if !p.HasSynced() {
		return m, false
	}
	on := cache.ObjectName(port.Network())
	within, beyond := p.of(port.Namespace)
	elsewhere := func(o *Object) bool { return !o.concerns(on) }
	within, beyond = slices.DeleteFunc(within, elsewhere), slices.DeleteFunc(beyond, elsewhere)
	if len(within)+len(beyond) == 0 {
		return m, true
	}
	switch is, _, _ := p.on(port.Namespace, on); is {
	case without:
		return m, true
	case lost:
		return m, false
	case serves:
	}
	unread := func(o *Object) bool { return !o.Read }
	of, known := p.labelsOf(port)
	if !known || len(beyond) > 0 || slices.ContainsFunc(within, unread) {
		return m, false
	}
	policies := make([]policy.Policy, len(within))
	for i, o := range within {
		policies[i] = o.Policy
	}
	return policy.Member(policies, on, of), true
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
		pod, err := p.caches.Pods.Lister().Pods(port.Namespace).Get(port.Status.BoundTo.Name)
		if err != nil || pod.UID != port.Status.BoundTo.UID {
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
		set, err := p.caches.StatefulSets.Lister().StatefulSets(slot.Namespace).Get(slot.Set)
		if err != nil {
			return nil, false
		}
		return set.Spec.Template.Labels, true
	}
	if name, ok := consumer.MadeFor(port, consumer.PodKind); ok {
		pod, err := p.caches.Pods.Lister().Pods(name.Namespace).Get(name.Name)
		if err != nil {
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
		return fmt.Sprintf("It cannot be told which MultiNetworkPolicies select NetworkPort %s: one of them cannot be read "+
			"or is one too many, the Network is not for the namespace, the Pod has more labels than the controller keeps, or "+
			"its cache is behind. See the Events PolicyIncomplete of the namespace", port.Name)
	}
	made, err := p.groups.SecurityGroups(port.Namespace).List(labels.Everything())
	if err != nil {
		return err.Error() // a cache gives none
	}
	in, joined := len(port.Status.SecurityGroupIDs), 0
	for _, group := range made {
		id := group.Status.SecurityGroupID
		if group.Annotations[consumer.AnnotationMadeFor] != MadeFor {
			continue
		}
		is, wanted := slices.Contains(port.Status.SecurityGroupIDs, id), slices.Contains(m.Groups, group.Name)
		switch {
		case wanted && (id == "" || !meta.IsStatusConditionTrue(group.Status.Conditions, cloudteamv1.ConditionReady)):
			return notReady(group.Name)
		case wanted && !is:
			return fmt.Sprintf("NetworkPort %s joins the groups of MultiNetworkPolicies that select the Pod", port.Name)
		case is && !wanted:
			return fmt.Sprintf("NetworkPort %s leaves the groups of MultiNetworkPolicies that do not select the Pod", port.Name)
		case wanted:
			joined++
		}
	}
	switch {
	case joined < len(m.Groups):
		return notReady(m.Groups[0])
	case m.Selected && in > joined:
		return fmt.Sprintf("NetworkPort %s leaves the groups that MultiNetworkPolicies do not give it", port.Name)
	}
	return ""
}

func notReady(group string) string {
	return fmt.Sprintf("SecurityGroup %s, or another one of the MultiNetworkPolicies that select the Pod, is not Ready. "+
		"Run kubectl describe to see why", group)
}

// maxSets is the most sets of Pods of other namespaces that the policies of one namespace may name: each of them is
// held against all ports of a Network.
const maxSets = 256

// looking gives a policy.Addresses for one sync. It looks for each set once.
func (p *Policies) looking() policy.Addresses {
	type set struct {
		on               cache.ObjectName
		namespaces, pods string
	}
	known := map[set][]netip.Addr{}
	return func(on cache.ObjectName, peer policy.Peer) (found []netip.Addr, ok bool) {
		of := set{on, peer.Namespaces.String(), peer.Pods.String()}
		found, ok = known[of]
		if !ok && len(known) < maxSets {
			found, ok = p.addresses(on, peer), true
			known[of] = found
		}
		return found, ok
	}
}

// addresses are those of the Pods that a peer selects by namespaces.
func (p *Policies) addresses(on cache.ObjectName, peer policy.Peer) (all []netip.Addr) {
	selected := map[string]bool{}
	for _, port := range controller.PortsOn(p.ports, on) {
		is, known := selected[port.Namespace]
		if !known {
			is = peer.Namespaces.Matches(p.namespace(port.Namespace))
			selected[port.Namespace] = is
		}
		if !is {
			continue
		}
		if of, known := p.labelsOf(port); !known || !peer.Pods.Matches(of) {
			continue
		}
		for _, a := range port.Status.Addresses {
			if prefix, err := netip.ParsePrefix(a.Address); err == nil {
				all = append(all, prefix.Addr())
			}
		}
	}
	return all
}

// OfPod gives the keys of the NetworkPorts that a Pod has.
func (p *Policies) OfPod(pod metav1.Object) (keys []cache.ObjectName) {
	for _, port := range p.caches.PortsBoundTo(cache.MetaObjectToName(pod)) {
		keys = append(keys, cache.MetaObjectToName(port))
	}
	return keys
}

// Pods is the informer of Pods.
func (p *Policies) Pods() cache.SharedIndexInformer { return p.caches.Pods.Informer() }

// SameForPolicies reports whether two states of a Pod are the same for what selects it.
func SameForPolicies(was, is *corev1.Pod) bool { return maps.Equal(was.Labels, is.Labels) }

// PortsOf gives the NetworkPorts that a MultiNetworkPolicy may decide about: those of its namespace on its Networks.
func (p *Policies) PortsOf(obj metav1.Object) (ports []*cloudteamv1.NetworkPort) {
	o, ok := obj.(*Object)
	if !ok {
		return nil
	}
	for _, on := range o.Policy.On {
		ports = append(ports, p.portsOn(on, o.Namespace)...)
	}
	return ports
}

// PortsIn gives the NetworkPorts that policies may have put into a SecurityGroup: if it is a group of policies, all
// that these may decide about. It is called for each event, so it asks no selector.
func (p *Policies) PortsIn(group metav1.Object) (ports []*cloudteamv1.NetworkPort) {
	if p == nil || group.GetAnnotations()[consumer.AnnotationMadeFor] != MadeFor {
		return nil
	}
	on := map[cache.ObjectName]bool{}
	for _, o := range controller.Indexed[*Object](p.objects, indexNamespace, group.GetNamespace()) {
		for _, network := range o.Policy.On {
			on[network] = true
		}
	}
	for network := range on {
		ports = append(ports, p.portsOn(network, group.GetNamespace())...)
	}
	return ports
}

// portsOn gives the NetworkPorts of a namespace on a Network.
func (p *Policies) portsOn(network cache.ObjectName, namespace string) []*cloudteamv1.NetworkPort {
	elsewhere := func(port *cloudteamv1.NetworkPort) bool { return port.Namespace != namespace }
	return slices.DeleteFunc(controller.PortsOn(p.ports, network), elsewhere)
}
