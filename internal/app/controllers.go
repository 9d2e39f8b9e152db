package app

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"cloudteam.ztgame.com/network-controller/config/crd"
	"cloudteam.ztgame.com/network-controller/internal/controller"
	attachmentcontroller "cloudteam.ztgame.com/network-controller/internal/controller/attachment"
	"cloudteam.ztgame.com/network-controller/internal/controller/classes"
	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	deploymentcontroller "cloudteam.ztgame.com/network-controller/internal/controller/deployment"
	"cloudteam.ztgame.com/network-controller/internal/controller/endpoints"
	floatingcontroller "cloudteam.ztgame.com/network-controller/internal/controller/floatingip"
	foocontroller "cloudteam.ztgame.com/network-controller/internal/controller/foo"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/controller/netpolicy"
	networkcontroller "cloudteam.ztgame.com/network-controller/internal/controller/network"
	portcontroller "cloudteam.ztgame.com/network-controller/internal/controller/networkport"
	"cloudteam.ztgame.com/network-controller/internal/controller/orphan"
	podcontroller "cloudteam.ztgame.com/network-controller/internal/controller/pod"
	"cloudteam.ztgame.com/network-controller/internal/controller/portbinding"
	groupcontroller "cloudteam.ztgame.com/network-controller/internal/controller/securitygroup"
	servicecontroller "cloudteam.ztgame.com/network-controller/internal/controller/service"
	"cloudteam.ztgame.com/network-controller/internal/fair"
	"cloudteam.ztgame.com/network-controller/internal/kinds"
	"cloudteam.ztgame.com/network-controller/internal/neutron/batch"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/apis/samplecontroller/v1alpha1"
	clientset "cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions"
)

// controllers are the names of all controllers.
var controllers = []string{
	networkcontroller.Name, portcontroller.Name, groupcontroller.Name, floatingcontroller.Name,
	deploymentcontroller.Name, podcontroller.Name, servicecontroller.Name, endpoints.Name, attachmentcontroller.Name,
	portbinding.Name, netpolicy.Name, foocontroller.Name, orphan.Name,
}

// callsNeutron are the controllers of what is in Neutron. Each has the name of its kind.
var callsNeutron = func() (all []string) {
	for _, kind := range kinds.All {
		all = append(all, strings.ToLower(kind.Name))
	}
	return all
}()

// trimsOf says what is kept of each kind's objects in caches.
var trimsOf = map[string]trims{
	kinds.Network: networkTrims, kinds.NetworkPort: portTrims, kinds.SecurityGroup: groupTrims,
	kinds.FloatingIP: floatingIPTrims,
}

// needsCloud reports whether an enabled controller calls Neutron.
func (o *Options) needsCloud() bool {
	return slices.ContainsFunc(callsNeutron, o.enabled)
}

// asksNamespaces reports whether an enabled controller asks in which namespaces the process acts: all but that of Foos,
// whose account may not read namespaces.
func (o *Options) asksNamespaces() bool {
	return o.Namespace != "" ||
		slices.ContainsFunc(controllers, func(name string) bool { return name != foocontroller.Name && o.enabled(name) })
}

// Resources that the API server must serve before a controller starts.
var (
	networkResource = cloudteamv1.SchemeGroupVersion.WithResource("networks")
	portResource    = cloudteamv1.SchemeGroupVersion.WithResource("networkports")
	groupResource   = cloudteamv1.SchemeGroupVersion.WithResource("securitygroups")
	floatingIPs     = cloudteamv1.SchemeGroupVersion.WithResource("floatingips")
	fooResource     = v1alpha1.SchemeGroupVersion.WithResource("foos")
)

// owningResources are those whose objects have something in Neutron.
func owningResources() (all []schema.GroupVersionResource) {
	for _, kind := range kinds.All {
		all = append(all, kind.Resource)
	}
	return all
}

const crdMissing = "Waiting for a CRD"

// installs has the commands that install the CRDs of groups.
var installs = map[string]string{
	cloudteamv1.SchemeGroupVersion.Group: crd.Install, v1alpha1.SchemeGroupVersion.Group: crd.InstallFoos,
}

// process is what the controllers are built from.
type process struct {
	options Options
	// cluster is the UID of the namespace kube-system.
	cluster string
	// access is nil when no controller needs a cloud.
	access *cloudAccess
	// bindingAccess is the cloud with the credentials that bind ports; nil without --binding-cloud.
	bindingAccess *cloudAccess
	election      *election
	kube          kubernetes.Interface
	client        clientset.Interface
	dynamic       dynamic.Interface
	metadata      metadata.Interface
	// discovery finds out which CRDs are installed.
	discovery *discoverer
	recorder  record.EventRecorder

	readiness   *readiness
	factory     informers.SharedInformerFactory
	kubeFactory kubeinformers.SharedInformerFactory
	// transform is what informers do with an object before it is in a cache.
	transform cache.TransformFunc
	// group runs the controllers with runCtx. base runs what they depend on, with baseCtx, which ends after them.
	group           *errgroup.Group
	base            errgroup.Group
	runCtx, baseCtx context.Context

	// building is held while a controller is built, because a factory starts all informers that it knows, and none may be
	// half configured then. It guards the fields below.
	building sync.Mutex
	// shared is the Inventory of the process's own cloud; clouds has the others. audience are told what they find.
	shared *sharedInventory
	clouds *cloudRegistry
	// namespaces are those in which the process acts.
	namespaces *namespaces
	// processors are what the syncs of all controllers share.
	processors *fair.Processors
	// pools bound the writes to each Neutron, whatever credentials they are sent with.
	pools *batch.Pools
	// memory bounds what the lists of tenants' clouds take.
	memory   *client.Memory
	audience audience
	caches   *consumer.Caches
	// policies are those of MultiNetworkPolicies; nil where there are none. policiesKnown is closed when it is known
	// whether policiesServed.
	policies       *netpolicy.Policies
	policiesKnown  chan struct{}
	policiesServed bool
	// machinesKnown is closed when it is known whether KubeVirt's virtual machines are served (machinesServed), and
	// policiesKnown is, too.
	machinesKnown  chan struct{}
	machinesServed bool
	// classes finds the classes of Networks. classesKnown is closed when their cache is full, or when there are none.
	// classed enqueue the objects of a namespace, or of all for "", that classes may concern.
	classes      *classes.Classes
	classesKnown chan struct{}
	classed      []func(namespace string)
	// declaring enqueue the Pods and Deployments that declare a name, when a NetworkAttachmentDefinition of that name
	// comes or goes.
	declaring []func(cache.ObjectName)
	// remembering return the UIDs of the objects whose resources in Neutron this process manages.
	remembering []func() []types.UID

	// measured is what the computed metrics are about.
	measured measured

	// bindings is the controller of where ports are, once it runs.
	bindings atomic.Pointer[portbinding.Controller]
	// attachments is the controller of NetworkAttachmentDefinitions, once it runs. attachmentsKnown is closed when their
	// cache is full, or when there are none.
	attachments      atomic.Pointer[attachmentcontroller.Controller]
	attachmentsKnown chan struct{}
}

// startControllers starts the enabled controllers, each once the API server serves what it needs.
func (p *process) startControllers() {
	if p.options.asksNamespaces() {
		p.namespaces.factory.StartWithContext(p.baseCtx)
		p.readiness.add("namespaces", p.namespaces.synced)
	}
	both := slices.Clip([]schema.GroupVersionResource{networkResource, portResource})
	atOnce := make(chan struct{})
	close(atOnce)
	p.findPolicies()
	p.findMachines()
	for _, c := range []struct {
		name  string
		build func() (started, error)
		needs []schema.GroupVersionResource
		// after is closed when build can be called.
		after <-chan struct{}
	}{
		{networkcontroller.Name, p.buildNetwork, []schema.GroupVersionResource{networkResource}, atOnce},
		{portcontroller.Name, p.buildNetworkPort, both, p.policiesKnown},
		{groupcontroller.Name, p.buildSecurityGroup, []schema.GroupVersionResource{groupResource}, atOnce},
		{floatingcontroller.Name, p.buildFloatingIP, append(both, floatingIPs), atOnce},
		{deploymentcontroller.Name, p.buildDeployment, both, atOnce},
		{podcontroller.Name, p.buildPod, both, p.machinesKnown},
		{servicecontroller.Name, p.buildService, append(both, floatingIPs), atOnce},
		{endpoints.Name, p.buildEndpoints, both, atOnce},
		{portbinding.Name, p.buildPortBinding, both, atOnce},
		{netpolicy.Name, p.buildPolicies, both, p.policiesKnown},
		{foocontroller.Name, p.buildFoo, []schema.GroupVersionResource{fooResource}, atOnce},
		{orphan.Name, p.buildOrphan, owningResources(), atOnce},
	} {
		if p.options.enabled(c.name) {
			p.start(c.name, c.build, c.after, c.needs...)
		}
	}
	if p.options.needsCloud() || p.options.enabled(deploymentcontroller.Name) || p.options.enabled(endpoints.Name) {
		p.startClasses()
	}
	if p.options.enabled(attachmentcontroller.Name) {
		p.startAttachment()
	} else {
		close(p.attachmentsKnown)
	}
}

// started is a controller that was built.
type started interface {
	// HasSynced reports whether its caches are full.
	HasSynced() bool
	// Run syncs until ctx is done. It returns when its workers have stopped.
	Run(ctx context.Context, workers int) error
}

// delayed is a controller that first waits for what its syncs need, once this process is the leader.
type delayed struct {
	started
	await func(context.Context)
}

// Run implements started.
func (d delayed) Run(ctx context.Context, workers int) error {
	d.await(ctx)
	return d.started.Run(ctx, workers)
}

// start runs a controller once the API server serves the resources, and after is closed. A controller with a missing
// CRD does not hold up the others: its informers do not exist before build is called. The process is ready without the
// controller of MultiNetworkPolicies, for which build may return nil.
func (p *process) start(
	name string, build func() (started, error), after <-chan struct{}, needs ...schema.GroupVersionResource,
) {
	var c atomic.Pointer[started]
	if name != netpolicy.Name {
		p.readiness.add(name, func() bool { built := c.Load(); return built != nil && (*built).HasSynced() })
	}
	p.group.Go(func() error {
		if err := p.discovery.await(p.runCtx, discoveryPoll, crdMissing, needs...); err != nil {
			return nil //nolint:nilerr // told to stop before the CRD was there
		}
		if !awaitClosed(p.runCtx, after) {
			return nil // told to stop before that was known
		}
		built, err := p.build(build)
		if err != nil {
			return fmt.Errorf("controller %s: %w", name, err)
		}
		if built == nil {
			return nil
		}
		c.Store(&built)
		return p.lead(built)
	})
}

// lead runs a controller once this process is the leader. Its caches fill before.
func (p *process) lead(c started) error {
	// Told to stop while it waits, it runs for no time, which ends its queue.
	if p.election.await(p.runCtx) && p.options.asksNamespaces() {
		cache.WaitForCacheSync(p.runCtx.Done(), p.namespaces.synced)
	}
	return c.Run(p.runCtx, p.options.Workers)
}

// build builds a controller and starts its informers.
func (p *process) build(build func() (started, error)) (started, error) {
	p.building.Lock()
	defer p.building.Unlock()
	built, err := build()
	if err == nil {
		p.factory.StartWithContext(p.baseCtx)
		p.kubeFactory.StartWithContext(p.baseCtx)
	}
	return built, err
}

// installed reports whether the API server is known to serve a resource now.
func (p *process) installed(resource schema.GroupVersionResource) bool {
	ok, err := p.discovery.installed(p.runCtx, resource)
	return ok && err == nil
}

// share has a controller act in the process's namespaces alone, and compute with its share of the processors.
func (p *process) share(l *controller.Loop) {
	l.ActIn(p.namespaces.within)
	l.Compute(p.processors)
}

// serveManaged gives a controller of objects in Neutron what they all need. The caller holds building.
func serveManaged[T managed.Object](p *process, c *managed.Reconciler[T]) started {
	c.DefaultTo(p.options.Policies)
	c.TakeAsSame(p.options.sameClouds())
	p.share(c.Loop)
	c.AskNamespaces(p.namespaces.terminating)
	c.ReachClouds(p.clouds)
	kind := kinds.OfObject(*new(T))
	p.measured.add(func(m *measured) { m.of[kind.Name] = kind.Informer(p.factory.Cloudteam().V1()).GetIndexer() })
	p.remembering = append(p.remembering, c.Remembered)
	p.classed = append(p.classed, c.EnqueueNamespace)
	return delayed{p.serve(c), p.awaitClasses}
}

func (p *process) buildOrphan() (started, error) {
	var owning []cache.SharedInformer
	for _, kind := range kinds.All {
		owning = append(owning, kind.Informer(p.factory.Cloudteam().V1()))
	}
	live := orphan.ReadLive(p.metadata, p.cluster, owningResources()...)
	return orphan.NewController(owning, p.inventory(), live, orphan.Options{
		Rules: p.options.orphanRules(), Interval: p.options.AuditInterval, Cluster: p.cluster, Remembered: p.remembered,
		Others: p.clouds.inventories,
	})
}

// remembered implements orphan.Options.Remembered.
func (p *process) remembered() []types.UID {
	p.building.Lock()
	defer p.building.Unlock()
	var all []types.UID
	for _, remembered := range p.remembering {
		all = append(all, remembered()...)
	}
	return all
}

func (p *process) buildFoo() (started, error) {
	return foocontroller.NewController(p.client.SamplecontrollerV1alpha1(), p.kube.AppsV1(),
		p.factory.Samplecontroller().V1alpha1().Foos(), p.kubeFactory.Apps().V1().Deployments(), p.recorder)
}

func (p *process) buildDeployment() (started, error) {
	caches, err := p.consumers()
	if err != nil {
		return nil, err
	}
	c, err := deploymentcontroller.NewController(
		p.client.CloudteamV1(), p.kube.AppsV1(), p.kube.CoreV1(), caches, p.recorder, deploymentcontroller.Options{
			Cooldown: p.options.PoolCooldown, Limit: p.portsPerDeployment,
		})
	if err != nil {
		return nil, err
	}
	p.share(c.Loop)
	p.declaring = append(p.declaring, c.EnqueueDeclaring)
	p.classed = append(p.classed, func(namespace string) {
		networks, _ := caches.Networks.Lister().Networks(namespace).List(labels.Everything()) // a cache gives no error
		for _, network := range networks {
			c.EnqueueDeclaring(cache.MetaObjectToName(network))
		}
	})
	return delayed{delayed{c, p.awaitAttachments}, p.awaitClasses}, nil
}

// portsPerDeployment is the limit of a Network's class, or the default.
func (p *process) portsPerDeployment(network *cloudteamv1.Network) deploymentcontroller.Limit {
	most, limited := p.classes.PortsPerDeployment(network)
	if !limited {
		return deploymentcontroller.DefaultLimit
	}
	return deploymentcontroller.Limit{Ports: most, By: "the limit of its NetworkClass"}
}

func (p *process) buildPod() (started, error) {
	caches, err := p.consumers()
	if err != nil {
		return nil, err
	}
	by, err := p.networkPolicies()
	if err != nil {
		return nil, err
	}
	machines, err := p.machines()
	if err != nil {
		return nil, err
	}
	c, err := podcontroller.NewController(p.client.CloudteamV1(), p.kube.CoreV1(), p.kube.AppsV1(), p.metadata, caches,
		machines, by, p.recorder, p.labelsOfNamespace)
	if err != nil {
		return nil, err
	}
	p.share(c.Loop)
	p.declaring = append(p.declaring, c.EnqueueDeclaring)
	if p.options.Policies.Plan {
		c.ReportOnly()
	}
	return delayed{c, p.awaitAttachments}, nil
}

func (p *process) buildService() (started, error) {
	caches, err := p.consumers()
	if err != nil {
		return nil, err
	}
	c, err := servicecontroller.NewController(p.client.CloudteamV1(), p.kube.CoreV1(),
		p.kubeFactory.Core().V1().Services(), p.factory.Cloudteam().V1().FloatingIPs(), caches, p.recorder)
	if err != nil {
		return nil, err
	}
	p.share(c.Loop)
	return c, nil
}

// consumers returns the caches that the controllers of Deployments, Pods and Services share. The caller holds building.
func (p *process) consumers() (*consumer.Caches, error) {
	if p.caches != nil {
		return p.caches, nil
	}
	caches, err := consumer.NewCaches(consumer.InformersOf(p.factory, p.kubeFactory), p)
	p.caches = caches
	p.measured.add(func(m *measured) { m.consumers = caches })
	return caches, err
}
