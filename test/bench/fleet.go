package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes/scheme"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// fleetGroup is what a controller takes beside more objects than can be made in a test's time. One Network with a Pod
// is made by a controller; all others are copies of it, put into etcd and into the emulator.
func fleetGroup() group {
	return group{
		id: "fleet", clouds: []string{fleet}, components: harness.APIComponents(),
		size: func(o options) int { return o.sizes[0] }, lives: func(o options) int { return len(o.sizes) },
		benchmarks: []benchmark{
			{
				id: "fleet-ready", name: "start to ready", limit: 180, unit: "s",
				how: "Of a process, until its /readyz answers 200: it has listed all in Kubernetes and in Neutron.",
			},
			{
				id: "fleet-worked", name: "start to rest", limit: noLimit, unit: "s",
				how: "Until it has looked at each object once, and uses less than a twentieth of a CPU for two seconds.",
			},
			{
				id: "fleet-cpu", name: "CPU time until ready", limit: noLimit, unit: "s", how: "Of the controller.",
			},
			{
				id: "fleet-peak", name: "memory of the leader, the most", limit: 3 * 1024, unit: "MiB",
				how: "VmHWM at the end, which Linux keeps. GOMEMLIMIT is what the chart sets for a limit of 3 GiB: nine " +
					"tenths of it.",
			},
			{
				id: "fleet-memory", name: "memory of the leader at rest", limit: noLimit, unit: "MiB",
				how: "VmRSS after an audit.",
			},
			{
				id: "fleet-standby", name: "memory of a standby", limit: noLimit, unit: "MiB",
				how: "VmRSS of a second process, which waits to lead, once it is ready.",
			},
			{
				id: "fleet-audit", name: "calls of an audit", limit: noLimit,
				how: "One list of each kind at most, of those between two lists of networks.",
			},
			{
				id: "fleet-audit-took", name: "an audit, first call to last", limit: noLimit, unit: "s",
				how: "At Neutron's proxy, with answers at once.",
			},
			{
				id: "fleet-audit-cpu", name: "CPU time of an audit", limit: noLimit, unit: "s", how: "Of the controller.",
			},
			{
				id: "fleet-edit", name: "an edit's way to its call, at rest", limit: noLimit, unit: "ms",
				how: "From the request that changes a Network's spec to the PUT's arrival at Neutron's proxy: the 99th " +
					"percentile of two hundred, one after another.",
			},
			{
				id: "fleet-edit-audit", name: "the same beside an audit ÷ at rest", limit: 2,
				how: "Of edits while an audit's lists come.",
			},
			{
				id: "fleet-etcd", name: "size of etcd", limit: noLimit, unit: "MiB",
				how: "dbSize, which etcd reports. Objects were written once, so their history is short.",
			},
		},
		measure: measureFleet,
	}
}

const (
	// fleetNamespaces is how many namespaces a fleet is in.
	fleetNamespaces = 100
	// smallestFleet is the least that --sizes takes.
	smallestFleet = 10_000
	// putAtATime is how many objects one transaction of etcd writes: its default for --max-txn-ops.
	putAtATime = 128
	// postAtATime is how many resources one bulk request makes in the emulator.
	postAtATime = 500
	// edits is how many edits the percentiles are of.
	edits = 200
	// fleetMemory is what the chart sets for a limit of 3 GiB.
	fleetMemory = "GOMEMLIMIT=2764MiB"
	// auditPause is longer than a pause between two lists of an audit.
	auditPause = 300 * time.Millisecond
	// restful is the share of a CPU below which a controller is at rest.
	restful = 0.05
)

// measureFleet makes a fleet and has controllers run beside it.
func measureFleet(ctx context.Context, b *bench) error {
	b.size, b.environment = b.sizes[b.life-1], []string{fleetMemory}
	s, err := b.openSite(ctx, 0)
	if err != nil {
		return err
	}
	first, err := b.makeFirst(ctx, s)
	if err != nil {
		return err
	}
	if err := b.copyAll(ctx, s, first); err != nil {
		return err
	}
	return b.lead(ctx, s)
}

// original is the Network with a Pod that a controller has made, of which all others are copies.
type original struct {
	// namespace and name are those of the Network. They occur in the names of all that belongs to it.
	namespace, name string
	// objects are the Network, the NetworkPort and the Pod, as JSON, by their path in etcd.
	objects []stored
	// posts are the requests that made the network, the subnet and the port, in this order.
	posts []post
	// uids are those of objects.
	uids []types.UID
}

// stored is an object with its key in etcd, without the names behind it.
type stored struct {
	prefix string
	name   string
	json   []byte
}

// post is one resource as a request made it, and the ids and values that Neutron gave it.
type post struct {
	collection string
	body       []byte
	answer     harness.Resource
}

// makeFirst has a controller make one Network and its Pod's port.
func (b *bench) makeFirst(ctx context.Context, s *site) (*original, error) {
	c, err := b.start(ctx, s, b.AdminKubeconfig, append([]string{"--audit-interval=2s"}, alone...)...)
	if err != nil {
		return nil, err
	}
	o := &original{namespace: "fleet-original", name: "original"}
	namespaces := b.Kube.CoreV1().Namespaces()
	for i := range fleetNamespaces + 1 {
		name := o.namespace
		if i > 0 {
			name = fleetNamespace(i - 1)
		}
		space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := namespaces.Create(ctx, space, metav1.CreateOptions{}); err != nil {
			return nil, err
		}
	}
	mark := s.mark()
	if err := b.applyOne(ctx, o.namespace, o.name); err != nil {
		return nil, err
	}
	pod := harness.PodOn(o.name+"-pod", o.name)
	if _, err := b.Kube.CoreV1().Pods(o.namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	err = c.await(ctx, harness.Patience, func() error {
		created, err := b.Kube.CoreV1().Pods(o.namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(created.Spec.SchedulingGates) > 0 {
			return errors.New("the Pod is still gated")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	// What follows the gate's removal is the last status.
	if _, err := s.audits(ctx, mark, 1); err != nil {
		return nil, c.explain(err)
	}
	if err := c.stop(ctx); err != nil {
		return nil, err
	}
	return o, errors.Join(o.readObjects(ctx, b), o.readPosts(s.since(mark)))
}

// readObjects reads the Network, its NetworkPort and the Pod.
func (o *original) readObjects(ctx context.Context, b *bench) error {
	ours := b.Networks.CloudteamV1()
	network, err := ours.Networks(o.namespace).Get(ctx, o.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	ports, err := ours.NetworkPorts(o.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	pods, err := b.Kube.CoreV1().Pods(o.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if len(ports.Items) != 1 || len(pods.Items) != 1 {
		return fmt.Errorf("%d NetworkPorts and %d Pods were made for one Pod", len(ports.Items), len(pods.Items))
	}
	port, pod := &ports.Items[0], &pods.Items[0]
	gv := cloudteamv1.SchemeGroupVersion.String()
	network.TypeMeta = metav1.TypeMeta{APIVersion: gv, Kind: "Network"}
	port.TypeMeta = metav1.TypeMeta{APIVersion: gv, Kind: "NetworkPort"}
	group := "/registry/" + cloudteamv1.SchemeGroupVersion.Group
	for _, one := range []struct {
		prefix string
		object metav1.Object
	}{{group + "/networks/", network}, {group + "/networkports/", port}, {"/registry/pods/", pod}} {
		one.object.SetResourceVersion("")
		text, err := json.Marshal(one.object)
		if err != nil {
			return err
		}
		o.objects = append(o.objects, stored{one.prefix, one.object.GetName(), text})
		o.uids = append(o.uids, one.object.GetUID())
	}
	return nil
}

// readPosts finds the creates of the original among the calls. In each it takes the only resource.
func (o *original) readPosts(calls []call) error {
	for _, collection := range []string{"networks", "subnets", "ports"} {
		i := slices.IndexFunc(calls, func(c call) bool { return c.method == "POST" && c.shape == "/v2.0/"+collection })
		if i < 0 {
			return fmt.Errorf("the controller made no %s", collection)
		}
		body, err := only(calls[i].body, collection)
		if err != nil {
			return err
		}
		answer, err := only(calls[i].answer, collection)
		if err != nil {
			return err
		}
		one := post{collection: collection, body: body}
		if err := json.Unmarshal(answer, &one.answer); err != nil {
			return err
		}
		o.posts = append(o.posts, one)
	}
	return nil
}

// only is the one resource of a body, which may be of a bulk request.
func only(body []byte, collection string) (json.RawMessage, error) {
	var found map[string]json.RawMessage
	if err := json.Unmarshal(body, &found); err != nil {
		return nil, err
	}
	if one, ok := found[harness.Singular(collection)]; ok {
		return one, nil
	}
	var several []json.RawMessage
	if err := json.Unmarshal(found[collection], &several); err != nil {
		return nil, err
	}
	if len(several) != 1 {
		return nil, fmt.Errorf("%d %s in one request, not one", len(several), collection)
	}
	return several[0], nil
}

func fleetNamespace(i int) string { return fmt.Sprintf("fleet-%02d", i%fleetNamespaces) }

func fleetName(i int) string { return fmt.Sprintf("copy-%06d", i) }

// copyAll copies the original, in Neutron and in etcd.
func (b *bench) copyAll(ctx context.Context, s *site, o *original) error {
	b.say("%s Networks with their ports in Neutron", grouped(b.size))
	pairs := make([][]string, b.size)
	for i := range pairs {
		pairs[i] = []string{o.namespace, fleetNamespace(i), o.name, fleetName(i)}
		for _, uid := range o.uids {
			pairs[i] = append(pairs[i], string(uid), string(uuid.NewUUID()))
		}
	}
	for _, p := range o.posts {
		for begin := 0; begin < b.size; begin += postAtATime {
			if err := s.copy(ctx, p, pairs[begin:min(begin+postAtATime, b.size)]); err != nil {
				return err
			}
		}
	}
	b.say("the same in etcd, with %s Pods", grouped(b.size))
	database, err := b.openEtcd()
	if err != nil {
		return err
	}
	if err := database.copy(ctx, o, pairs); err != nil {
		return err
	}
	if err := database.reportSize(ctx, b.report); err != nil {
		return err
	}
	// It follows etcd, which was faster.
	b.say("kube-apiserver takes them in")
	server, err := processWith("--etcd-servers=" + database.url)
	if err != nil {
		return err
	}
	return atRest(ctx, server)
}

// copy makes copies of a resource in one bulk request. Of each answer it adds to the copy's pairs what is not as in the
// original's: ids and addresses.
func (s *site) copy(ctx context.Context, p post, pairs [][]string) error {
	var bodies []json.RawMessage
	for _, of := range pairs {
		bodies = append(bodies, []byte(strings.NewReplacer(of...).Replace(string(p.body))))
	}
	var made map[string][]harness.Resource
	_, err := s.direct.Client.Post(ctx, s.direct.Client.ServiceURL(p.collection), map[string]any{p.collection: bodies},
		&made, &gophercloud.RequestOpts{OkCodes: []int{http.StatusCreated}})
	if err != nil {
		return fmt.Errorf("copying %s: %w", p.collection, err)
	}
	if len(made[p.collection]) != len(pairs) {
		return fmt.Errorf("%d %s were made, not %d", len(made[p.collection]), p.collection, len(pairs))
	}
	for i, is := range made[p.collection] {
		for key, was := range p.answer {
			text, isText := was.(string)
			if isText && text != "" && is.Text(key) != text && !slices.Contains(pairs[i], text) &&
				!strings.HasSuffix(key, "_at") && key != "name" && key != "description" {
				pairs[i] = append(pairs[i], text, is.Text(key))
			}
		}
		if was, now := addressOf(p.answer), addressOf(is); was != now {
			pairs[i] = append(pairs[i], was, now)
		}
	}
	return nil
}

// addressOf is a port's only address; empty for what is no port.
func addressOf(r harness.Resource) string {
	addresses, _ := r["fixed_ips"].([]any)
	if len(addresses) != 1 {
		return ""
	}
	address, _ := addresses[0].(map[string]any)["ip_address"].(string)
	return address
}

// etcd is the database of the control plane, by its JSON gateway.
type etcd struct {
	url    string
	client *http.Client
}

// openEtcd finds the control plane's etcd: its certificates are beside the kubeconfig, and its process has its address.
func (b *bench) openEtcd() (*etcd, error) {
	dir := filepath.Dir(b.AdminKubeconfig)
	certificate, err := tls.LoadX509KeyPair(filepath.Join(dir, "pki", "etcd.crt"), filepath.Join(dir, "pki", "etcd.key"))
	if err != nil {
		return nil, err
	}
	authority, err := os.ReadFile(filepath.Join(dir, "pki", "ca.crt"))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	pid, err := processWith("--data-dir=" + filepath.Join(dir, "etcd"))
	if err != nil {
		return nil, err
	}
	var url string
	for _, argument := range argumentsOf(pid) {
		if value, found := strings.CutPrefix(argument, "--advertise-client-urls="); found {
			url = value
		}
	}
	return &etcd{url: url, client: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
		RootCAs: pool, Certificates: []tls.Certificate{certificate},
	}}}}, nil
}

// processWith is the process that has an argument.
func processWith(argument string) (pid int, err error) {
	found, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	for _, path := range found {
		if pid, err := strconv.Atoi(filepath.Base(path)); err == nil && slices.Contains(argumentsOf(pid), argument) {
			return pid, nil
		}
	}
	return 0, fmt.Errorf("no process has the argument %s", argument)
}

// argumentsOf are the arguments of a process; none if it has ended.
func argumentsOf(pid int) []string {
	content, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.Split(string(content), "\x00")
}

// call sends a request and decodes its answer.
func (e *etcd) call(ctx context.Context, path string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	response, err := e.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("etcd: %s: %s: %.300s", path, response.Status, answer)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(answer, into)
}

// reportSize reports the size of its database.
func (e *etcd) reportSize(ctx context.Context, r *report) error {
	var status struct {
		DBSize string `json:"dbSize"`
	}
	if err := e.call(ctx, "/v3/maintenance/status", struct{}{}, &status); err != nil {
		return err
	}
	size, err := strconv.ParseFloat(status.DBSize, 64)
	if err != nil {
		return err
	}
	r.add("fleet-etcd", size/(1<<20))
	return nil
}

// copy writes a copy of the original's objects for each of the pairs.
func (e *etcd) copy(ctx context.Context, o *original, pairs [][]string) error {
	pods := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	perTransaction := putAtATime / len(o.objects)
	transactions := (len(pairs) + perTransaction - 1) / perTransaction
	return inParallel(ctx, appliers, transactions, func(ctx context.Context, n int) error {
		var puts []any
		for _, of := range pairs[n*perTransaction : min((n+1)*perTransaction, len(pairs))] {
			replacer := strings.NewReplacer(of...)
			for i, object := range o.objects {
				value := []byte(replacer.Replace(string(object.json)))
				if i == len(o.objects)-1 {
					var err error
					if value, err = asProtobuf(pods, value); err != nil {
						return err
					}
				}
				key := object.prefix + replacer.Replace(o.namespace) + "/" + replacer.Replace(object.name)
				puts = append(puts, map[string]any{"requestPut": map[string]any{
					"key": base64.StdEncoding.EncodeToString([]byte(key)), "value": base64.StdEncoding.EncodeToString(value),
				}})
			}
		}
		var answer struct {
			Succeeded bool `json:"succeeded"`
		}
		return e.call(ctx, "/v3/kv/txn", map[string]any{"success": puts}, &answer)
	})
}

// asProtobuf is a Pod as kube-apiserver stores it.
func asProtobuf(serializer runtime.Encoder, text []byte) ([]byte, error) {
	pod := &corev1.Pod{}
	if err := json.Unmarshal(text, pod); err != nil {
		return nil, err
	}
	pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	var b bytes.Buffer
	err := serializer.Encode(pod, &b)
	return b.Bytes(), err
}

// lead has a controller lead beside the fleet, and a standby wait.
func (b *bench) lead(ctx context.Context, s *site) error {
	began := time.Now()
	leader, err := b.start(ctx, s, b.AdminKubeconfig)
	if err != nil {
		return err
	}
	b.report.add("fleet-ready", time.Since(began).Seconds())
	b.say("ready after %s", short(time.Since(began)))
	if err := b.report.addCPU("fleet-cpu", leader.PID(), 0); err != nil {
		return err
	}
	if err := atRest(ctx, leader.PID()); err != nil {
		return leader.explain(err)
	}
	b.report.add("fleet-worked", time.Since(began).Seconds())
	if err := b.watchAudits(ctx, s, s.mark(), leader, "fleet"); err != nil {
		return leader.explain(err)
	}
	if err := b.editInBothWays(ctx, s); err != nil {
		return leader.explain(err)
	}
	if err := b.report.addMemory("fleet-peak", leader.PID(), "VmHWM"); err != nil {
		return err
	}
	standby, err := b.start(ctx, s, b.AdminKubeconfig)
	if err != nil {
		return err
	}
	return errors.Join(b.report.addMemory("fleet-standby", standby.PID(), "VmRSS"), standby.stop(ctx), leader.stop(ctx))
}

// watchAudits reports what the second whole audit since mark takes, and the memory then, for the ids of a group.
func (b *bench) watchAudits(ctx context.Context, s *site, mark int, c *controller, group string) error {
	if _, err := s.audits(ctx, mark, 1); err != nil {
		return err
	}
	before, err := cpuOf(c.PID())
	if err != nil {
		return err
	}
	audits, err := s.audits(ctx, mark, 2)
	if err != nil {
		return err
	}
	if err := b.report.addCPU(group+"-audit-cpu", c.PID(), before); err != nil {
		return err
	}
	calls := firstLists(audits[1])
	if changed := writes(audits[1]); len(changed) > 0 {
		return fmt.Errorf("an audit at rest wrote to Neutron: %s %s", changed[0].method, changed[0].uri)
	}
	b.report.add(group+"-audit", float64(len(calls)))
	b.report.add(group+"-audit-took", calls[len(calls)-1].at.Sub(calls[0].at).Seconds())
	return b.report.addMemory(group+"-memory", c.PID(), "VmRSS")
}

// auditing reports whether an audit is under way: a list has come a moment ago.
func (s *site) auditing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := len(s.calls) - 1
	for i >= 0 && !s.calls[i].lists() {
		i--
	}
	return i >= 0 && time.Since(s.calls[i].at) < auditPause
}

// editInBothWays edits Networks between audits and beside them.
func (b *bench) editInBothWays(ctx context.Context, s *site) error {
	idle, err := b.edit(ctx, s, 0, false)
	if err != nil {
		return err
	}
	beside, err := b.edit(ctx, s, b.size/2, true)
	if err != nil {
		return err
	}
	b.report.add("fleet-edit", idle)
	b.report.add("fleet-edit-audit", beside/idle)
	return nil
}

// atRest waits until a process has nothing to do.
func atRest(ctx context.Context, pid int) error {
	const interval = 2 * time.Second
	before := time.Duration(-1)
	return harness.Poll(ctx.Done(), startPatience, interval, func() error {
		now, err := cpuOf(pid)
		if err != nil {
			return err
		}
		was := before
		if before = now; was < 0 || (now-was).Seconds() > restful*interval.Seconds() {
			return fmt.Errorf("process %d still works: it used %s in %s", pid, now-was, interval)
		}
		return nil
	})
}

// edit changes Networks from a number on, one after another, while an audit is or is not under way. It returns the 99th
// percentile of the milliseconds until their calls came.
func (b *bench) edit(ctx context.Context, s *site, from int, audit bool) (float64, error) {
	var ways []float64
	n := min(edits, b.size/2)
	for i := range n {
		err := await(ctx, auditPatience, func() error {
			if s.auditing() != audit {
				return fmt.Errorf("there has been no moment with auditing = %t", audit)
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
		took, err := b.editOne(ctx, s, from+i*(b.size/2)/n)
		if err != nil {
			return 0, err
		}
		ways = append(ways, took.Seconds()*1000)
	}
	slices.Sort(ways)
	p99, most := ways[len(ways)*99/100], ways[len(ways)-1]
	b.say("edits, auditing = %t: median %s ms, p99 %s ms, the most %s ms", audit, number(median(ways)), number(p99),
		number(most))
	return p99, nil
}

// editOne changes a Network, and returns how long it took until the call came.
func (b *bench) editOne(ctx context.Context, s *site, n int) (took time.Duration, err error) {
	mark, began := s.mark(), time.Now()
	network, err := b.Networks.CloudteamV1().Networks(fleetNamespace(n)).Patch(ctx, fleetName(n), types.MergePatchType,
		[]byte(`{"spec":{"dnsServers":["192.0.2.53"]}}`), metav1.PatchOptions{})
	if err != nil {
		return 0, err
	}
	path := "/subnets/" + network.Status.Subnets[0].ID
	return took, await(ctx, harness.Patience, func() error {
		for _, c := range s.since(mark) {
			if c.method == "PUT" && strings.HasSuffix(c.uri, path) {
				took = c.at.Sub(began)
				return nil
			}
		}
		return fmt.Errorf("no PUT of %s has come", path)
	})
}
