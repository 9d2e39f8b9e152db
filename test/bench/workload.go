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

// workload is a Deployment of Pods on a Network, in a namespace of its own, while a group is measured. Either the
// controller gives the Pods their ports, or a bare loop does.
type workload struct {
	*bench
	site      *site
	bare      *bare
	namespace string
	network   *cloudteamv1.Network
}

// newWorkload makes the namespace and has the controller make the Network. There is no Deployment yet.
func (b *bench) newWorkload(ctx context.Context) (*workload, error) {
	m := &workload{bench: b}
	var err error
	if m.site, err = b.openSite(ctx, 1); err != nil {
		return nil, err
	}
	m.bare = newBare(m.site)
	if m.namespace, err = b.newNamespace(ctx); err != nil {
		return nil, err
	}
	b.sweepAfter(ctx, m.bare, m.namespace)
	// A Pod is refused until its service account has been made.
	err = await(ctx, harness.Patience, func() error {
		_, err := b.Kube.CoreV1().ServiceAccounts(m.namespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	if err != nil {
		return nil, err
	}
	observer, err := b.observe(ctx, m.namespace)
	if err != nil {
		return nil, err
	}
	c, err := m.start(ctx, m.site, m.Kubeconfig, alone...)
	if err != nil {
		return nil, err
	}
	name := nameOf(m.namespace, 0)
	if err := m.applyOne(ctx, m.namespace, name); err != nil {
		return nil, err
	}
	if _, err := observer.awaitReady(ctx, 1); err != nil {
		return nil, c.explain(err)
	}
	m.network, err = m.Networks.CloudteamV1().Networks(m.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return m, c.stop(ctx)
}

// barePortGate holds the Pods that get their ports without the controller.
const barePortGate = "bench.cloudteam.ztgame.com/port"

// deploymentName is the Deployment's, and podLabels are those of its Pods.
const deploymentName = "web"

var podLabels = map[string]string{"app": deploymentName}

// deploy applies the Deployment, with so many Pods. The controller gives these their ports, or with bare nobody does
// but portPerPod.
func (m *workload) deploy(ctx context.Context, replicas int, bare bool) error {
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
			Replicas: new(int32(replicas)), Selector: &metav1.LabelSelector{MatchLabels: podLabels}, Template: template,
		},
	}, metav1.CreateOptions{})
	return err
}

// rolloutPatience is how long the Pods of a Deployment may take.
const rolloutPatience = 5 * time.Minute

// awaitAvailable waits until the Deployment is as its template says, with all Pods available and no others.
func (m *workload) awaitAvailable(ctx context.Context) error {
	return await(ctx, rolloutPatience, func() error {
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
}

// undeploy deletes the Deployment with its Pods, and waits until they are gone.
func (m *workload) undeploy(ctx context.Context) error {
	deployments := m.Kube.AppsV1().Deployments(m.namespace)
	err := deployments.Delete(ctx, deploymentName,
		metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationForeground)})
	if err != nil {
		return err
	}
	return await(ctx, rolloutPatience, func() error {
		pods, err := m.Kube.CoreV1().Pods(m.namespace).List(ctx, metav1.ListOptions{})
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("%d Pods are left", len(pods.Items))
		}
		if _, gone := deployments.Get(ctx, deploymentName, metav1.GetOptions{}); err == nil && !apierrors.IsNotFound(gone) {
			err = errors.New("the Deployment is still there")
		}
		return err
	})
}

// awaitPorts waits until there are so many NetworkPorts.
func (m *workload) awaitPorts(ctx context.Context, n int) error {
	return await(ctx, rolloutPatience, func() error {
		ports, err := m.Networks.CloudteamV1().NetworkPorts(m.namespace).List(ctx, metav1.ListOptions{})
		if err == nil && len(ports.Items) != n {
			err = fmt.Errorf("there are %d NetworkPorts, want %d", len(ports.Items), n)
		}
		return err
	})
}

// bareBody is the create of a port, with the attributes that the controller gives to one. groups are the ids of its
// security groups; with nil, Neutron chooses.
func (m *workload) bareBody(name string, groups []string) map[string]any {
	body := map[string]any{
		"network_id": m.network.Status.NetworkID, "device_owner": plan.PortDeviceOwner, "name": name,
		"description": m.bare.marker(), "admin_state_up": true,
		"fixed_ips": []map[string]any{{"subnet_id": m.network.Status.Subnets[0].ID}},
	}
	if groups != nil {
		body["security_groups"] = groups
	}
	return body
}

// withBareLoop has a loop give each Pod a port in groups while do runs. Then it waits until the loop has taken them
// back: do MUST remove the Pods.
func (m *workload) withBareLoop(ctx context.Context, groups []string, do func(context.Context) error) error {
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
		return err
	}
	factory.StartWithContext(ctx)
	factory.WaitForCacheSync(ctx.Done())
	loop := portLoop{workload: m, pods: pods.Lister().Pods(m.namespace), queue: queue, groups: groups}
	failed := make(chan error, 1)
	go func() { failed <- loop.run(ctx) }()
	err = do(ctx)
	if err == nil {
		err = await(ctx, harness.Patience, func() error {
			if n := loop.left.Load(); n > 0 {
				return fmt.Errorf("%d ports are left", n)
			}
			return nil
		})
	}
	queue.ShutDown()
	err = errors.Join(<-failed, err)
	cancel()
	factory.Shutdown()
	return err
}

// portLoop gives each Pod a port when it appears, and takes it when it goes.
type portLoop struct {
	*workload
	pods  corelisters.PodNamespaceLister
	queue workqueue.TypedInterface[string]
	// groups are the ids of the ports' security groups.
	groups []string
	// left is how many ports there are.
	left atomic.Int64
}

func (l *portLoop) run(ctx context.Context) error {
	ports := map[string]string{}
	for {
		name, over := l.queue.Get()
		if over {
			return nil
		}
		pod, err := l.pods.Get(name)
		id := ports[name]
		switch {
		case apierrors.IsNotFound(err) && id != "":
			if _, err := l.bare.send(ctx, http.MethodDelete, "ports/"+id, nil); err != nil {
				return err
			}
			delete(ports, name)
			l.left.Add(-1)
		case err == nil && id == "" && len(pod.Spec.SchedulingGates) > 0:
			id, err := l.bare.postOne(ctx, "port", l.bareBody(name, l.groups))
			if err != nil {
				return err
			}
			ports[name] = id
			l.left.Add(1)
			_, err = l.Kube.CoreV1().Pods(l.namespace).Patch(ctx, name, types.MergePatchType,
				[]byte(`{"spec":{"schedulingGates":null}}`), metav1.PatchOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
		l.queue.Done(name)
	}
}
