package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"cloudteam.ztgame.com/network-controller/internal/kinds"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/planning"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/lanes"
	"cloudteam.ztgame.com/network-controller/test/specs"
)

// TestTheControllerDoesWhatWasPlanned asks `kubectl network plan` about drawn objects and edits of them, and has the real
// controller apply them. Neutron gets the writes that were planned, of the same kinds and fields, and no others. What the
// plan refuses, the controller refuses in the same words.
func TestTheControllerDoesWhatWasPlanned(t *testing.T) {
	if options.OpenStack {
		t.Skip("it counts the calls of an emulated cloud")
	}
	inTime(t, doesWhatWasPlanned)
}

func doesWhatWasPlanned(t *testing.T) {
	w := planWorld{t: t, writes: &writeLog{}}
	listener := serve(t, neutrontest.New(neutrontest.Options{}), "planned", w.writes.record)
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	expect.NoError(t, os.WriteFile(file, []byte(listener.CloudsYAML()), 0o600))
	credentials, err := client.LoadCredentialsFrom(file, "admin")
	expect.NoError(t, err)
	w.cloud = func() *client.Cloud {
		return client.NewCloud(credentials, client.Options{Timeout: harness.Patience, Transport: surroundings.Transport})
	}
	c := openFile(t, file, "admin")
	outside := c.CreateOutside("outside").ID()
	start(t, []string{"OS_CLIENT_CONFIG_FILE=" + file}, "--kubeconfig", kubeconfig, "--cloud", "admin",
		"--bind-address", "127.0.0.1:0", "--audit-interval", "1s")
	w.namespace = newNamespace(t)
	w.limits = specs.Limits{Administrator: true, MaxMTU: 1450, Spoofing: true, ExternalNetworks: []specs.ExternalNetwork{{
		Names: []string{outside, "outside"}, CIDR: netip.MustParsePrefix("203.0.113.0/24"),
		NextHop:   netip.MustParseAddr("203.0.113.254"),
		Addresses: []netip.Addr{netip.MustParseAddr("203.0.113.77"), netip.MustParseAddr("203.0.113.78")},
	}}}
	liveAsPlanned(t, w.networks())

	// What ports and groups may be about.
	for _, name := range []string{"a", "b"} {
		w.limits.SecurityGroups = append(w.limits.SecurityGroups, c.Create("security-groups", resource{"name": name}).ID())
	}
	w.limits.QoSPolicies = []string{newQoSPolicy(c, "gold").ID(), newQoSPolicy(c, "silver").ID()}
	w.limits.SecurityGroupRefs = []string{"in", "out"}
	for _, name := range w.limits.SecurityGroupRefs {
		applyGroup(t, w.namespace, name)
		awaitGroup(t, w.namespace, name, cloudteamv1.ReasonAvailable)
	}
	place := specs.Place{Namespace: w.namespace, NetworkNamespace: w.namespace, NetworkName: "net",
		CIDR: netip.MustParsePrefix("10.200.0.0/24")}
	apply(t, w.namespace, place.NetworkName, cloudteamv1.NetworkSpec{
		SubnetSpec: cloudteamv1.SubnetSpec{CIDR: place.CIDR.String()},
		Router:     &cloudteamv1.RouterSpec{ExternalNetwork: outside}})
	awaitReady(t, w.namespace, place.NetworkName)
	w.limits.FloatingNetworks = []string{outside, "outside"}
	liveAsPlanned(t, w.ports(place))
	liveAsPlanned(t, w.groups())
	w.limits.FloatingPorts = []string{"led", "next"}
	for _, name := range w.limits.FloatingPorts {
		applyPort(t, w.namespace, name, on(place.NetworkName))
		awaitPortReady(t, w.namespace, name)
	}
	liveAsPlanned(t, w.floatingIPs())
	for _, name := range w.limits.FloatingPorts {
		removePort(t, w.namespace, name)
	}
	remove(t, w.namespace, place.NetworkName) // its router keeps what was made outside
}

// planWorld is where objects are planned and applied, one after the other.
type planWorld struct {
	t         *testing.T
	namespace string
	writes    *writeLog
	cloud     func() *client.Cloud
	limits    specs.Limits
}

// plannedKind is a kind of objects that are planned.
type plannedKind[T any] struct {
	planWorld
	api interface {
		Get(ctx context.Context, name string, options metav1.GetOptions) (*T, error)
		Create(ctx context.Context, obj *T, options metav1.CreateOptions) (*T, error)
		Patch(ctx context.Context, name string, of types.PatchType, patch []byte, options metav1.PatchOptions,
			sub ...string) (*T, error)
		Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
	}
	meta   func(*T) *metav1.ObjectMeta
	spec   func(*T) any
	status func(*T) cloudteamv1.ResourceStatus
	// draw draws the spec of a new object, and edit what it may become. The API server refuses some edits.
	draw, edit func(r *rapid.T, obj *T)
	// beside are the writes that follow the creation of the resource, and that nobody can plan; nil for none.
	beside func(obj *T) []string
}

func (w planWorld) networks() plannedKind[cloudteamv1.Network] {
	type T = cloudteamv1.Network
	return plannedKind[T]{
		planWorld: w, api: networks.CloudteamV1().Networks(w.namespace),
		meta:   func(n *T) *metav1.ObjectMeta { return &n.ObjectMeta },
		spec:   func(n *T) any { return n.Spec },
		status: func(n *T) cloudteamv1.ResourceStatus { return n.Status.ResourceStatus },
		draw:   func(r *rapid.T, n *T) { n.Spec = w.limits.Network().Draw(r, "spec") },
		edit:   func(r *rapid.T, n *T) { n.Spec = w.limits.NetworkEdit(n.Spec).Draw(r, "edit") },
	}
}

func (w planWorld) ports(place specs.Place) plannedKind[cloudteamv1.NetworkPort] {
	type T = cloudteamv1.NetworkPort
	return plannedKind[T]{
		planWorld: w, api: networks.CloudteamV1().NetworkPorts(w.namespace),
		meta:   func(p *T) *metav1.ObjectMeta { return &p.ObjectMeta },
		spec:   func(p *T) any { return p.Spec },
		status: func(p *T) cloudteamv1.ResourceStatus { return p.Status.ResourceStatus },
		draw:   func(r *rapid.T, p *T) { p.Spec = w.limits.NetworkPort(place).Draw(r, "spec") },
		edit: func(r *rapid.T, p *T) {
			if rapid.Bool().Draw(r, "edit the floating IP") {
				w.editFloatingIP(r, &p.Spec)
				return
			}
			p.Spec = w.limits.NetworkPortEdit(place, p.Spec).Draw(r, "edit")
		},
	}
}

// editFloatingIP gives a port a floating IP, takes it back, or changes its description. Other edits do so rarely.
func (w planWorld) editFloatingIP(r *rapid.T, spec *cloudteamv1.NetworkPortSpec) {
	switch {
	case spec.FloatingIP == nil:
		spec.FloatingIP = &cloudteamv1.PortFloatingIP{
			ExternalNetwork: rapid.SampledFrom(w.limits.FloatingNetworks).Draw(r, "external network")}
	case rapid.Bool().Draw(r, "take it back"):
		spec.FloatingIP = nil
	case spec.DeletionPolicy == cloudteamv1.DeletionPolicyRetain:
		spec.DeletionPolicy = ""
	default:
		spec.DeletionPolicy = cloudteamv1.DeletionPolicyRetain
	}
}

func (w planWorld) groups() plannedKind[cloudteamv1.SecurityGroup] {
	type T = cloudteamv1.SecurityGroup
	return plannedKind[T]{
		planWorld: w, api: networks.CloudteamV1().SecurityGroups(w.namespace),
		meta:   func(g *T) *metav1.ObjectMeta { return &g.ObjectMeta },
		spec:   func(g *T) any { return g.Spec },
		status: func(g *T) cloudteamv1.ResourceStatus { return g.Status.ResourceStatus },
		draw:   func(r *rapid.T, g *T) { g.Spec = w.limits.SecurityGroup(g.Name).Draw(r, "spec") },
		edit:   func(r *rapid.T, g *T) { g.Spec = w.limits.SecurityGroupEdit(g.Name, g.Spec).Draw(r, "edit") },
		beside: func(g *T) []string {
			return slices.Repeat([]string{"DELETE security-group-rules"}, specs.OwnRules(g.Spec))
		},
	}
}

func (w planWorld) floatingIPs() plannedKind[cloudteamv1.FloatingIP] {
	type T = cloudteamv1.FloatingIP
	return plannedKind[T]{
		planWorld: w, api: networks.CloudteamV1().FloatingIPs(w.namespace),
		meta:   func(f *T) *metav1.ObjectMeta { return &f.ObjectMeta },
		spec:   func(f *T) any { return f.Spec },
		status: func(f *T) cloudteamv1.ResourceStatus { return f.Status.ResourceStatus },
		draw:   func(r *rapid.T, f *T) { f.Spec = w.limits.FloatingIP().Draw(r, "spec") },
		edit:   func(r *rapid.T, f *T) { f.Spec = w.limits.FloatingIPEdit(f.Spec).Draw(r, "edit") },
	}
}

// liveAsPlanned has drawn objects of a kind live.
func liveAsPlanned[T any](t *testing.T, k plannedKind[T]) {
	t.Helper()
	k.t = t
	k.writes.take() // what was there before
	lives := 0
	lanes.Draw(t, func(r *rapid.T) {
		lives++
		obj := new(T)
		k.meta(obj).Namespace, k.meta(obj).Name = k.namespace, fmt.Sprintf("drawn-%d", lives)
		defer k.remove(r, k.meta(obj).Name)
		k.draw(r, obj)
		is := k.apply(r, obj)
		for range rapid.IntRange(1, 3).Draw(r, "edits") {
			if is != applied {
				return
			}
			edited := k.copy(obj)
			k.edit(r, edited)
			if is = k.apply(r, edited); is == refused {
				is = applied // as it was
				continue
			}
			obj = edited
		}
	})
}

// outcome is what becomes of a spec.
type outcome int

const (
	// The API server refuses it; the controller stalls at it; it is applied.
	refused outcome = iota
	stalled
	applied
)

// copy gives an object with the same metadata and spec.
func (k plannedKind[T]) copy(obj *T) *T {
	same := *obj
	return &same
}

// planned gives what `kubectl network plan -f` says of an object in a file. It writes nothing to Neutron.
func (k plannedKind[T]) planned(r *rapid.T, obj *T) (planning.Result, error) {
	r.Helper()
	ctx := k.t.Context()
	cluster := &ask.Cluster{Kubernetes: kube, Networks: networks}
	uid, err := planning.ClusterUID(ctx, cluster, "")
	expect.NoError(r, err)
	in := inventory.New(k.cloud(), uid, inventory.Options{Ports: true})
	planner, err := planning.New(ctx, cluster, in, uid)
	expect.NoError(r, err)
	defer planner.Close()
	expect.NoError(r, planning.Others(ctx, cluster, planner, k.namespace))
	var result planning.Result
	stored, err := planning.Stored(ctx, cluster, any(k.copy(obj)).(kinds.Object))
	if err == nil {
		expect.NoError(r, planner.Know(stored))
		result, err = planner.Plan(ctx, stored)
	}
	if err != nil && !apierrors.IsInvalid(err) || len(cluster.Notes) > 0 {
		r.Fatalf("planning %s: %v %q", asJSON(k.spec(obj)), err, cluster.Notes)
	}
	return result, err
}

// apply plans an object, applies it, and compares. What the plan says that nobody accepts, nobody does.
func (k plannedKind[T]) apply(r *rapid.T, obj *T) outcome {
	r.Helper()
	if late := k.writes.take(); len(late) > 0 {
		r.Fatalf("after all was done, it wrote %q", late)
	}
	result, invalid := k.planned(r, obj)
	if made := k.writes.take(); len(made) > 0 {
		r.Fatalf("planning wrote %q", made)
	}
	var does, want []string
	for _, s := range result.Steps {
		does, want = append(does, s.Does), append(want, writesOfStep(r, s.Step())...)
		if s.Step().Action.Creates() && k.beside != nil {
			want = append(want, k.beside(obj)...)
		}
	}
	if err := k.store(r, obj); err != nil || invalid != nil {
		if !apierrors.IsInvalid(err) || invalid == nil {
			r.Fatalf("%s: the plan said %v, and kubectl apply says %v", asJSON(k.spec(obj)), invalid, err)
		}
		return refused
	}
	is := k.settled(r, obj)
	done := k.writes.take()
	slices.Sort(done)
	slices.Sort(want)
	switch {
	case result.Problem != "" && result.Problem == is.Reason+": "+is.Message && len(done) == 0:
		return stalled
	case result.Problem != "" || is.Status != metav1.ConditionTrue:
		r.Fatalf("%s\nplanned %q\nand it is %s: %s\nafter %q", asJSON(k.spec(obj)), result.Problem, is.Reason, is.Message,
			done)
	case !slices.Equal(done, want):
		r.Fatalf("%s\nplanned\n%s\nwhich are the writes\n%q\nand done were\n%q", asJSON(k.spec(obj)),
			strings.Join(does, "\n"), want, done)
	}
	if again, err := k.planned(r, obj); err != nil || len(again.Steps) > 0 {
		r.Fatalf("after it was done, the plan is %+v, %v", again.Steps, err)
	}
	return applied
}

// store writes an object as kubectl apply does.
func (k plannedKind[T]) store(r *rapid.T, obj *T) error {
	r.Helper()
	patch, err := json.Marshal([]map[string]any{{"op": "replace", "path": "/spec", "value": k.spec(obj)}})
	expect.NoError(r, err)
	_, err = k.api.Patch(k.t.Context(), k.meta(obj).Name, types.JSONPatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		_, err = k.api.Create(k.t.Context(), obj, metav1.CreateOptions{})
	}
	return err
}

// settled waits until the controller has handled the spec, and gives the condition Ready.
func (k plannedKind[T]) settled(r *rapid.T, obj *T) metav1.Condition {
	r.Helper()
	var ready *metav1.Condition
	err := harness.Poll(nil, harness.Patience, 10*time.Millisecond, func() error {
		is, err := k.api.Get(k.t.Context(), k.meta(obj).Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		status, generation := k.status(is), k.meta(is).Generation
		ready = meta.FindStatusCondition(status.Conditions, cloudteamv1.ConditionReady)
		done := ready != nil && (ready.Status == metav1.ConditionTrue ||
			meta.IsStatusConditionTrue(status.Conditions, cloudteamv1.ConditionStalled))
		if !done || ready.ObservedGeneration != generation || status.ObservedGeneration != generation {
			return fmt.Errorf("%s is not settled: %s", asJSON(k.spec(obj)), asJSON(status))
		}
		return nil
	})
	expect.NoError(r, err)
	return *ready
}

// remove deletes an object with its resources, so that the next one has its ranges.
func (k plannedKind[T]) remove(r *rapid.T, name string) {
	ctx := context.WithoutCancel(k.t.Context())
	// It may never have been made. What is retained would have its addresses on.
	_, _ = k.api.Patch(ctx, name, types.MergePatchType, []byte(`{"spec":{"deletionPolicy":null}}`), metav1.PatchOptions{})
	_ = k.api.Delete(ctx, name, metav1.DeleteOptions{})
	err := harness.Poll(nil, harness.Patience, 10*time.Millisecond, func() error {
		left, err := k.api.Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			return fmt.Errorf("%s is still there: %s", name, asJSON(k.status(left)))
		}
		return nil
	})
	if err != nil {
		r.Error(err)
	}
	k.writes.take()
}

// writeLog are the writes that an emulated Neutron has accepted. It is safe for concurrent use.
type writeLog struct {
	mu  sync.Mutex
	all []string
}

func (l *writeLog) note(writes ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, writes...)
}

// take gives what was noted since it was last called.
func (l *writeLog) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.all
	l.all = nil
	return all
}

// record notes each write as "POST networks", or with the fields of an update, as "PUT subnets dns_nameservers".
func (l *writeLog) record(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, path, neutron := strings.Cut(req.URL.Path, "/v2.0/")
		// A subnet pool is the record of the leader's term, and no object's.
		if !neutron || req.Method == http.MethodGet || strings.HasPrefix(path, "subnetpools") {
			next.ServeHTTP(w, req)
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		req.Body = io.NopCloser(bytes.NewReader(body))
		answer := &statusWriter{ResponseWriter: w}
		next.ServeHTTP(answer, req)
		if answer.status < http.StatusMultipleChoices {
			l.note(writesOf(req.Method, path, body)...)
		}
	})
}

// statusWriter remembers the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// writesOf are the writes of a request: one, or one for each resource of a bulk.
func writesOf(method, path string, body []byte) []string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	write := method + " " + parts[0]
	if len(parts) > 2 { // networks/ID/tags, routers/ID/add_router_interface
		return []string{write + " " + parts[2]}
	}
	var sent map[string]json.RawMessage
	_ = json.Unmarshal(body, &sent) // a deletion has no body
	switch method {
	case http.MethodPost:
		var bulk []json.RawMessage
		if json.Unmarshal(sent[strings.ReplaceAll(parts[0], "-", "_")], &bulk) == nil {
			return slices.Repeat([]string{write}, len(bulk))
		}
	case http.MethodPut:
		for _, resource := range sent {
			var fields map[string]json.RawMessage
			_ = json.Unmarshal(resource, &fields) // no fields then
			if parts[0] == "ports" {
				delete(fields, "name") // it comes unchanged with others: package inventory says why
			}
			write += " " + strings.Join(slices.Sorted(maps.Keys(fields)), " ")
		}
	}
	return []string{write}
}

// requests are the writes that steps are, but for the fields of updates.
var requests = map[plan.Action]string{
	plan.CreateNetwork: "POST networks", plan.UpdateNetwork: "PUT networks", plan.DeleteNetwork: "DELETE networks",
	plan.TagNetwork: "PUT networks tags", plan.ShareNetwork: "POST rbac-policies",
	plan.UnshareNetwork: "DELETE rbac-policies",
	plan.CreateSubnet:   "POST subnets", plan.UpdateSubnet: "PUT subnets", plan.DeleteSubnet: "DELETE subnets",
	plan.CreateRouter: "POST routers", plan.UpdateRouter: "PUT routers", plan.DeleteRouter: "DELETE routers",
	plan.UpdateGateway: "PUT routers external_gateway_info", plan.CreateInterface: "POST ports",
	plan.AttachInterface: "PUT routers add_router_interface",
	plan.DetachInterface: "PUT routers remove_router_interface", plan.DeleteInterface: "DELETE ports",
	plan.CreatePort: "POST ports", plan.UpdatePort: "PUT ports", plan.DeletePort: "DELETE ports",
	plan.CreateGroup: "POST security-groups", plan.UpdateGroup: "PUT security-groups",
	plan.DeleteGroup: "DELETE security-groups", plan.CreateRules: "POST security-group-rules",
	plan.DeleteRule: "DELETE security-group-rules", plan.CreateFloatingIP: "POST floatingips",
	plan.UpdateFloatingIP: "PUT floatingips", plan.DeleteFloatingIP: "DELETE floatingips",
}

// attributes are the fields of updates, as Neutron calls them.
var attributes = map[string]string{
	plan.FieldName: "name", plan.FieldDescription: "description", plan.FieldDeletionPolicy: "description",
	plan.FieldAdminState: "admin_state_up", plan.FieldMTU: "mtu", plan.FieldPortSecurity: "port_security_enabled",
	plan.FieldGateway: "gateway_ip", plan.FieldAllocationPools: "allocation_pools", plan.FieldDHCP: "enable_dhcp",
	plan.FieldDNSServers: "dns_nameservers", plan.FieldHostRoutes: "host_routes", plan.FieldDNSDomain: "dns_domain",
	plan.FieldQoSPolicy: "qos_policy_id", plan.FieldShared: "shared", plan.FieldExternal: "router:external",
	plan.FieldNetworkType: "provider:network_type", plan.FieldPhysicalNetwork: "provider:physical_network",
	plan.FieldSegmentationID: "provider:segmentation_id", plan.FieldServiceTypes: "service_types",
	plan.FieldDNSPublishFixedIP: "dns_publish_fixed_ip", plan.FieldHA: "ha", plan.FieldDistributed: "distributed",
	plan.FieldRoutes: "routes", plan.FieldAddresses: "fixed_ips", plan.FieldMAC: "mac_address",
	plan.FieldSecurityGroups: "security_groups", plan.FieldAddressPairs: "allowed_address_pairs",
	plan.FieldDNSName: "dns_name", plan.FieldStateful: "stateful",
}

// writesOfStep are the writes that a step of a plan is: one, or one for each rule.
func writesOfStep(r *rapid.T, s plan.Step) []string {
	r.Helper()
	write, known := requests[s.Action]
	if !known {
		r.Fatalf("the plan has the step %s, of which this test knows no request", s)
	}
	switch s.Action {
	case plan.CreateRules:
		return slices.Repeat([]string{write}, len(s.Rules))
	case plan.UpdateNetwork, plan.UpdateSubnet, plan.UpdateRouter, plan.UpdatePort, plan.UpdateGroup,
		plan.UpdateFloatingIP:
		fields := map[string]bool{}
		if s.Action == plan.UpdateFloatingIP && s.PortRef != (plan.Ref{}) {
			fields["port_id"], fields["fixed_ip_address"] = true, true // in each update: package inventory says why
		} else if s.Changes(plan.FieldPort) { // nowhere
			fields["port_id"] = true
		}
		for _, d := range s.Differences {
			if d.Field == plan.FieldPort {
				continue // those two
			}
			name, known := attributes[d.Field]
			if !known {
				r.Fatalf("the step %s is about a field of which this test knows no name in Neutron", s)
			}
			fields[name] = true
		}
		write += " " + strings.Join(slices.Sorted(maps.Keys(fields)), " ")
	}
	return []string{write}
}
