package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// TestServicesWithEndpoints is lifeOfServices, in which the controller is killed, too.
func TestServicesWithEndpoints(t *testing.T) {
	inTime(t, func(t *testing.T) {
		process := startController(t, "tenant")
		lifeOfServices(t, func(meanwhile func()) {
			process.kill(t)
			meanwhile()
			startController(t, "tenant")
		})
	})
}

// awaitEndpoints waits until a Service's endpoints are the Pods of a label and a number with their addresses on their only
// Network, and only these. unready are the names of Pods that are not ready.
func awaitEndpoints(t *testing.T, namespace, service, selector string, pods int, unready ...string) {
	t.Helper()
	eventually(t, func() error {
		list, err := kube.DiscoveryV1().EndpointSlices(namespace).List(t.Context(),
			metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service})
		if err != nil {
			return err
		}
		var have, want []string
		for _, slice := range list.Items {
			if by := slice.Labels[discoveryv1.LabelManagedBy]; by != "network-controller.cloudteam.ztgame.com" {
				return fmt.Errorf("a slice of the Service is managed by %s", by)
			}
			for _, e := range slice.Endpoints {
				have = append(have, fmt.Sprintf("%s %s ready %t at %s:%d", e.TargetRef.Name, e.Addresses[0], *e.Conditions.Ready,
					*slice.Ports[0].Name, *slice.Ports[0].Port))
			}
		}
		all, err := kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return err
		}
		if len(all.Items) != pods {
			return fmt.Errorf("there are %d Pods, want %d", len(all.Items), pods)
		}
		for _, pod := range all.Items {
			if pod.DeletionTimestamp != nil || pod.Annotations[cloudteamv1.AnnotationAllocations] == "" {
				return fmt.Errorf("Pod %s is not what is waited for", pod.Name)
			}
			for _, ip := range allocationsOf(t, &pod)[0].IPs {
				address, _, _ := strings.Cut(ip, "/")
				want = append(want, fmt.Sprintf("%s %s ready %t at http:8080", pod.Name, address, !slices.Contains(unready, pod.Name)))
			}
		}
		slices.Sort(have)
		slices.Sort(want)
		if !slices.Equal(have, want) {
			return fmt.Errorf("the endpoints of %s are %v, want %v", service, have, want)
		}
		return nil
	})
}

// lifeOfServices has Services with endpoints on a Network follow the Pods of a Deployment and of a StatefulSet. restart
// starts the controller anew, and has something happen before.
func lifeOfServices(t *testing.T, restart func(meanwhile func())) {
	namespace := newNamespace(t)
	awaitGate(t, namespace)
	network := unique(t, namespace)
	apply(t, namespace, network, cloudteamv1.NetworkSpec{
		SubnetSpec:        cloudteamv1.SubnetSpec{CIDR: "10.75.0.0/24"},
		AdditionalSubnets: []cloudteamv1.SubnetSpec{{CIDR: "fd00:75::/64"}},
	})
	services := kube.CoreV1().Services(namespace)
	for _, name := range []string{"web", "db"} {
		harness.Create(t, services, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
				cloudteamv1.AnnotationEndpointsNetwork: network, cloudteamv1.AnnotationEndpointsSelector: "app=" + name,
			}},
			Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{
				{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromString("web")},
			}}, // by default, it has both families: also in a cluster of one
		})
	}
	named := []corev1.ContainerPort{{Name: "web", Protocol: corev1.ProtocolTCP, ContainerPort: 8080}}
	deployment := harness.DeploymentOn("web", network, 2)
	deployment.Spec.Template.Spec.Containers[0].Ports = named
	harness.Create(t, kube.AppsV1().Deployments(namespace), deployment)
	awaitEndpoints(t, namespace, "web", "app=web", 2)

	// A rollout has other Pods.
	editDeployment(t, namespace, "web", `{"spec":{"template":{"metadata":{"annotations":{"example.com/version":"2"}}}}}`)
	eventually(t, func() error {
		d, err := kube.AppsV1().Deployments(namespace).Get(t.Context(), "web", metav1.GetOptions{})
		if err == nil && (d.Status.ObservedGeneration != d.Generation || d.Status.UpdatedReplicas != 2) {
			err = fmt.Errorf("the rollout goes on: %+v", d.Status)
		}
		return err
	})
	awaitEndpoints(t, namespace, "web", "app=web", 2)

	// A Pod that is not ready is an endpoint that is not.
	one := awaitPods(t, namespace, "app=web", 2)[0].Name
	ready := func(status corev1.ConditionStatus) {
		t.Helper()
		_, err := kube.CoreV1().Pods(namespace).Patch(t.Context(), one, "application/strategic-merge-patch+json", fmt.Appendf(nil,
			`{"status":{"conditions":[{"type":"Ready","status":%q}]}}`, status), metav1.PatchOptions{}, "status")
		expect.NoError(t, err)
	}
	ready(corev1.ConditionFalse)
	awaitEndpoints(t, namespace, "web", "app=web", 2, one)
	ready(corev1.ConditionTrue)
	awaitEndpoints(t, namespace, "web", "app=web", 2)

	// A Pod is lost, and the next one has its place.
	restart(func() {
		harness.Delete(t, kube.CoreV1().Pods(namespace), one, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	})
	awaitEndpoints(t, namespace, "web", "app=web", 2)

	// The Pods of a StatefulSet have names.
	set := harness.StatefulSetOn("db", network, 2, appsv1.ParallelPodManagement)
	set.Spec.ServiceName, set.Spec.Template.Spec.Containers[0].Ports = "db", named
	harness.Create(t, kube.AppsV1().StatefulSets(namespace), set)
	awaitEndpoints(t, namespace, "db", "app=db", 2)
	list, err := kube.DiscoveryV1().EndpointSlices(namespace).List(t.Context(),
		metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=db"})
	expect.NoError(t, err)
	for _, slice := range list.Items {
		for _, e := range slice.Endpoints {
			if e.Hostname == nil || *e.Hostname != e.TargetRef.Name {
				t.Errorf("Pod %s has not its name: %+v", e.TargetRef.Name, e)
			}
		}
	}

	// What makes kube-proxy or Kubernetes act, and what asks for nothing, has no endpoints.
	harness.Patch(t, services, "db", `{"spec":{"selector":{"app":"none"},"ipFamilyPolicy":"SingleStack","ipFamilies":["IPv4"]}}`)
	awaitEvent(t, namespace, "db", cloudteamv1.EventEndpointsFailed, "spec.selector is set")
	harness.Patch(t, services, "web", `{"metadata":{"annotations":null}}`)
	eventually(t, func() error {
		return harness.NoneLeft(t.Context(), kube.DiscoveryV1().EndpointSlices(namespace), metav1.ListOptions{
			LabelSelector: discoveryv1.LabelManagedBy + "=network-controller.cloudteam.ztgame.com"})
	})
	for _, name := range []string{"web", "db"} {
		harness.Delete(t, services, name)
	}
	removeStatefulSet(t, namespace, "db", metav1.DeletePropagationBackground)
	removeDeployment(t, namespace, "web")
}
