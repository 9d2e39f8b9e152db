// Package integration tests what needs a real kube-apiserver with its etcd: the CRDs as they are installed, the
// manifests in config, and the controllers against an API server.
package integration

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	"sigs.k8s.io/yaml"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// repository is the root of the repository, seen from this package's folder, where go test runs its tests.
var repository = filepath.Join("..", "..")

// networks is the resource that the Network CRD serves.
var networks = cloudteamv1.SchemeGroupVersion.WithResource("networks")

// The API server that all tests of this package share, and clients to it without a rate limit. Each test works in a
// namespace of its own (newNamespace), so that tests can run in parallel. TestMain sets them before any test runs, and
// nothing changes them afterwards.
var (
	plane      *harness.ControlPlane
	apiServer  *rest.Config
	kubeClient kubernetes.Interface
	networkAPI versioned.Interface
	anyAPI     dynamic.Interface
)

func TestMain(m *testing.M) {
	harness.RunInParallel(8)
	harness.Exit(harness.RunControlPlane(harness.APIComponents(), func(c *harness.ControlPlane) (code int, err error) {
		plane, apiServer, kubeClient, networkAPI = c, c.Admin, c.Kube, c.Networks
		if anyAPI, err = dynamic.NewForConfig(apiServer); err != nil {
			return 1, err
		}
		return m.Run(), nil
	}))
}

// eventually is harness.ControlPlane.Eventually.
func eventually(t testing.TB, check func() error) {
	t.Helper()
	plane.Eventually(t, check)
}

// logged is the test's context with a logger of a controller's lines, which are shown where the test fails. What
// client-go tells of each resync, at V(3) and above, would bury them.
func logged(t testing.TB) context.Context {
	return klog.NewContext(t.Context(), ktesting.NewLogger(t, ktesting.NewConfig(ktesting.Verbosity(2))))
}

// newNamespace creates a namespace for one test and returns its name. It stays until the API server stops: without a
// controller-manager nothing would empty it.
func newNamespace(t testing.TB) string {
	t.Helper()
	ns, err := kubeClient.CoreV1().Namespaces().Create(t.Context(), harness.Namespace("test-"), metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create a namespace: %v", err)
	}
	return ns.Name
}

// parseYAML reads one object from YAML text.
func parseYAML(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		t.Fatalf("parse YAML: %v\n%s", err, text)
	}
	return object
}

// networkWith returns a Network whose spec is the YAML text given, indented or not.
func networkWith(t testing.TB, spec string) *unstructured.Unstructured {
	t.Helper()
	network := &unstructured.Unstructured{}
	network.SetGroupVersionKind(cloudteamv1.SchemeGroupVersion.WithKind("Network"))
	network.SetName("example")
	network.Object["spec"] = parseYAML(t, spec).Object
	return network
}

// tryCreate asks the API server whether it would create an object, as kubectl does: unknown fields are errors. Nothing
// is stored. The object comes back as it would be stored, with its defaults.
func tryCreate(ctx context.Context, resource schema.GroupVersionResource, namespace string,
	object *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	return anyAPI.Resource(resource).Namespace(namespace).Create(ctx, object, metav1.CreateOptions{
		DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict,
	})
}

// refusal is one reason for which the API server refuses an object.
type refusal struct {
	// Field is the path of the field, such as spec.cidr.
	Field string
	// Message is what a person reads about it.
	Message string
}

// refusals returns the API server's reasons in their order, none for a nil error. An error that is no verdict on the
// object fails the test.
func refusals(t testing.TB, err error) []refusal {
	t.Helper()
	if err == nil {
		return nil
	}
	status, ok := err.(apierrors.APIStatus)
	if !ok || !apierrors.IsInvalid(err) || status.Status().Details == nil {
		t.Fatalf("want a verdict on the object, got: %v", err)
	}
	var found []refusal
	for _, cause := range status.Status().Details.Causes {
		// The API server says so itself when it has skipped the CEL rules after an OpenAPI error.
		if strings.Contains(cause.Message, "some validation rules were not checked") {
			continue
		}
		found = append(found, refusal{Field: cause.Field, Message: cause.Message})
	}
	if len(found) == 0 {
		t.Fatalf("refused without a reason: %v", err)
	}
	return found
}
