// Package app puts the process together: options, clients, informers, controllers, and the order in which they start
// and stop.
package app

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/config/crd"
	"cloudteam.ztgame.com/network-controller/internal/cli"
	"cloudteam.ztgame.com/network-controller/internal/controller/classes"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/fair"
	"cloudteam.ztgame.com/network-controller/internal/inspect"
	"cloudteam.ztgame.com/network-controller/internal/metric"
	"cloudteam.ztgame.com/network-controller/internal/neutron/batch"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/serving"
	"cloudteam.ztgame.com/network-controller/internal/version"
	clientset "cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned"
	clientsetscheme "cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/scheme"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions"
)

// NewCommand makes the command line of network-controller.
func NewCommand() *cobra.Command {
	options := NewOptions()
	command := &cobra.Command{
		Use:   program,
		Short: "Reconcile Networks with OpenStack Neutron, and Foos with Deployments",
		Long: `network-controller reconciles Networks (cloudteam.ztgame.com/v1) with OpenStack Neutron: it creates a
network with its subnets for each object, corrects drift, and deletes them before the object goes.
Deployments and Pods that declare networks (annotation k8s.v1.cni.cncf.io/networks) get a port with an
address on each. The controller also reconciles Foos (samplecontroller.k8s.io/v1alpha1): one Deployment
for each.

It needs the CRDs (` + crd.Install + `), an API server
and, for Networks, a cloud. A controller whose CRD is missing waits for it; the others run. You can run
several replicas: one leads (--leader-elect), the others stand by. SIGTERM lets running syncs finish and
then stops the process; a second SIGTERM stops it at once.`,
		Example: `  # Outside the cluster, with the cloud "mycloud" in ~/.config/openstack/clouds.yaml:
  network-controller --kubeconfig ~/.kube/config --cloud mycloud

  # In a Pod, with clouds.yaml mounted from a Secret:
  OS_CLIENT_CONFIG_FILE=/etc/openstack/clouds.yaml network-controller --cloud mycloud

  # Detect drift every ten seconds, with more logs:
  network-controller --kubeconfig ~/.kube/config --cloud mycloud --audit-interval 10s -v 4

  # Only Foos, without a cloud:
  network-controller --kubeconfig ~/.kube/config --controllers foo`,
	}
	cli.Daemon(command, "controller", &options, func(ctx context.Context) error { return Run(ctx, options) })
	return command
}

// program is the name of the binary.
const program = "network-controller"

// Run runs the controllers until ctx is done. The options are valid. At the end it stops all in the reverse order of
// their start: the workers finish their syncs, then the informers, the Inventory and the health server end, and last
// the lease is released. It returns an error when it cannot start, when a part fails, or when the lease is lost.
func Run(ctx context.Context, o Options) error {
	metric.Register()
	buildInfo.WithLabelValues(version.Version, runtime.Version()).Set(1)
	logger := klog.FromContext(ctx)

	if o.InspectAddress != "" {
		stop, err := serveInspection(ctx, o.InspectAddress)
		if err != nil {
			return err
		}
		defer stop()
	}
	config, err := kubeConfig(o)
	if err != nil {
		return err
	}
	election, err := newElection(o, config)
	if err != nil {
		return err
	}
	// Standbys ask who reads their metrics, too. That changes nothing.
	reviews, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client for TokenReviews: %w", err)
	}
	// The permit is asked for when a request's turn has come. The Lease's own requests, above, need neither.
	election.guard(config)
	takeTurns(config)
	namespace, err := o.ownNamespace()
	if err != nil {
		return err
	}
	p := &process{
		options: o, election: election, readiness: &readiness{}, attachmentsKnown: make(chan struct{}),
		policiesKnown: make(chan struct{}), machinesKnown: make(chan struct{}),
		classes: classes.New(namespace), classesKnown: make(chan struct{}),
		pools: batch.NewPools(o.CloudMaxCalls), memory: cloudMemory(o.MaxClouds),
		processors: fair.NewProcessors(runtime.GOMAXPROCS(0)),
	}
	if err := p.connect(config); err != nil {
		return err
	}
	logger.Info("Starting", "version", version.Version, "kubernetes", config.Host)
	var confinement *client.Confinement
	if o.needsCloud() {
		load := func() (client.Credentials, error) { return o.credentials(o.Cloud) }
		credentials, err := load()
		if err != nil {
			return fmt.Errorf("credentials: %w", err)
		}
		p.access = p.newCloudAccess(managed.CloudRef{}, credentials, load, logger)
		if err := p.openBindingCloud(logger); err != nil {
			return err
		}
		confinement, err = client.NewConfinement(o.AllowedIdentityEndpoints, credentials, o.PermitInsecureClouds)
		if err != nil {
			return fmt.Errorf("--allowed-identity-endpoints: %w", err)
		}
	}
	p.clouds = newCloudRegistry(p, confinement)
	p.clouds.operator = namespace

	p.cluster, err = clusterUID(ctx, p.kube)
	if err == nil {
		err = o.LeaderElection.checkNamespace(ctx, p.kube)
	}
	if ctx.Err() != nil {
		return nil // told to stop before it started
	}
	if err != nil {
		return err
	}
	// Everything that can fail comes before everything that runs.
	serve, err := serving.Listen(o.BindAddress, healthHandler(election.watchdog.Check, p.readiness), o.Metrics, reviews,
		program, 5)
	if err != nil {
		return err
	}
	stopTracing, err := startTracing(ctx, o)
	if err != nil {
		return err
	}
	defer stopTracing()
	return p.run(ctx, serve)
}

// connect makes the clients and informers for Kubernetes. It sends no request.
func (p *process) connect(config *rest.Config) (err error) {
	if p.kube, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("making a Kubernetes client: %w", err)
	}
	if p.client, err = clientset.NewForConfig(config); err != nil {
		return fmt.Errorf("making a client for Networks and Foos: %w", err)
	}
	if p.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return fmt.Errorf("making a client for NetworkAttachmentDefinitions: %w", err)
	}
	if p.metadata, err = metadata.NewForConfig(config); err != nil {
		return fmt.Errorf("making a client for metadata: %w", err)
	}
	p.discovery = newDiscoverer(p.client.Discovery())
	resync, only, transform := p.options.ResyncPeriod, p.options.Namespace, cache.TransformFunc(trim)
	if r := inspect.On(); r != nil {
		transform = r.Transform(transform)
	}
	p.transform = transform
	p.factory = informers.NewSharedInformerFactoryWithOptions(p.client, resync, informers.WithTransform(transform),
		informers.WithNamespace(only))
	p.kubeFactory = kubeinformers.NewSharedInformerFactoryWithOptions(p.kube, resync,
		kubeinformers.WithTransform(transform), kubeinformers.WithNamespace(only))
	p.namespaces, err = newNamespaces(p.options, p.kube, p.election.leads)
	return err
}

// run starts the controllers and what they stand on, and stops both in the reverse order.
func (p *process) run(ctx context.Context, serve func(context.Context) error) error {
	baseCtx, stopBase := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBase()
	p.baseCtx = baseCtx
	defer metric.Compute(p.measure)()

	broadcaster := record.NewBroadcaster(record.WithContext(baseCtx))
	events := newEventLines(&typedcorev1.EventSinkImpl{Interface: p.kube.CoreV1().Events("")})
	p.base.Go(func() error { events.run(baseCtx); return nil })
	broadcaster.StartRecordingToSink(events)
	defer broadcaster.Shutdown()
	p.recorder = broadcaster.NewRecorder(clientsetscheme.Scheme, corev1.EventSource{Component: "network-controller"})

	p.group, p.runCtx = errgroup.WithContext(ctx)
	p.readiness.add("lease", p.election.decided)
	p.group.Go(func() error { return p.election.watch(p.runCtx) })
	p.group.Go(func() error { return p.namespaces.watch(p.runCtx) })
	p.base.Go(func() error {
		p.namespaces.await(baseCtx)
		p.election.run(baseCtx)
		return nil
	})
	if p.access != nil {
		p.base.Go(func() error { p.access.run(baseCtx); return nil })
		p.base.Go(func() error { p.clouds.run(baseCtx); return nil })
	}
	if p.bindingAccess != nil {
		p.base.Go(func() error { p.bindingAccess.run(baseCtx); return nil })
	}
	p.startControllers()
	p.base.Go(func() error { return serve(baseCtx) })

	err := p.group.Wait()
	stopBase()
	err = errors.Join(err, p.base.Wait())
	p.factory.Shutdown()
	p.kubeFactory.Shutdown()
	p.namespaces.factory.Shutdown()
	klog.FromContext(ctx).Info("Stopped")
	return err
}
