package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/proxy"
)

// appliers is how many requests for objects are under way at a time where a benchmark applies or deletes many.
const appliers = 16

// The subnet of every Network, and of what the bare loops make.
const (
	cidr    = "192.168.0.0/16"
	gateway = "192.168.0.1"
)

// newNamespace makes a namespace that no other run has.
func (b *bench) newNamespace(ctx context.Context) (string, error) {
	namespace, err := b.Kube.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "bench-"}}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("making a namespace: %w", err)
	}
	return namespace.Name, nil
}

// newPodNamespace is newNamespace for Pods, which are refused until the namespace has its service account.
func (b *bench) newPodNamespace(ctx context.Context) (string, error) {
	namespace, err := b.newNamespace(ctx)
	if err != nil {
		return "", err
	}
	return namespace, await(ctx, harness.Patience, func() error {
		_, err := b.Kube.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// nameOf is the name of a Network, in Neutron, too: names begin with the namespace's, so that they can be told from
// those of others.
func nameOf(namespace string, n int) string { return fmt.Sprintf("%s-%05d", namespace, n) }

// apply makes Networks of the numbers from 0 up to but not including n.
func (b *bench) apply(ctx context.Context, namespace string, n int) error {
	return inParallel(ctx, appliers, n, func(ctx context.Context, i int) error {
		return b.applyOne(ctx, namespace, nameOf(namespace, i))
	})
}

// applyOne makes a Network that says no more than it should.
func (b *bench) applyOne(ctx context.Context, namespace, name string) error {
	object := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	object.Spec.CIDR, object.Spec.Gateway = cidr, gateway
	_, err := b.Networks.CloudteamV1().Networks(namespace).Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating Network %s: %w", name, err)
	}
	return nil
}

// inParallel calls do with 0 to n-1, some at a time, until one fails.
func inParallel(ctx context.Context, atATime, n int, do func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atATime)
	for i := range n {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

// fleetPatience is how long all Networks may take. It only ends a run that hangs.
const fleetPatience = 30 * time.Minute

// observer knows which Networks of a namespace are there, whether they are Ready, and when it last heard of one.
type observer struct {
	mu    sync.Mutex
	there map[string]bool
	ready int
	at    time.Time
}

// observe watches the Networks of a namespace until the group is measured.
func (b *bench) observe(ctx context.Context, namespace string) (*observer, error) {
	o := &observer{there: map[string]bool{}}
	factory := informers.NewSharedInformerFactoryWithOptions(b.Networks, 0, informers.WithNamespace(namespace))
	_, err := factory.Cloudteam().V1().Networks().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { o.heard(object, false) },
		UpdateFunc: func(_, object any) { o.heard(object, false) },
		DeleteFunc: func(object any) { o.heard(object, true) },
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	factory.StartWithContext(ctx)
	b.after(func() {
		cancel()
		factory.Shutdown()
	})
	factory.WaitForCacheSync(ctx.Done())
	return o, nil
}

func (o *observer) heard(object any, gone bool) {
	key, err := cache.DeletionHandlingObjectToName(object)
	if err != nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.at = time.Now()
	network, _ := object.(*cloudteamv1.Network)
	was := o.there[key.Name]
	is := !gone && (was || meta.IsStatusConditionTrue(network.Status.Conditions, cloudteamv1.ConditionReady))
	switch {
	case is && !was:
		o.ready++
	case was && !is:
		o.ready--
	}
	if o.there[key.Name] = is; gone {
		delete(o.there, key.Name)
	}
}

// awaitReady waits until there are n Networks, all Ready, and gives the moment.
func (o *observer) awaitReady(ctx context.Context, n int) (at time.Time, err error) {
	err = await(ctx, fleetPatience, func() error {
		o.mu.Lock()
		defer o.mu.Unlock()
		if at = o.at; len(o.there) != n || o.ready != n {
			return fmt.Errorf("of %d Networks, %d are there and %d are Ready", n, len(o.there), o.ready)
		}
		return nil
	})
	return at, err
}

// wroteSince is how many writes kube-apiserver's proxy saw after so many: those of Events, and all others.
func wroteSince(kube *proxy.Proxy, mark int) (events, others int) {
	for _, w := range kube.Writes()[mark:] {
		if strings.Contains(w.Shape, "/events") {
			events++
		} else {
			others++
		}
	}
	return events, others
}

// frontKube puts a proxy in front of kube-apiserver that counts the controller's writes, and gives a kubeconfig for it.
func (b *bench) frontKube() (*proxy.Proxy, string, error) {
	path := b.file("kubeconfig-front")
	p, err := b.FrontKube(path, proxy.Options{})
	if err != nil {
		return nil, "", err
	}
	b.after(p.Close)
	return p, path, nil
}
