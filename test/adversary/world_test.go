package adversary

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	clientset "cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/proxy"
)

// world is one controller, and proxies between it and its cloud.
type world struct {
	*harness.Surroundings
	t       *testing.T
	process harness.Controller
	// arguments are those of the command line that the tests add.
	arguments []string
	// keystone and neutron see the controller's calls.
	keystone, neutron *proxy.Proxy
	// clouds is the path of the controller's clouds.yaml.
	clouds string
	// habits are those of Neutron as the controller sees it.
	habits harness.Habits
	// cloud is the second opinion, past the proxies.
	cloud *harness.Cloud
}

// cloudName is the cloud whose credentials are the controller's.
const cloudName = "tenant"

// newWorld starts a controller that runs until the test ends.
func newWorld(t *testing.T, arguments ...string) *world {
	t.Helper()
	w := newSurroundings(t)
	w.arguments = arguments
	w.start()
	return w
}

// newSurroundings makes a world without a controller.
func newSurroundings(t *testing.T) *world {
	t.Helper()
	w := &world{Surroundings: surroundings, t: t, clouds: filepath.Join(t.TempDir(), "clouds.yaml")}
	if virtualTime {
		w.Surroundings = harness.Virtual(t, options)
	}
	w.habits.Next = w.Transport
	w.cloud = harness.Open(t, w.CloudsFile, cloudName)
	names := []string{cloudName, "admin"}
	if !openStack() {
		names = append(names, otherCloud)
	}
	var err error
	w.keystone, w.neutron, err = harness.FrontCloud(w.CloudsFile, w.clouds, names, w.cloud.Client.Endpoint,
		proxy.Options{Listener: w.Listen("keystone"), Transport: w.Transport},
		proxy.Options{Listener: w.Listen("neutron"), Transport: &w.habits})
	expect.NoError(t, err)
	t.Cleanup(w.neutron.Close)
	t.Cleanup(w.keystone.Close)
	return w
}

// start starts a controller, in the place of one that has ended.
func (w *world) start() {
	w.t.Helper()
	w.process = w.StartFor(w.t, w.clouds, append([]string{
		"--kubeconfig", w.Kubeconfig, "--cloud", cloudName, "--bind-address", "127.0.0.1:0",
		"--audit-interval", "2s", "--pool-cooldown", "2s", "--leader-elect=false", "-v", "2",
	}, w.arguments...)...)
}

// tenant is a user with the role edit in a namespace, and nowhere else.
type tenant struct {
	world *world
	// t is nil in a sequence.
	t *testing.T
	// name is the user's, and the namespace's.
	name     string
	kube     kubernetes.Interface
	networks clientset.Interface
}

// newTenant makes a namespace and its editor.
func (w *world) newTenant() *tenant {
	t := w.t
	t.Helper()
	name := "tenant-" + string(uuid.NewUUID())[:8]
	who, err := w.newEditor(name)
	if err == nil {
		who.t = t
		err = w.openNamespace(t.Context(), name, true)
	}
	expect.NoError(t, err)
	t.Cleanup(func() {
		// What it holds ends with it, while this test's controller runs, so that the next test has the cloud to itself.
		namespaces := w.Kube.CoreV1().Namespaces()
		ctx := cleanup(t)
		err := namespaces.Delete(ctx, name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
		patience := 2 * time.Minute
		if openStack() {
			patience = 30 * time.Second // there are few tests there
		}
		err = harness.Poll(nil, patience, 200*time.Millisecond, func() error {
			_, err := namespaces.Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return cmp.Or(err, fmt.Errorf("namespace %s is still there", name))
		})
		if err != nil {
			t.Log(err) // a test may have held it on purpose
		}
	})
	// Kubernetes takes a moment to add our rules to its role.
	w.Eventually(t, func() error {
		_, err := who.networks.CloudteamV1().Networks(who.name).List(t.Context(), metav1.ListOptions{})
		return err
	})
	return who
}

// newEditor is the editor of a namespace, which need not be there.
func (w *world) newEditor(name string) (who *tenant, err error) {
	who = &tenant{world: w, name: name}
	config := rest.CopyConfig(w.Admin)
	config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: []string{"system:authenticated"}}
	if who.kube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	who.networks, err = clientset.NewForConfig(config)
	return who, err
}

// openNamespace makes a namespace for its editor, with the controller's right to the Secrets in it, as an operator does.
func (w *world) openNamespace(ctx context.Context, name string, labelled bool) error {
	namespace := harness.Namespace("")
	namespace.Name = name
	if !labelled {
		namespace.Labels = nil
	}
	if _, err := w.Kube.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return err
	}
	var errs []error
	for role, subject := range map[string]rbacv1.Subject{
		"edit": {APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name},
		"network-controller-credentials": {
			Kind: rbacv1.ServiceAccountKind, Name: harness.AccountName, Namespace: harness.AccountName,
		},
	} {
		_, err := w.Kube.RbacV1().RoleBindings(name).Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{subject},
		}, metav1.CreateOptions{})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// credentials gives the tenant's namespace a Secret with credentials for a cloud of a clouds.yaml.
func (who *tenant) credentials(cloudsFile string) {
	who.t.Helper()
	harness.Create(who.t, who.kube.CoreV1().Secrets(who.name), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: secretName}, StringData: map[string]string{
			"clouds.yaml": harness.CloudsOf(who.t, cloudsFile, cloudName, nil),
		},
	})
}

// leave deletes all of the tenant's Networks and NetworkPorts, and waits until they are gone.
func (who *tenant) leave() {
	who.t.Helper()
	v1, all := who.networks.CloudteamV1(), metav1.ListOptions{}
	err := v1.FloatingIPs(who.name).DeleteCollection(who.t.Context(), metav1.DeleteOptions{}, all)
	if err == nil {
		err = v1.NetworkPorts(who.name).DeleteCollection(who.t.Context(), metav1.DeleteOptions{}, all)
	}
	if err == nil {
		err = v1.Networks(who.name).DeleteCollection(who.t.Context(), metav1.DeleteOptions{}, all)
	}
	expect.NoError(who.t, err)
	who.world.Eventually(who.t, func() error {
		ctx := who.t.Context()
		return errors.Join(harness.NoneLeft(ctx, v1.FloatingIPs(who.name)), harness.NoneLeft(ctx, v1.NetworkPorts(who.name)),
			harness.NoneLeft(ctx, v1.Networks(who.name)))
	})
}

// network creates a Network with a range and a gateway.
func (who *tenant) network(name, cidr, gateway string, edits ...func(*cloudteamv1.NetworkSpec)) {
	who.t.Helper()
	network := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{Name: name}}
	network.Spec.CIDR, network.Spec.Gateway = cidr, gateway
	for _, edit := range edits {
		edit(&network.Spec)
	}
	harness.Create(who.t, who.networks.CloudteamV1().Networks(who.name), network)
}

// awaitReady waits until a Network is Ready.
func (who *tenant) awaitReady(name string) {
	who.t.Helper()
	harness.Await(who.t, who.world, who.networks.CloudteamV1().Networks(who.name), name, harness.Ready)
}

// deployment creates a Deployment whose Pods declare networks.
func (who *tenant) deployment(name, networks string, replicas int32) *appsv1.Deployment {
	who.t.Helper()
	return harness.Create(who.t, who.kube.AppsV1().Deployments(who.name), harness.DeploymentOn(name, networks, replicas))
}

// pods lists the tenant's Pods.
func (who *tenant) pods() []corev1.Pod {
	who.t.Helper()
	list, err := who.kube.CoreV1().Pods(who.name).List(who.t.Context(), metav1.ListOptions{})
	expect.NoError(who.t, err)
	return list.Items
}

// ports lists the tenant's NetworkPorts.
func (who *tenant) ports() []cloudteamv1.NetworkPort {
	who.t.Helper()
	list, err := who.networks.CloudteamV1().NetworkPorts(who.name).List(who.t.Context(), metav1.ListOptions{})
	expect.NoError(who.t, err)
	return list.Items
}

// awaitRunning waits until as many of the tenant's Pods run.
func (who *tenant) awaitRunning(want int) {
	who.t.Helper()
	harness.AwaitPods(who.t, who.world, who.kube, who.name, "", want)
}

// cleanup is for clean-ups, in which a test's own context has ended.
func cleanup(t *testing.T) context.Context { return context.WithoutCancel(t.Context()) }

// owners are the UIDs of the tenant's Networks and NetworkPorts.
func (who *tenant) owners() (owners []string) {
	who.t.Helper()
	networks, err := who.networks.CloudteamV1().Networks(who.name).List(who.t.Context(), metav1.ListOptions{})
	expect.NoError(who.t, err)
	for _, n := range networks.Items {
		owners = append(owners, string(n.UID))
	}
	for _, port := range who.ports() {
		owners = append(owners, string(port.UID))
	}
	return owners
}

// markedCollections are those whose resources bear an owner's marker.
var markedCollections = []string{"networks", "subnets", "routers", "ports", "floatingips", "security-groups"}

// markedBy are the ids of what bears the marker of one of the owners, by collection.
func markedBy(cloud *harness.Cloud, owners []string) map[string][]string {
	found := map[string][]string{}
	for _, collection := range markedCollections {
		for _, resource := range cloud.List(collection, "sort_key=id&sort_dir=asc") {
			for _, owner := range owners {
				if text, _ := resource["description"].(string); strings.Contains(text, owner) {
					found[collection] = append(found[collection], resource.ID())
				}
			}
		}
	}
	return found
}
