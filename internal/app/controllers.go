package app

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	attachmentcontroller "cloudteam.ztgame.com/network-controller/internal/controller/attachment"
	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	deploymentcontroller "cloudteam.ztgame.com/network-controller/internal/controller/deployment"
	foocontroller "cloudteam.ztgame.com/network-controller/internal/controller/foo"
	networkcontroller "cloudteam.ztgame.com/network-controller/internal/controller/network"
	portcontroller "cloudteam.ztgame.com/network-controller/internal/controller/networkport"
	"cloudteam.ztgame.com/network-controller/internal/controller/orphan"
	podcontroller "cloudteam.ztgame.com/network-controller/internal/controller/pod"
	"cloudteam.ztgame.com/network-controller/internal/neutron"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/apis/samplecontroller/v1alpha1"
	clientset "cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions"
	informersv1 "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions/cloudteam/v1"
)

// controllers are the names of all controllers.
var controllers = []string{
	networkcontroller.Name, portcontroller.Name, deploymentcontroller.Name, podcontroller.Name,
	attachmentcontroller.Name, foocontroller.Name, orphan.Name,
}

// needsCloud reports whether a controller is to run that speaks to Neutron.
func (o *Options) needsCloud() bool {
	return o.enabled(networkcontroller.Name) || o.enabled(portcontroller.Name)
}

// What has to be served before the controllers can start.
var (
	networkResource = cloudteamv1.SchemeGroupVersion.WithResource("networks")
	portResource    = cloudteamv1.SchemeGroupVersion.WithResource("networkports")
	fooResource     = v1alpha1.SchemeGroupVersion.WithResource("foos")
)

// process is what the controllers are built from.
type process struct {
	options Options
	// cluster is the UID of the namespace kube-system.
	cluster string
	// cloud is nil where no controller needs one.
	cloud    *neutron.Cloud
	kube     kubernetes.Interface
	client   clientset.Interface
	dynamic  dynamic.Interface
	metadata metadata.Interface
	recorder record.EventRecorder

	readiness   *readiness
	factory     informers.SharedInformerFactory
	kubeFactory kubeinformers.SharedInformerFactory
	// group runs the controllers, whose context is running; base runs what they stand on, whose context is ground.
	group           *errgroup.Group
	base            errgroup.Group
	running, ground context.Context

	// told are the resources of which was logged that they are waited for.
	told sync.Map

	// building is held while a controller is built: a factory starts all informers that it knows, and none may be half
	// built then. It guards what follows.
	building sync.Mutex
	shared   *sharedInventory
	caches   *consumer.Caches
	// declaring are told of names that Pods and Deployments may declare, when something of the name comes or goes that
	// their own informers do not see.
	declaring []func(cache.ObjectName)
	// remembering tell the UIDs of the objects whose resources in Neutron this process looks after.
	remembering []func() []types.UID

	// attachments is the controller of NetworkAttachmentDefinitions, once it runs.
	attachments atomic.Pointer[attachmentcontroller.Controller]
}

// startControllers starts those that are enabled, each once the API server serves what it needs.
func (p *process) startControllers() {
	for name, start := range map[string]func(){
		networkcontroller.Name:    func() { p.start(networkcontroller.Name, p.buildNetwork, networkResource) },
		portcontroller.Name:       func() { p.start(portcontroller.Name, p.buildNetworkPort, networkResource, portResource) },
		deploymentcontroller.Name: func() { p.start(deploymentcontroller.Name, p.buildDeployment, networkResource, portResource) },
		podcontroller.Name:        func() { p.start(podcontroller.Name, p.buildPod, networkResource, portResource) },
		foocontroller.Name:        func() { p.start(foocontroller.Name, p.buildFoo, fooResource) },
		orphan.Name:               func() { p.start(orphan.Name, p.buildOrphan, networkResource, portResource) },
		attachmentcontroller.Name: p.startAttachment,
	} {
		if p.options.enabled(name) {
			start()
		}
	}
}

// started is a controller whose informers may run.
type started interface {
	// HasSynced reports whether its caches are filled.
	HasSynced() bool
	// Run syncs until ctx is done and its workers have stopped.
	Run(ctx context.Context, workers int) error
}

// start runs a controller once the API server serves the resources. A controller whose CRD is not there holds up no
// other. Until build is called, no informer of the controller's exists.
func (p *process) start(name string, build func() (started, error), needs ...schema.GroupVersionResource) {
	var c atomic.Pointer[started]
	p.readiness.add(name, func() bool { built := c.Load(); return built != nil && (*built).HasSynced() })
	p.group.Go(func() error {
		if err := awaitServed(p.running, p.client.Discovery(), &p.told, needs...); err != nil {
			return nil //nolint:nilerr // told to stop before the CRD came
		}
		built, err := p.build(build)
		if err != nil {
			return fmt.Errorf("controller %s: %w", name, err)
		}
		c.Store(&built)
		return built.Run(p.running, p.options.Workers)
	})
}

// build builds a controller and starts the informers that it asked for.
func (p *process) build(build func() (started, error)) (started, error) {
	p.building.Lock()
	defer p.building.Unlock()
	built, err := build()
	if err == nil {
		p.factory.StartWithContext(p.ground)
		p.kubeFactory.StartWithContext(p.ground)
	}
	return built, err
}

func (p *process) buildNetwork() (started, error) {
	inventory := p.inventory()
	var ports informersv1.NetworkPortInformer
	// A cluster in which only the CRD of Networks was installed yet has no ports that they could wait for.
	if ok, err := served(p.client.Discovery(), portResource); ok && err == nil && p.options.enabled(portcontroller.Name) {
		ports = p.factory.Cloudteam().V1().NetworkPorts()
	}
	c, err := networkcontroller.NewController(p.client.CloudteamV1(), p.factory.Cloudteam().V1().Networks(), ports,
		inventory, p.recorder, p.cluster)
	if err != nil {
		return nil, err
	}
	p.remembering = append(p.remembering, c.Remembered)
	return inventory.serve(c), nil
}

func (p *process) buildNetworkPort() (started, error) {
	inventory := p.inventory()
	c, err := portcontroller.NewController(p.client.CloudteamV1(), p.factory.Cloudteam().V1().NetworkPorts(),
		p.factory.Cloudteam().V1().Networks(), inventory, p.recorder, p.cluster)
	if err != nil {
		return nil, err
	}
	p.remembering = append(p.remembering, c.Remembered)
	return inventory.serve(c), nil
}

func (p *process) buildOrphan() (started, error) {
	return orphan.NewController(p.factory.Cloudteam().V1().Networks(), p.factory.Cloudteam().V1().NetworkPorts(),
		p.inventory(), orphan.ReadLive(p.metadata, p.cluster), orphan.Options{
			Rules: p.options.Orphan, Interval: p.options.AuditInterval, Cluster: p.cluster, Remembered: p.remembered,
		})
}

// remembered is orphan.Options'.
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
	c, err := deploymentcontroller.NewController(p.client.CloudteamV1(), p.kube.AppsV1(), caches, p.recorder)
	if err != nil {
		return nil, err
	}
	p.declaring = append(p.declaring, c.EnqueueDeclaring)
	return c, nil
}

func (p *process) buildPod() (started, error) {
	caches, err := p.consumers()
	if err != nil {
		return nil, err
	}
	c, err := podcontroller.NewController(p.client.CloudteamV1(), p.kube.CoreV1(), caches, p.recorder)
	if err != nil {
		return nil, err
	}
	p.declaring = append(p.declaring, c.EnqueueDeclaring)
	return c, nil
}

// consumers gives the caches that the controllers of Deployments and of Pods share. The caller holds building.
func (p *process) consumers() (*consumer.Caches, error) {
	if p.caches != nil {
		return p.caches, nil
	}
	caches, err := consumer.NewCaches(consumer.Informers{
		Networks:    p.factory.Cloudteam().V1().Networks(),
		Ports:       p.factory.Cloudteam().V1().NetworkPorts(),
		Pods:        p.kubeFactory.Core().V1().Pods(),
		ReplicaSets: p.kubeFactory.Apps().V1().ReplicaSets(),
		Deployments: p.kubeFactory.Apps().V1().Deployments(),
	}, p)
	p.caches = caches
	return caches, err
}

// Has is consumer.Attachments'. Before the controller of NetworkAttachmentDefinitions runs, there are none.
func (p *process) Has(namespace, name string) bool {
	c := p.attachments.Load()
	return c != nil && c.Has(namespace, name)
}

// attachmentPoll is how often a cluster without Multus is asked whether it has it now.
const attachmentPoll = 30 * time.Second

// startAttachment runs the controller of NetworkAttachmentDefinitions in a cluster that knows them. Others do without:
// the process is ready all the same.
func (p *process) startAttachment() {
	p.group.Go(func() error {
		if err := awaitServed(p.running, p.client.Discovery(), &p.told, networkResource); err != nil {
			return nil //nolint:nilerr // told to stop before the CRD came
		}
		if err := attachmentcontroller.AwaitCRD(p.running, p.client.Discovery(), attachmentPoll); err != nil {
			return nil //nolint:nilerr // told to stop before the CRD came
		}
		klog.FromContext(p.running).Info("Keeping NetworkAttachmentDefinitions: the cluster knows them")
		attachments := dynamicinformer.NewDynamicSharedInformerFactory(p.dynamic, p.options.ResyncPeriod)
		var c *attachmentcontroller.Controller
		_, err := p.build(func() (started, error) {
			informer := attachments.ForResource(attachmentcontroller.Resource)
			err := informer.Informer().SetTransform(trim)
			if err == nil {
				_, err = informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
					AddFunc: p.tellDeclaring, DeleteFunc: p.tellDeclaring,
				})
			}
			if err != nil {
				return nil, err
			}
			c, err = attachmentcontroller.NewController(
				p.dynamic, informer, p.factory.Cloudteam().V1().Networks(), p.recorder, p.options.Attachment)
			return c, err
		})
		if err != nil {
			return fmt.Errorf("controller %s: %w", attachmentcontroller.Name, err)
		}
		p.attachments.Store(c)
		p.readiness.add(attachmentcontroller.Name, c.HasSynced)
		p.base.Go(func() error {
			attachments.Start(p.ground.Done())
			<-p.ground.Done()
			attachments.Shutdown()
			return nil
		})
		return c.Run(p.running, p.options.Workers)
	})
}

// tellDeclaring has whatever declares the name of a NetworkAttachmentDefinition looked at again.
func (p *process) tellDeclaring(obj any) {
	name, err := cache.DeletionHandlingObjectToName(obj)
	if err != nil {
		return // nothing without a name is served
	}
	p.building.Lock()
	defer p.building.Unlock()
	for _, tell := range p.declaring {
		tell(name)
	}
}
