package netpolicy

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/policy"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	typed "cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/typed/cloudteam/v1"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions/cloudteam/v1"
)

// Name is the controller's name in --controllers, in logs and in metrics.
const Name = "policy"

// Controller keeps the SecurityGroups that MultiNetworkPolicies need. Make it with NewController.
type Controller struct {
	*controller.Loop

	policies *Policies
	client   typed.SecurityGroupsGetter
	recorder record.EventRecorder
	read     Read
	seed     maphash.Seed // of what Events said
	// expected has the last write to each SecurityGroup.
	expected controller.Expectations
}

// Read reads a MultiNetworkPolicy from the API server; nil if there is none. The cache does not have all of them whole.
type Read func(ctx context.Context, namespace, name string) (*unstructured.Unstructured, error)

// ReadBy gives a Read that needs no right but to list.
func ReadBy(client dynamic.Interface) Read {
	return func(ctx context.Context, namespace, name string) (*unstructured.Unstructured, error) {
		found, err := client.Resource(Resource).Namespace(namespace).List(ctx, metav1.ListOptions{
			FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String(),
		})
		if err != nil || len(found.Items) == 0 {
			return nil, err
		}
		return &found.Items[0], nil
	}
}

// NewController makes a controller that watches the informers, which MUST NOT run yet. namespaces is the informer of
// Namespaces. It does nothing before Run.
func NewController(
	client typed.SecurityGroupsGetter, read Read, policies *Policies, groups informers.SecurityGroupInformer,
	namespaces cache.SharedIndexInformer, recorder record.EventRecorder,
) (*Controller, error) {
	c := &Controller{
		policies: policies, client: client, read: read, recorder: recorder, seed: maphash.MakeSeed(),
	}
	c.Loop = controller.NewLoop(Name, func(ctx context.Context, key cache.ObjectName) (controller.Result, error) {
		return controller.Result{}, c.sync(ctx, key.Namespace)
	})
	caches := policies.caches
	return c, errors.Join(
		c.Watch(policies.Informer, controller.HandlerOfPart(c.Loop, c.ofPolicy, c.sameForGroups)),
		c.Watch(groups.Informer(), c.HandlerOf(ofMade)),
		c.Watch(caches.Networks.Informer(), controller.HandlerOfPart(c.Loop, c.ofNetwork, sameNetwork)),
		c.Watch(caches.Ports.Informer(), controller.HandlerOfPart(c.Loop, c.ofPort, samePort)),
		c.Watch(caches.Pods.Informer(), controller.HandlerOfPart(c.Loop, c.ofPod, SameForPolicies)),
		c.Watch(namespaces, controller.HandlerOfPart(c.Loop, c.ofNaming, sameNamespace)),
	)
}

// key is the one key of a namespace: its policies share groups.
func key(namespace string) cache.ObjectName { return cache.NewObjectName(namespace, "policies") }

func ofNamespace(obj metav1.Object) []cache.ObjectName {
	return []cache.ObjectName{key(obj.GetNamespace())}
}

// ofPolicy names the namespace of a policy.
func (c *Controller) ofPolicy(obj metav1.Object) []cache.ObjectName {
	c.policies.note(cache.MetaObjectToName(obj))
	return ofNamespace(obj)
}

// sameForGroups reports whether two states of a policy are the same for the groups of its namespace. Of one that was
// dropped, a sync may have read a later state and wait for the event, if it is within maxGroups.
func (c *Controller) sameForGroups(was, is *Object) bool {
	return SamePolicy(was, is) && (was.says.Load() != nil || !c.policies.ledger.counts(is))
}

// ofMade names the namespace of a SecurityGroup that this controller made.
func ofMade(obj metav1.Object) []cache.ObjectName {
	if obj.GetAnnotations()[consumer.AnnotationMadeFor] != MadeFor {
		return nil
	}
	return ofNamespace(obj)
}

// ofNetwork names the namespaces whose policies are for a Network.
func (c *Controller) ofNetwork(obj metav1.Object) []cache.ObjectName {
	return c.policies.ledger.namespacesOn(cache.MetaObjectToName(obj), false)
}

func sameNetwork(was, is *cloudteamv1.Network) bool {
	return was.Generation == is.Generation && equality.Semantic.DeepEqual(was.Status.Class, is.Status.Class)
}

// ofPort names the namespaces whose policies have addresses of Pods, for the Network of a port, and the port's own if
// they have numbers of its Pods' ports.
func (c *Controller) ofPort(obj metav1.Object) []cache.ObjectName {
	port, ok := obj.(*cloudteamv1.NetworkPort)
	if !ok || len(port.Status.Addresses) == 0 {
		return nil
	}
	on := cache.ObjectName(port.Network())
	keys := c.policies.ledger.namespacesOn(on, true)
	if own := key(port.Namespace); c.policies.ledger.namesPorts(on, port.Namespace) && !slices.Contains(keys, own) {
		keys = append(keys, own)
	}
	return keys
}

func samePort(was, is *cloudteamv1.NetworkPort) bool {
	return equality.Semantic.DeepEqual(was.Status.Addresses, is.Status.Addresses) &&
		equality.Semantic.DeepEqual(was.Status.BoundTo, is.Status.BoundTo) &&
		equality.Semantic.DeepEqual(was.Labels, is.Labels)
}

// ofPod names the namespaces whose policies may have something of a Pod.
func (c *Controller) ofPod(obj metav1.Object) (keys []cache.ObjectName) {
	for _, port := range c.policies.caches.PortsBoundTo(cache.MetaObjectToName(obj)) {
		keys = append(keys, c.ofPort(port)...)
	}
	return keys
}

// ofNaming names the namespaces whose policies name namespaces.
func (c *Controller) ofNaming(metav1.Object) []cache.ObjectName {
	return c.policies.ledger.namespacesNaming()
}

func sameNamespace(was, is *corev1.Namespace) bool {
	return equality.Semantic.DeepEqual(was.Labels, is.Labels)
}

// MadeFor is the value of consumer.AnnotationMadeFor on the SecurityGroups that this controller makes. It deletes no
// other ones.
const MadeFor = "MultiNetworkPolicy"

// MaxProblem is the most bytes of the value of cloudteamv1.AnnotationPolicyProblem.
const MaxProblem = 1 << 10

// limited makes one text of problems, for an Event and an annotation.
func limited(problems []string) string {
	return controller.Limited(strings.Join(problems, "; "), MaxProblem)
}

// sync brings the SecurityGroups of a namespace to what its policies need. It is level-triggered. The process may end
// after any write: a group's name follows from what it is for, so the next sync finds it.
func (c *Controller) sync(ctx context.Context, namespace string) error {
	objects, others := c.policies.ledger.of(namespace)
	problems := map[string][]string{}
	var usable []policy.Policy
	want := map[string]bool{} // the names of groups that are needed
	places := map[cache.ObjectName]cloudteamv1.SecurityGroupSpec{}
	// While it is unknown what ports should be in, they stay in their groups, and these stay.
	keeps, frozen := others, map[cache.ObjectName]bool{}
	var again []*Object
	for _, o := range objects {
		says := o.says.Load()
		if says == nil {
			if err := c.readAgain(ctx, o); err != nil {
				return err
			}
			if says = o.says.Load(); says == nil {
				keeps = true // its event is on the way
				continue
			}
			again = append(again, o)
		}
		problems[o.Name] = slices.Clone(says.problems)
		if !o.Read {
			keeps = true
			problems[o.Name] = append(problems[o.Name], unread)
			continue
		}
		p := says.policy
		p.On = nil
		for _, on := range o.On {
			is, place, why := c.policies.on(namespace, on)
			if is != serves {
				problems[o.Name] = append(problems[o.Name], why)
			}
			if _, known := frozen[on]; is == lost && !known {
				frozen[on] = len(c.policies.PortsAt(Place{namespace, on})) > 0
			}
			switch {
			case is == serves:
				places[on] = place
				p.On = append(p.On, on)
			case frozen[on]: // its groups stay, and what is on that Network is not for this namespace to learn
				for _, name := range p.Names(on) {
					want[name] = true
				}
			}
		}
		usable = append(usable, p)
	}
	groups, beyond, lacks := policy.Groups(usable, c.policies.looking(namespace))
	for name, more := range beyond {
		problems[name] = append(problems[name], more...)
	}
	version := c.policies.groups.LastStoreSyncResourceVersion() // read before the cache: see CaughtUp
	made := controller.Indexed[*cloudteamv1.SecurityGroup](c.policies.groups, indexMade, valueOfMade(namespace, ""))
	var errs []error
	for _, g := range groups {
		want[g.Name] = true
		spec := places[g.On]
		spec.Rules, spec.Description = g.Rules, g.Description
		// A name that no Pod has now is no Event: Pods come and go.
		problem := limited(slices.Concat(problems[g.Policy], lacks[g.Policy]))
		if has, exists := c.policies.group(namespace, g.Name); exists {
			errs = append(errs, c.update(ctx, has, problem, spec))
		} else {
			errs = append(errs, c.create(ctx, namespace, g.Name, problem, spec, version))
		}
	}
	for _, m := range made {
		if !want[m.Name] && !keeps {
			errs = append(errs, c.delete(ctx, m))
		}
	}
	for _, o := range objects {
		c.sendEvent(o, problems[o.Name])
	}
	c.settle(namespace, again)
	return controller.Worst(errs...)
}

// unread is what a policy does that cannot be read.
const unread = "until it can be read, NetworkPorts that exist stay as they are, and new Pods wait"

// readAgain reads a policy that came within maxGroups after it was dropped. If another version is there than in the
// cache, that one is on its way.
func (c *Controller) readAgain(ctx context.Context, o *Object) error {
	found, err := c.read(ctx, o.Namespace, o.Name)
	if err != nil {
		return fmt.Errorf("reading MultiNetworkPolicy %q again: %w", o.Name, err)
	}
	if found == nil || found.GetUID() != o.UID || found.GetResourceVersion() != o.ResourceVersion {
		return nil
	}
	p, problems, _ := policy.Parse(found)
	o.says.Store(&content{p, problems})
	return nil
}

// settle has ports follow the policies that came within maxGroups, or were read again, and tells of those that are
// beyond it, and of those for unknown Networks.
func (c *Controller) settle(namespace string, again []*Object) {
	within, beyond, blind := c.policies.ledger.takeMoved(namespace)
	c.policies.wake(namespace, append(within, again...))
	for _, o := range blind {
		if says := o.says.Load(); says != nil {
			c.sendEvent(o, append(slices.Clone(says.problems), unread))
		}
	}
	for _, o := range beyond {
		if c.policies.ledger.isNews(o, 0, true) {
			c.event(o, fmt.Sprintf("the policies of namespace %s may need more than %d security groups, and this is one of "+
				"those beyond, by their names: until there are fewer, NetworkPorts that exist stay as they are, and new Pods "+
				"wait. Delete some, or have them name fewer Networks and fewer different podSelectors as peers", namespace,
				maxGroups))
		}
	}
}

func (c *Controller) create(
	ctx context.Context, namespace, name, problem string, spec cloudteamv1.SecurityGroupSpec, version string,
) error {
	key := cache.NewObjectName(namespace, name)
	if !c.expected.CaughtUp(key, version) {
		return controller.ErrStale
	}
	group := &cloudteamv1.SecurityGroup{Spec: spec}
	group.Namespace, group.Name = namespace, name
	group.Annotations = map[string]string{consumer.AnnotationMadeFor: MadeFor}
	if problem != "" {
		group.Annotations[cloudteamv1.AnnotationPolicyProblem] = problem
	}
	_, err := controller.CreateOwned(ctx, c.client.SecurityGroups(namespace), "SecurityGroup", key, group, &c.expected)
	if errors.Is(err, controller.ErrTerminating) {
		return nil
	}
	if err == nil {
		klog.FromContext(ctx).Info("Created a SecurityGroup for MultiNetworkPolicies", "name", name)
	}
	return err
}

// update corrects a group. One of the name that somebody else made is left alone: no port joins it. A group of another
// cloud or class is made again, because the cloud of a group cannot change.
func (c *Controller) update(
	ctx context.Context, group *cloudteamv1.SecurityGroup, problem string, spec cloudteamv1.SecurityGroupSpec,
) error {
	key := cache.MetaObjectToName(group)
	switch {
	case !c.expected.Met(key, group.UID, group.ResourceVersion):
		return controller.ErrStale
	case group.DeletionTimestamp != nil, group.Annotations[consumer.AnnotationMadeFor] != MadeFor:
		return nil // its deletion requeues the namespace
	}
	if inClass(group, spec.ClassName) {
		spec.ClassName = group.Spec.ClassName
	}
	switch {
	case equality.Semantic.DeepEqual(group.Spec, spec) &&
		group.Annotations[cloudteamv1.AnnotationPolicyProblem] == problem:
		return nil
	}
	if group.Spec.ClassName != spec.ClassName || !equality.Semantic.DeepEqual(group.Spec.Cloud, spec.Cloud) {
		return c.delete(ctx, group)
	}
	var told any
	if problem != "" {
		told = problem
	}
	body := map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{cloudteamv1.AnnotationPolicyProblem: told}},
		"spec": map[string]any{
			"rules": spec.Rules, "description": spec.Description, "stateful": nil, "deletionPolicy": nil, "driftPolicy": nil,
			"managementPolicy": nil,
		},
	}
	written, err := controller.PatchAsRead(ctx, c.client.SecurityGroups(group.Namespace).Patch, types.MergePatchType,
		controller.FieldManager, group, body)
	if err != nil {
		return fmt.Errorf("updating SecurityGroup %q: %w", group.Name, err)
	}
	c.expected.Written(key, written.UID, written.ResourceVersion)
	klog.FromContext(ctx).Info("Updated a SecurityGroup of MultiNetworkPolicies", "name", group.Name)
	return nil
}

// inClass reports whether a group is in a class, or may be. One that was made before its Network was in a class names
// none: it is in the default class, as its status says once it was applied, which requeues the namespace; or there is
// no default class any more that takes it.
func inClass(group *cloudteamv1.SecurityGroup, class string) bool {
	if group.Spec.ClassName != "" {
		return group.Spec.ClassName == class
	}
	if in := group.Status.Class; in != nil {
		return in.Name == class
	}
	if group.Status.AppliedGeneration > 0 {
		return class == ""
	}
	ready := meta.FindStatusCondition(group.Status.Conditions, cloudteamv1.ConditionReady)
	return ready == nil || ready.Reason != cloudteamv1.ReasonClassNotFound &&
		ready.Reason != cloudteamv1.ReasonForbiddenByClass
}

func (c *Controller) delete(ctx context.Context, group *cloudteamv1.SecurityGroup) error {
	key := cache.MetaObjectToName(group)
	if group.DeletionTimestamp != nil {
		return nil
	}
	if !c.expected.Met(key, group.UID, group.ResourceVersion) {
		return controller.ErrStale
	}
	err := controller.DeleteAsRead(ctx, c.client.SecurityGroups(group.Namespace).Delete, "SecurityGroup", group)
	if err != nil {
		return err
	}
	klog.FromContext(ctx).Info("Deleted a SecurityGroup that no MultiNetworkPolicy needs", "name", group.Name)
	return nil
}

// sendEvent sends an Event about a policy with problems, once for the same ones.
func (c *Controller) sendEvent(o *Object, problems []string) {
	text, hash := limited(problems), uint64(0)
	if text != "" {
		hash = maphash.String(c.seed, text)
	}
	if c.policies.ledger.isNews(o, hash, false) {
		c.event(o, text)
	}
}

func (c *Controller) event(o *Object, text string) {
	c.recorder.Event(consumer.Reference(Kind, o), corev1.EventTypeWarning, cloudteamv1.EventPolicyIncomplete, text)
}
