package chart

import (
	"slices"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

// as reads an object into its type, and refuses fields that the type does not have.
func as[T any](t *testing.T, object *unstructured.Unstructured) (into T) {
	t.Helper()
	if object == nil {
		t.Fatal("it is absent")
	}
	text, err := yaml.Marshal(object.Object)
	if err == nil {
		err = yaml.UnmarshalStrict(text, &into)
	}
	if err != nil {
		t.Fatalf("%s %s: %v", object.GetKind(), object.GetName(), err)
	}
	return into
}

// scrapesPodsThatServe holds a PodMonitor to the operator's own types, and what it names to the other objects. It scrapes
// the Pods of a template.
func scrapesPodsThatServe(
	t *testing.T, objects map[string]*unstructured.Unstructured, key string, pods corev1.PodTemplateSpec,
) monitoringv1.PodMonitor {
	t.Helper()
	monitor := as[monitoringv1.PodMonitor](t, objects[key])
	if want := monitoringv1.SchemeGroupVersion.WithKind(monitoringv1.PodMonitorsKind); monitor.GroupVersionKind() != want {
		t.Errorf("the PodMonitor is of %s, want %s", monitor.GroupVersionKind(), want)
	}
	selector, err := metav1.LabelSelectorAsSelector(&monitor.Spec.Selector)
	expect.NoError(t, err)
	if selector.Empty() || !selector.Matches(labels.Set(pods.Labels)) {
		t.Errorf("it selects Pods with %s, the Pods have %v", selector, pods.Labels)
	}
	if len(monitor.Spec.PodMetricsEndpoints) != 1 {
		t.Fatalf("it has %d endpoints, want 1", len(monitor.Spec.PodMetricsEndpoints))
	}
	endpoint := monitor.Spec.PodMetricsEndpoints[0]
	if endpoint.Port == nil || !slices.ContainsFunc(pods.Spec.Containers[0].Ports, func(p corev1.ContainerPort) bool {
		return p.Name == *endpoint.Port
	}) {
		t.Errorf("it scrapes the port %v, the container has %v", endpoint.Port, pods.Spec.Containers[0].Ports)
	}
	if endpoint.Scheme == nil || endpoint.Scheme.String() != "https" {
		t.Errorf("it scrapes by %v", endpoint.Scheme)
	}
	if endpoint.Authorization == nil || endpoint.Authorization.Credentials == nil {
		t.Fatal("it sends no token")
	}
	credentials := endpoint.Authorization.Credentials
	secret := as[corev1.Secret](t, objects["Secret/"+credentials.Name])
	account := secret.Annotations[corev1.ServiceAccountNameKey]
	if secret.Type != corev1.SecretTypeServiceAccountToken || credentials.Key != corev1.ServiceAccountTokenKey ||
		objects["ServiceAccount/"+account] == nil {
		t.Errorf("it sends %s of a Secret of the type %s, of the account %s", credentials.Key, secret.Type, account)
	}
	return monitor
}

// TestMonitoringIsWhatThePrometheusOperatorReads holds the objects of monitoring.enabled=true, which are those of
// config/monitoring and config/node-metrics, to the operator's own types.
func TestMonitoringIsWhatThePrometheusOperatorReads(t *testing.T) {
	objects := render(t, "monitoring.enabled=true", "nodeAgent.enabled=true", "nodeAgent.metricsPort=9480")
	monitor := scrapesPodsThatServe(t, objects, "PodMonitor/"+name, as[appsv1.Deployment](t, objects["Deployment/"+name]).Spec.Template)
	if !monitor.Spec.PodMetricsEndpoints[0].HonorLabels {
		t.Error("the namespaces in the metrics are replaced")
	}
	agents := as[appsv1.DaemonSet](t, objects["DaemonSet/network-agent"])
	monitor = scrapesPodsThatServe(t, objects, "PodMonitor/network-agent", agents.Spec.Template)
	if !slices.Equal(monitor.Spec.NamespaceSelector.MatchNames, []string{agents.Namespace}) {
		t.Errorf("it looks in %v, the agents are in %s", monitor.Spec.NamespaceSelector, agents.Namespace)
	}

	rules := as[monitoringv1.PrometheusRule](t, objects["PrometheusRule/"+name])
	if want := monitoringv1.SchemeGroupVersion.WithKind(monitoringv1.PrometheusRuleKind); rules.GroupVersionKind() != want {
		t.Errorf("the PrometheusRule is of %s, want %s", rules.GroupVersionKind(), want)
	}
	alerts := 0
	for _, group := range rules.Spec.Groups {
		alerts += len(group.Rules)
	}
	if alerts == 0 {
		t.Error("the PrometheusRule has no alert")
	}
}
