// Package app puts the process together: options, clients, informers, controllers, and the order in which they start
// and stop.
package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	networkcontroller "cloudteam.ztgame.com/network-controller/internal/controller/network"
	"cloudteam.ztgame.com/network-controller/internal/neutron"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
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
		return fmt.Errorf("making a client for Networks: %w", err)
	}
	credentials, err := neutron.LoadCredentials(o.Cloud)
	if err != nil {
		return fmt.Errorf("credentials: %w", err)
	}
	logger.Info("Starting", "version", Version, "kubernetes", config.Host, "cloud", credentials.String())

	cluster, err := clusterUID(ctx, kube)
	if err == nil {
		err = awaitCRDs(ctx, client)
	}
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

	cloud := neutron.NewCloud(credentials, neutron.Options{
		Timeout: o.CloudTimeout, UserAgent: userAgent(), Called: countCall,
	})
	factory := informers.NewSharedInformerFactory(client, o.ResyncPeriod)
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

	if o.enabled(networkcontroller.Name) {
		var c *networkcontroller.Controller
		audits := &auditLog{logger: logger, recovered: func() { c.EnqueueAll() }}
		inventory := neutron.NewInventory(cloud, cluster, neutron.InventoryOptions{
			Interval: o.AuditInterval,
			Moved:    func(uid string) { c.Moved(uid) },
			Audited:  audits.audited,
		})
		c, err = networkcontroller.NewController(
			client, factory.Cloudteam().V1().Networks(), inventory, recorder, cluster)
		if err != nil {
			return fmt.Errorf("controller %s: %w", networkcontroller.Name, err)
		}
		readiness.add("networks", c.HasSynced)
		readiness.add("inventory", func() bool { synced, _ := inventory.Synced(); return synced })
		base.Go(func() error { inventory.Run(ground); return nil })
		group.Go(func() error {
			// With a first answer from the cloud, good or bad, the first syncs have something to say.
			audits.awaitFirst(groupCtx)
			return c.Run(groupCtx, o.Workers)
		})
	}

	if serve != nil {
		base.Go(func() error { return serve(ground) })
	}
	factory.StartWithContext(ground)

	err = group.Wait()
	collapse()
	err = errors.Join(err, base.Wait())
	factory.Shutdown()
	logger.Info("Stopped")
	return err
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

// awaitCRDs waits until the API server knows Networks: to install the CRDs after the controller is no mistake.
func awaitCRDs(ctx context.Context, client clientset.Interface) error {
	told := false
	return wait.PollUntilContextCancel(ctx, 2*time.Second, true, func(ctx context.Context) (bool, error) {
		_, err := client.Discovery().ServerResourcesForGroupVersion(cloudteamv1.SchemeGroupVersion.String())
		if err == nil {
			return true, nil
		}
		if !told {
			told = true
			if apierrors.IsNotFound(err) {
				klog.FromContext(ctx).Info("Waiting for the CRDs: install them with kubectl apply -f config/crd/",
					"group", cloudteamv1.SchemeGroupVersion.String())
			} else {
				klog.FromContext(ctx).Info("Waiting for the Kubernetes API server", "err", err)
			}
		}
		return false, nil
	})
}
