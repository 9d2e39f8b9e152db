package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// namespaces decides in which namespaces this process acts, so that a controller of one namespace (--namespace) and one
// of the cluster do not act on one object. The label LabelController on a Namespace decides: a controller of the
// cluster leaves alone what has it, and one of a namespace acts only where it names the namespace of its own Lease.
type namespaces struct {
	// only is the one namespace of this process; empty for all.
	only string
	// own is the value of the label in namespaces of this process; empty for no label.
	own     string
	kube    kubernetes.Interface
	factory kubeinformers.SharedInformerFactory
	store   cache.Store
	// synced reports whether the cache is full.
	synced cache.InformerSynced
	// gained gets the first namespace that comes to this process while it leads.
	gained chan string
	// asking has one question at a time about each namespace that is not in the cache.
	asking singleflight.Group
}

// namespaceTimeout limits one question about a namespace.
const namespaceTimeout = 10 * time.Second

// newNamespaces makes the informer of namespaces. It sends no request. leads reports whether this process leads.
func newNamespaces(o Options, kube kubernetes.Interface, leads func() bool) (*namespaces, error) {
	n := &namespaces{only: o.Namespace, kube: kube, gained: make(chan string, 1)}
	options := []kubeinformers.SharedInformerOption{kubeinformers.WithTransform(trim)}
	if o.Namespace != "" {
		n.own = o.LeaderElection.ResourceNamespace
		one := fields.OneTermEqualSelector(metav1.ObjectNameField, o.Namespace).String()
		options = append(options, kubeinformers.WithTweakListOptions(func(l *metav1.ListOptions) { l.FieldSelector = one }))
	}
	n.factory = kubeinformers.NewSharedInformerFactoryWithOptions(kube, o.ResyncPeriod, options...)
	informer := n.factory.Core().V1().Namespaces().Informer()
	n.store, n.synced = informer.GetStore(), informer.HasSynced
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(was, is any) { n.compare(was.(*corev1.Namespace), is.(*corev1.Namespace), leads()) },
	})
	return n, err
}

// errLeft names no namespace: one call to Neutron may serve objects of several.
var errLeft = errors.New("the namespace was left to another controller meanwhile, by its label " +
	cloudteamv1.LabelController)

// within is what syncs ask first, see controller.Loop.ActIn. With the context that it returns nothing more is written,
// to Neutron or Kubernetes, once the cache has a label that leaves the namespace to another controller.
func (n *namespaces) within(ctx context.Context, name string) (context.Context, bool, error) {
	yes, err := n.ours(ctx, name)
	if !yes || err != nil {
		return ctx, false, err
	}
	return client.WithPermit(ctx, func() error {
		if found, exists := n.cached(name); exists && !n.has(found) {
			return errLeft
		}
		return nil
	}), true, nil
}

// ours reports whether this process acts in a namespace. The rest of a namespace that is gone is anybody's.
func (n *namespaces) ours(ctx context.Context, name string) (bool, error) {
	found, err := n.get(ctx, name)
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("reading the namespace, whose label %s names its controller: %w",
			cloudteamv1.LabelController, err)
	}
	return n.has(found), nil
}

// terminating reports whether a namespace is being deleted, or is gone. It is false if the API server does not tell.
func (n *namespaces) terminating(ctx context.Context, name string) bool {
	found, err := n.get(ctx, name)
	return apierrors.IsNotFound(err) || err == nil && found.DeletionTimestamp != nil
}

// get gives a namespace. It asks the API server about one that is not in the cache: the namespace may be newer than the
// cache, and another controller's, also if one of its name was just deleted. So no answer is kept.
func (n *namespaces) get(ctx context.Context, name string) (*corev1.Namespace, error) {
	if found, exists := n.cached(name); exists {
		return found, nil
	}
	// The syncs of all objects of a namespace that goes share an answer, which does not end with one of them.
	answer := n.asking.DoChan(name, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), namespaceTimeout)
		defer cancel()
		return n.kube.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	})
	select {
	case a := <-answer:
		found, _ := a.Val.(*corev1.Namespace)
		return found, a.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// cached gives a namespace in the cache.
func (n *namespaces) cached(name string) (found *corev1.Namespace, exists bool) {
	return controller.Cached[*corev1.Namespace](n.store, cache.ObjectName{Name: name})
}

// has reports whether a namespace is one of this process.
func (n *namespaces) has(namespace *corev1.Namespace) bool {
	return namespace.Labels[cloudteamv1.LabelController] == n.own
}

// compare notes that a namespace goes to another controller, or comes from one.
func (n *namespaces) compare(was, is *corev1.Namespace, leads bool) {
	before, after := n.has(was), n.has(is)
	switch label := is.Labels[cloudteamv1.LabelController]; {
	case before && !after:
		klog.Background().Info("Leaving a namespace to another controller, which its label names", "namespace", is.Name,
			cloudteamv1.LabelController, label)
	case !before && after && leads:
		select {
		case n.gained <- is.Name:
		default: // the process ends already
		}
	}
}

// watch returns nil when ctx is done, and an error when a namespace comes from another controller first. The process
// then exits: what it has listed in Neutron may be older than what that controller made there last.
func (n *namespaces) watch(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case name := <-n.gained:
		return fmt.Errorf("the namespace %s comes from another controller, by its label %s; start this process again, so "+
			"that it lists what that controller made", name, cloudteamv1.LabelController)
	}
}

// await returns when the one namespace is this process's, or when ctx is done. A process of the cluster does not wait.
func (n *namespaces) await(ctx context.Context) {
	if n.only == "" {
		return
	}
	logger := klog.FromContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), n.synced) {
		return
	}
	told := false
	_ = wait.PollUntilContextCancel(ctx, discoveryPoll, true, func(context.Context) (bool, error) {
		if found, exists := n.cached(n.only); exists && n.has(found) {
			return true, nil
		}
		if !told {
			told = true
			logger.Info("Waiting for the namespace's label; without it, the controller of the cluster may act there",
				"namespace", n.only, "command", fmt.Sprintf("kubectl label namespace %s %s=%s --overwrite", n.only,
					cloudteamv1.LabelController, n.own))
		}
		return false, nil
	})
}
