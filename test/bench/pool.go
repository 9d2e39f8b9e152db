package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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
				how: "Without a pool, the same Deployment's Pods are held by a gate of the benchmark's own. A loop creates one " +
					"port for one Pod after another, with the attributes that the controller gives it, and opens the Pod's " +
					"gate. The controller is stopped meanwhile. The Pods start no containers.",
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
		},
		measure: measurePool,
	}
}

// pool is the group pool while it is measured: a Deployment of Pods on a Network. Either the controller gives the Pods
// their ports, or a bare loop does.
type pool struct {
	*bench
	site      *site
	bare      *bare
	namespace string
	network   *cloudteamv1.Network
}

// rollout is a Deployment's start and its restart.
type rollout struct{ start, restart work }

func measurePool(ctx context.Context, b *bench) error {
	m := &pool{bench: b}
	if err := m.prepare(ctx); err != nil {
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
		b.report.add("pool", with.start.took.Seconds()/without.start.took.Seconds())
		b.report.add("pool-calls", float64(with.start.calls)/float64(b.size))
		b.report.add("restart", with.restart.took.Seconds()/without.restart.took.Seconds())
		b.say("round %d: start in %s, without a pool in %s; restart in %s, without in %s", round+1, with.start,
			without.start, with.restart, without.restart)
	}
	return nil
}

// prepare makes the namespace and has the controller make the Network. There is no Deployment yet.
func (m *pool) prepare(ctx context.Context) (err error) {
	if m.site, err = m.openSite(ctx, 1); err != nil {
		return err
	}
	m.bare = newBare(m.site)
	if m.namespace, err = m.newPodNamespace(ctx); err != nil {
		return err
	}
	m.sweepAfter(ctx, m.bare, m.namespace)
	c, err := m.start(ctx, m.site, m.Kubeconfig, alone...)
	if err != nil {
		return err
	}
	name := nameOf(m.namespace, 0)
	if err := m.applyOne(ctx, m.namespace, name); err != nil {
		return err
	}
	err = c.await(ctx, harness.Patience, func() (err error) {
		m.network, err = m.Networks.CloudteamV1().Networks(m.namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && !meta.IsStatusConditionTrue(m.network.Status.Conditions, cloudteamv1.ConditionReady) {
			err = errors.New("the Network is not Ready")
		}
		return err
	})
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
	r, err := m.roll(ctx, false)
	if err != nil {
		return r, c.explain(err)
	}
	err = await(ctx, rolloutPatience, func() error {
		return harness.NoneLeft(ctx, m.Networks.CloudteamV1().NetworkPorts(m.namespace))
	})
	if err != nil {
		return r, c.explain(err)
	}
	return r, c.stop(ctx)
}

func (m *pool) withoutPool(ctx context.Context) (r rollout, err error) {
	err = m.withBareLoop(ctx, func(ctx context.Context) error {
		r, err = m.roll(ctx, true)
		return err
	})
	return r, err
}

// roll applies a Deployment, restarts it, and deletes it with its Pods. With bare, they get their ports without the
// controller.
func (m *pool) roll(ctx context.Context, bare bool) (r rollout, err error) {
	r.start, err = m.available(ctx, func() error { return m.deploy(ctx, bare) })
	if err != nil {
		return r, err
	}
	r.restart, err = m.available(ctx, func() error {
		_, err := m.Kube.AppsV1().Deployments(m.namespace).Patch(ctx, deploymentName, types.StrategicMergePatchType,
			[]byte(`{"spec":{"template":{"metadata":{"annotations":{"restarted":"yes"}}}}}`), metav1.PatchOptions{})
		return err
	})
	if err != nil {
		return r, err
	}
	return r, m.undeploy(ctx)
}

// barePortGate holds the Pods that get their ports without the controller.
const barePortGate = "bench.cloudteam.ztgame.com/port"

// deploymentName is the Deployment's, and podLabels are those of its Pods.
const deploymentName = "web"

var podLabels = map[string]string{"app": deploymentName}

// deploy applies the Deployment. The controller gives its Pods their ports, or with bare nobody does but portLoop.
func (m *pool) deploy(ctx context.Context, bare bool) error {
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: podLabels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
	}
	gate := barePortGate
	if !bare {
		gate = cloudteamv1.SchedulingGate
		template.Annotations = map[string]string{selection.Annotation: m.network.Name}
	}
	template.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: gate}}
	_, err := m.Kube.AppsV1().Deployments(m.namespace).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace, Name: deploymentName},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(m.size)), Selector: &metav1.LabelSelector{MatchLabels: podLabels}, Template: template,
		},
	}, metav1.CreateOptions{})
	return err
}

// rolloutPatience is how long the Pods of a Deployment may take.
const rolloutPatience = 5 * time.Minute

// available has something done, and gives what happens from then until the Deployment is as its template says, with all
// Pods available and no others.
func (m *pool) available(ctx context.Context, do func() error) (work, error) {
	began, mark := time.Now(), m.site.mark()
	if err := do(); err != nil {
		return work{}, err
	}
	err := await(ctx, rolloutPatience, func() error {
		d, err := m.Kube.AppsV1().Deployments(m.namespace).Get(ctx, deploymentName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		n, s := *d.Spec.Replicas, d.Status
		if s.ObservedGeneration < d.Generation || s.Replicas != n || s.UpdatedReplicas != n || s.AvailableReplicas != n {
			return fmt.Errorf("of %d Pods %d are updated and %d available, and there are %d",
				n, s.UpdatedReplicas, s.AvailableReplicas, s.Replicas)
		}
		return nil
	})
	return work{took: time.Since(began), calls: len(m.site.since(mark))}, err
}

// undeploy deletes the Deployment with its Pods, and waits until they are gone.
func (m *pool) undeploy(ctx context.Context) error {
	deployments := m.Kube.AppsV1().Deployments(m.namespace)
	err := deployments.Delete(ctx, deploymentName,
		metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationForeground)})
	if err != nil {
		return err
	}
	return await(ctx, rolloutPatience, func() error {
		err := harness.NoneLeft(ctx, m.Kube.CoreV1().Pods(m.namespace))
		if _, gone := deployments.Get(ctx, deploymentName, metav1.GetOptions{}); err == nil && !apierrors.IsNotFound(gone) {
			err = errors.New("the Deployment is still there")
		}
		return err
	})
}

// withBareLoop has a loop give each Pod a port while do runs, and take it when the Pod is gone. do MUST
// remove the Pods.
func (m *pool) withBareLoop(ctx context.Context, do func(context.Context) error) error {
	var over atomic.Bool
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return m.portPerPod(ctx, &over) })
	group.Go(func() error {
		defer over.Store(true)
		return do(ctx)
	})
	return group.Wait()
}

func (m *pool) portPerPod(ctx context.Context, over *atomic.Bool) error {
	ports := map[string]string{}
	for {
		last := over.Load()
		pods, err := m.Kube.CoreV1().Pods(m.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		gone := maps.Clone(ports)
		for _, pod := range pods.Items {
			delete(gone, pod.Name)
			if ports[pod.Name] == "" && len(pod.Spec.SchedulingGates) > 0 {
				if ports[pod.Name], err = m.barePort(ctx, pod.Name); err != nil {
					return err
				}
			}
		}
		for name, id := range gone {
			if _, err := m.bare.send(ctx, http.MethodDelete, "ports/"+id, nil); err != nil {
				return err
			}
			delete(ports, name)
		}
		if last && len(ports) == 0 {
			return nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// barePort creates a port for a Pod, with the attributes that the controller gives to one, and opens the Pod's gate.
func (m *pool) barePort(ctx context.Context, pod string) (id string, err error) {
	made, err := m.bare.post(ctx, "ports", 1, map[string]any{"port": map[string]any{
		"network_id": m.network.Status.NetworkID, "device_owner": plan.PortDeviceOwner, "name": pod,
		"description": m.bare.marker(), "admin_state_up": true,
		"fixed_ips": []map[string]any{{"subnet_id": m.network.Status.Subnets[0].ID}},
	}})
	if err != nil {
		return "", err
	}
	_, err = m.Kube.CoreV1().Pods(m.namespace).Patch(ctx, pod, types.MergePatchType,
		[]byte(`{"spec":{"schedulingGates":null}}`), metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		err = nil
	}
	return made[0], err
}
