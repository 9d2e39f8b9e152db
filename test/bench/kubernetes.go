package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions"
	"cloudteam.ztgame.com/network-controller/test/proxy"
)

// appliers is how many requests for objects are under way at a time where a benchmark applies or deletes many.
const appliers = 16

// The subnet of every Network, and of what the bare loops make.
const (
	cidr    = "192.168.0.0/16"
	gateway = "192.168.0.1"
)

// newNamespace makes a namespace that no other run has, and waits until Pods can be made in it where there are any.
func (b *bench) newNamespace(ctx context.Context) (string, error) {
	namespace, err := b.Kube.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "bench-"}}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("making a namespace: %w", err)
	}
	return namespace.Name, nil
}

// nameOf is the name of a Network, in Neutron, too: names begin with the namespace's, so that they can be told from
// those of others.
func nameOf(namespace string, n int) string { return fmt.Sprintf("%s-%05d", namespace, n) }

// plainSpec is the spec of a Network that says no more than it should.
func plainSpec() cloudteamv1.NetworkSpec {
	return cloudteamv1.NetworkSpec{SubnetSpec: cloudteamv1.SubnetSpec{CIDR: cidr, Gateway: gateway}}
}

// apply makes plain Networks of the numbers from 0 up to but not including n.
func (b *bench) apply(ctx context.Context, namespace string, n int) error {
	return b.applyAll(ctx, namespace, n, plainSpec())
}

// applyAll is apply for Networks of another spec.
func (b *bench) applyAll(ctx context.Context, namespace string, n int, spec cloudteamv1.NetworkSpec) error {
	return inParallel(ctx, appliers, n, func(ctx context.Context, i int) error {
		return b.applySpec(ctx, namespace, nameOf(namespace, i), spec)
	})
}

// applyOne makes one plain Network.
func (b *bench) applyOne(ctx context.Context, namespace, name string) error {
	return b.applySpec(ctx, namespace, name, plainSpec())
}

func (b *bench) applySpec(ctx context.Context, namespace, name string, spec cloudteamv1.NetworkSpec) error {
	object := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: spec}
	_, err := b.Networks.CloudteamV1().Networks(namespace).Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating Network %s: %w", name, err)
	}
	return nil
}

// remove deletes the Networks of the given numbers and does not wait.
func (b *bench) remove(ctx context.Context, namespace string, first, end int) error {
	return inParallel(ctx, appliers, end-first, func(ctx context.Context, i int) error {
		name := nameOf(namespace, first+i)
		err := b.Networks.CloudteamV1().Networks(namespace).Delete(ctx, name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting Network %s: %w", name, err)
		}
		return nil
	})
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

// fleetPatience is how long no Network may change while all are waited for.
const fleetPatience = 3 * time.Minute

// observer knows which Networks of a namespace are Ready, and when it last heard of one.
type observer struct {
	moved chan struct{}

	mu    sync.Mutex
	ready map[string]bool
	there map[string]bool
	at    time.Time
}

// observe watches the Networks of a namespace until the group is measured.
func (b *bench) observe(ctx context.Context, namespace string) (*observer, error) {
	o := &observer{moved: make(chan struct{}, 1), ready: map[string]bool{}, there: map[string]bool{}}
	factory := informers.NewSharedInformerFactoryWithOptions(b.Networks, 0, informers.WithNamespace(namespace))
	_, err := factory.Cloudteam().V1().Networks().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    o.saw,
		UpdateFunc: func(_, object any) { o.saw(object) },
		DeleteFunc: o.lost,
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

func (o *observer) saw(object any) {
	network, ok := object.(*cloudteamv1.Network)
	if !ok {
		return
	}
	o.mu.Lock()
	o.at = time.Now()
	o.there[network.Name] = true
	if meta.IsStatusConditionTrue(network.Status.Conditions, cloudteamv1.ConditionReady) {
		o.ready[network.Name] = true
	}
	o.mu.Unlock()
	o.stir()
}

func (o *observer) lost(object any) {
	key, err := cache.DeletionHandlingObjectToName(object)
	if err != nil {
		return
	}
	o.mu.Lock()
	o.at = time.Now()
	delete(o.there, key.Name)
	delete(o.ready, key.Name)
	o.mu.Unlock()
	o.stir()
}

func (o *observer) stir() {
	select {
	case o.moved <- struct{}{}:
	default:
	}
}

// awaitReady waits until n Networks are Ready and gives the moment.
func (o *observer) awaitReady(ctx context.Context, n int) (time.Time, error) {
	return o.await(ctx, func() (bool, string) {
		return len(o.ready) == n, fmt.Sprintf("%d of %d Networks are Ready", len(o.ready), n)
	})
}

// awaitGone waits until no more than n Networks are left.
func (o *observer) awaitGone(ctx context.Context, n int) (time.Time, error) {
	return o.await(ctx, func() (bool, string) {
		return len(o.there) <= n, fmt.Sprintf("%d Networks are there, want %d", len(o.there), n)
	})
}

func (o *observer) await(ctx context.Context, done func() (bool, string)) (time.Time, error) {
	timer := time.NewTimer(fleetPatience)
	defer timer.Stop()
	for {
		o.mu.Lock()
		yes, state := done()
		at := o.at
		o.mu.Unlock()
		if yes {
			return at, nil
		}
		select {
		case <-o.moved:
			timer.Reset(fleetPatience)
		case <-timer.C:
			return at, fmt.Errorf("nothing moved for %s: %s", fleetPatience, state)
		case <-ctx.Done():
			return at, fmt.Errorf("%w: %s", ctx.Err(), state)
		}
	}
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

// writes are those of calls that change something in Neutron.
func writes(calls []call) []call {
	var found []call
	for _, c := range calls {
		if c.method != http.MethodGet {
			found = append(found, c)
		}
	}
	return found
}
