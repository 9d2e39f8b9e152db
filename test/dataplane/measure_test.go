//go:build linux

package dataplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"cloudteam.ztgame.com/network-controller/dev/dataplane/nodes"
	"cloudteam.ztgame.com/network-controller/dev/process"
	"cloudteam.ztgame.com/network-controller/internal/node/agent"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// envFigures names the file that TestMeasure writes its figures to, a line of JSON each; test/bench reads it.
const envFigures = "DATAPLANE_FIGURES"

// figures writes what was measured.
type figures struct{ file *os.File }

func openFigures(t *testing.T) figures {
	t.Helper()
	path := os.Getenv(envFigures)
	if path == "" {
		t.Skip("for the benchmarks: run `make bench-dataplane`")
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	expect.NoError(t, err)
	t.Cleanup(func() { file.Close() })
	return figures{file}
}

func (f figures) add(t *testing.T, id string, value float64) {
	t.Helper()
	fmt.Printf("  %s: %.3f\n", id, value)
	expect.NoError(t, json.NewEncoder(f.file).Encode(map[string]any{"id": id, "value": value}))
}

// TestMeasureANode measures the plugin and the agent of one node, with OVN and without Neutron: the test writes what the
// controller would.
func TestMeasureANode(t *testing.T) {
	f := openFigures(t)
	needsNodes(t)
	const interfaces, rounds = 200, 30
	dir := t.TempDir()
	central, err := nodes.StartCentral(dir)
	expect.NoError(t, err)
	t.Cleanup(func() { _ = central.Stop(context.WithoutCancel(t.Context())) })
	w := &world{T: t, namespace: "default"}
	w.nodes, err = nodes.Start(nodes.Options{Dir: dir, Names: []string{"node1"}, Southbound: central.Southbound()})
	expect.NoError(t, err)
	t.Cleanup(func() { _ = w.nodes.Stop(context.WithoutCancel(t.Context())) })
	w.removeNodes()
	w.addNodes()
	node := w.nodes.All[0]
	w.relay()
	agent := w.startAgents()[0]
	pods := w.preparedPods(central, interfaces)

	plain := fmt.Sprintf(`{"cniVersion":"1.0.0","name":"plain","type":"bridge","bridge":"plain0","ipam":
		{"type":"host-local","subnet":"10.99.0.0/16","dataDir":%q}}`, filepath.Join(dir, "ipam"))
	ports := `{"cniVersion":"1.0.0","name":"net","type":"neutron-port"}`
	cni := func(program, command, configuration string, p preparedPod, sandbox string) time.Duration {
		began := time.Now()
		output, err := node.RunWith(configuration, []string{
			"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "CNI_COMMAND=" + command, "CNI_CONTAINERID=" + sandbox,
			"CNI_NETNS=/run/netns/" + p.name, "CNI_IFNAME=net1", "CNI_PATH=/usr/lib/cni:" + programs,
			"CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=" + p.name + ";K8S_POD_UID=" + p.name,
		}, program)
		if err != nil {
			t.Fatalf("%s of %s: %v: %s", command, program, err, output)
		}
		return time.Since(began)
	}
	plugin := filepath.Join(programs, "neutron-port")
	for range rounds {
		p := pods[0]
		waited := w.plugSeconds(node)
		add := cni(plugin, "ADD", ports, p, "measured").Seconds()
		waited = w.plugSeconds(node) - waited
		del := cni(plugin, "DEL", ports, p, "measured").Seconds()
		bare := cni("/usr/lib/cni/bridge", "ADD", plain, p, "plain").Seconds()
		bareDel := cni("/usr/lib/cni/bridge", "DEL", plain, p, "plain").Seconds()
		f.add(t, "add", (add-waited)/bare)
		f.add(t, "add-ms", add*1000)
		f.add(t, "add-wait", waited*1000)
		f.add(t, "bridge-ms", bare*1000)
		f.add(t, "del", del/bareDel)
	}
	before := cpuSeconds(t, agent)
	for _, p := range pods {
		cni(plugin, "ADD", ports, p, "sandbox-"+p.name)
	}
	f.add(t, "agent-cpu", (cpuSeconds(t, agent)-before)*1000/interfaces)
	f.add(t, "agent-memory", residentMiB(t, agent))
	// Two of the agent's rounds, of a minute each.
	before = cpuSeconds(t, agent)
	<-time.After(2 * time.Minute)
	f.add(t, "agent-rest", (cpuSeconds(t, agent)-before)*1000/2)
}

// preparedPod is a network namespace with a NetworkPort that is prepared for the node. Its UID is its name.
type preparedPod struct{ name string }

// preparedPods makes NetworkPorts as the controller does once Neutron expects them on the node, and their ports in OVN.
func (w *world) preparedPods(central *nodes.Central, n int) []preparedPod {
	w.Helper()
	node := w.nodes.All[0]
	ports := surroundings.Networks.CloudteamV1().NetworkPorts(w.namespace)
	commands := []string{"ls-add", "net"}
	var pods []preparedPod
	for i := range n {
		name := fmt.Sprintf("pod-%d", i)
		id := fmt.Sprintf("%08d-0000-0000-0000-000000000000", i)
		mac, address := fmt.Sprintf("fa:16:3e:00:%02x:%02x", i/256, i%256), fmt.Sprintf("10.98.%d.%d", i/250, i%250+1)
		commands = append(commands, "--", "lsp-add", "net", id, "--", "lsp-set-addresses", id, mac+" "+address,
			"--", "lsp-set-port-security", id, mac+" "+address)
		port := &cloudteamv1.NetworkPort{ObjectMeta: metav1.ObjectMeta{Name: name}}
		port.Spec.NetworkName = "net"
		_, err := ports.Create(w.Context(), port, metav1.CreateOptions{})
		status, _ := json.Marshal(map[string]any{"status": map[string]any{
			"portID": id, "mac": mac, "mtu": 1400, "addresses": []any{map[string]any{"address": address + "/16", "subnetID": "net"}},
			"boundTo":    map[string]any{"kind": "Pod", "name": name, "uid": name},
			"attachment": map[string]any{"node": node.Name, "host": node.Name, "mode": "ovn", "portID": id, "podUID": name},
		}})
		_, patchErr := ports.Patch(w.Context(), name, types.MergePatchType, status, metav1.PatchOptions{}, "status")
		_, netErr := node.Run("ip", "netns", "add", name)
		expect.NoError(w, errors.Join(err, patchErr, netErr))
		pods = append(pods, preparedPod{name})
	}
	w.Cleanup(func() {
		if err := ports.DeleteCollection(context.WithoutCancel(w.Context()), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			w.Error(err)
		}
	})
	expect.NoError(w, central.Do(commands...))
	return pods
}

// plugSeconds is how long the agent has plugged in all: that is the wait for OVN, and a transaction.
func (w *world) plugSeconds(node *nodes.Node) float64 {
	w.Helper()
	metrics, err := node.Run("busybox", "wget", "-qO-", "http://127.0.0.1:9479/metrics")
	expect.NoError(w, err)
	found := regexp.MustCompile(`request_duration_seconds_sum\{path="/v1/plug"\} (\S+)`).FindStringSubmatch(metrics)
	if found == nil {
		return 0
	}
	seconds, err := strconv.ParseFloat(found[1], 64)
	expect.NoError(w, err)
	return seconds
}

// cpuSeconds is the processor time of a process.
func cpuSeconds(t *testing.T, p *process.Process) float64 {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
	expect.NoError(t, err)
	_, after, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(after)
	user, userErr := strconv.Atoi(fields[11])
	system, systemErr := strconv.Atoi(fields[12])
	expect.NoError(t, errors.Join(userErr, systemErr))
	return float64(user+system) / 100 // USER_HZ
}

// residentMiB is the memory of a process.
func residentMiB(t *testing.T, p *process.Process) float64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	expect.NoError(t, err)
	found := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindStringSubmatch(string(status))
	if found == nil {
		t.Fatalf("no VmRSS: %s", status)
	}
	kib, err := strconv.Atoi(found[1])
	expect.NoError(t, err)
	return float64(kib) / 1024
}

// TestMeasurePods measures Pods from their creation to their first packet, against Pods on a macvlan, and Neutron's calls.
func TestMeasurePods(t *testing.T) {
	f := openFigures(t)
	w := newCluster(t, "Pods from creation to the first packet", "--wait="+agent.NewOptions().Wait.String())
	w.runController("--binding-cloud=admin", "--audit-interval=1m") // the default
	network := w.network([]byte("metadata: {name: measured}\nspec: {cidr: 10.32.0.0/24, gateway: 10.32.0.1, router: {}}"))
	const peer = "10.97.0.1"
	for i, node := range w.nodes.All {
		_, err := node.RunWith(`ip link add mv0 type veth peer name mv1; ip link set mv0 up; ip link set mv1 up; ip addr add "$1/16" dev mv1`,
			nil, "sh", "-eus", "--", peer)
		if err != nil {
			t.Fatal(i, err)
		}
	}
	client, err := dynamic.NewForConfig(surroundings.Admin)
	expect.NoError(t, err)
	w.duringADD("during-add", network.Status.NetworkID)
	for name, config := range map[string]string{
		"plain": `{"cniVersion":"1.0.0","name":"plain","type":"macvlan","master":"mv0","mode":"bridge","ipam":
			{"type":"host-local","ranges":[[{"subnet":"10.97.0.0/16","rangeStart":"10.97.1.0"}]],"dataDir":"/run/plain"}}`,
		"during-add": `{"cniVersion":"1.0.0","name":"during-add","type":"during-add"}`,
	} {
		definition := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
			"metadata": map[string]any{"name": name}, "spec": map[string]any{"config": config},
		}}
		_, err = client.Resource(harness.AttachmentResource).Namespace(w.namespace).
			Create(t.Context(), definition, metav1.CreateOptions{})
		expect.NoError(t, err)
	}
	for range 10 {
		began := time.Now()
		port := w.tenant.Create("ports", harness.Resource{"network_id": network.Status.NetworkID})
		f.add(t, "bare-create", time.Since(began).Seconds())
		began = time.Now()
		w.admin.Update("ports", port.ID(), harness.Resource{"binding:host_id": w.nodes.All[0].Name})
		f.add(t, "bare-bind", time.Since(began).Seconds())
	}
	for range 3 {
		f.add(t, "bare-bulk-10", w.bareBulk(network.Status.NetworkID, ""))
		f.add(t, "bare-bulk-10-bound", w.bareBulk(network.Status.NetworkID, w.nodes.All[0].Name))
	}
	log := filepath.Join(filepath.Dir(surroundings.CloudsFile), "log", "neutron.log")
	ts, besideEnding := traces{}, traces{}
	for round := range 3 {
		for _, n := range []int{1, 10, 50} {
			posts, puts := writesIn(t, log)
			ported := w.firstPackets(ts, fmt.Sprintf("port-%d-%d", round, n), network.Name, "10.32.0.1", n)
			morePosts, morePuts := writesIn(t, log)
			posts = writes{morePosts.n - posts.n, morePosts.seconds - posts.seconds}
			puts = writes{morePuts.n - puts.n, morePuts.seconds - puts.seconds}
			fmt.Printf("  Neutron served %d POSTs of ports in %.2f s, and %d PUTs in %.2f s\n", posts.n, posts.seconds, puts.n,
				puts.seconds)
			if n == 50 {
				f.add(t, "calls", float64(posts.n+puts.n)/float64(n))
				// Neutron deletes the ports of the others meanwhile.
				behind := w.firstPackets(besideEnding, fmt.Sprintf("behind-%d", round), network.Name, "10.32.0.1", 1)
				f.add(t, "start-behind-s", behind)
			}
			w.portsAreGone()
			bare := w.firstPackets(ts, fmt.Sprintf("plain-%d-%d", round, n), "plain", peer, n)
			during := w.firstPackets(traces{}, fmt.Sprintf("during-%d-%d", round, n), "during-add", "10.32.0.1", n)
			fmt.Printf("  with their ports made during ADD, %d Pods take %.2f s\n", n, during)
			f.add(t, fmt.Sprintf("start-%d", n), ported/bare)
			f.add(t, fmt.Sprintf("start-%d-s", n), ported)
			f.add(t, fmt.Sprintf("beyond-%d", n), (ported-posts.seconds-puts.seconds)/bare)
		}
	}
	ts.print()
	fmt.Println("A Pod beside 50 that end:")
	besideEnding.print()
}

// firstPackets creates Pods that ask an address, and returns after how many seconds all have had an answer. They run until
// then: what ends would take Neutron's time from those that start.
func (w *world) firstPackets(ts traces, prefix, network, address string, n int) float64 {
	w.Helper()
	tr, stop := w.startTrace(prefix)
	defer stop()
	names := make([]string, n)
	began := time.Now()
	for i := range n {
		names[i] = fmt.Sprintf("%s-%d", prefix, i)
		pod := podFor(names[i], w.nodes.All[i%len(w.nodes.All)].Name, network)
		pod.Spec.Containers[0].Command = []string{"sh", "-c", `trap "exit 0" TERM; echo started; until ping -c1 -W1 ` + address +
			" >/dev/null; do :; done; echo answered; while :; do sleep 1; done"}
		w.create(pod)
	}
	// Fifty Pods take as long as Neutron, the kubelets and this machine do.
	err := harness.Poll(w.Context().Done(), 2*patience, 100*time.Millisecond, func() error {
		w.readPods(tr)
		if answered := tr.count(stageAnswered); answered < n {
			return fmt.Errorf("%d of %d Pods have had an answer", answered, n)
		}
		return nil
	})
	expect.NoError(w, err)
	w.readAgents(tr)
	ts.add(n, tr, began, network == "plain")
	_, took := tr.after(began, stageAnswered)
	w.removePods(names...)
	return took
}

// portsAreGone waits until Neutron has deleted the ports of Pods that have ended: the next Pods are to find it at rest.
func (w *world) portsAreGone() {
	w.Helper()
	w.eventually(func() error {
		return harness.NoneLeft(w.Context(), surroundings.Networks.CloudteamV1().NetworkPorts(w.namespace))
	})
}

// bareBulk makes ten ports in one call, with a host or without, and returns the seconds of the call.
func (w *world) bareBulk(network, host string) float64 {
	w.Helper()
	port := map[string]any{"network_id": network, "project_id": w.tenant.Project}
	if host != "" {
		port["binding:host_id"] = host
	}
	ports := slices.Repeat([]map[string]any{port}, 10)
	began := time.Now()
	var made struct{ Ports []harness.Resource }
	_, err := w.admin.Client.Post(w.Context(), w.admin.Client.ServiceURL("ports"), map[string]any{"ports": ports}, &made,
		&gophercloud.RequestOpts{OkCodes: []int{http.StatusCreated}})
	expect.NoError(w, err)
	took := time.Since(began).Seconds()
	for _, port := range made.Ports {
		w.admin.Remove("ports", port.ID())
	}
	return took
}
