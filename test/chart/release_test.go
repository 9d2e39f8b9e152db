package chart

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/action"
	helmchart "helm.sh/helm/v3/pkg/chart"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"cloudteam.ztgame.com/network-controller/internal/kinds"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// cluster is Helm on the control plane.
type cluster struct {
	t       *testing.T
	actions *action.Configuration
	// in has the control plane, the binary and the cloud.
	in *harness.Surroundings
	// release is the name of the release, and of its Deployment and account.
	release string
}

func newCluster(t *testing.T, in *harness.Surroundings, release string) *cluster {
	t.Helper()
	flags := genericclioptions.NewConfigFlags(false)
	flags.KubeConfig = &in.AdminKubeconfig
	namespace := name
	flags.Namespace = &namespace
	c := &cluster{t: t, actions: &action.Configuration{}, in: in, release: release}
	expect.NoError(t, c.actions.Init(flags, name, "secret", t.Logf))
	return c
}

// newEmptyCluster is newCluster for a control plane that has nothing of ours. It makes the release's namespace.
func newEmptyCluster(t *testing.T, in *harness.Surroundings) *cluster {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	harness.Create(t, in.Kube.CoreV1().Namespaces(), namespace)
	return newCluster(t, in, name)
}

// install installs a chart. over takes over what the harness has installed from config.
func (c *cluster) install(of *helmchart.Chart, over bool, set ...string) {
	c.t.Helper()
	install := action.NewInstall(c.actions)
	install.ReleaseName, install.Namespace, install.TakeOwnership = c.release, name, over
	if _, err := install.Run(of, values(c.t, append([]string{placeholder}, set...)...)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) upgrade(set ...string) {
	c.t.Helper()
	upgrade := action.NewUpgrade(c.actions)
	upgrade.Namespace = name
	if _, err := upgrade.Run(c.release, loadChart(c.t), values(c.t, append([]string{placeholder}, set...)...)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) uninstall() {
	c.t.Helper()
	if _, err := action.NewUninstall(c.actions).Run(c.release); err != nil {
		c.t.Fatal(err)
	}
}

// start runs the binary as the Deployment says, with its account and its flags, in place of its Pods: nothing runs them
// here. The caller kills it.
func (c *cluster) start(environment ...string) *harness.Process {
	c.t.Helper()
	return c.run(c.kubeconfig(), environment...)
}

func (c *cluster) deployment() *appsv1.Deployment {
	c.t.Helper()
	return harness.Get(c.t, c.in.Kube.AppsV1().Deployments(name), c.release)
}

// kubeconfig writes one of the release's account.
func (c *cluster) kubeconfig() string {
	c.t.Helper()
	ctx := c.t.Context()
	token, err := c.in.Kube.CoreV1().ServiceAccounts(name).CreateToken(ctx,
		c.deployment().Spec.Template.Spec.ServiceAccountName, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	expect.NoError(c.t, err)
	config, err := clientcmd.LoadFromFile(c.in.AdminKubeconfig)
	expect.NoError(c.t, err)
	for user := range config.AuthInfos {
		config.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	}
	kubeconfig := filepath.Join(c.t.TempDir(), "kubeconfig")
	expect.NoError(c.t, clientcmd.WriteToFile(*config, kubeconfig))
	return kubeconfig
}

// run runs the binary with the release's flags.
func (c *cluster) run(kubeconfig string, environment ...string) *harness.Process {
	c.t.Helper()
	flags := c.deployment().Spec.Template.Spec.Containers[0].Args
	return c.in.Start(c.t, append(environment, "OS_CLIENT_CONFIG_FILE="+c.in.CloudsFile), append(flags,
		// The last one counts.
		append(harness.LongLease(), "--kubeconfig="+kubeconfig, "--metrics-bind-address=", "--bind-address=127.0.0.1:0",
			"--audit-interval=1s")...)...)
}

// kill ends a process as kill -9 does, and its term: the next one leads at once.
func (c *cluster) kill(p *harness.Process) {
	c.t.Helper()
	p.Kill(c.t)
	expect.NoError(c.t, c.in.ReleaseLeases(c.t.Context()))
}

// await waits until the Network's condition Ready has a reason, and gives the id of the network.
func (c *cluster) await(network, reason string) string {
	c.t.Helper()
	networks := c.in.Networks.CloudteamV1().Networks(metav1.NamespaceDefault)
	return harness.Await(c.t, c.in, networks, network, func(n *cloudteamv1.Network) error {
		ready := meta.FindStatusCondition(n.Status.Conditions, cloudteamv1.ConditionReady)
		if ready == nil || ready.Reason != reason || ready.ObservedGeneration != n.Generation {
			return fmt.Errorf("the Network is not %s: %+v", reason, n.Status.Conditions)
		}
		return nil
	}).Status.NetworkID
}

// TestRelease takes a Network through what happens to a release.
func TestRelease(t *testing.T) {
	if surroundings == nil {
		t.Skip("KUBEBUILDER_ASSETS is not set; run `make test-install`")
	}
	ctx := t.Context()
	cloud := harness.Open(t, surroundings.CloudsFile, "tenant")
	networks := surroundings.Networks.CloudteamV1().Networks(metav1.NamespaceDefault)
	c := newCluster(t, surroundings, name)

	// The harness has installed config: --take-ownership moves an installation of kubectl's to Helm.
	c.install(loadChart(t), true, "cloud.name=tenant")
	process := c.start()
	harness.Create(t, networks, &cloudteamv1.Network{
		ObjectMeta: metav1.ObjectMeta{Name: "lives"},
		Spec: cloudteamv1.NetworkSpec{
			SubnetSpec: cloudteamv1.SubnetSpec{CIDR: "192.168.0.0/16"}, Router: &cloudteamv1.RouterSpec{},
		},
	})
	id := c.await("lives", cloudteamv1.ReasonAvailable)
	c.kill(process)

	// An upgrade, whose controller only reports.
	c.upgrade("cloud.name=tenant", "firstStart=Report")
	process = c.start()
	harness.Patch(t, networks, "lives", `{"spec":{"networkName":"renamed"}}`)
	c.await("lives", cloudteamv1.ReasonPlanned)
	if n := cloud.One("networks", "id="+id); n["name"] != "lives" {
		t.Errorf("with firstStart=Report, the network in Neutron is renamed to %v", n["name"])
	}
	c.kill(process)

	// Back to the first revision, which acts.
	rollback := action.NewRollback(c.actions)
	rollback.Version = 1
	expect.NoError(t, rollback.Run(name))
	process = c.start()
	if got := c.await("lives", cloudteamv1.ReasonAvailable); got != id {
		t.Errorf("the Network has network %s, before the rollback %s", got, id)
	}
	if n := cloud.One("networks", "id="+id); n["name"] != "renamed" {
		t.Errorf("after the rollback, the network's name is %v", n["name"])
	}
	c.kill(process)

	// What hurts elsewhere: a release is uninstalled while Networks exist.
	c.uninstall()
	if _, err := networks.Get(ctx, "lives", metav1.GetOptions{}); err != nil {
		t.Errorf("helm uninstall took the Network along: %v", err)
	}
	cloud.One("networks", "id="+id)
	_, err := surroundings.Kube.AdmissionregistrationV1().MutatingAdmissionPolicies().
		Get(ctx, "network-controller-scheduling-gate", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the gate is left, and nothing lifts it: %v", err)
	}

	// Installed again, it goes on. The CRDs that stayed are the release's.
	c.install(loadChart(t), false, "cloud.name=tenant", "defaultClass=true")
	process = c.start()
	if got := c.await("lives", cloudteamv1.ReasonAvailable); got != id {
		t.Errorf("the Network has network %s, before the removal %s", got, id)
	}

	// The order of docs/install.md: the objects that finalizers hold, the release, the CRDs. Nothing hangs.
	c.occupy("lives")
	owned := func(collection string) []harness.Resource {
		return slices.DeleteFunc(cloud.List(collection, ""), func(r harness.Resource) bool {
			return !strings.Contains(r.Text("description"), "[owner=")
		})
	}
	collections := []string{"networks", "ports", "security-groups", "routers", "floatingips"}
	for _, collection := range collections {
		if len(owned(collection)) == 0 {
			t.Errorf("before the removal, Neutron has none of the controller's %s", collection)
		}
	}
	client, err := dynamic.NewForConfig(surroundings.Admin)
	expect.NoError(t, err)
	deleted := uninstalled(t, filepath.Join("..", "docs", "install.md"))
	objects := func(kind string) dynamic.ResourceInterface {
		resource, _, _ := strings.Cut(kind, ".")
		return client.Resource(cloudteamv1.SchemeGroupVersion.WithResource(resource)).Namespace(metav1.NamespaceDefault)
	}
	for _, kind := range deleted {
		expect.NoError(t, objects(kind).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	}
	for _, kind := range deleted {
		surroundings.Eventually(t, func() error { return harness.NoneLeft(ctx, objects(kind)) })
	}
	for _, collection := range collections {
		expect.Empty(t, owned(collection), "%s that Neutron still has", collection)
	}
	c.kill(process)
	c.uninstall()
	crds := client.Resource(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	})
	files, err := os.ReadDir(filepath.Join("..", "config", "crd"))
	expect.NoError(t, err)
	for _, file := range files {
		if kind, ours := strings.CutPrefix(strings.TrimSuffix(file.Name(), ".yaml"), "cloudteam.ztgame.com_"); ours {
			crd := kind + ".cloudteam.ztgame.com"
			expect.NoError(t, crds.Delete(ctx, crd, metav1.DeleteOptions{}))
			surroundings.Eventually(t, func() error {
				if _, err := crds.Get(ctx, crd, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
					return fmt.Errorf("the CRD %s is not gone, and no controller removes finalizers: %w", crd, err)
				}
				return nil
			})
		}
	}
}

// occupy makes what a finalizer holds, one of each kind: the Network lives already. It waits until each is Ready.
func (c *cluster) occupy(network string) {
	c.t.Helper()
	namespace := metav1.NamespaceDefault
	client := c.in.Networks.CloudteamV1()
	harness.Create(c.t, client.SecurityGroups(namespace), &cloudteamv1.SecurityGroup{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
	})
	harness.Create(c.t, client.NetworkPorts(namespace), &cloudteamv1.NetworkPort{
		ObjectMeta: metav1.ObjectMeta{Name: "reserved"},
		Spec:       cloudteamv1.NetworkPortSpec{NetworkName: network},
	})
	administrator := harness.Open(c.t, c.in.CloudsFile, "admin")
	outside := administrator.CreateOutside("outside").ID()
	harness.Create(c.t, client.NetworkClasses(), &cloudteamv1.NetworkClass{
		ObjectMeta: metav1.ObjectMeta{Name: "floating"},
		Spec: cloudteamv1.NetworkClassSpec{
			AllowedFields: []cloudteamv1.PrivilegedField{cloudteamv1.FieldFloatingIP},
		},
	})
	harness.Create(c.t, client.FloatingIPs(namespace), &cloudteamv1.FloatingIP{
		ObjectMeta: metav1.ObjectMeta{Name: "shop"},
		Spec:       cloudteamv1.FloatingIPSpec{ExternalNetwork: outside, ClassName: "floating"},
	})
	harness.Await(c.t, c.in, client.SecurityGroups(namespace), "web", harness.Ready)
	harness.Await(c.t, c.in, client.NetworkPorts(namespace), "reserved", harness.Ready)
	harness.Await(c.t, c.in, client.FloatingIPs(namespace), "shop", harness.Ready)
}

// TestPagesDeleteTheSameKinds holds the pages to docs/install.md, which TestRelease follows and which has all kinds. It
// needs no control plane.
func TestPagesDeleteTheSameKinds(t *testing.T) {
	deleted := uninstalled(t, filepath.Join("..", "docs", "install.md"))
	for _, kind := range kinds.All {
		if full := kind.Resource.GroupResource().String(); !slices.Contains(deleted, full) {
			t.Errorf("kubectl delete ... --all-namespaces of docs/install.md lacks %s: write it there, in docs/zh/install.md and "+
				"in NOTES.txt of the chart", full)
		}
	}
	for _, page := range []string{"docs/zh/install.md", "charts/network-controller/templates/NOTES.txt"} {
		if diff := cmp.Diff(deleted, uninstalled(t, filepath.Join("..", page))); diff != "" {
			t.Errorf("%s deletes other kinds than docs/install.md (-install +page):\n%s", page, diff)
		}
	}
}

// uninstalled gives the kinds that a page says to delete before the controller.
func uninstalled(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	expect.NoError(t, err)
	text = bytes.ReplaceAll(text, []byte("\\\n"), nil)
	commands := regexp.MustCompile(`kubectl delete (\S+) +--all --all-namespaces`).FindAllSubmatch(text, -1)
	if len(commands) != 1 {
		t.Fatalf("%s has %d commands that delete the objects of all namespaces, want 1", page, len(commands))
	}
	return strings.Split(string(commands[0][1]), ",")
}
