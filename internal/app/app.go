// Package app puts the process together: options, clients, informers, controllers, and the order in which they start
// and stop.
package app

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	clientset "cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned"
	clientsetscheme "cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/scheme"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions"
)

// Version is set by the linker.
var Version = "v0.0.0"

// userAgent is how the process names itself to both APIs.
func userAgent() string { return "network-controller/" + Version }

// Run runs the controllers until ctx is done. It then stops in the reverse order of starting: the workers finish what
// they are at, and only then do the informers, the Inventory and the health server end and is the lease given up. An
// error means that it could not start, that a part failed, or that the lease was lost.
func Run(ctx context.Context, o Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	registerMetrics()
	logger := klog.FromContext(ctx)

	config, err := kubeConfig(o)
	if err != nil {
		return err
	}
	election, err := newElection(o, config)
	if err != nil {
		return err
	}
	election.guard(config)
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a Kubernetes client: %w", err)
	}
	clients, err := clientset.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client for Networks and Foos: %w", err)
	}
	dynamicClient, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client for NetworkAttachmentDefinitions: %w", err)
	}
	metadataClient, err := metadata.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client for metadata: %w", err)
	}
	logger.Info("Starting", "version", Version, "kubernetes", config.Host)
	var access *cloudAccess
	var to *client.Confinement
	if o.needsCloud() {
		if access, err = newOwnCloudAccess(o, election.permit, logger); err != nil {
			return err
		}
		to, err = client.NewConfinement(o.AllowedIdentityEndpoints, access.files.used, o.PermitInsecureClouds)
		if err != nil {
			return fmt.Errorf("--allowed-identity-endpoints: %w", err)
		}
	}

	cluster, err := clusterUID(ctx, kube)
	if ctx.Err() != nil {
		return nil // told to stop before it began
	}
	if err != nil {
		return err
	}

	// What the controllers stand on ends after them.
	ground, collapse := context.WithCancel(context.WithoutCancel(ctx))
	defer collapse()

	broadcaster := record.NewBroadcaster(record.WithContext(ground))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: kube.CoreV1().Events("")})
	defer broadcaster.Shutdown()
	recorder := broadcaster.NewRecorder(clientsetscheme.Scheme, corev1.EventSource{Component: "network-controller"})

	p := &process{
		options:   o,
		cluster:   cluster,
		access:    access,
		election:  election,
		kube:      kube,
		client:    clients,
		dynamic:   dynamicClient,
		discovery: newDiscoverer(clients.Discovery()),
		metadata:  metadataClient,
		recorder:  recorder,
		readiness: &readiness{},
		factory:   informers.NewSharedInformerFactoryWithOptions(clients, o.ResyncPeriod, informers.WithTransform(trim)),
		kubeFactory: kubeinformers.NewSharedInformerFactoryWithOptions(
			kube, o.ResyncPeriod, kubeinformers.WithTransform(trim)),
		ground:           ground,
		attachmentsKnown: make(chan struct{}),
	}
	p.clouds = newCloudRegistry(p, to)
	// Whatever can fail comes before whatever runs.
	var serve func(context.Context) error
	if o.BindAddress != "" {
		if serve, err = listen(o, election.watchdog.Check, p.readiness); err != nil {
			return err
		}
	}
	p.group, p.running = errgroup.WithContext(ctx)
	p.readiness.add("lease", election.decided)
	p.group.Go(func() error { return election.watch(p.running) })
	p.base.Go(func() error { election.run(ground); return nil })
	if access != nil {
		p.base.Go(func() error { access.run(ground); return nil })
		p.base.Go(func() error { p.clouds.run(ground); return nil })
	}
	p.startControllers()
	if serve != nil {
		p.base.Go(func() error { return serve(ground) })
	}

	err = p.group.Wait()
	collapse()
	err = errors.Join(err, p.base.Wait())
	p.factory.Shutdown()
	p.kubeFactory.Shutdown()
	logger.Info("Stopped")
	return err
}
