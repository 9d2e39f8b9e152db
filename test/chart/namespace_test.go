package chart

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	cloudteamv1client "cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/typed/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/proxy"
)

// requests are those of one controller.
type requests struct {
	mu sync.Mutex
	// elsewhere are the paths of namespaced resources outside its namespace; refused those that RBAC refused.
	elsewhere, refused []string
}

// ofTheCluster are the resources of which a controller of one namespace may read some outside it.
var ofTheCluster = []string{
	"/api/v1/namespaces", "/api/v1/nodes", "/apis/cloudteam.ztgame.com/v1/networkclasses",
	"/apis/coordination.k8s.io/v1/namespaces/network-controller/leases", "/apis/authentication.k8s.io/v1/tokenreviews",
}

// arrived notes a request for what is neither in the namespace nor the cluster's.
func (r *requests) arrived(namespace string) func(proxy.Call) {
	return func(c proxy.Call) {
		path := c.Request.URL.Path
		within := "/namespaces/" + namespace
		isDiscovery := strings.Count(path, "/") <= 3 && !strings.HasPrefix(path, "/api/v1/")
		ofNamespace := strings.Contains(path, within+"/") || strings.HasSuffix(path, within) ||
			strings.HasSuffix(path, "/namespaces/kube-system") || strings.HasSuffix(path, "/namespaces/network-controller")
		ofCluster := slices.ContainsFunc(ofTheCluster, func(allowed string) bool {
			return path == allowed || strings.HasPrefix(allowed, "/apis/") && strings.HasPrefix(path, allowed)
		})
		if path == "/api/v1/namespaces" && c.Query("fieldSelector") != "metadata.name="+namespace {
			ofCluster = false
		}
		if !isDiscovery && !ofNamespace && !ofCluster {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.elsewhere = append(r.elsewhere, c.Request.Method+" "+c.Request.URL.String())
		}
	}
}

func (r *requests) answered(c proxy.Call, a *proxy.Answer) {
	if a.Status == http.StatusForbidden {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.refused = append(r.refused, c.Request.Method+" "+c.Request.URL.String()+": "+string(a.Body))
	}
}

// TestOneNamespace runs a controller of the cluster and one of a namespace side by side: each acts where the other does
// not, whoever has the namespace, and the network is one and the same.
func TestOneNamespace(t *testing.T) {
	if surroundings == nil {
		t.Skip("KUBEBUILDER_ASSETS is not set; run `make test-install`")
	}
	ctx := t.Context()
	cloud := harness.Open(t, surroundings.CloudsFile, "tenant")
	namespaces := surroundings.Kube.CoreV1().Namespaces()
	team := harness.Create(t, namespaces, harness.Namespace("team-"))
	networks := surroundings.Networks.CloudteamV1().Networks(team.Name)
	create := func(network string) {
		t.Helper()
		n := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{Name: network}}
		n.Spec.CIDR = "10.9.0.0/24"
		harness.Create(t, networks, n)
	}
	// await waits until a Network is Ready, named so in Neutron, and gives its UID.
	await := func(network, called string) (id string) {
		t.Helper()
		return harness.Await(t, surroundings, networks, network, func(n *cloudteamv1.Network) error {
			owned := slices.DeleteFunc(cloud.List("networks", ""), func(r harness.Resource) bool {
				owner, _ := r["description"].(string)
				return !strings.Contains(owner, string(n.UID))
			})
			if n.Status.AppliedGeneration != n.Generation || len(owned) != 1 || owned[0]["name"] != called ||
				owned[0].ID() != n.Status.NetworkID {
				return fmt.Errorf("Network %s is %+v, and Neutron has %v", network, n.Status, owned)
			}
			return nil
		}).Status.NetworkID
	}
	rename := func(network, to string) {
		t.Helper()
		harness.Patch(t, networks, network, `{"spec":{"networkName":"`+to+`"}}`)
	}
	label := func(value string) {
		t.Helper()
		harness.Patch(t, namespaces, team.Name, `{"metadata":{"labels":{"`+cloudteamv1.LabelController+`":`+value+`}}}`)
	}

	// The account of config/rbac acts everywhere, and removes what it takes for orphans at once.
	wide := func() *harness.Process {
		expect.NoError(t, surroundings.ReleaseLeases(ctx))
		return surroundings.Start(t, []string{"OS_CLIENT_CONFIG_FILE=" + surroundings.CloudsFile}, append(harness.LongLease(),
			"--kubeconfig="+surroundings.Kubeconfig, "--cloud=tenant", "--bind-address=127.0.0.1:0", "--audit-interval=1s",
			"--orphan-grace=1s", "--orphan-max-share=1")...)
	}
	cluster := wide()
	create("handed")
	id := await("handed", "handed")

	c := newCluster(t, surroundings, name+"-"+team.Name)
	c.install(loadChart(t), false, "cloud.name=tenant", "namespace="+team.Name, "shared=false")
	kubeconfig := filepath.Join(t.TempDir(), "front")
	bounded := *surroundings
	bounded.Kubeconfig = c.kubeconfig()
	var seen requests
	front, err := bounded.FrontKube(kubeconfig, proxy.Options{Arrived: seen.arrived(team.Name), Answered: seen.answered})
	expect.NoError(t, err)
	defer front.Close()
	own := c.run(kubeconfig)
	surroundings.Eventually(t, func() error {
		if !strings.Contains(own.Output.String(), "Waiting for the namespace's label") {
			return fmt.Errorf("without the label, the controller of the namespace says %s", own.Output.String())
		}
		return nil
	})

	// The namespace goes to its own controller, which goes on with the network that is there.
	label(`"network-controller"`)
	create("new")
	await("new", "new")
	rename("handed", "renamed")
	expect.Equal(t, id, await("handed", "renamed"), "the network, and the one before the handover")
	pods := surroundings.Kube.CoreV1().Pods(team.Name)
	harness.Create(t, pods, harness.PodOn("guest", "handed"))
	harness.Await(t, surroundings, pods, "guest", func(p *corev1.Pod) error {
		if len(p.Spec.SchedulingGates) > 0 || p.Annotations[cloudteamv1.AnnotationAllocations] == "" {
			return fmt.Errorf("the Pod waits: %v %v", p.Annotations, p.Status.Conditions)
		}
		return nil
	})
	// While its own controller is away, nobody else acts there.
	own.Kill(t)
	rename("handed", "waits")
	here := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}}
	here.Spec.CIDR = "10.9.0.0/24"
	others := surroundings.Networks.CloudteamV1().Networks(metav1.NamespaceDefault)
	harness.Create(t, others, here)
	newCluster(t, surroundings, name).await("elsewhere", cloudteamv1.ReasonAvailable)
	await("new", "new")
	if n := cloud.One("networks", "id="+id); n["name"] != "renamed" {
		t.Errorf("the controller of the cluster renamed the network to %v", n["name"])
	}

	// It goes back to the controller of the cluster, which begins anew for that.
	label("null")
	if code := cluster.AwaitExit(t); code == 0 {
		t.Error("the controller of the cluster ended without an error")
	}
	cluster = wide()
	expect.Equal(t, id, await("handed", "waits"), "the network, and the one before it came back")

	// It leaves nothing: other tests remove the CRDs. No garbage collector runs here, which would delete the Pod's port.
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	expect.NoError(t, surroundings.Kube.CoreV1().Pods(team.Name).Delete(ctx, "guest", now))
	err = surroundings.Networks.CloudteamV1().NetworkPorts(team.Name).
		DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	expect.NoError(t, err)
	for client, names := range map[cloudteamv1client.NetworkInterface][]string{networks: {"handed", "new"}, others: {"elsewhere"}} {
		for _, network := range names {
			harness.Delete(t, client, network)
		}
	}
	surroundings.Eventually(t, func() error {
		left, err := surroundings.Networks.CloudteamV1().Networks("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		ports, err := surroundings.Networks.CloudteamV1().NetworkPorts("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(left.Items)+len(ports.Items) > 0 {
			return fmt.Errorf("left are %+v, %+v", left.Items, ports.Items)
		}
		return nil
	})
	c.kill(cluster)
	c.uninstall()

	for _, p := range []*harness.Process{own, cluster} {
		for _, bad := range []string{"forbidden", "Another controller acts"} {
			if strings.Contains(p.Output.String(), bad) {
				t.Errorf("a controller says %q", bad)
			}
		}
	}
	seen.mu.Lock()
	defer seen.mu.Unlock()
	expect.Empty(t, seen.refused, "refused")
	expect.Empty(t, seen.elsewhere, "asked for outside its namespace")
}
