package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/scheme"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions/cloudteam/v1"
	listers "cloudteam.ztgame.com/network-controller/pkg/client/listers/cloudteam/v1"
)

// SuccessSynced is the reason of the Event after each successful sync.
const SuccessSynced = "Synced"

// Controller keeps one network in Neutron for each Network object.
type Controller struct {
	// neutron calls the cloud. The API server is not called: the informer reads it, and the status is left alone.
	neutron *gophercloud.ServiceClient
	// networksLister reads the informer's cache, which is complete when networksSynced says so.
	networksLister listers.NetworkLister
	networksSynced cache.InformerSynced
	// workqueue holds keys, namespace/name, in the memory of this process. It holds each key once.
	workqueue workqueue.TypedRateLimitingInterface[string]
	recorder  record.EventRecorder
}

// NewController makes a controller, and has the informer call its handlers. The informer MUST NOT run yet.
func NewController(
	neutron *gophercloud.ServiceClient, networkInformer informers.NetworkInformer, recorder record.EventRecorder,
) (*Controller, error) {
	c := &Controller{
		neutron:        neutron,
		networksLister: networkInformer.Lister(),
		networksSynced: networkInformer.Informer().HasSynced,
		workqueue:      workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
		recorder:       recorder,
	}
	_, err := networkInformer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: c.enqueueNetwork,
		UpdateFunc: func(old, updated any) {
			// A resync brings each object every 30 seconds, with the same version. Nothing changed then.
			if old.(*cloudteamv1.Network).ResourceVersion != updated.(*cloudteamv1.Network).ResourceVersion {
				c.enqueueNetwork(updated)
			}
		},
		DeleteFunc: c.enqueueNetwork,
	})
	return c, err
}

// Run starts workers when the cache is complete, and returns when ctx ends. With half a cache, syncHandler would take
// the other half for deleted.
func (c *Controller) Run(ctx context.Context, workers int) error {
	defer c.workqueue.ShutDown()
	if !cache.WaitForCacheSync(ctx.Done(), c.networksSynced) {
		return errors.New("the cache did not become complete")
	}
	klog.FromContext(ctx).Info("Started", "workers", workers)
	for range workers {
		go wait.UntilWithContext(ctx, c.runWorker, time.Second)
	}
	<-ctx.Done()
	return nil
}

// runWorker processes keys until the queue shuts down.
func (c *Controller) runWorker(ctx context.Context) {
	for c.processNextWorkItem(ctx) {
	}
}

// processNextWorkItem takes a key, syncs it and says Done. It returns false when the queue has shut down.
func (c *Controller) processNextWorkItem(ctx context.Context) bool {
	key, shutdown := c.workqueue.Get()
	if shutdown {
		return false
	}
	// Until Done, no other worker gets this key.
	defer c.workqueue.Done(key)
	if err := c.syncHandler(ctx, key); err != nil {
		c.workqueue.AddRateLimited(key)
		klog.FromContext(ctx).Error(err, "Sync failed, and is retried", "key", key)
		return true
	}
	c.workqueue.Forget(key)
	return true
}

// syncHandler makes what Neutron has under the object's name be what the object says.
func (c *Controller) syncHandler(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	log := klog.FromContext(ctx).WithValues("key", key)
	network, err := c.networksLister.Networks(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		log.Info("There is no such object: deleting its network")
		return c.delete(ctx, name)
	}
	if err != nil {
		return err
	}
	desired, err := desiredState(network)
	if err != nil {
		return err
	}
	// Here the notes say FIX ME: get, create, compare, update.
	actual, subnet, err := c.get(ctx, name)
	switch {
	case err != nil:
		return err
	case actual == nil:
		log.Info("Creating a network")
		err = c.create(ctx, name, desired)
	case actualState(actual, subnet) != desired:
		log.Info("Updating the network", "id", actual.ID, "from", actualState(actual, subnet), "to", desired)
		err = c.update(ctx, actual, subnet, desired)
	}
	if err == nil {
		c.recorder.Event(network, corev1.EventTypeNormal, SuccessSynced, "Neutron has this network")
	}
	return err
}

// enqueueNetwork puts an object's key on the queue. Of a deletion that the watch missed, the informer passes a
// tombstone, cache.DeletedFinalStateUnknown, which has the key, too.
func (c *Controller) enqueueNetwork(obj any) {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		klog.Background().Error(err, "An object has no key")
		return
	}
	c.workqueue.Add(key)
}

// state is what an object declares and Neutron has, and all that they are compared by.
type state struct {
	Description, CIDR, Gateway string
}

// desiredState is what the object declares. Of the spec's many fields, this controller knows three.
func desiredState(network *cloudteamv1.Network) (state, error) {
	cidr, err := netip.ParsePrefix(network.Spec.CIDR)
	if err != nil {
		return state{}, fmt.Errorf("spec.cidr: %w", err)
	}
	desired := state{Description: network.Spec.Description, CIDR: cidr.String(), Gateway: network.Spec.Gateway}
	switch desired.Gateway {
	case "":
		desired.Gateway = cidr.Addr().Next().String() // Neutron chooses the same
	case "none":
		desired.Gateway = ""
	}
	return desired, nil
}

// actualState is what Neutron has. subnet may be nil.
func actualState(network *networks.Network, subnet *subnets.Subnet) state {
	actual := state{Description: network.Description}
	if subnet != nil {
		actual.CIDR, actual.Gateway = subnet.CIDR, subnet.GatewayIP
	}
	return actual
}

// get looks a network up by its name, with its subnet. Both are nil where there is none. Neutron allows many
// networks of one name; this takes the first.
func (c *Controller) get(ctx context.Context, name string) (*networks.Network, *subnets.Subnet, error) {
	page, err := networks.List(c.neutron, networks.ListOpts{Name: name}).AllPages(ctx)
	if err != nil {
		return nil, nil, err
	}
	named, err := networks.ExtractNetworks(page)
	if err != nil || len(named) == 0 {
		return nil, nil, err
	}
	page, err = subnets.List(c.neutron, subnets.ListOpts{NetworkID: named[0].ID}).AllPages(ctx)
	if err != nil {
		return nil, nil, err
	}
	inside, err := subnets.ExtractSubnets(page)
	if err != nil || len(inside) == 0 {
		return &named[0], nil, err
	}
	return &named[0], &inside[0], nil
}

// create makes a network, and its subnet. If the second call fails, the next sync finds a network without a
// subnet, and update makes it.
func (c *Controller) create(ctx context.Context, name string, desired state) error {
	opts := networks.CreateOpts{Name: name, Description: desired.Description}
	network, err := networks.Create(ctx, c.neutron, opts).Extract()
	if err != nil {
		return fmt.Errorf("creating a network: %w", err)
	}
	return c.createSubnet(ctx, network, desired)
}

// createSubnet makes the subnet of a network.
func (c *Controller) createSubnet(ctx context.Context, network *networks.Network, desired state) error {
	opts := subnets.CreateOpts{
		NetworkID: network.ID, Name: network.Name, CIDR: desired.CIDR, GatewayIP: &desired.Gateway,
		IPVersion: gophercloud.IPv4,
	}
	if netip.MustParsePrefix(desired.CIDR).Addr().Is6() {
		opts.IPVersion = gophercloud.IPv6
	}
	if err := subnets.Create(ctx, c.neutron, opts).Err; err != nil {
		return fmt.Errorf("creating the subnet of network %s: %w", network.ID, err)
	}
	return nil
}

// update changes what differs from the desired state, to. Neutron refuses a gateway that its ports may have.
func (c *Controller) update(ctx context.Context, network *networks.Network, subnet *subnets.Subnet, to state) error {
	if network.Description != to.Description {
		opts := networks.UpdateOpts{Description: &to.Description}
		if err := networks.Update(ctx, c.neutron, network.ID, opts).Err; err != nil {
			return fmt.Errorf("updating network %s: %w", network.ID, err)
		}
	}
	switch {
	case subnet == nil:
		return c.createSubnet(ctx, network, to)
	case subnet.CIDR != to.CIDR:
		return fmt.Errorf("subnet %s has the cidr %s, which cannot become %s", subnet.ID, subnet.CIDR, to.CIDR)
	case subnet.GatewayIP != to.Gateway:
		opts := subnets.UpdateOpts{GatewayIP: &to.Gateway}
		if err := subnets.Update(ctx, c.neutron, subnet.ID, opts).Err; err != nil {
			return fmt.Errorf("updating subnet %s: %w", subnet.ID, err)
		}
	}
	return nil
}

// delete deletes the network of a name. Neutron deletes its subnet with it.
func (c *Controller) delete(ctx context.Context, name string) error {
	network, _, err := c.get(ctx, name)
	if err != nil || network == nil {
		return err
	}
	err = networks.Delete(ctx, c.neutron, network.ID).ExtractErr()
	if err != nil && !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		return fmt.Errorf("deleting network %s: %w", network.ID, err)
	}
	return nil
}

// newNeutron logs in to a cloud of clouds.yaml: by default the one that OS_CLIENT_CONFIG_FILE and OS_CLOUD name.
func newNeutron(ctx context.Context, client http.Client, of ...clouds.ParseOption) (*gophercloud.ServiceClient, error) {
	auth, endpoint, _, err := clouds.Parse(of...) // what it says of certificates is left out
	if err != nil {
		return nil, fmt.Errorf("reading clouds.yaml: %w", err)
	}
	auth.AllowReauth = true
	provider, err := config.NewProviderClient(ctx, auth, config.WithHTTPClient(client))
	if err != nil {
		return nil, fmt.Errorf("logging in to %s: %w", auth.IdentityEndpoint, err)
	}
	provider.RetryFunc = retryLost
	return openstack.NewNetworkV2(provider, endpoint)
}

// retryLost has a request sent again, up to three times, if its connection was lost. What Neutron has answered is not.
func retryLost(ctx context.Context, _, _ string, _ *gophercloud.RequestOpts, err error, failures uint) error {
	var answered gophercloud.ErrUnexpectedResponseCode
	if errors.As(err, &answered) || ctx.Err() != nil || failures > 3 {
		return err
	}
	return nil
}

// newRecorder sends Events to the API server.
func newRecorder(kubeClient kubernetes.Interface) record.EventRecorder {
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: kubeClient.CoreV1().Events("")})
	return broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "network-from-the-notes"})
}
