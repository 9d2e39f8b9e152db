package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubeinformers "k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

func poolGroup() group {
	return group{
		id: "pool", clouds: []string{emulator, openStack}, components: harness.AllComponents(),
		size: func(o options) int { return o.replicas },
		benchmarks: []benchmark{
			{
				id: "pool", name: "a Deployment of %d on a Network, apply to all Pods running, pool ÷ no pool", limit: 0.5,
				how: "Without a pool, what gives Pods their ports learns of each when it appears: the same Deployment's Pods " +
					"are held by a gate of the benchmark's own, and a loop creates one port for one Pod after another, each " +
					"with the attributes that the controller gives it, and opens the Pod's gate. The controller is stopped " +
					"meanwhile. Scheduler, Node and Neutron are the same; the Pods start no containers (kwok).",
			},
			{
				id: "pool-calls", name: "calls to Neutron per Pod of it, with the pool", limit: 0.35,
				how: "All that Neutron's proxy sees in that time, lists included. Without a pool it is one.",
			},
			{
				id: "restart", name: "rolling restart of the Deployment of %d, pool ÷ no pool", limit: noLimit,
				how: "From the change of the Pod template until the Deployment is all of new Pods that are available. " +
					"Without a pool, each Pod's port is deleted when the Pod is gone, and the new Pod's is created.",
			},
			{
				id: "restart-calls", name: "calls to Neutron per Pod of the rolling restart, with the pool", limit: 0.35,
				how: "All that Neutron's proxy sees in that time, lists included. Without a pool there are two.",
			},
			{
				id: "restart-rest", name: "calls to Neutron per Pod after the rolling restart, with the pool", limit: noLimit,
				how: "From then until there are no more ports than Pods, without lists: a port that the restart needed beyond " +
					"the replicas is deleted once the pool's cool-down is over, each by a call.",
			},
		},
		measure: measurePool,
	}
}

// pool is the group pool while it is measured.
type pool struct {
	*bench
	site      *site
	bare      *bare
	namespace string
	network   *cloudteamv1.Network
	observer  *observer
}

// rollout is what a Deployment's start and its restart took, and the calls to Neutron meanwhile. restCalls are those
// after the restart that are no lists.
type rollout struct {
	start, restart                      time.Duration
	startCalls, restartCalls, restCalls int
}

func measurePool(ctx context.Context, b *bench) error {
	m := &pool{bench: b}
	var err error
	if m.site, err = b.openSite(ctx, 1); err != nil {
		return err
	}
	m.bare = newBare(m.site)
	if m.namespace, err = b.newNamespace(ctx); err != nil {
		return err
	}
	b.sweepAfter(ctx, m.bare, m.namespace)
	// A Pod is refused until its service account has been made.
	err = await(ctx, harness.Patience, func() error {
		_, err := b.Kube.CoreV1().ServiceAccounts(m.namespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	if err != nil {
		return err
	}
	if m.observer, err = b.observe(ctx, m.namespace); err != nil {
		return err
	}
	if err := m.makeNetwork(ctx); err != nil {
		return err
	}
	for round := range b.rounds {
		without, err := m.withoutPool(ctx)
		if err != nil {
			return fmt.Errorf("without a pool: %w", err)
		}
		with, err := m.withPool(ctx)
		if err != nil {
			return fmt.Errorf("with the pool: %w", err)
		}
		n := float64(b.size)
		b.report.add("pool", with.start.Seconds()/without.start.Seconds())
		b.report.add("pool-calls", float64(with.startCalls)/n)
		b.report.add("restart", with.restart.Seconds()/without.restart.Seconds())
		b.report.add("restart-calls", float64(with.restartCalls)/n)
		b.report.add("restart-rest", float64(with.restCalls)/n)
		b.say("round %d: start %s with %d calls, without a pool %s with %d; restart %s with %d, and %d later, "+
			"without %s with %d",
			round+1, short(with.start), with.startCalls, short(without.start), without.startCalls,
			short(with.restart), with.restartCalls, with.restCalls, short(without.restart), without.restartCalls)
	}
	return nil
}

// makeNetwork has the controller make the Network that the Deployments are on.
func (m *pool) makeNetwork(ctx context.Context) error {
	c, err := m.start(ctx, m.site, m.Kubeconfig, alone...)
	if err != nil {
		return err
	}
	name := nameOf(m.namespace, 0)
	if err := m.applyOne(ctx, m.namespace, name); err != nil {
		return err
	}
	if _, err := m.observer.awaitReady(ctx, 1); err != nil {
		return c.explain(err)
	}
	m.network, err = m.Networks.CloudteamV1().Networks(m.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	return c.stop(ctx)
}

func (m *pool) withPool(ctx context.Context) (rollout, error) {
	c, err := m.start(ctx, m.site, m.Kubeconfig, alone...)
	if err != nil {
		return rollout{}, err
	}
	profiled := m.profile(ctx, c, "pool")
	r, err := m.roll(ctx, cloudteamv1.SchedulingGate, m.network.Name)
	if err != nil {
		return r, c.explain(err)
	}
	if err := profiled(); err != nil {
		return r, err
	}
	err = await(ctx, harness.Patience, func() error {
		ports, err := m.Networks.CloudteamV1().NetworkPorts(m.namespace).List(ctx, metav1.ListOptions{})
		if err == nil && len(ports.Items) > 0 {
			err = fmt.Errorf("%d NetworkPorts are left", len(ports.Items))
		}
		return err
	})
	if err != nil {
		return r, c.explain(err)
	}
	return r, c.stop(ctx)
}

// barePortGate holds the Pods that get their ports without a pool.
const barePortGate = "bench.cloudteam.ztgame.com/port"

func (m *pool) withoutPool(ctx context.Context) (rollout, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	factory := kubeinformers.NewSharedInformerFactoryWithOptions(m.Kube, 0, kubeinformers.WithNamespace(m.namespace))
	pods := factory.Core().V1().Pods()
	queue := workqueue.NewTyped[string]()
	enqueue := func(object any) {
		if key, err := cache.DeletionHandlingObjectToName(object); err == nil {
			queue.Add(key.Name)
		}
	}
	_, err := pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue, UpdateFunc: func(_, object any) { enqueue(object) }, DeleteFunc: enqueue,
	})
	if err != nil {
		return rollout{}, err
	}
	factory.StartWithContext(ctx)
	factory.WaitForCacheSync(ctx.Done())
	var left atomic.Int64
	failed := make(chan error, 1)
	go func() { failed <- m.portPerPod(ctx, pods.Lister().Pods(m.namespace), queue, &left) }()
	r, err := m.roll(ctx, barePortGate, "")
	if err == nil {
		err = await(ctx, harness.Patience, func() error {
			if n := left.Load(); n > 0 {
				return fmt.Errorf("%d ports are left", n)
			}
			return nil
		})
	}
	queue.ShutDown()
	err = errors.Join(<-failed, err)
	cancel()
	factory.Shutdown()
	return r, err
}

// portPerPod is the loop that gives each Pod a port when it appears, and takes it when it goes. left is how many ports
// there are.
func (m *pool) portPerPod(
	ctx context.Context, pods corelisters.PodNamespaceLister, queue workqueue.TypedInterface[string], left *atomic.Int64,
) error {
	ports := map[string]string{}
	for {
		name, over := queue.Get()
		if over {
			return nil
		}
		pod, err := pods.Get(name)
		id := ports[name]
		switch {
		case apierrors.IsNotFound(err) && id != "":
			if _, err := m.bare.send(ctx, http.MethodDelete, "ports/"+id, nil); err != nil {
				return err
			}
			delete(ports, name)
			left.Add(-1)
		case err == nil && id == "" && len(pod.Spec.SchedulingGates) > 0:
			id, err := m.bare.postOne(ctx, "port", map[string]any{
				"network_id": m.network.Status.NetworkID, "device_owner": plan.PortDeviceOwner, "name": name,
				"description": m.bare.marker(), "admin_state_up": true,
				"fixed_ips": []map[string]any{{"subnet_id": m.network.Status.Subnets[0].ID}},
			})
			if err != nil {
				return err
			}
			ports[name] = id
			left.Add(1)
			_, err = m.Kube.CoreV1().Pods(m.namespace).Patch(ctx, name, types.MergePatchType,
				[]byte(`{"spec":{"schedulingGates":null}}`), metav1.PatchOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
		queue.Done(name)
	}
}

// rolloutPatience is how long the Pods of a Deployment may take.
const rolloutPatience = 5 * time.Minute

// roll applies a Deployment, restarts it, and deletes it with its Pods.
func (m *pool) roll(ctx context.Context, gate, declares string) (r rollout, err error) {
	deployments := m.Kube.AppsV1().Deployments(m.namespace)
	labels := map[string]string{"app": "web"}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: corev1.PodSpec{
			SchedulingGates: []corev1.PodSchedulingGate{{Name: gate}},
			Containers:      []corev1.Container{{Name: "web", Image: "web"}},
		},
	}
	if declares != "" {
		template.Annotations = map[string]string{selection.Annotation: declares}
	}
	began, mark := time.Now(), m.site.mark()
	_, err = deployments.Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace, Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(m.size)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return r, err
	}
	if err := m.awaitAvailable(ctx); err != nil {
		return r, err
	}
	r.start, r.startCalls = time.Since(began), len(m.site.since(mark))

	began, mark = time.Now(), m.site.mark()
	_, err = deployments.Patch(ctx, "web", types.StrategicMergePatchType,
		[]byte(`{"spec":{"template":{"metadata":{"annotations":{"restarted":"yes"}}}}}`), metav1.PatchOptions{})
	if err != nil {
		return r, err
	}
	if err := m.awaitAvailable(ctx); err != nil {
		return r, err
	}
	r.restart, r.restartCalls = time.Since(began), len(m.site.since(mark))
	if declares != "" {
		if r.restCalls, err = m.awaitRest(ctx); err != nil {
			return r, err
		}
	}

	err = deployments.Delete(ctx, "web", metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationForeground)})
	if err != nil {
		return r, err
	}
	return r, await(ctx, rolloutPatience, func() error {
		pods, err := m.Kube.CoreV1().Pods(m.namespace).List(ctx, metav1.ListOptions{})
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("%d Pods are left", len(pods.Items))
		}
		if _, gone := deployments.Get(ctx, "web", metav1.GetOptions{}); err == nil && !apierrors.IsNotFound(gone) {
			err = errors.New("the Deployment is still there")
		}
		return err
	})
}

// awaitRest waits until there are as many ports as Pods, and gives the number of calls until then that are no lists.
func (m *pool) awaitRest(ctx context.Context) (calls int, err error) {
	mark := m.site.mark()
	err = await(ctx, rolloutPatience, func() error {
		ports, err := m.Networks.CloudteamV1().NetworkPorts(m.namespace).List(ctx, metav1.ListOptions{})
		if err == nil && len(ports.Items) != m.size {
			err = fmt.Errorf("there are %d ports, want %d", len(ports.Items), m.size)
		}
		return err
	})
	for _, call := range m.site.since(mark) {
		if !call.lists() {
			calls++
		}
	}
	return calls, err
}

// awaitAvailable waits until the Deployment is as its template says, with all Pods available and no others.
func (m *pool) awaitAvailable(ctx context.Context) error {
	return await(ctx, rolloutPatience, func() error {
		d, err := m.Kube.AppsV1().Deployments(m.namespace).Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		n, s := int32(m.size), d.Status
		if s.ObservedGeneration < d.Generation || s.Replicas != n || s.UpdatedReplicas != n || s.AvailableReplicas != n {
			return fmt.Errorf("of %d Pods %d are updated and %d available, and there are %d",
				n, s.UpdatedReplicas, s.AvailableReplicas, s.Replicas)
		}
		return nil
	})
}
