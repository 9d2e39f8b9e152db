package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/conntest"
	"cloudteam.ztgame.com/network-controller/internal/node/probe"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// TestConntestAtTheAPIServer has a user with the rights of the docs, and no others, make a test of connections in a
// namespace where only Pods of the standard "restricted" may be created. The test plays the controller, the scheduler and
// the kubelets.
func TestConntestAtTheAPIServer(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	patch := []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`)
	_, err := kubeClient.CoreV1().Namespaces().Patch(t.Context(), namespace, types.MergePatchType, patch, metav1.PatchOptions{})
	expect.NoError(t, err)
	network := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	network.Spec.CIDR = "10.40.0.0/24"
	network, err = networkAPI.CloudteamV1().Networks(namespace).Create(t.Context(), network, metav1.CreateOptions{})
	expect.NoError(t, err)
	network.Status.ObservedGeneration = network.Generation
	network.Status.Conditions = []metav1.Condition{{Type: cloudteamv1.ConditionReady, Status: metav1.ConditionTrue,
		Reason: cloudteamv1.ReasonAvailable, LastTransitionTime: metav1.Now()}}
	network.Status.Subnets = []cloudteamv1.SubnetStatus{{ID: "s", CIDR: "10.40.0.0/24", Gateway: "10.40.0.1"}}
	_, err = networkAPI.CloudteamV1().Networks(namespace).UpdateStatus(t.Context(), network, metav1.UpdateOptions{})
	expect.NoError(t, err)
	o := conntest.Options{
		Namespace: namespace, Network: types.NamespacedName{Namespace: namespace, Name: network.Name}, Image: "agent",
		Port: 8080, Timeout: time.Minute, ID: "x7k2p", Now: time.Now, Log: allPass,
	}
	user := podTester(t, namespace, "dora", "create", "list", "patch")
	if _, err := conntest.Run(t.Context(), user, o); err == nil ||
		err.Error() != fmt.Sprintf("you may not delete pods in namespace %s: the test starts Pods there. Ask for these rights, "+
			"such as by the role edit, or test in another namespace (-n) that may use the Network", namespace) {
		t.Errorf("without the right to delete Pods: %v", err)
	}

	user = podTester(t, namespace, "erin", "create", "list", "patch", "delete")
	ctx, cancel := context.WithCancel(t.Context())
	played := make(chan error, 1)
	go func() { played <- play(ctx, namespace) }()
	report, err := conntest.Run(t.Context(), user, o)
	cancel()
	expect.NoError(t, <-played)
	if err != nil || !report.Passed || len(report.Checks) != 6 || report.Pods[0].Node == report.Pods[1].Node {
		t.Errorf("got %+v, %v", report, err)
	}
	pods, err := kubeClient.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	expect.NoError(t, err)
	for _, pod := range pods.Items { // a kubelet would remove it
		if pod.DeletionTimestamp == nil {
			t.Errorf("Pod %s is left behind", pod.Name)
		}
	}
}

// podTester is a user with verbs on Pods, who may read logs and Networks.
func podTester(t *testing.T, namespace, name string, verbs ...string) *ask.Cluster {
	t.Helper()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: verbs},
		{APIGroups: []string{""}, Resources: []string{"pods/log"}, Verbs: []string{"get"}},
		{APIGroups: []string{cloudteamv1.SchemeGroupVersion.Group}, Resources: []string{"networks"}, Verbs: []string{"get"}},
	}}
	harness.Create(t, kubeClient.RbacV1().Roles(namespace), role)
	harness.Create(t, kubeClient.RbacV1().RoleBindings(namespace), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
	})
	config := rest.CopyConfig(apiServer)
	config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: []string{"system:authenticated"}}
	kube, err := kubernetes.NewForConfig(config)
	expect.NoError(t, err)
	networks, err := versioned.NewForConfig(config)
	expect.NoError(t, err)
	// The API server learns of a RoleBinding a moment later.
	eventually(t, func() error {
		_, err := kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
		return err
	})
	return &ask.Cluster{Kubernetes: kube, Networks: networks}
}

// allPass is the log of a probe all of whose checks pass.
func allPass(ctx context.Context, namespace, name, _ string) ([]byte, error) {
	pod, err := kubeClient.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	plan, err := probe.ReadPlan(pod.Annotations["cloudteam.ztgame.com/conntest-plan"])
	if err != nil {
		return nil, err
	}
	var log []byte
	for i := range plan.Checks {
		line, err := json.Marshal(probe.Result{Check: i, Attempt: 1, OK: true, Took: time.Millisecond})
		if err != nil {
			return nil, err
		}
		log = append(append(log, line...), '\n')
	}
	return log, nil
}

// play gives the Pods of a namespace ports, then nodes, and has them run, until ctx is done.
func play(ctx context.Context, namespace string) error {
	watcher, err := kubeClient.CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{LabelSelector: conntest.Label})
	if err != nil {
		return err
	}
	defer watcher.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case event, open := <-watcher.ResultChan():
			pod, is := event.Object.(*corev1.Pod)
			if !open || ctx.Err() != nil {
				return nil
			}
			if !is || pod.DeletionTimestamp != nil {
				continue
			}
			err := proceed(ctx, pod)
			if err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
				return fmt.Errorf("Pod %s: %w", pod.Name, err)
			}
		}
	}
}

// proceed takes a Pod to its next state.
func proceed(ctx context.Context, pod *corev1.Pod) error {
	pods, number := kubeClient.CoreV1().Pods(pod.Namespace), pod.Name[len(pod.Name)-1:]
	gates := pod.Spec.SchedulingGates
	switch {
	case len(gates) > 0 && gates[0].Name == cloudteamv1.SchedulingGate:
		allocation, err := json.Marshal([]cloudteamv1.Allocation{{IPs: []string{"10.40.0.1" + number + "/24"}}})
		if err != nil {
			return err
		}
		pod.Annotations[cloudteamv1.AnnotationAllocations] = string(allocation)
		pod.Spec.SchedulingGates = gates[1:]
		_, err = pods.Update(ctx, pod, metav1.UpdateOptions{})
		return err
	case len(gates) > 0:
		return nil
	case pod.Spec.NodeName == "":
		return pods.Bind(ctx, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name},
			Target: corev1.ObjectReference{Kind: "Node", Name: "node" + number}}, metav1.CreateOptions{})
	case pod.Status.Phase == corev1.PodPending:
		pod.Status.Phase = corev1.PodRunning
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: conntest.Container, Ready: true,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		_, err := pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		return err
	}
	return nil
}
