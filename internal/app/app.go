// Package app puts the process together: options, clients, informers, controllers, and the order in which they start
// and stop.
package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	foocontroller "cloudteam.ztgame.com/network-controller/internal/controller/foo"
	networkcontroller "cloudteam.ztgame.com/network-controller/internal/controller/network"
	"cloudteam.ztgame.com/network-controller/internal/neutron"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/apis/samplecontroller/v1alpha1"
	clientset "cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned"
	clientsetscheme "cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/scheme"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions"
)

// Version is set by the linker.
var Version = "v0.0.0"

// userAgent is how the process names itself to both APIs.
func userAgent() string { return "network-controller/" + Version }

// Run runs the controllers until ctx is done. It then stops in the reverse order of starting: the workers finish what
// they are at, and only then do the informers, the Inventory and the health server end. An error means that it could
// not start, or that a part failed.
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
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a Kubernetes client: %w", err)
	}
	client, err := clientset.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client for Networks and Foos: %w", err)
	}
	logger.Info("Starting", "version", Version, "kubernetes", config.Host)
	var cloud *neutron.Cloud
	if o.enabled(networkcontroller.Name) {
		credentials, err := neutron.LoadCredentials(o.Cloud)
		if err != nil {
			return fmt.Errorf("credentials: %w", err)
		}
		logger.Info("Using the cloud", "cloud", credentials.String())
		cloud = neutron.NewCloud(credentials, neutron.Options{
			Timeout: o.CloudTimeout, UserAgent: userAgent(), Called: countCall,
		})
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

	factory := informers.NewSharedInformerFactory(client, o.ResyncPeriod)
	kubeFactory := kubeinformers.NewSharedInformerFactoryWithOptions(
		kube, o.ResyncPeriod, kubeinformers.WithTransform(dropManagedFields))
	readiness := &readiness{}
	// Whatever can fail comes before whatever runs.
	var serve func(context.Context) error
	if o.BindAddress != "" {
		if serve, err = listen(o.BindAddress, readiness); err != nil {
			return err
		}
	}
	group, groupCtx := errgroup.WithContext(ctx)
	base, _ := errgroup.WithContext(ground)

	// start runs a controller once the API server knows its kind. A controller whose CRD is not there holds up no other.
	// Until build is called, no informer of the controller's exists.
	var building sync.Mutex
	start := func(name, objects string, version schema.GroupVersion, build func() (started, error)) {
		var c atomic.Pointer[started]
		readiness.add(objects, func() bool { built := c.Load(); return built != nil && (*built).HasSynced() })
		group.Go(func() error {
			if err := awaitCRD(groupCtx, client, version); err != nil {
				return nil //nolint:nilerr // told to stop before the CRD came
			}
			// A factory starts all informers that it knows: none may be half built then.
			building.Lock()
			built, err := build()
			if err == nil {
				factory.StartWithContext(ground)
				kubeFactory.StartWithContext(ground)
			}
			building.Unlock()
			if err != nil {
				return fmt.Errorf("controller %s: %w", name, err)
			}
			c.Store(&built)
			return built.Run(groupCtx, o.Workers)
		})
	}

	if o.enabled(networkcontroller.Name) {
		start(networkcontroller.Name, "networks", cloudteamv1.SchemeGroupVersion, func() (started, error) {
			var c *networkcontroller.Controller
			audits := &auditLog{logger: logger, recovered: func() { c.EnqueueAll() }}
			inventory := neutron.NewInventory(cloud, cluster, neutron.InventoryOptions{
				Interval: o.AuditInterval,
				Moved:    func(uid string) { c.Moved(uid) },
				Audited:  audits.audited,
			})
			c, err := networkcontroller.NewController(
				client, factory.Cloudteam().V1().Networks(), inventory, recorder, cluster)
			if err != nil {
				return nil, err
			}
			readiness.add("inventory", func() bool { synced, _ := inventory.Synced(); return synced })
			base.Go(func() error { inventory.Run(ground); return nil })
			return audited{c, audits}, nil
		})
	}
	if o.enabled(foocontroller.Name) {
		start(foocontroller.Name, "foos", v1alpha1.SchemeGroupVersion, func() (started, error) {
			return foocontroller.NewController(client.SamplecontrollerV1alpha1(), kube.AppsV1(),
				factory.Samplecontroller().V1alpha1().Foos(), kubeFactory.Apps().V1().Deployments(), recorder)
		})
	}

	if serve != nil {
		base.Go(func() error { return serve(ground) })
	}

	err = group.Wait()
	collapse()
	err = errors.Join(err, base.Wait())
	factory.Shutdown()
	kubeFactory.Shutdown()
	logger.Info("Stopped")
	return err
}

// started is a controller whose informers may run.
type started interface {
	// HasSynced reports whether its caches are filled.
	HasSynced() bool
	// Run syncs until ctx is done and its workers have stopped.
	Run(ctx context.Context, workers int) error
}

// audited is a network controller that begins with a first answer from the cloud, good or bad, so that its first syncs
// have something to say.
type audited struct {
	*networkcontroller.Controller
	audits *auditLog
}

// Run is started.Run.
func (a audited) Run(ctx context.Context, workers int) error {
	a.audits.awaitFirst(ctx)
	return a.Controller.Run(ctx, workers)
}

func kubeConfig(o Options) (*rest.Config, error) {
	var config *rest.Config
	var err error
	if o.Kubeconfig == "" && o.Master == "" {
		config, err = rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			return nil, errors.New("this is no Pod: give --kubeconfig, the path of a kubeconfig file, or --master, " +
				"the address of the Kubernetes API server")
		}
	} else {
		config, err = clientcmd.BuildConfigFromFlags(o.Master, o.Kubeconfig)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the Kubernetes configuration: %w", err)
	}
	config.QPS, config.Burst = o.KubeQPS, o.KubeBurst
	config.UserAgent = userAgent()
	return config, nil
}

// startPatience is how long the API server may be out of reach at the start before the process gives up.
const startPatience = 30 * time.Second

// clusterUID reads the UID of the namespace kube-system, which tells this cluster from every other.
func clusterUID(ctx context.Context, kube kubernetes.Interface) (string, error) {
	var uid string
	var last error
	err := wait.PollUntilContextTimeout(ctx, time.Second, startPatience, true, func(ctx context.Context) (bool, error) {
		namespace, err := kube.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
		if err != nil {
			if last == nil {
				klog.FromContext(ctx).Info("Waiting for the Kubernetes API server", "err", err)
			}
			last = err
			return false, nil
		}
		uid = string(namespace.UID)
		return true, nil
	})
	if err != nil && last != nil {
		err = last
	}
	if err != nil {
		return "", fmt.Errorf("reading the namespace kube-system, whose UID identifies the cluster: %w", err)
	}
	return uid, nil
}

// dropManagedFields takes from an object, before it goes into a cache, what nothing here reads and what is the larger
// part of many a Deployment.
func dropManagedFields(obj any) (any, error) {
	if object, err := meta.Accessor(obj); err == nil {
		object.SetManagedFields(nil)
	}
	return obj, nil
}

// awaitCRD waits until the API server serves a group and version: to install the CRDs after the controller is no
// mistake. Its only error is that of ctx.
func awaitCRD(ctx context.Context, client clientset.Interface, version schema.GroupVersion) error {
	told := false
	return wait.PollUntilContextCancel(ctx, 2*time.Second, true, func(ctx context.Context) (bool, error) {
		_, err := client.Discovery().ServerResourcesForGroupVersion(version.String())
		if err == nil {
			return true, nil
		}
		if !told {
			told = true
			if apierrors.IsNotFound(err) {
				klog.FromContext(ctx).Info("Waiting for the CRDs: install them with kubectl apply -f config/crd/",
					"group", version.String())
			} else {
				klog.FromContext(ctx).Info("Waiting for the Kubernetes API server", "group", version.String(), "err", err)
			}
		}
		return false, nil
	})
}
