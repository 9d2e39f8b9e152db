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

// TestMonitoringIsWhatThePrometheusOperatorReads holds the objects of monitoring.enabled=true, which are those of
// config/monitoring, to the operator's own types, and what the PodMonitor names to the other objects.
func TestMonitoringIsWhatThePrometheusOperatorReads(t *testing.T) {
	objects := render(t, "monitoring.enabled=true")
	monitor := as[monitoringv1.PodMonitor](t, objects["PodMonitor/"+name])
	if want := monitoringv1.SchemeGroupVersion.WithKind(monitoringv1.PodMonitorsKind); monitor.GroupVersionKind() != want {
		t.Errorf("the PodMonitor is of %s, want %s", monitor.GroupVersionKind(), want)
	}
	pods := as[appsv1.Deployment](t, objects["Deployment/"+name]).Spec.Template
	selector, err := metav1.LabelSelectorAsSelector(&monitor.Spec.Selector)
	expect.NoError(t, err)
	if selector.Empty() || !selector.Matches(labels.Set(pods.Labels)) {
		t.Errorf("it selects Pods with %s, those of the Deployment have %v", selector, pods.Labels)
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
	if endpoint.Scheme == nil || endpoint.Scheme.String() != "https" || !endpoint.HonorLabels {
		t.Errorf("it scrapes by %v, with honorLabels %t", endpoint.Scheme, endpoint.HonorLabels)
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
