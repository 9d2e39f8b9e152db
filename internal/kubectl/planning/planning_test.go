package planning

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/cloudtest"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/fake"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// specs draws what users declare. The cidrs stay the same, as they identify the subnets.
func specs() *rapid.Generator[cloudteamv1.NetworkSpec] {
	return rapid.Custom(func(t *rapid.T) cloudteamv1.NetworkSpec {
		has := func(what string) bool { return rapid.Bool().Draw(t, what) }
		s := cloudteamv1.NetworkSpec{SubnetSpec: cloudteamv1.SubnetSpec{CIDR: "10.1.0.0/24"}}
		if has("gateway") {
			s.Gateway = rapid.SampledFrom([]string{"none", "10.1.0.1", "10.1.0.254"}).Draw(t, "the gateway")
		}
		if has("servers") {
			s.DNSServers = []string{"10.1.0.53", "10.1.0.54"}[:rapid.IntRange(1, 2).Draw(t, "servers")]
		}
		if has("pools") {
			s.AllocationPools = []cloudteamv1.AllocationPool{{Start: "10.1.0.10", End: "10.1.0.99"}}
		}
		if has("tags") {
			s.Tags = []string{"a", "b"}[:rapid.IntRange(1, 2).Draw(t, "number of tags")]
		}
		if has("description") {
			s.Description = "text"
		}
		if has("mtu") {
			s.MTU = new(int32(1400))
		}
		if has("another") {
			s.AdditionalSubnets = []cloudteamv1.SubnetSpec{{CIDR: "10.2.0.0/24"}, {CIDR: "fd00:2::/64"}}
		}
		if has("router") {
			s.Router = &cloudteamv1.RouterSpec{}
		}
		return s
	})
}

// TestWhatIsPlannedIsWhatIsDone applies what was planned, over the edits of an object, on an emulated cloud. Exactly
// these steps are taken, and afterwards there is nothing to plan.
func TestWhatIsPlannedIsWhatIsDone(t *testing.T) {
	in := emulated(t)
	c := &ask.Cluster{Kubernetes: kubefake.NewClientset(), Networks: fake.NewSimpleClientset()}
	planner, err := New(t.Context(), c, in, "c1")
	expect.NoError(t, err)
	checks := 0
	rapid.Check(t, func(t *rapid.T) {
		checks++
		n := &cloudteamv1.Network{}
		n.Namespace, n.Name, n.UID = "shop", "backend", types.UID(fmt.Sprintf("uid-%d", checks))
		for i := range rapid.IntRange(1, 3).Draw(t, "edits") {
			n.Generation = int64(i + 1)
			n.Spec = specs().Draw(t, "spec")
			planned, err := planner.Plan(context.Background(), n)
			if err != nil || planned.Problem != "" {
				t.Fatalf("planning: %v %s", err, planned.Problem)
			}
			var change plan.Change
			for _, s := range planned.Steps {
				change = append(change, s.step)
			}
			done, err := in.Apply(context.Background(), change)
			if err != nil {
				t.Fatalf("applying\n%s\nfails: %v", change, err)
			}
			if got, want := told(done), told(change); !slices.Equal(got, want) {
				t.Fatalf("planned\n%q\ndone\n%q", want, got)
			}
			if again, err := planner.Plan(context.Background(), n); err != nil || len(again.Steps) > 0 {
				t.Fatalf("after it was done, the plan is %+v, %v", again, err)
			}
		}
	})
}

func told(change plan.Change) (steps []string) {
	for _, s := range change {
		steps = append(steps, fmt.Sprintf("%s %v %s", s.Action, s.Differences, s.Reason))
	}
	return steps
}

// TestStoredReadsAgainWhatTheControllerWroteMeanwhile has the status change between the read and the dry run.
func TestStoredReadsAgainWhatTheControllerWroteMeanwhile(t *testing.T) {
	n := &cloudteamv1.Network{}
	n.Namespace, n.Name, n.Spec.CIDR = "shop", "backend", "10.1.0.0/24"
	networks := fake.NewSimpleClientset(n)
	conflicts := 1
	networks.PrependReactor("update", "networks", func(clienttesting.Action) (bool, runtime.Object, error) {
		if conflicts--; conflicts < 0 {
			return false, nil, nil
		}
		return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "networks"}, n.Name, errors.New("modified"))
	})
	edited := n.DeepCopy()
	edited.Spec.Description = "text"
	stored, err := Stored(t.Context(), &ask.Cluster{Networks: networks}, edited)
	if err != nil || stored.(*cloudteamv1.Network).Spec.Description != "text" {
		t.Errorf("it is stored as %+v, %v", stored, err)
	}
}

// TestANewNamespaceIsNotJudgedByAnother plans a Network in a namespace that its file creates. The namespace in which the
// API server can try it refuses it for what is its own.
func TestANewNamespaceIsNotJudgedByAnother(t *testing.T) {
	resource := schema.GroupResource{Group: "cloudteam.ztgame.com", Resource: "networks"}
	policy := apierrors.NewForbidden(resource, "net", errors.New("a policy denied request: not for namespace default"))
	policy.ErrStatus.Details.Causes = []metav1.StatusCause{{Message: "not for namespace default"}}
	for name, refusal := range map[string]error{
		"rights":   apierrors.NewForbidden(resource, "net", errors.New("User cannot create resource")),
		"a quota":  apierrors.NewForbidden(resource, "net", errors.New("exceeded quota")),
		"a policy": policy,
	} {
		t.Run(name, func(t *testing.T) {
			class := &cloudteamv1.NetworkClass{}
			class.Name, class.Annotations = "c", map[string]string{cloudteamv1.AnnotationDefaultClass: "true"}
			class.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
			networks := fake.NewSimpleClientset(class)
			networks.PrependReactor("create", "networks", func(action clienttesting.Action) (bool, runtime.Object, error) {
				if action.GetNamespace() == metav1.NamespaceDefault {
					return true, nil, refusal
				}
				return true, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, action.GetNamespace())
			})
			c := &ask.Cluster{Kubernetes: kubefake.NewClientset(), Networks: networks,
				NewNamespaces: map[string]labels.Set{"coming": {"team": "a"}}}
			planner, err := New(t.Context(), c, emulated(t), "c1")
			expect.NoError(t, err)
			defer planner.Close()
			n := &cloudteamv1.Network{}
			n.Namespace, n.Name, n.Spec.CIDR = "coming", "net", "10.0.0.0/24"
			stored, err := Stored(t.Context(), c, n)
			expect.NoError(t, err)
			result, err := planner.Plan(t.Context(), stored)
			expect.NoError(t, err)
			if stored.GetNamespace() != "coming" || result.Problem != "" || len(result.Steps) != 2 {
				t.Errorf("in %s, it is planned as %+v", stored.GetNamespace(), result)
			}
			if len(c.Notes) != 1 || !strings.Contains(c.Notes[0], "Nothing has checked") {
				t.Errorf("the notes are %q", c.Notes)
			}
			if _, err := Refusals(t.Context(), c, n); (err == nil) != (name == "a policy") {
				t.Errorf("the rules accept it, if somebody asked them: %v", err)
			}
			n.Namespace = metav1.NamespaceDefault
			if _, err := Refusals(t.Context(), c, n); err == nil || (Denial(err) != "") != (name == "a policy") {
				t.Errorf("in a namespace that exists: %v", err)
			}
		})
	}
}

func TestAFloatingIPThatLeavesItsPortStopsTraffic(t *testing.T) {
	const update, stop = "update floating IP: ", "the outside no longer reaches the port there"
	spec := plan.FloatingSpec{Owner: plan.Owner{Cluster: "c1", Object: "uid"}, NetworkID: "out", PortID: "p1",
		Fixed: []netip.Addr{netip.MustParseAddr("10.1.0.5")}}
	at := func(id, port, fixed string) plan.ObservedFloatingIP {
		f := plan.ObservedFloatingIP{ID: id, PortID: port}
		f.NetworkID, f.Description = "out", spec.Owner.Marker()
		if fixed != "" {
			f.Fixed = netip.MustParseAddr(fixed)
		}
		return f
	}
	there, described, elsewhere, loose := at("f1", "p1", "10.1.0.5"), at("f1", "p1", "10.1.0.5"), spec, spec
	described.Description = spec.Owner.Describe("mine")
	elsewhere.NetworkID, loose.PortID, loose.Fixed = "out-2", "", nil
	for name, c := range map[string]struct {
		spec plan.FloatingSpec
		is   []plan.ObservedFloatingIP
		// want has the actions and what they stop.
		want string
	}{
		"it is as declared":          {spec, []plan.ObservedFloatingIP{there}, ""},
		"a new one":                  {spec, nil, "create floating IP: "},
		"it is of another network":   {elsewhere, []plan.ObservedFloatingIP{there}, "delete floating IP: " + stop + "; create floating IP: "},
		"and it has no port":         {elsewhere, []plan.ObservedFloatingIP{at("f1", "", "")}, "delete floating IP: ; create floating IP: "},
		"no port is declared":        {loose, []plan.ObservedFloatingIP{there}, update + stop},
		"another port is declared":   {spec, []plan.ObservedFloatingIP{at("f1", "p2", "10.1.0.6")}, update + stop + "; " + update},
		"it is at another address":   {spec, []plan.ObservedFloatingIP{at("f1", "p1", "10.1.0.6")}, update + stop},
		"it has no port":             {spec, []plan.ObservedFloatingIP{at("f1", "", "")}, update},
		"its description was edited": {spec, []plan.ObservedFloatingIP{described}, update},
		"it is a duplicate":          {spec, []plan.ObservedFloatingIP{there, at("f2", "p1", "10.1.0.7")}, "delete floating IP: " + stop},
	} {
		change, err := plan.FloatingIP(c.spec, plan.Observed{FloatingIPs: c.is})
		expect.NoError(t, err)
		var got []string
		for _, s := range change {
			got = append(got, string(s.Action)+": "+stops(s))
		}
		expect.Equal(t, c.want, strings.Join(got, "; "), "%s: the steps", name)
	}
}

func TestQuotasCountFloatingIPs(t *testing.T) {
	cloud := login(t, neutrontest.Options{Quotas: map[string]int{"floatingip": 1}})
	for name, c := range map[string]struct {
		actions []plan.Action
		want    string
	}{
		"two are made": {[]plan.Action{plan.CreateFloatingIP, plan.CreateFloatingIP},
			"[floating IP 0 → 2 of 1: too many]"},
		"one is removed":               {[]plan.Action{plan.DeleteFloatingIP}, "[floating IP 0 → -1 of 1]"},
		"one takes another one's room": {[]plan.Action{plan.DeleteFloatingIP, plan.CreateFloatingIP}, "[]"},
	} {
		var r Result
		for _, a := range c.actions {
			r.Steps = append(r.Steps, Step{step: plan.Step{Action: a}})
		}
		got, err := Quotas(t.Context(), cloud, []Result{r})
		if is := fmt.Sprint(got); err != nil || is != c.want {
			t.Errorf("%s: the quotas are %s, %v, want %s", name, is, err, c.want)
		}
	}
}

// emulated is the Inventory of a new emulated cloud.
func emulated(t *testing.T) *inventory.Inventory {
	t.Helper()
	return inventory.New(login(t, neutrontest.Options{}), "c1", inventory.Options{Ports: true})
}

// login starts an emulated cloud.
func login(t *testing.T, options neutrontest.Options) *client.Cloud {
	t.Helper()
	tenant, _ := cloudtest.Emulated(t, options, nil)
	return tenant
}

// TestAPortIsPlannedOnTheNetworkOfTheSameFile has the Network, and the group, of a new port come with it.
func TestAPortIsPlannedOnTheNetworkOfTheSameFile(t *testing.T) {
	for sentence, c := range map[string]struct {
		network cloudteamv1.SubnetSpec // without any, its cidr is 10.1.0.0/24
		port    cloudteamv1.NetworkPortSpec
		group   bool
		problem string
	}{
		"no more than a Network": {},
		"with an address":        {port: cloudteamv1.NetworkPortSpec{Addresses: []string{"10.1.0.7"}}},
		"with an address of another range": {
			port: cloudteamv1.NetworkPortSpec{Addresses: []string{"10.9.0.7"}}, problem: "10.9.0.7 is not inside 10.1.0.0/24"},
		"with the Network's gateway": {
			port: cloudteamv1.NetworkPortSpec{Addresses: []string{"10.1.0.1"}}, problem: "10.1.0.1 is the gateway"},
		"in a group of the file": {group: true, port: cloudteamv1.NetworkPortSpec{SecurityGroupRefs: []string{"web"}}},
		"in a group that nobody has": {
			port: cloudteamv1.NetworkPortSpec{SecurityGroupRefs: []string{"web"}}, problem: "SecurityGroup shop/web does not exist"},
		"on a Network whose cidr its pool gives": {
			network: cloudteamv1.SubnetSpec{SubnetPool: "addresses", PrefixLength: new(int32(26))}},
		"on a Network that is refused": {
			network: cloudteamv1.SubnetSpec{CIDR: "8.8.8.0/24"}, problem: "NetworkNotReady"},
	} {
		t.Run(sentence, func(t *testing.T) {
			cluster := &ask.Cluster{Kubernetes: kubefake.NewClientset(), Networks: fake.NewSimpleClientset()}
			cloud := login(t, neutrontest.Options{})
			err := cloud.Do(t.Context(), client.Request{Op: "create pool", Method: http.MethodPost, Path: "subnetpools",
				Body: map[string]any{"subnetpool": map[string]any{"name": "addresses", "prefixes": []string{"10.64.0.0/16"}}}})
			expect.NoError(t, err)
			planner, err := New(t.Context(), cluster, inventory.New(cloud, "c1", inventory.Options{Ports: true}), "c1")
			expect.NoError(t, err)
			n, p, g := &cloudteamv1.Network{}, &cloudteamv1.NetworkPort{}, &cloudteamv1.SecurityGroup{}
			n.Namespace, n.Name, n.UID, n.Generation = "shop", "backend", "uid-n", 1
			if n.Spec.SubnetSpec = c.network; c.network.SubnetPool == "" {
				n.Spec.CIDR = cmp.Or(c.network.CIDR, "10.1.0.0/24")
			}
			p.Namespace, p.Name, p.UID, p.Generation, p.Spec = "shop", "db", "uid-p", 1, c.port
			p.Spec.NetworkName = "backend"
			g.Namespace, g.Name, g.UID, g.Generation = "shop", "web", "uid-g", 1
			expect.NoError(t, planner.Know(n))
			if _, err := planner.Plan(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			if c.group {
				if r, err := planner.Plan(t.Context(), g); err != nil || r.Problem != "" {
					t.Fatal(err, r.Problem)
				}
			}
			r, err := planner.Plan(t.Context(), p)
			expect.NoError(t, err)
			if c.problem != "" {
				expect.Contains(t, r.Problem, c.problem, "the problem")
				return
			}
			if r.Problem != "" || len(r.Steps) != 1 || r.Steps[0].Action != string(plan.CreatePort) {
				t.Fatalf("the plan is %+v", r)
			}
			if want := `create port "db" on network "backend" created above`; !strings.HasPrefix(r.Steps[0].Does, want) {
				t.Errorf("the step is %q, want %q", r.Steps[0].Does, want)
			}
		})
	}
}

// TestAFloatingIPIsPlannedForThePortOfTheSameFile has its Network, with a router to the outside, and its port come with
// it.
func TestAFloatingIPIsPlannedForThePortOfTheSameFile(t *testing.T) {
	allows := func(c *cloudteamv1.NetworkClass) {
		c.Spec.AllowedFields = append(c.Spec.AllowedFields, cloudteamv1.FieldFloatingIP)
	}
	for sentence, c := range map[string]struct {
		class   func(*cloudteamv1.NetworkClass)
		subnet  cloudteamv1.SubnetSpec
		address []string
		spec    cloudteamv1.FloatingIPSpec
		// does is how its step begins.
		does, note, problem string
	}{
		"for an address that the port declares": {class: allows, address: []string{"10.1.0.7"},
			spec: cloudteamv1.FloatingIPSpec{PortName: "db"}, does: `create floating IP of network OUT for port "db" created above`},
		"for an address that Neutron will choose": {class: allows,
			spec: cloudteamv1.FloatingIPSpec{PortName: "db"}, does: `create floating IP of network OUT for port "db" created above`},
		"for no port": {class: allows, does: "create floating IP of network OUT (no floating IP"},
		"for a port that nobody has": {class: allows, spec: cloudteamv1.FloatingIPSpec{PortName: "web"},
			does: "create floating IP of network OUT (no floating IP", note: "PortNotReady: NetworkPort web does not exist"},
		"for a port of IPv6": {class: allows, subnet: cloudteamv1.SubnetSpec{CIDR: "fd00:1::/64"},
			spec: cloudteamv1.FloatingIPSpec{PortName: "db"},
			does: "create floating IP of network OUT (no floating IP", note: "has no address of IPv4"},
		"that its class forbids": {spec: cloudteamv1.FloatingIPSpec{PortName: "db"}, problem: "ForbiddenByClass"},
		"of a class that has its number": {class: func(c *cloudteamv1.NetworkClass) {
			allows(c)
			c.Spec.Limits = &cloudteamv1.ClassLimits{FloatingIPsPerNamespace: new(int32(1))}
		}, problem: "ClassLimitReached"},
		"of an external network that is not there": {class: allows, spec: cloudteamv1.FloatingIPSpec{ExternalNetwork: "office"},
			problem: `Rejected: find external network: spec.externalNetwork: "office"`},
	} {
		t.Run(sentence, func(t *testing.T) {
			class := &cloudteamv1.NetworkClass{}
			class.Name = "open"
			class.Annotations = map[string]string{cloudteamv1.AnnotationDefaultClass: "true"}
			if c.class != nil {
				c.class(class)
			}
			cluster := &ask.Cluster{Kubernetes: kubefake.NewClientset(), Networks: fake.NewSimpleClientset(class)}
			cloud := login(t, neutrontest.Options{})
			credentials, err := client.LoadCredentials("admin")
			expect.NoError(t, err)
			var outside struct{ Network struct{ ID string } }
			admin := client.NewCloud(credentials, client.Options{})
			err = admin.Do(t.Context(), client.Request{Op: "create network", Method: http.MethodPost, Path: "networks",
				Body:   map[string]any{"network": map[string]any{"name": "public", "router:external": true}},
				Answer: &outside})
			expect.NoError(t, err)
			expect.NoError(t, admin.Do(t.Context(), client.Request{
				Op: "create subnet", Method: http.MethodPost, Path: "subnets",
				Body: map[string]any{"subnet": map[string]any{
					"network_id": outside.Network.ID, "cidr": "203.0.113.0/24", "ip_version": 4,
				}},
			}))
			planner, err := New(t.Context(), cluster, inventory.New(cloud, "c1", inventory.Options{Ports: true}), "c1")
			expect.NoError(t, err)
			n, p, f := &cloudteamv1.Network{}, &cloudteamv1.NetworkPort{}, &cloudteamv1.FloatingIP{}
			n.Namespace, n.Name, n.UID, n.Generation = "shop", "backend", "uid-n", 1
			n.Spec.SubnetSpec = c.subnet
			n.Spec.CIDR = cmp.Or(n.Spec.CIDR, "10.1.0.0/24")
			p.Namespace, p.Name, p.UID, p.Generation = "shop", "db", "uid-p", 1
			p.Spec.NetworkName, p.Spec.Addresses = "backend", c.address
			f.Namespace, f.Name, f.UID, f.Generation, f.Spec = "shop", "public", "uid-f", 1, c.spec
			f.Spec.ExternalNetwork = cmp.Or(f.Spec.ExternalNetwork, "public")
			older := f.DeepCopy()
			older.Name, older.UID, older.Finalizers = "older", "uid-o", []string{cloudteamv1.FloatingIPFinalizer}
			older.Status.FloatingIPID, older.Status.Class = "id", &cloudteamv1.AppliedClass{Name: class.Name}
			if err := errors.Join(planner.Know(n),
				planner.Know(older, f)); err != nil {
				t.Fatal(err)
			}
			if r, err := planner.Plan(t.Context(), n); err != nil || r.Problem != "" {
				t.Fatal(err, r.Problem)
			}
			if r, err := planner.Plan(t.Context(), p); err != nil || r.Problem != "" {
				t.Fatal(err, r.Problem)
			}
			r, err := planner.Plan(t.Context(), f)
			expect.NoError(t, err)
			if c.problem != "" {
				if !strings.Contains(r.Problem+strings.Join(r.Notes, ""), c.problem) || len(r.Steps) > 0 {
					t.Errorf("the plan is %+v, want the problem %q", r, c.problem)
				}
				return
			}
			if r.Problem != "" || len(r.Steps) != 1 || r.Steps[0].Action != string(plan.CreateFloatingIP) {
				t.Fatalf("the plan is %+v", r)
			}
			if want := strings.ReplaceAll(c.does, "OUT", outside.Network.ID); !strings.HasPrefix(r.Steps[0].Does, want) {
				t.Errorf("the step is %q, want %q", r.Steps[0].Does, want)
			}
			if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, c.note) || c.note == "" && notes != "" {
				t.Errorf("the notes are %q, want %q", notes, c.note)
			}
		})
	}
}
