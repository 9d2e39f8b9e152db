package kubectl

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	domain "cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

const (
	oldCluster = "2a6d0c4e-93b1-4f7a-8c55-1e9f7b3d5a02"
	newCluster = "c1"
)

// rebuilt is a cloud with what a cluster left that is gone.
type rebuilt struct {
	t      *testing.T
	server *neutrontest.Server
	cloud  *client.Cloud
	// old is the old cluster's, as its controller had it.
	old *inventory.Inventory
	// at is the old floating IP.
	at domain.ObservedFloatingIP
	// breaks, where set, is asked of each write; true breaks the connection instead.
	breaks atomic.Pointer[func(*http.Request) bool]
}

func startRebuilt(t *testing.T) *rebuilt {
	r := &rebuilt{t: t, server: neutrontest.New(neutrontest.Options{})}
	listener, err := r.server.Listen("127.0.0.1:0", func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if breaks := r.breaks.Load(); breaks != nil && q.Method == http.MethodPut && (*breaks)(q) {
				panic(http.ErrAbortHandler)
			}
			next.ServeHTTP(w, q)
		})
	})
	expect.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	t.Chdir(t.TempDir())
	write(t, "clouds.yaml", strings.Replace(listener.CloudsYAML(), "  tenant:", "  mycloud:", 1))
	t.Setenv("OS_CLIENT_CONFIG_FILE", "clouds.yaml")
	r.connect()
	return r
}

// connect logs in to mycloud.
func (r *rebuilt) connect() {
	credentials, err := client.LoadCredentials("mycloud")
	expect.NoError(r.t, err)
	r.cloud = client.NewCloud(credentials, client.Options{})
	r.old = r.inventory(oldCluster, nil)
}

// leftBehind fills the cloud of an example with what a cluster left. It gives the ids of the docs for those of the cloud.
func leftBehind(t *testing.T, server *neutrontest.Server) map[string]string {
	r := &rebuilt{t: t, server: server}
	r.connect()
	r.network(r.old, frontendOfOld, "frontend", "192.168.0.0/29", "web-frontend-0")
	return r.documented("web-frontend-0", "0d3c7b1e-5a94-4c6f-9e0b-013c5d7e9f01")
}

// documented gives the ids of the docs for those of the cloud: one for each collection, and one for the port that is
// described with a word.
func (r *rebuilt) documented(word, port string) map[string]string {
	ids := map[string]string{}
	for key, says := range r.described() {
		many, id, _ := strings.Cut(key, " ")
		ids[id] = map[string]string{
			"networks": "068d42bb-96f5-48f9-849f-0d08dcfe7af6", "routers": "64d5e0f7-1f5b-4d38-9f4c-2f6f3b1a7c55",
			"subnets": "5b0e4c5a-2c1f-4f3b-8a57-0a3b5f4d6c11", "ports": "0d3c7b1e-5a94-4c6f-9e0b-113c5d7e9f01",
		}[many]
		if strings.Contains(says, word) {
			ids[id] = port
		}
	}
	return ids
}

func (r *rebuilt) inventory(cluster string, leads func() (inventory.Term, bool)) *inventory.Inventory {
	in := inventory.New(r.cloud, cluster, inventory.Options{Ports: true, Interval: time.Hour, Term: leads})
	in.Fill(r.t.Context())
	return in
}

// apply has the old cluster's controller make a change.
func (r *rebuilt) apply(change domain.Change, err error) {
	r.t.Helper()
	r.applyIn(r.old, change, err)
}

func (r *rebuilt) applyIn(in *inventory.Inventory, change domain.Change, err error) {
	r.t.Helper()
	if err == nil {
		_, err = in.Apply(r.t.Context(), change)
	}
	expect.NoError(r.t, err)
}

// breakAfter breaks the connection of each write behind so many.
func (r *rebuilt) breakAfter(writes int) {
	var seen atomic.Int32
	breaks := func(*http.Request) bool { return int(seen.Add(1)) > writes }
	r.breaks.Store(&breaks)
}

// adoptBroken adopts all, at first with a connection that breaks after so many writes.
func (r *rebuilt) adoptBroken(objects []runtime.Object, writes int) {
	r.t.Helper()
	r.breakAfter(writes)
	out, code := run(r.t, objects, adopts+" --yes --force")
	if code != 1 || !strings.Contains(out, "run the same command again") {
		r.t.Fatalf("write %d: exit code %d\n%s", writes, code, out)
	}
	r.breaks.Store(nil)
	if out, code = run(r.t, objects, adopts+" --yes --force"); code != 0 {
		r.t.Fatalf("write %d: exit code %d\n%s", writes, code, out)
	}
	expect.Equal(r.t, 0, r.count(oldCluster), "resources with the old marker after write %d", writes)
}

// observed is what an object of the old cluster has.
func (r *rebuilt) observed(owner domain.Owner, kind domain.Kind) domain.Observed {
	r.t.Helper()
	observed, err := r.old.Observed(r.t.Context(), owner, time.Time{}, kind)
	expect.NoError(r.t, err)
	return observed
}

// outside makes an external network and a QoS policy, for all projects, and gives their ids.
func (r *rebuilt) outside() (network, policy string) {
	r.t.Helper()
	credentials, err := client.LoadCredentials("admin")
	expect.NoError(r.t, err)
	tenant := r.cloud
	r.cloud = client.NewCloud(credentials, client.Options{})
	defer func() { r.cloud = tenant }()
	network = r.do(http.MethodPost, "networks", map[string]any{"network": map[string]any{"name": "public", "router:external": true}})
	r.do(http.MethodPost, "subnets", map[string]any{"subnet": map[string]any{
		"network_id": network, "cidr": "203.0.113.0/24", "ip_version": 4,
	}})
	return network, r.do(http.MethodPost, "qos/policies", map[string]any{"policy": map[string]any{
		"name": "gold", "shared": true,
	}})
}

// do calls Neutron by hand, and gives the id of what it answers with.
func (r *rebuilt) do(method, path string, body map[string]any) string {
	r.t.Helper()
	var answer map[string]struct{ ID string }
	err := r.cloud.Do(r.t.Context(), client.Request{Op: "by hand", Method: method, Path: path, Body: body, Answer: &answer})
	expect.NoError(r.t, err)
	for _, made := range answer {
		return made.ID
	}
	return ""
}

// tag gives a resource tags.
func (r *rebuilt) tag(many, id string, tags ...string) {
	r.t.Helper()
	expect.NoError(r.t, r.cloud.Do(r.t.Context(), client.Request{
		Op: "by hand", Method: http.MethodPut, Path: many + "/" + id + "/tags", Body: map[string]any{"tags": tags},
		Answer: new(map[string]any),
	}))
}

// network makes a network as the controller of a cluster does, with a router and a port. It returns its id.
func (r *rebuilt) network(in *inventory.Inventory, owner domain.Owner, name, cidr string, ports ...string) string {
	r.t.Helper()
	prefix := netip.MustParsePrefix(cidr)
	spec := domain.Spec{Owner: owner, Name: name, Router: &domain.RouterSpec{},
		Subnets: []domain.Subnet{{CIDR: prefix, Gateway: prefix.Addr().Next(), DHCP: true}}}
	expect.NoError(r.t, spec.Validate())
	change, err := domain.Network(spec, domain.Observed{})
	r.applyIn(in, change, err)
	observed, err := in.Observed(r.t.Context(), owner, time.Time{}, domain.KindNetwork)
	expect.NoError(r.t, err)
	n, _ := observed.Network()
	address := prefix.Addr().Next()
	for _, port := range ports {
		address = address.Next()
		change, err := domain.Port(domain.PortSpec{
			Owner: domain.Owner{Cluster: owner.Cluster, Object: "old-" + name + "-" + port}, Name: port, NetworkID: n.ID,
			Addresses: []domain.PortAddress{{SubnetID: n.Subnets[0].ID, Address: address}},
		}, domain.Observed{})
		r.applyIn(in, change, err)
	}
	return n.ID
}

// described is each resource's description and revision, by collection and id.
func (r *rebuilt) described() map[string]string {
	r.t.Helper()
	all := map[string]string{}
	for _, many := range []string{"networks", "subnets", "routers", "ports", "floatingips"} {
		listed, err := client.List[described](r.t.Context(), r.cloud, "list", client.Collection{Many: many}, url.Values{})
		expect.NoError(r.t, err)
		for _, d := range listed {
			all[many+" "+d.ID] = fmt.Sprint(d.Description, " ", d.Name)
		}
	}
	return all
}

type described struct{ ID, Name, Description string }

func (d described) Key() string { return d.ID }

// count counts the resources that a cluster marks.
func (r *rebuilt) count(cluster string) (marked int) {
	for _, d := range r.described() {
		if strings.Contains(d, "[owner="+cluster+"/") {
			marked++
		}
	}
	return marked
}

// objects are those of the new cluster.
func (r *rebuilt) objects(more ...runtime.Object) []runtime.Object {
	return append(more, kubeSystem())
}

// applied is a Network of the new cluster, whose controller only reports.
func (r *rebuilt) applied(namespace, name, cidr string) *cloudteamv1.Network {
	n := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
		UID: types.UID("new-" + namespace + "-" + name)}}
	n.Spec.CIDR, n.Status.ObservedGeneration = cidr, 1
	return n
}

func (r *rebuilt) port(namespace, name, network string) *cloudteamv1.NetworkPort {
	p := &cloudteamv1.NetworkPort{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
		UID: types.UID("new-" + namespace + "-" + name)}}
	p.Spec.NetworkName = network
	return p
}

const adopts = "adopt --from-cluster " + oldCluster + " --cloud mycloud"

// frontendOfOld is frontend's owner in the old cluster.
var frontendOfOld = domain.Owner{Cluster: oldCluster, Object: "old-frontend"}

func TestAdoptGivesAnOldNetworkToTheObjectOfItsName(t *testing.T) {
	r := startRebuilt(t)
	id := r.network(r.old, frontendOfOld, "frontend", "10.1.0.0/24", "web-0", "gone-0")
	third := r.inventory("third", nil)
	r.network(third, domain.Owner{Cluster: "third", Object: "o"}, "frontend", "10.1.0.0/24", "web-0")
	objects := r.objects(r.applied("shop", "frontend", "10.1.0.0/24"), r.port("shop", "web-0", "frontend"))
	was := r.described()

	out, code := run(t, objects, adopts)
	if code != 2 || !strings.Contains(out, "network "+id) || !strings.Contains(out, "With --yes: 5 markers") ||
		!strings.Contains(out, "Left with the old cluster's marker") {
		t.Errorf("the dry run exits with %d and says\n%s", code, out)
	}
	expect.Equal(t, was, r.described(), "a dry run writes")
	if out, code = run(t, objects, adopts+" --yes --force"); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	for key, now := range r.described() {
		before := was[key]
		want := before
		switch {
		case strings.Contains(before, "web-0") && strings.Contains(before, oldCluster):
			want = strings.Replace(before, oldCluster+"/old-frontend-web-0", newCluster+"/new-shop-web-0", 1)
		case !strings.Contains(before, "gone-0"):
			want = strings.Replace(before, frontendOfOld.Marker(), "[owner=c1/new-shop-frontend]", 1)
		}
		expect.Equal(t, want, now, "the description of %s", key)
	}
	expect.Equal(t, 1, r.count(oldCluster), "resources with the old marker: the port of nobody")

	// Nothing is written twice.
	puts := r.server.CallCounts()
	out, code = run(t, objects, adopts+" --yes --force")
	for call, n := range r.server.CallCounts() {
		if strings.HasPrefix(call, "PUT") && n != puts[call] {
			t.Errorf("the second run writes: %s", call)
		}
	}
	if code != 0 || !strings.Contains(out, "Nothing to adopt.") {
		t.Errorf("the second run exits with %d and says\n%s", code, out)
	}
}

// TestAdoptGoesByAnImportsFilter has networks with a tag: one that was imported, and one that was created. Only the former
// is what a filter means, also where the import gave it another name.
func TestAdoptGoesByAnImportsFilter(t *testing.T) {
	for sentence, filter := range map[string]cloudteamv1.NetworkImportFilter{
		"that it fits": {Tags: []string{"k8s"}}, "that it does not fit any more": {Name: "prod"},
	} {
		t.Run(sentence, func(t *testing.T) {
			r := startRebuilt(t)
			created := r.network(r.old, frontendOfOld, "frontend", "10.1.0.0/24")
			old := domain.Owner{Cluster: oldCluster, Object: "old-legacy"}
			imported := r.network(r.old, old, "shop-legacy", "10.1.0.0/24")
			r.do(http.MethodPut, "networks/"+imported, map[string]any{"network": map[string]any{"description": "[imported] " + old.Marker()}})
			for _, id := range []string{created, imported} {
				r.tag("networks", id, "k8s")
			}
			n := r.applied("shop", "legacy", "10.1.0.0/24")
			n.Spec.NetworkName = "shop-legacy"
			n.Spec.Import = &cloudteamv1.NetworkImport{Filter: &filter, Overwrite: true}
			if out, code := run(t, r.objects(n, r.applied("shop", "frontend", "10.1.0.0/24")), adopts+" --yes --force"); code != 0 {
				t.Fatalf("exit code %d:\n%s", code, out)
			}
			marks := r.described()
			expect.Contains(t, marks["networks "+imported], "[imported] [owner="+newCluster+"/new-shop-legacy]", "what was imported")
			expect.Contains(t, marks["networks "+created], "[owner="+newCluster+"/new-shop-frontend]", "what was created")
		})
	}
}

// TestAdoptGoesOn breaks each write in turn, before or after Neutron has done it.
func TestAdoptGoesOn(t *testing.T) {
	for broken := range 5 {
		r := startRebuilt(t)
		r.network(r.old, frontendOfOld, "frontend", "10.1.0.0/24", "web-0")
		objects := r.objects(r.applied("shop", "frontend", "10.1.0.0/24"), r.port("shop", "web-0", "frontend"))
		r.breakAfter(broken)
		out, code := run(t, objects, adopts+" --yes --force")
		if code != 1 || !strings.Contains(out, "run the same command again") {
			t.Fatalf("write %d: exit code %d\n%s", broken, code, out)
		}
		expect.Equal(t, broken, r.count(newCluster), "markers written before a write broke")
		r.breaks.Store(nil)
		if out, code = run(t, objects, adopts+" --yes --force"); code != 0 {
			t.Fatalf("write %d: exit code %d\n%s", broken, code, out)
		}
		if old, now := r.count(oldCluster), r.count(newCluster); old != 0 || now != 5 {
			t.Errorf("after write %d broke: %d resources bear the old marker, %d the new one; want 0 and 5", broken, old, now)
		}
	}
}

func TestAdoptGivesNothingThatIsInDoubt(t *testing.T) {
	r := startRebuilt(t)
	id := r.network(r.old, frontendOfOld, "frontend", "10.1.0.0/24")
	shop, blog := r.applied("shop", "frontend", "10.1.0.0/24"), r.applied("blog", "frontend", "10.1.0.0/24")
	elsewhere := r.applied("shop", "frontend", "10.1.0.0/24")
	elsewhere.Status.Cloud = &cloudteamv1.CloudStatus{ProjectID: "another"}
	tenants := r.applied("shop", "frontend", "10.1.0.0/24")
	tenants.Spec.Cloud = &cloudteamv1.CloudReference{SecretName: "mine"}
	unseen := r.applied("shop", "frontend", "10.1.0.0/24")
	unseen.Status.ObservedGeneration = 0
	for name, c := range map[string]struct {
		command string
		objects []runtime.Object
		says    string
	}{
		"another cluster":     {"adopt --from-cluster nobody --cloud mycloud", r.objects(shop), "Nothing in this project is of cluster"},
		"this cluster":        {"adopt --from-cluster c1 --cloud mycloud", r.objects(shop), "is this cluster"},
		"two of a name":       {adopts, r.objects(shop, blog), "Network " + id + " fits Network shop/frontend, too"},
		"another cidr":        {adopts, r.objects(r.applied("shop", "frontend", "10.2.0.0/24")), "Nothing to adopt."},
		"another project":     {adopts, r.objects(elsewhere), "Nothing to adopt."},
		"an unknown project":  {adopts, r.objects(tenants), "It has its own credentials"},
		"an unseen Network":   {adopts, r.objects(unseen), "The controller has not seen it"},
		"a choice of nothing": {adopts + " shop/frontend=gone", r.objects(shop), "No network of the old cluster fits"},
		"no record":           {adopts, r.objects(shop), "nothing shows whether its controller runs"},
	} {
		out, _ := run(t, c.objects, c.command+" --yes")
		expect.Contains(t, out, c.says, "what it says, %s", name)
		if marked := r.count(newCluster); marked != 0 {
			t.Fatalf("%s: %d resources are adopted", name, marked)
		}
	}
	out, code := run(t, r.objects(shop, blog), adopts+" shop/frontend="+id+" --yes --force")
	if code != 0 || r.count(newCluster) != 4 {
		t.Errorf("chosen, it is not adopted: %s", out)
	}

	// A cluster that made a second network before sees it.
	second := startRebuilt(t)
	second.network(second.old, frontendOfOld, "frontend", "10.1.0.0/24")
	mine := second.inventory(newCluster, nil)
	second.network(mine, domain.Owner{Cluster: newCluster, Object: "new-shop-frontend"}, "frontend", "10.1.0.0/24")
	out, code = run(t, second.objects(second.applied("shop", "frontend", "10.1.0.0/24")), adopts+" --yes --force")
	if code != 1 || !strings.Contains(out, "It has network") || second.count(oldCluster) != 4 {
		t.Errorf("with a second network, it exits with %d and says\n%s", code, out)
	}
}

// live has a controller of the old cluster audit until stop is called, which returns when it has ended.
func (r *rebuilt) live() (stop func()) {
	living := r.inventory(oldCluster, func() (inventory.Term, bool) {
		return inventory.Term{Lease: "network-controller/network-controller", Number: 3, Holder: "alive"}, true
	})
	ctx, cancel := context.WithCancel(r.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			_ = living.Audit(ctx) // the next one answers, too
			client.Pause(ctx, 10*time.Millisecond, nil)
		}
	}()
	return func() { cancel(); <-ended }
}

func TestAdoptTakesNothingFromALivingCluster(t *testing.T) {
	r := startRebuilt(t)
	r.network(r.old, frontendOfOld, "frontend", "10.1.0.0/24")
	objects := r.objects(r.applied("shop", "frontend", "10.1.0.0/24"))
	stop := r.live()
	out, code := run(t, objects, adopts+" --yes --silence 12s")
	if code != 1 || !strings.Contains(out, "a controller of the old cluster runs") || r.count(newCluster) != 0 {
		t.Errorf("it exits with %d and says\n%s", code, out)
	}
	stop()

	// Once it is gone, its silence is enough, and its record goes with the last of its resources.
	if out, code = run(t, objects, adopts+" --yes --silence 10ms"); code != 0 || r.count(newCluster) != 4 {
		t.Errorf("it exits with %d and says\n%s", code, out)
	}
	if left, err := client.List[described](t.Context(), r.cloud, "list", client.Collection{Many: "subnetpools"}, url.Values{}); err != nil ||
		len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestAdoptListsClusters(t *testing.T) {
	r := startRebuilt(t)
	r.network(r.old, frontendOfOld, "frontend", "10.1.0.0/24", "web-0")
	out, code := run(t, r.objects(), "adopt --cloud mycloud")
	want := "CLUSTER                               NETWORKS  ROUTERS  PORTS\n" +
		oldCluster + "         1        1      2\n"
	if code != 0 || out != want {
		t.Errorf("exit code %d:\n%s\nwant\n%s", code, out, want)
	}
}

// reached makes in the old cluster the network frontend with the port web-0, and a floating IP for it, to which others
// gave a QoS policy. It gives the external network and the floating IP.
func (r *rebuilt) reached(owner domain.Owner) (outside string, f domain.ObservedFloatingIP) {
	outside, policy := r.outside()
	r.apply(domain.Network(domain.Spec{Owner: frontendOfOld, Name: "frontend",
		Subnets: []domain.Subnet{
			{CIDR: netip.MustParsePrefix("10.1.0.0/24"), Gateway: netip.MustParseAddr("10.1.0.1"), DHCP: true},
			{CIDR: netip.MustParsePrefix("10.2.0.0/24"), Gateway: netip.MustParseAddr("10.2.0.1"), DHCP: true},
		},
		Router: &domain.RouterSpec{ExternalNetwork: outside}}, domain.Observed{}))
	n, _ := r.observed(frontendOfOld, domain.KindNetwork).Network()
	spec := domain.PortSpec{Owner: portOfOld, Name: "web-0", NetworkID: n.ID}
	for _, subnet := range n.Subnets {
		spec.Addresses = append(spec.Addresses, domain.PortAddress{SubnetID: subnet.ID})
	}
	r.apply(domain.Port(spec, domain.Observed{}))
	p := r.observed(portOfOld, domain.KindPort).Ports[0]
	f = r.address(r.old, domain.FloatingSpec{Owner: owner, NetworkID: outside, PortID: p.ID,
		Fixed: []netip.Addr{p.Addresses[0].Address}})
	f.QoSPolicy = policy
	r.do(http.MethodPut, "floatingips/"+f.ID, map[string]any{"floatingip": map[string]any{
		"qos_policy_id": policy, "port_id": f.PortID, "fixed_ip_address": f.Fixed.String(),
	}})
	return outside, f
}

// floatingIP is a FloatingIP of the new cluster for web-0.
func (r *rebuilt) floatingIP(name, outside string) *cloudteamv1.FloatingIP {
	f := &cloudteamv1.FloatingIP{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("new-shop-" + name)}}
	f.Spec.ExternalNetwork, f.Spec.PortName = outside, "web-0"
	return f
}

// naming is a FloatingIP without a port that names the old one by its address. Its condition has a reason.
func (r *rebuilt) naming(name, reason string) *cloudteamv1.FloatingIP {
	f := r.floatingIP(name, "public")
	f.Spec.PortName, f.Spec.Address = "", r.at.Address.String()
	f.Status.Conditions = []metav1.Condition{{
		Type: cloudteamv1.ConditionReady, Reason: cmp.Or(reason, cloudteamv1.ReasonPlanned), Message: "Its class forbids it.",
	}}
	return f
}

// portOfOld and publicOfOld are the old objects of web-0 and of a FloatingIP.
var (
	portOfOld   = domain.Owner{Cluster: oldCluster, Object: "old-web-0"}
	publicOfOld = domain.Owner{Cluster: oldCluster, Object: "old-public"}
)

// TestAdoptGivesAFloatingIPToWhatHadIt breaks the connection before each of the last writes in turn. Others gave the
// floating IP a QoS policy, and the port has two addresses of IPv4. A NetworkPort whose FloatingIP had it asks for none:
// its controller would delete one that it gets.
func TestAdoptGivesAFloatingIPToWhatHadIt(t *testing.T) {
	for object, owner := range map[string]domain.Owner{"new-shop-web-0": portOfOld, "new-shop-public": publicOfOld} {
		for broken := range 3 {
			r := startRebuilt(t)
			_, was := r.reached(owner)
			port := r.port("shop", "web-0", "frontend")
			objects := r.objects(r.applied("shop", "frontend", "10.1.0.0/24"), port)
			if owner == portOfOld {
				port.Spec.FloatingIP = &cloudteamv1.PortFloatingIP{ExternalNetwork: "public"}
			} else {
				objects = append(objects, r.floatingIP("public", "public"))
			}
			before := 5 + broken // of the network, its subnets, its router, and two interfaces it takes six
			r.adoptBroken(objects, before)
			got, err := r.inventory(newCluster, nil).Observed(t.Context(),
				domain.Owner{Cluster: newCluster, Object: object}, time.Time{}, domain.KindFloatingIP)
			if err != nil || len(got.FloatingIPs) != 1 {
				t.Fatalf("write %d: %s has %v, %v", before, object, got.FloatingIPs, err)
			}
			f := got.FloatingIPs[0]
			if f.Address != was.Address || f.PortID != was.PortID || f.Fixed != was.Fixed || f.QoSPolicy != was.QoSPolicy {
				t.Errorf("write %d: %s has %+v, want %+v", before, object, f, was)
			}
		}
	}
}

func TestAdoptGivesNoAddressThatIsInDoubt(t *testing.T) {
	const one = "FloatingIP shop/public"
	for sentence, c := range map[string]struct {
		// owner is the old object of the floating IP.
		owner domain.Owner
		// before is adopted in an earlier run.
		before bool
		// asks has the NetworkPort ask for a floating IP itself.
		asks     bool
		floating func(r *rebuilt, outside string) []*cloudteamv1.FloatingIP
		// gets is the object that gets it; empty for none, and then says is a part of what is printed.
		gets, says string
	}{
		"nobody asks for it": {owner: publicOfOld, says: "203.0.113."},
		"one asks by the id": {owner: publicOfOld, gets: one, floating: func(r *rebuilt, outside string) []*cloudteamv1.FloatingIP {
			return []*cloudteamv1.FloatingIP{r.floatingIP("public", outside)}
		}},
		"of another external network": {owner: publicOfOld, says: "203.0.113.",
			floating: func(r *rebuilt, _ string) []*cloudteamv1.FloatingIP {
				return []*cloudteamv1.FloatingIP{r.floatingIP("public", "office")}
			}},
		"for another port": {owner: publicOfOld, says: "203.0.113.",
			floating: func(r *rebuilt, _ string) []*cloudteamv1.FloatingIP {
				f := r.floatingIP("public", "public")
				f.Spec.PortName = "web-1"
				return []*cloudteamv1.FloatingIP{f}
			}},
		"of another namespace": {owner: publicOfOld, says: "203.0.113.",
			floating: func(r *rebuilt, _ string) []*cloudteamv1.FloatingIP {
				f := r.floatingIP("public", "public")
				f.Namespace = "blog"
				return []*cloudteamv1.FloatingIP{f}
			}},
		"two ask for it": {owner: publicOfOld, says: "fits several objects: FloatingIP shop/first, FloatingIP shop/public.",
			floating: func(r *rebuilt, _ string) []*cloudteamv1.FloatingIP {
				return []*cloudteamv1.FloatingIP{r.floatingIP("first", "public"), r.floatingIP("public", "public")}
			}},
		"it has one already": {owner: publicOfOld, says: "It has floating IP",
			floating: func(r *rebuilt, outside string) []*cloudteamv1.FloatingIP {
				r.address(r.inventory(newCluster, nil), domain.FloatingSpec{
					Owner: domain.Owner{Cluster: newCluster, Object: "new-shop-public"}, NetworkID: outside})
				return []*cloudteamv1.FloatingIP{r.floatingIP("public", "public")}
			}},
		"it was the port's, which asks for it": {owner: portOfOld, asks: true,
			gets: "NetworkPort shop/web-0", floating: func(r *rebuilt, _ string) []*cloudteamv1.FloatingIP {
				return []*cloudteamv1.FloatingIP{r.floatingIP("public", "public")}
			}},
		"it was the port's, which asks for none now": {owner: portOfOld, gets: one,
			floating: func(r *rebuilt, _ string) []*cloudteamv1.FloatingIP {
				return []*cloudteamv1.FloatingIP{r.floatingIP("public", "public")}
			}},
		"it was a FloatingIP's, and only the port asks": {owner: publicOfOld, asks: true, gets: "NetworkPort shop/web-0"},
		"one names its address, and no port": {owner: publicOfOld, gets: one,
			floating: func(r *rebuilt, _ string) []*cloudteamv1.FloatingIP {
				return []*cloudteamv1.FloatingIP{r.naming("public", "")}
			}},
		"one names its id, and the next one its port": {owner: publicOfOld,
			says: "fits several objects: FloatingIP shop/public, FloatingIP shop/first.",
			floating: func(r *rebuilt, _ string) []*cloudteamv1.FloatingIP {
				f := r.naming("public", "")
				f.Spec.Import, f.Spec.Address = &cloudteamv1.FloatingIPImport{ID: r.at.ID}, ""
				return []*cloudteamv1.FloatingIP{f, r.floatingIP("first", "public")}
			}},
		"one names its tags": {owner: publicOfOld, gets: one, floating: func(r *rebuilt, _ string) []*cloudteamv1.FloatingIP {
			f := r.naming("public", cloudteamv1.ReasonImportNotFound)
			f.Spec.Address = ""
			f.Spec.Import = &cloudteamv1.FloatingIPImport{Filter: &cloudteamv1.FloatingIPImportFilter{Tags: []string{"web"}}}
			r.tag("floatingips", r.at.ID, "web", "live")
			return []*cloudteamv1.FloatingIP{f}
		}},
		"one names other tags": {owner: publicOfOld, says: "203.0.113.", floating: func(r *rebuilt, _ string) []*cloudteamv1.FloatingIP {
			f := r.naming("public", cloudteamv1.ReasonImportNotFound)
			f.Spec.Address = ""
			f.Spec.Import = &cloudteamv1.FloatingIPImport{Filter: &cloudteamv1.FloatingIPImportFilter{Tags: []string{"web"}}}
			return []*cloudteamv1.FloatingIP{f}
		}},
		"one names another address": {owner: publicOfOld, says: "203.0.113.",
			floating: func(r *rebuilt, _ string) []*cloudteamv1.FloatingIP {
				f := r.naming("public", "")
				f.Spec.Address, f.Spec.PortName = "203.0.113.222", "web-0"
				return []*cloudteamv1.FloatingIP{f}
			}},
		"one names its address that its class forbids": {owner: publicOfOld, says: "Its class forbids it.",
			floating: func(r *rebuilt, _ string) []*cloudteamv1.FloatingIP {
				return []*cloudteamv1.FloatingIP{r.naming("public", cloudteamv1.ReasonForbiddenByClass)}
			}},
		"one that is paused names its address": {owner: publicOfOld, says: "its class allows it (Paused)",
			floating: func(r *rebuilt, _ string) []*cloudteamv1.FloatingIP {
				return []*cloudteamv1.FloatingIP{r.naming("public", cloudteamv1.ReasonPaused)}
			}},
		"one that is too large names its address": {owner: publicOfOld, says: "its class allows it (InvalidSpec)",
			floating: func(r *rebuilt, _ string) []*cloudteamv1.FloatingIP {
				return []*cloudteamv1.FloatingIP{r.naming("public", cloudteamv1.ReasonInvalidSpec)}
			}},
		"one names its address before a class with credentials is reached": {owner: publicOfOld,
			says: "its class allows it (Rejected)", floating: func(r *rebuilt, _ string) []*cloudteamv1.FloatingIP {
				return []*cloudteamv1.FloatingIP{r.naming("public", cloudteamv1.ReasonRejected)}
			}},
		"one names its address, which the old marker keeps from it": {owner: publicOfOld, gets: one,
			floating: func(r *rebuilt, _ string) []*cloudteamv1.FloatingIP {
				return []*cloudteamv1.FloatingIP{r.naming("public", cloudteamv1.ReasonAlreadyOwned)}
			}},
		"one names its address with credentials of its own": {owner: publicOfOld, says: "It has its own credentials",
			floating: func(r *rebuilt, _ string) []*cloudteamv1.FloatingIP {
				f := r.naming("public", "")
				f.Spec.Cloud = &cloudteamv1.CloudReference{SecretName: "mine"}
				return []*cloudteamv1.FloatingIP{f}
			}},
		"one names its address that the controller has not seen": {owner: publicOfOld, says: "has not seen it",
			floating: func(r *rebuilt, _ string) []*cloudteamv1.FloatingIP {
				f := r.naming("public", "")
				f.Status.Conditions = nil
				return []*cloudteamv1.FloatingIP{f}
			}},
		"one names the port's own": {owner: portOfOld, asks: true,
			gets: "NetworkPort shop/web-0", says: "of NetworkPort shop/web-0, which asks for it",
			floating: func(r *rebuilt, _ string) []*cloudteamv1.FloatingIP {
				return []*cloudteamv1.FloatingIP{r.naming("public", "")}
			}},
		"one of another namespace names the address of a port that asks": {owner: publicOfOld, before: true, asks: true,
			gets: "NetworkPort shop/web-0", says: "is of NetworkPort shop/web-0, which asks for it",
			floating: func(r *rebuilt, _ string) []*cloudteamv1.FloatingIP {
				f := r.naming("thief", "")
				f.Namespace = "blog"
				return []*cloudteamv1.FloatingIP{f}
			}},
		"one of another namespace names the address of a port": {owner: publicOfOld, says: "is associated with port",
			floating: func(r *rebuilt, _ string) []*cloudteamv1.FloatingIP {
				f := r.naming("thief", "")
				f.Namespace = "blog"
				return []*cloudteamv1.FloatingIP{f}
			}},
		"one names the address of a port that asks": {owner: portOfOld,
			before: true, asks: true, says: "fits several objects: FloatingIP shop/public, NetworkPort shop/web-0.",
			floating: func(r *rebuilt, _ string) []*cloudteamv1.FloatingIP {
				return []*cloudteamv1.FloatingIP{r.naming("public", "")}
			}},
		"one names an address and another port": {owner: publicOfOld, says: "is associated with port",
			floating: func(r *rebuilt, _ string) []*cloudteamv1.FloatingIP {
				f := r.naming("public", "")
				f.Spec.PortName = "web-1"
				return []*cloudteamv1.FloatingIP{f}
			}},
		"one asks, and one that its class forbids names it": {owner: publicOfOld, gets: one, says: "Its class forbids it.",
			floating: func(r *rebuilt, _ string) []*cloudteamv1.FloatingIP {
				f := r.naming("other", cloudteamv1.ReasonForbiddenByClass)
				return []*cloudteamv1.FloatingIP{f, r.floatingIP("public", "public")}
			}},
		"one asks, and one that the controller has not seen names it": {owner: publicOfOld, gets: one, says: "has not seen it",
			floating: func(r *rebuilt, _ string) []*cloudteamv1.FloatingIP {
				f := r.naming("other", "")
				f.Status.Conditions = nil
				return []*cloudteamv1.FloatingIP{f, r.floatingIP("public", "public")}
			}},
		"one asks, and one that has credentials of its own names it": {owner: publicOfOld, gets: one, says: "It has its own credentials",
			floating: func(r *rebuilt, _ string) []*cloudteamv1.FloatingIP {
				f := r.naming("other", "")
				f.Spec.Cloud = &cloudteamv1.CloudReference{SecretName: "mine"}
				return []*cloudteamv1.FloatingIP{f, r.floatingIP("public", "public")}
			}},
		"one asks, and one that is of another project names it": {owner: publicOfOld, gets: one, says: "203.0.113.",
			floating: func(r *rebuilt, _ string) []*cloudteamv1.FloatingIP {
				f := r.naming("other", "")
				f.Status.Cloud = &cloudteamv1.CloudStatus{ProjectID: "another"}
				return []*cloudteamv1.FloatingIP{f, r.floatingIP("public", "public")}
			}},
		"one asks, and one that is being deleted names it": {owner: publicOfOld, gets: one, says: "203.0.113.",
			floating: func(r *rebuilt, _ string) []*cloudteamv1.FloatingIP {
				f := r.naming("other", "")
				f.DeletionTimestamp, f.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"a/b"}
				return []*cloudteamv1.FloatingIP{f, r.floatingIP("public", "public")}
			}},
		"one asks, and one that has one already names it": {owner: publicOfOld, gets: one, says: "It has floating IP",
			floating: func(r *rebuilt, outside string) []*cloudteamv1.FloatingIP {
				r.address(r.inventory(newCluster, nil), domain.FloatingSpec{
					Owner: domain.Owner{Cluster: newCluster, Object: "new-shop-other"}, NetworkID: outside})
				return []*cloudteamv1.FloatingIP{r.naming("other", ""), r.floatingIP("public", "public")}
			}},
		"nobody knows whose it was": {owner: publicOfOld, before: true, asks: true,
			says: "fits several objects: FloatingIP shop/public, NetworkPort shop/web-0.",
			floating: func(r *rebuilt, _ string) []*cloudteamv1.FloatingIP {
				return []*cloudteamv1.FloatingIP{r.floatingIP("public", "public")}
			}},
	} {
		t.Run(sentence, func(t *testing.T) {
			r := startRebuilt(t)
			outside, is := r.reached(c.owner)
			r.at = is
			port := r.port("shop", "web-0", "frontend")
			objects := r.objects(r.applied("shop", "frontend", "10.1.0.0/24"), port)
			if c.before {
				if out, code := run(t, objects, adopts+" --yes --force"); code != 0 {
					t.Fatal(out)
				}
			}
			if c.asks {
				port.Spec.FloatingIP = &cloudteamv1.PortFloatingIP{ExternalNetwork: "public"}
			}
			if c.floating != nil {
				for _, f := range c.floating(r, outside) {
					objects = append(objects, f)
				}
			}
			out, _ := run(t, objects, adopts+" --yes --force")
			expect.Contains(t, strings.Join(strings.Fields(out), " "), c.says, "what it says")
			marked := "Marked floatingip " + is.ID + " for " + c.gets
			if got := strings.Contains(out, "Marked floatingip"); got != (c.gets != "") || got && !strings.Contains(out, marked) {
				t.Errorf("want it for %q:\n%s", c.gets, out)
			}
		})
	}
}

// TestAdoptGivesNoAddressOfAPortThatNobodyHas has nothing adopted for the port, so that none can tell whose it is.
func TestAdoptGivesNoAddressOfAPortThatNobodyHas(t *testing.T) {
	r := startRebuilt(t)
	_, r.at = r.reached(publicOfOld)
	unseen := r.applied("shop", "frontend", "10.1.0.0/24")
	unseen.Status.ObservedGeneration = 0
	out, _ := run(t, r.objects(unseen, r.port("shop", "web-0", "frontend"), r.naming("public", "")), adopts+" --yes --force")
	expect.Contains(t, strings.Join(strings.Fields(out), " "), "is associated with port "+r.at.PortID, "what it says")
	if strings.Contains(out, "Marked") {
		t.Error(out)
	}
}

func TestAdoptListsSecurityGroupsAsLeft(t *testing.T) {
	r := startRebuilt(t)
	owner := domain.Owner{Cluster: oldCluster, Object: "old-web"}
	r.apply(domain.SecurityGroup(domain.GroupSpec{Owner: owner, Name: "web"}, domain.Observed{}))
	out, _ := run(t, r.objects(), "adopt --cloud mycloud --from-cluster "+oldCluster)
	if !strings.Contains(out, "Left with the old cluster's marker") || !strings.Contains(out, `"web"`) {
		t.Errorf("the group that stays is not listed:\n%s", out)
	}
}
