package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"cloudteam.ztgame.com/network-controller/pkg/apis/samplecontroller/v1alpha1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// sampleFoo is config/samples/foo.yaml.
func sampleFoo(t *testing.T) *v1alpha1.Foo {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "config", "samples", "foo.yaml"))
	expect.NoError(t, err)
	foo := &v1alpha1.Foo{}
	expect.NoError(t, yaml.UnmarshalStrict(content, foo))
	return foo
}

// createFoo creates a Foo and waits until a Deployment that it owns declares its replicas.
func createFoo(t *testing.T, namespace string, foo *v1alpha1.Foo) (*v1alpha1.Foo, *appsv1.Deployment) {
	t.Helper()
	created := harness.Create(t, networks.SamplecontrollerV1alpha1().Foos(namespace), foo)
	return created, awaitReplicas(t, created, *foo.Spec.Replicas)
}

// awaitReplicas waits until a Foo's Deployment declares a number of replicas.
func awaitReplicas(t *testing.T, foo *v1alpha1.Foo, want int32) *appsv1.Deployment {
	t.Helper()
	return harness.Await(t, surroundings, kube.AppsV1().Deployments(foo.Namespace), foo.Spec.DeploymentName,
		func(d *appsv1.Deployment) error {
			if !metav1.IsControlledBy(d, foo) || *d.Spec.Replicas != want {
				return fmt.Errorf("want %d replicas of Foo %s, have %s", want, foo.UID, asJSON(d))
			}
			return nil
		})
}

// awaitAvailable waits until a Foo is Ready with a number of available replicas, each of which is a Pod.
func awaitAvailable(t *testing.T, namespace, name string, want int32) {
	t.Helper()
	foos := networks.SamplecontrollerV1alpha1().Foos(namespace)
	harness.Await(t, surroundings, foos, name, func(foo *v1alpha1.Foo) error {
		if foo.Status.AvailableReplicas != want || foo.Status.ObservedGeneration != foo.Generation ||
			!meta.IsStatusConditionTrue(foo.Status.Conditions, v1alpha1.ConditionReady) {
			return fmt.Errorf("want %d available replicas, have %s", want, asJSON(foo.Status))
		}
		return nil
	})
	awaitPods(t, namespace, "", int(want))
}

// TestFoo takes the sample through its life: beside the other controllers with an administrator's rights, and alone with
// no more than config/foo gives.
func TestFoo(t *testing.T) {
	withProcesses(t)
	for sentence, begin := range map[string]func(t *testing.T) *process{
		"beside Networks": func(t *testing.T) *process {
			return startController(t, "tenant", "--kubeconfig", surroundings.AdminKubeconfig, "--controllers=foo,network")
		},
		"alone, without a cloud": startFooController,
	} {
		t.Run(sentence, func(t *testing.T) {
			p := begin(t)
			namespace := newNamespace(t)
			foo, deployment := createFoo(t, namespace, sampleFoo(t))
			awaitEvent(t, namespace, foo.Name, v1alpha1.EventSynced, `"example-foo"`)
			awaitAvailable(t, namespace, foo.Name, 1)

			scale(t, namespace, deployment.Name, 7)
			awaitReplicas(t, foo, 1)
			awaitEvent(t, namespace, foo.Name, v1alpha1.EventScaled, "from 7 to 1")
			awaitAvailable(t, namespace, foo.Name, 1)

			harness.Patch(t, networks.SamplecontrollerV1alpha1().Foos(namespace), foo.Name, `{"spec":{"deploymentName":"renamed"}}`)
			awaitEvent(t, namespace, foo.Name, v1alpha1.EventDeleted, `"renamed"`)
			awaitAvailable(t, namespace, foo.Name, 1)
			if strings.Contains(p.Log(), "forbidden") {
				t.Error("it lacks a right")
			}
			p.signal(syscall.SIGTERM)
			expect.Equal(t, 0, p.awaitExit(t), "the exit code after SIGTERM")
		})
	}
}

// startFooController runs the binary with the one controller that needs no cloud.
func startFooController(t *testing.T) *process {
	t.Helper()
	return start(t, []string{"HOME=" + t.TempDir()}, "--kubeconfig", surroundings.FooKubeconfig, "--controllers=foo",
		"--leader-elect-resource-name", harness.FooAccountName, "--bind-address", "127.0.0.1:0", "-v", "2")
}

// TestFooIsCollected deletes Foos: their Deployments and Pods go by garbage collection.
func TestFooIsCollected(t *testing.T) {
	withProcesses(t)
	startFooController(t)
	namespace := newNamespace(t)
	foos := networks.SamplecontrollerV1alpha1().Foos(namespace)
	foo := sampleFoo(t)
	foo.Spec.Replicas = new(int32(3))
	foo, was := createFoo(t, namespace, foo)
	awaitAvailable(t, namespace, foo.Name, 3)

	// Deleted and at once made anew, it waits for garbage collection and does not take the old one's Deployment.
	harness.Delete(t, foos, foo.Name)
	again := sampleFoo(t)
	again.Spec.Replicas = new(int32(2))
	again, is := createFoo(t, namespace, again)
	if is.UID == was.UID {
		t.Error("it is the Deployment of the earlier Foo")
	}
	awaitAvailable(t, namespace, again.Name, 2)

	harness.Delete(t, foos, again.Name,
		metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationForeground)})
	awaitPods(t, namespace, "", 0)
	eventually(t, func() error {
		left, err := kube.AppsV1().Deployments(namespace).List(t.Context(), metav1.ListOptions{})
		if err == nil && len(left.Items) > 0 {
			err = fmt.Errorf("%d Deployments are left", len(left.Items))
		}
		return err
	})
}
