package e2e

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"cloudteam.ztgame.com/network-controller/pkg/apis/samplecontroller/v1alpha1"
	clientset "cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned"
)

// sampleFoo is config/samples/foo.yaml.
func sampleFoo(t *testing.T) *v1alpha1.Foo {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "config", "samples", "foo.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	foo := &v1alpha1.Foo{}
	if err := yaml.UnmarshalStrict(content, foo); err != nil {
		t.Fatal(err)
	}
	return foo
}

// fooClients are an administrator's clients in one namespace of one cluster.
type fooClients struct {
	kube      kubernetes.Interface
	foos      clientset.Interface
	namespace string
}

// create creates a Foo and waits until a Deployment that it owns declares its replicas.
func (c fooClients) create(t *testing.T, foo *v1alpha1.Foo) (*v1alpha1.Foo, *appsv1.Deployment) {
	t.Helper()
	created, err := c.foos.SamplecontrollerV1alpha1().Foos(c.namespace).Create(t.Context(), foo, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created, c.awaitReplicas(t, created, *foo.Spec.Replicas)
}

func (c fooClients) awaitReplicas(t *testing.T, foo *v1alpha1.Foo, want int32) *appsv1.Deployment {
	t.Helper()
	var found *appsv1.Deployment
	eventually(t, func() (err error) {
		found, err = c.kube.AppsV1().Deployments(c.namespace).Get(t.Context(), foo.Spec.DeploymentName, metav1.GetOptions{})
		if err == nil && (!metav1.IsControlledBy(found, foo) || *found.Spec.Replicas != want) {
			err = fmt.Errorf("want %d replicas of Foo %s, have %s", want, foo.UID, asJSON(found))
		}
		return err
	})
	return found
}

// awaitAvailable waits until a Foo is Ready with a number of available replicas.
func (c fooClients) awaitAvailable(t *testing.T, name string, want int32) {
	t.Helper()
	eventually(t, func() error {
		foo, err := c.foos.SamplecontrollerV1alpha1().Foos(c.namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err == nil && (foo.Status.AvailableReplicas != want || foo.Status.ObservedGeneration != foo.Generation ||
			!meta.IsStatusConditionTrue(foo.Status.Conditions, v1alpha1.ConditionReady)) {
			err = fmt.Errorf("want %d available replicas, have %s", want, asJSON(foo.Status))
		}
		return err
	})
}

// scale scales a Deployment as kubectl scale does.
func (c fooClients) scale(t *testing.T, name string, replicas int32) {
	t.Helper()
	_, err := c.kube.AppsV1().Deployments(c.namespace).UpdateScale(t.Context(), name, &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name},
		Spec:       autoscalingv1.ScaleSpec{Replicas: replicas},
	}, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// TestFoo takes the sample through its life, with no more rights than config/rbac gives.
func TestFoo(t *testing.T) {
	for sentence, begin := range map[string]func(t *testing.T) *process{
		"beside Networks": func(t *testing.T) *process {
			return startController(t, "tenant", "--controllers=foo,network")
		},
		"alone, without a cloud": func(t *testing.T) *process {
			return start(t, []string{"HOME=" + t.TempDir()}, "--kubeconfig", kubeconfig, "--controllers=foo",
				"--bind-address", "127.0.0.1:0", "-v", "2")
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			p := begin(t)
			namespace := newNamespace(t)
			c := fooClients{kube, networks, namespace}
			foo, deployment := c.create(t, sampleFoo(t))
			awaitEvent(t, namespace, foo.Name, v1alpha1.EventSynced, `"example-foo"`)

			c.scale(t, deployment.Name, 7)
			c.awaitReplicas(t, foo, 1)
			awaitEvent(t, namespace, foo.Name, v1alpha1.EventScaled, "from 7 to 1")

			deployment = c.awaitReplicas(t, foo, 1)
			deployment.Status = appsv1.DeploymentStatus{Replicas: 1, ReadyReplicas: 1, AvailableReplicas: 1}
			_, err := kube.AppsV1().Deployments(namespace).UpdateStatus(t.Context(), deployment, metav1.UpdateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			c.awaitAvailable(t, foo.Name, 1)

			_, err = networks.SamplecontrollerV1alpha1().Foos(namespace).Patch(t.Context(), foo.Name,
				"application/merge-patch+json", []byte(`{"spec":{"deploymentName":"renamed"}}`), metav1.PatchOptions{})
			if err != nil {
				t.Fatal(err)
			}
			awaitEvent(t, namespace, foo.Name, v1alpha1.EventDeleted, `"renamed"`)
			if strings.Contains(p.output.String(), "forbidden") {
				t.Error("it lacks a right")
			}
			p.signal(syscall.SIGTERM)
			if code := p.awaitExit(t); code != 0 {
				t.Errorf("after SIGTERM it exits with %d, want 0", code)
			}
		})
	}
}

// fullControlPlane names the variable that has TestFooWithPods run.
const fullControlPlane = "CONTROLPLANE_TEST_FULL"

// TestFooWithPods lets a Foo's Pods be made, scheduled and become available, and its Deployment be collected, by the
// components of Kubernetes that do so. They are dev/controlplane's, and kwok's Node runs no containers.
func TestFooWithPods(t *testing.T) {
	if os.Getenv(fullControlPlane) != "1" {
		t.Skipf("it starts a whole control plane, whose programs take minutes to build the first time: set %s=1",
			fullControlPlane)
	}
	root := filepath.Join("..", "..")
	admin := upControlPlane(t, root)
	config, err := clientcmd.BuildConfigFromFlags("", admin)
	if err != nil {
		t.Fatal(err)
	}
	_, err = envtest.InstallCRDs(config, envtest.CRDInstallOptions{
		Paths: []string{filepath.Join(root, "config", "crd")}, ErrorIfPathMissing: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	c := fooClients{kubernetes.NewForConfigOrDie(config), clientset.NewForConfigOrDie(config), "foos"}
	_, err = c.kube.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.namespace}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	start(t, nil, "--kubeconfig", admin, "--controllers=foo", "--bind-address", "127.0.0.1:0", "-v", "2")

	foo := sampleFoo(t)
	foo.Spec.Replicas = new(int32(3))
	foo, was := c.create(t, foo)
	c.awaitAvailable(t, foo.Name, 3)
	c.scale(t, was.Name, 1)
	c.awaitReplicas(t, foo, 3)
	c.awaitAvailable(t, foo.Name, 3)

	// Deleted and at once made anew, it waits for garbage collection and does not take the old one's Deployment. The
	// garbage collector looks for new kinds every 30 seconds, and until then it does not know Foos.
	foos := c.foos.SamplecontrollerV1alpha1().Foos(c.namespace)
	if err := foos.Delete(t.Context(), foo.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	again := sampleFoo(t)
	again.Spec.Replicas = new(int32(2))
	again, is := c.create(t, again)
	if is.UID == was.UID {
		t.Error("it is the Deployment of the earlier Foo")
	}
	c.awaitAvailable(t, again.Name, 2)

	err = foos.Delete(t.Context(), again.Name,
		metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationForeground)})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		left, err := c.kube.AppsV1().Deployments(c.namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		pods, err := c.kube.CoreV1().Pods(c.namespace).List(t.Context(), metav1.ListOptions{})
		if err == nil && len(left.Items)+len(pods.Items) > 0 {
			err = fmt.Errorf("%d Deployments and %d Pods are left", len(left.Items), len(pods.Items))
		}
		return err
	})
}

// upControlPlane runs `controlplane up --components=all` until the test ends, and returns the path of its kubeconfig.
func upControlPlane(t *testing.T, root string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "controlplane")
	build := exec.Command("go", "-C", filepath.Join(root, "dev", "controlplane"), "build", "-o", program, ".")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building controlplane: %v\n%s", err, output)
	}
	up := exec.Command(program, "up", "--components=all")
	// The folder that the other tests use may hold etcd and kube-apiserver alone.
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "KUBEBUILDER_ASSETS=") || hasFile(variable, "kube-controller-manager") {
			up.Env = append(up.Env, variable)
		}
	}
	stderr := &lockedBuffer{}
	up.Stderr = stderr
	stdout, err := up.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := up.Process.Signal(syscall.SIGTERM); err != nil {
			t.Log(err)
		}
		// It kills by itself what does not stop.
		timer := time.AfterFunc(patience, func() { _ = up.Process.Kill() })
		defer timer.Stop()
		if err := up.Wait(); err != nil {
			t.Errorf("controlplane ended with %v:\n%s", err, stderr.String())
		}
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	path, ok := strings.CutPrefix(strings.TrimSpace(line), "kubeconfig: ")
	if !ok || err != nil {
		t.Fatalf("controlplane printed %q, %v:\n%s", line, err, stderr.String())
	}
	go func() { _, _ = io.Copy(io.Discard, stdout) }()
	return path
}

// hasFile reports whether the folder that a variable of the environment names holds a file.
func hasFile(variable, name string) bool {
	_, folder, _ := strings.Cut(variable, "=")
	_, err := os.Stat(filepath.Join(folder, name))
	return err == nil
}
