//go:build linux

package dataplane

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"cloudteam.ztgame.com/network-controller/dev/dataplane/nodes"
	"cloudteam.ztgame.com/network-controller/internal/kubectl"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/nightly"
	"cloudteam.ztgame.com/network-controller/test/proxy"
)

const (
	// chartImage is the name of the image on the nodes.
	chartImage = "localhost/network-controller"
	// apiService is the cluster IP of the API server's Service, at which Pods look for it. Nothing translates cluster IPs
	// here, so it is each node's own.
	apiService = "10.96.0.1"
	// cloudAddress is where Pods reach Keystone and Neutron: an address that is each node's own, too.
	cloudAddress = "10.97.0.1"
)

// TestChartOnKubelets has a user's `helm install` run the controller and the agents as Pods of the image. A Network and
// two Pods come of it, which reach each other.
func TestChartOnKubelets(t *testing.T) {
	if testing.Short() {
		t.Skip("-short")
	}
	needsKubelets(t)
	if cannot == "" {
		makeOutside(t)
	}
	w := newWorld(t, "the chart, two kubelets")
	built := w.buildBeside()
	w.removeNodes()
	surroundings.KnowAttachments(t)
	// The DaemonSet installs the plugin.
	w.startKubelets(nodes.KubeletOptions{Routes: []string{apiService + "/32", cloudAddress + "/32"}})
	clouds := w.reachFromPods()
	image, helm := built()
	for _, node := range w.nodes.All {
		expect.NoError(t, node.ImportArchive(image))
	}
	w.Cleanup(w.showInstalled)
	w.install(helm, clouds)
	for _, node := range w.nodes.All {
		w.nodeSays(node.Name, "dataplane", "ovn")
	}
	w.makeNamespace()
	w.aDeploymentServes()
	w.aBundleHasAll()
}

// aBundleHasAll has an administrator run `kubectl network bundle`: it has logs and metrics of the controllers and of
// the agents, which run on kubelets.
func (w *world) aBundleHasAll() {
	w.Helper()
	file := filepath.Join(w.TempDir(), "bundle.tar.gz")
	command := kubectl.NewCommand(genericiooptions.NewTestIOStreamsDiscard())
	command.SetArgs([]string{"bundle", "-A", "--kubeconfig=" + surroundings.AdminKubeconfig, "--file=" + file})
	expect.NoError(w, command.ExecuteContext(w.Context()))
	content, err := exec.CommandContext(w.Context(), "tar", "--list", "--gzip", "--file="+file).Output()
	expect.NoError(w, err)
	want := map[string]int{ // a leader and a standby, and the agents of two nodes
		"logs/network-controller-": 2, "logs/network-agent-": 2, "metrics/network-controller-": 2, "metrics/network-agent-": 2,
	}
	has := map[string]int{}
	for name := range strings.Lines(string(content)) {
		for part := range want {
			if strings.Contains(name, part) {
				has[part]++
			}
		}
	}
	expect.Equal(w, want, has, "the bundle's files, of\n%s", content)
}

// reachFromPods gives Pods a way to the API server and to the cloud, and writes a clouds.yaml for them.
func (w *world) reachFromPods() (clouds string) {
	w.Helper()
	const keystoneAt, neutronAt = cloudAddress + ":5000", cloudAddress + ":9696"
	var neutron *proxy.Proxy
	clouds = filepath.Join(w.TempDir(), "clouds.yaml")
	keystone, neutron, err := harness.FrontCloud(surroundings.CloudsFile, clouds, []string{"tenant", "admin"},
		w.tenant.Client.Endpoint, proxy.Options{Answered: func(_ proxy.Call, a *proxy.Answer) {
			a.Body = bytes.ReplaceAll(a.Body, []byte(neutron.URL().Host), []byte(neutronAt))
		}}, proxy.Options{})
	expect.NoError(w, err)
	w.Cleanup(func() {
		keystone.Close()
		neutron.Close()
	})
	content, err := os.ReadFile(clouds)
	if err == nil {
		content = bytes.ReplaceAll(content, []byte(keystone.URL().Host), []byte(keystoneAt))
		err = os.WriteFile(clouds, content, 0o600)
	}
	expect.NoError(w, err)
	server, err := url.Parse(surroundings.Admin.Host)
	expect.NoError(w, err)
	for _, node := range w.nodes.All {
		for _, address := range []string{apiService, cloudAddress} {
			if _, err := node.Run("ip", "address", "add", address+"/32", "dev", "lo"); err != nil {
				w.Fatal(err)
			}
		}
		for at, by := range map[string]string{
			apiService + ":443": server.Host, keystoneAt: keystone.URL().Host, neutronAt: neutron.URL().Host,
		} {
			expect.NoError(w, node.Relay(at, by))
		}
	}
	return clouds
}

// command runs a program of the repository to its end.
func (w *world) command(env []string, name string, args ...string) error {
	cmd := exec.CommandContext(w.Context(), name, args...)
	cmd.Dir, cmd.Env = surroundings.Root, append(os.Environ(), env...)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %q: %w\n%s", name, args, err, output)
	}
	return nil
}

// buildBeside builds the image as `make image` does, for this machine, and helm, while the kubelets start. The function
// that it returns waits for the image's archive and for helm.
func (w *world) buildBeside() func() (image, helm string) {
	w.Helper()
	dist := w.TempDir()
	image, helm := filepath.Join(dist, "network-controller-image.tar"), filepath.Join(programs, "helm")
	began := time.Now()
	var group errgroup.Group
	group.Go(func() error {
		return w.command([]string{"DIST=" + dist, "VERSION=v0.0.0-test"}, "hack/image.sh", chartImage+":test",
			"linux/"+runtime.GOARCH)
	})
	group.Go(func() error {
		return w.command(nil, "go", "build", "-C", "test/chart", "-mod=mod", "-o", helm, "helm.sh/helm/v3/cmd/helm")
	})
	done := sync.OnceValue(group.Wait)
	w.Cleanup(func() { _ = done() }) // they write into folders of the test
	return func() (string, string) {
		w.Helper()
		expect.NoError(w, done())
		fmt.Printf("  the image and helm are built %s after the nodes run\n", nightly.Since(began))
		return image, helm
	}
}

// install does what docs/install.md says, with the image of the test. It waits until all Pods are Ready. The surroundings
// have most of the objects already; they are the same.
func (w *world) install(helm, clouds string) {
	w.Helper()
	w.Cleanup(func() { // what the surroundings have stays
		ctx := context.WithoutCancel(w.Context())
		now := metav1.DeleteOptions{}
		err := surroundings.Kube.AppsV1().DaemonSets(agentName).Delete(ctx, agentName, now)
		if err == nil {
			err = surroundings.Kube.AppsV1().Deployments(harness.AccountName).Delete(ctx, harness.AccountName, now)
		}
		if err != nil {
			w.Error(err)
		}
	})
	err := w.command([]string{"KUBECONFIG=" + surroundings.AdminKubeconfig}, helm, "install", "network-controller",
		"charts/network-controller", "--namespace="+harness.AccountName, "--create-namespace", "--take-ownership", "--wait",
		"--timeout=3m", "--set=image.repository="+chartImage, "--set=image.tag=test", "--set=image.pullPolicy=Never",
		"--set=nodeAgent.enabled=true", "--set=cloud.name=tenant", "--set-file=cloud.cloudsYaml="+clouds,
		"--set=extraArgs={--binding-cloud=admin,--audit-interval=5s,--pool-cooldown=2s}")
	expect.NoError(w, err)
}

// showInstalled says, if the test failed, what became of the installed Pods.
func (w *world) showInstalled() {
	if !w.Failed() {
		return
	}
	ctx := context.WithoutCancel(w.Context())
	for _, namespace := range []string{harness.AccountName, agentName} {
		pods, err := surroundings.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			w.Log(err)
			continue
		}
		for _, pod := range pods.Items {
			w.Logf("Pod %s/%s on %s is %s: %+v", namespace, pod.Name, pod.Spec.NodeName, pod.Status.Phase,
				pod.Status.ContainerStatuses)
		}
		events, err := surroundings.Kube.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			w.Log(err)
			continue
		}
		for _, event := range events.Items[max(0, len(events.Items)-12):] {
			w.Logf("%s %s: %s", event.InvolvedObject.Name, event.Reason, event.Message)
		}
	}
	for _, node := range w.nodes.All {
		files, _ := filepath.Glob(filepath.Join(node.Dir, nodes.PodLogs, "network-*", "*", "*.log"))
		for _, file := range files {
			content, err := os.ReadFile(file)
			w.Logf("%s ends with (%v):\n%s", file, err, content[max(0, len(content)-3000):])
		}
	}
}
