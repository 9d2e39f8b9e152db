package endpoints

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// sync brings the EndpointSlices of a Service to what its annotations ask for. It is level-triggered. After a create
// whose answer was lost there are two slices with the same endpoints, and the next sync deletes one.
func (c *Controller) sync(ctx context.Context, key cache.ObjectName) (controller.Result, error) {
	service, err := c.services.Services(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) || err == nil && service.DeletionTimestamp != nil {
		c.follow(controller.Waiting{Name: key}, consumer.Endpoints{})
		c.told.Delete(key)
		c.rests.Delete(key)
		c.expected.Forget(key)
		return controller.Result{}, c.removeOrphans(ctx, key)
	}
	if err != nil {
		return controller.Result{}, err
	}
	version := c.slices.LastStoreSyncResourceVersion() // read before the cache: see CaughtUp
	if !c.expected.CaughtUp(key, version) {
		return controller.Result{}, controller.ErrStale
	}
	has := c.has(key)
	asks, e, wrong := consumer.AsksForEndpoints(service), consumer.Endpoints{}, ""
	if asks {
		e, wrong = consumer.EndpointsOf(service)
	} else {
		c.told.Delete(key)
		c.rests.Delete(key)
	}
	if asks && wrong == "" && c.asking.Ahead(controller.WaitingOf(service), key.Namespace) >= maxServices {
		wrong = fmt.Sprintf("at most %d Services of a namespace have endpoints on Networks, and that number of older ones "+
			"have the annotation %s: remove it from some of them, or delete some", maxServices,
			cloudteamv1.AnnotationEndpointsNetwork)
	}
	if wrong != "" {
		e = consumer.Endpoints{}
	}
	c.follow(controller.WaitingOf(service), e) // before the other caches are read: what changes now is an event
	var network *cloudteamv1.Network
	if e.Network != "" {
		network, wrong = c.network(key.Namespace, e.Network)
	}
	if network == nil {
		if asks {
			c.fail(service, wrong)
		}
		return controller.Result{}, c.removeAll(ctx, service, has)
	}
	if until, ok := c.rests.Load(key); ok {
		if rest := time.Until(until.(time.Time)); rest > 0 {
			return controller.Result{RequeueAfter: rest}, nil
		}
	}
	pods, looked := c.backends(service, e.Labels, network)
	written, err := c.keep(ctx, service, has, pods)
	rest := restPerPod*time.Duration(len(pods)+looked/10) + restPerWrite*time.Duration(written)
	rest *= time.Duration(min(c.asking.Len(key.Namespace), maxServices))
	c.rests.Store(key, time.Now().Add(min(rest, longestRest)))
	return controller.Result{}, err
}

// follow has events find a Service: those of Pods with the first label that it selects, and those of its Network.
func (c *Controller) follow(service controller.Waiting, e consumer.Endpoints) {
	label, network, first := "", "", ""
	for key, value := range e.Labels {
		if label == "" || key < first {
			first, label = key, labelKey(service.Name.Namespace, key, value)
		}
	}
	if e.Network != "" {
		network = cache.NewObjectName(service.Name.Namespace, e.Network).String()
	}
	c.selecting.Put(service, label)
	c.on.Put(service, network)
}

// has gives the EndpointSlices of a Service, but for those that were deleted.
func (c *Controller) has(key cache.ObjectName) (left []*discoveryv1.EndpointSlice) {
	shown := map[types.UID]bool{}
	for _, slice := range controller.Indexed[*discoveryv1.EndpointSlice](c.slices, indexService, key.String()) {
		shown[slice.UID] = true
		if slice.DeletionTimestamp == nil && !c.expected.Removed(key, slice.UID) {
			left = append(left, slice)
		}
	}
	c.expected.KeepRemoved(key, func(uid types.UID) bool { return shown[uid] })
	return left
}

// network gives a Network on which Services may have endpoints. If there is none, wrong says why.
func (c *Controller) network(namespace, name string) (network *cloudteamv1.Network, wrong string) {
	if network = c.caches.Network(cache.NewObjectName(namespace, name)); network == nil {
		return nil, fmt.Sprintf("annotation %s: there is no Network %s in this namespace: create it, or name another one",
			cloudteamv1.AnnotationEndpointsNetwork, name)
	}
	if wrong = c.classes.JudgeEndpoints(network); wrong != "" {
		return nil, wrong
	}
	if managed.TenantOf(namespace, network.Status.Credentials) != "" { // any address, whatever class it has by now
		return nil, fmt.Sprintf("Network %s was made with its namespace's own credentials, and has others now: run kubectl "+
			"describe to see why it is not applied with these", name)
	}
	return network, ""
}

// backends gives the Pods that a Service selects, with the addresses of their attached ports on a Network. looked is
// how many Pods it looked at.
func (c *Controller) backends(
	service *corev1.Service, with labels.Set, network *cloudteamv1.Network,
) (found []*corev1.Pod, looked int) {
	selector := labels.SelectorFromSet(with)
	all := controller.Indexed[*corev1.Pod](c.pods, indexAttachable, service.Namespace)
	for _, pod := range all {
		if !selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		var port *cloudteamv1.NetworkPort
		for _, p := range c.caches.PortsBoundTo(cache.MetaObjectToName(pod)) {
			on := p.Network()
			if consumer.BoundTo(p) == pod.UID && on.Namespace == network.Namespace && on.Name == network.Name &&
				attached(p) && managed.IsOn(p, network) && (port == nil || p.Name < port.Name) {
				port = p
			}
		}
		if port != nil {
			found = append(found, at(pod, port))
		}
	}
	if len(found) > maxPods {
		c.fail(service, fmt.Sprintf("the Service selects more than %d Pods on Network %s, and the oldest are its endpoints: "+
			"select fewer", maxPods, network.Name))
		slices.SortFunc(found, func(a, b *corev1.Pod) int {
			return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
		})
		return found[:maxPods], len(all)
	}
	return found, len(all)
}

// keep writes the EndpointSlices of a Service, and gives how many it tried. What is refused of one does not keep others
// as they were: a quota must not hold on to the addresses of Pods that have ended.
func (c *Controller) keep(
	ctx context.Context, service *corev1.Service, has []*discoveryv1.EndpointSlice, pods []*corev1.Pod,
) (tried int, err error) {
	byName, strays := map[string]*discoveryv1.EndpointSlice{}, []string(nil)
	for _, slice := range has {
		byName[slice.Name] = slice
		if slice.Labels[discoveryv1.LabelServiceName] != service.Name { // somebody edited it
			strays = append(strays, slice.Name)
		}
	}
	p, err := planFor(ctx, service, pods, slices.DeleteFunc(has, func(slice *discoveryv1.EndpointSlice) bool {
		return slices.Contains(strays, slice.Name)
	}))
	if err != nil {
		return 0, fmt.Errorf("planning EndpointSlices: %w", err)
	}
	if len(p.create) > 0 {
		if err := controller.CheckOwner(ctx, c.owners.Services(service.Namespace), kind.Kind, service); err != nil {
			return 0, err
		}
	}
	tried = len(p.create) + len(p.update) + len(p.remove) + len(strays)
	var errs []error
	key, api := cache.MetaObjectToName(service), c.client.EndpointSlices(service.Namespace)
	written := func(slice *discoveryv1.EndpointSlice, err error) error {
		if err == nil {
			c.expected.Written(key, slice.UID, slice.ResourceVersion)
		} else if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) { // there is no other place to say so
			c.fail(service, fmt.Sprintf("an EndpointSlice cannot be written: %v", err))
		}
		return err
	}
	for _, slice := range p.create {
		err := written(api.Create(ctx, slice, metav1.CreateOptions{FieldManager: controller.FieldManager}))
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return tried, controller.ErrTerminating
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("creating an EndpointSlice: %w", err))
		}
	}
	for _, slice := range p.update {
		merged := map[string]any{}
		for label := range byName[slice.Name].Labels {
			merged[label] = nil
		}
		for label, value := range slice.Labels {
			merged[label] = value
		}
		err := written(controller.PatchAsRead(ctx, api.Patch, types.MergePatchType, controller.FieldManager,
			byName[slice.Name], map[string]any{
				"metadata": map[string]any{"labels": merged}, "endpoints": slice.Endpoints, "ports": slice.Ports,
			}))
		if err != nil {
			errs = append(errs, fmt.Errorf("updating EndpointSlice %q: %w", slice.Name, err))
		}
	}
	for _, name := range append(p.remove, strays...) {
		errs = append(errs, c.remove(ctx, key, byName[name]))
	}
	if err = errors.Join(errs...); err == nil {
		if tried > 0 {
			klog.FromContext(ctx).V(2).Info("Wrote the EndpointSlices of a Service", "slices", tried, "pods", len(pods))
		}
		if len(pods) < maxPods {
			c.told.Delete(key) // the same mistake is told again
		}
	}
	return tried, err
}

// removeAll deletes the EndpointSlices of a Service that can have none. It first reads the Service: the cache of a new
// leader may show what it asked for earlier.
func (c *Controller) removeAll(ctx context.Context, service *corev1.Service, has []*discoveryv1.EndpointSlice) error {
	if len(has) == 0 {
		return nil
	}
	live, err := controller.Live(ctx, c.owners.Services(service.Namespace), kind.Kind, service.Name)
	if err != nil {
		return err
	}
	if live == nil || live.ResourceVersion != service.ResourceVersion {
		return controller.ErrStale
	}
	for _, slice := range has {
		err = errors.Join(err, c.remove(ctx, cache.MetaObjectToName(service), slice))
	}
	klog.FromContext(ctx).Info("Deleted the EndpointSlices of a Service", "slices", len(has))
	return err
}

// removeOrphans deletes the EndpointSlices of a Service that is gone and has left them (--cascade=orphan). A Service
// that is created under its name would have them, whatever a class says by then. Garbage collection deletes all others.
func (c *Controller) removeOrphans(ctx context.Context, key cache.ObjectName) (err error) {
	for _, slice := range c.has(key) {
		if metav1.GetControllerOfNoCopy(slice) == nil {
			err = errors.Join(err, c.remove(ctx, key, slice))
		}
	}
	return err
}

func (c *Controller) remove(ctx context.Context, key cache.ObjectName, slice *discoveryv1.EndpointSlice) error {
	err := controller.DeleteAsRead(ctx, c.client.EndpointSlices(key.Namespace).Delete, "EndpointSlice", slice)
	if err == nil {
		c.expected.LetGo(key, slice.UID)
	}
	return err
}

// fail tells why a Service has no endpoints, once for the same text.
func (c *Controller) fail(service *corev1.Service, text string) {
	if was, _ := c.told.Swap(cache.MetaObjectToName(service), text); was != text && text != "" {
		c.recorder.Event(consumer.Reference(kind, service), corev1.EventTypeWarning, cloudteamv1.EventEndpointsFailed, text)
	}
}
