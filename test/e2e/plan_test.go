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

	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/planning"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/lanes"
	"cloudteam.ztgame.com/network-controller/test/specs"
)

// TestTheControllerDoesWhatWasPlanned asks `kubectl network plan` about drawn Networks and edits of them, and has the
// real controller apply them. Neutron gets the writes that were planned, of the same kinds and fields, and no others.
// With managementPolicy Plan the status says the same steps.
func TestTheControllerDoesWhatWasPlanned(t *testing.T) {
	if emulator == nil {
		t.Skip("it counts the calls of an emulated cloud")
	}
	var writes writeLog
	listener, err := neutrontest.New(neutrontest.Options{}).Listen("127.0.0.1:0", writes.record)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() }) // what the cloud's client made has gone
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	if err := os.WriteFile(file, []byte(listener.CloudsYAML()), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("OS_CLIENT_CONFIG_FILE", file)
	credentials, err := client.LoadCredentials("admin")
	if err != nil {
		t.Fatal(err)
	}
	c := openFile(t, file, "admin")
	outside := c.create("networks", resource{"name": "outside", "router:external": true}).id()
	c.create("subnets", resource{"network_id": outside, "cidr": "203.0.113.0/24", "ip_version": 4})
	start(t, []string{"OS_CLIENT_CONFIG_FILE=" + file}, "--kubeconfig", kubeconfig, "--cloud", "admin",
		"--bind-address", "127.0.0.1:0", "--audit-interval", "1s")
	p := planned{t: t, namespace: newNamespace(t), writes: &writes,
		cloud: func() *client.Cloud { return client.NewCloud(credentials, client.Options{Timeout: harness.Patience}) }}
	limits := specs.Limits{Administrator: true, MaxMTU: 1450, ExternalNetworks: []specs.ExternalNetwork{{
		Names: []string{outside, "outside"}, CIDR: netip.MustParsePrefix("203.0.113.0/24"),
		NextHop:   netip.MustParseAddr("203.0.113.254"),
		Addresses: []netip.Addr{netip.MustParseAddr("203.0.113.77"), netip.MustParseAddr("203.0.113.78")},
	}}}
	writes.take() // what is outside
	lives := 0
	lanes.Check(t, 1, func(r *rapid.T) {
		lives++
		n := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: fmt.Sprintf("drawn-%d", lives)}}
		defer p.remove(r, n.Name)
		n.Spec = limits.Network().Draw(r, "spec")
		n.Spec.ManagementPolicy = ""
		told := ""
		if rapid.Bool().Draw(r, "first with managementPolicy Plan") {
			told = p.told(r, n)
		}
		p.apply(r, n, told)
		for range rapid.IntRange(1, 3).Draw(r, "edits") {
			edited := limits.NetworkEdit(n.Spec).Draw(r, "edit")
			edited.ManagementPolicy = ""
			if !specs.NetworkMayBecome(n.Spec, edited) {
				continue
			}
			n.Spec = edited
			p.apply(r, n, "")
		}
	})
}

// planned has Networks planned and applied, one after the other.
type planned struct {
	t         *testing.T
	namespace string
	writes    *writeLog
	cloud     func() *client.Cloud
}

// plan gives what `kubectl network plan -f` says of a Network in a file. It writes nothing to Neutron.
func (p planned) plan(r *rapid.T, n *cloudteamv1.Network) planning.Result {
	r.Helper()
	ctx := p.t.Context()
	cluster := &ask.Cluster{Kubernetes: kube, Networks: networks}
	uid, err := planning.ClusterUID(ctx, cluster, "")
	if err != nil {
		r.Fatal(err)
	}
	in := inventory.New(p.cloud(), uid, inventory.Options{Ports: true})
	planner, err := planning.New(ctx, cluster, in, uid)
	if err != nil {
		r.Fatal(err)
	}
	stored, err := planning.Stored(ctx, cluster, n.DeepCopy())
	if err != nil {
		r.Fatal(err)
	}
	if err := planning.Others(ctx, cluster, planner, n.Namespace); err != nil {
		r.Fatal(err)
	}
	if err := planner.Know([]*cloudteamv1.Network{stored}, nil, nil); err != nil {
		r.Fatal(err)
	}
	result, err := planner.Network(ctx, stored)
	if err != nil || result.Problem != "" || len(cluster.Notes) > 0 {
		r.Fatalf("planning %s: %v %s %q", asJSON(n.Spec), err, result.Problem, cluster.Notes)
	}
	return result
}

// told creates a Network that is only planned, and gives the message of its status.
func (p planned) told(r *rapid.T, n *cloudteamv1.Network) string {
	r.Helper()
	only := n.DeepCopy()
	only.Spec.ManagementPolicy = cloudteamv1.ManagementPolicyPlan
	p.store(r, only)
	is := p.settled(r, n.Name)
	if is.Reason != cloudteamv1.ReasonPlanned {
		r.Fatalf("with managementPolicy Plan it is %s: %s", is.Reason, is.Message)
	}
	if done := p.writes.take(); len(done) > 0 {
		r.Fatalf("with managementPolicy Plan it wrote %q", done)
	}
	return is.Message
}

// apply plans a Network, applies it, and compares. status is what an earlier status said of the same spec; empty for
// none.
func (p planned) apply(r *rapid.T, n *cloudteamv1.Network, status string) {
	r.Helper()
	if late := p.writes.take(); len(late) > 0 {
		r.Fatalf("after all was done, it wrote %q", late)
	}
	result := p.plan(r, n)
	if made := p.writes.take(); len(made) > 0 {
		r.Fatalf("planning wrote %q", made)
	}
	var does, want []string
	for _, s := range result.Steps {
		does, want = append(does, s.Does), append(want, writeOf(r, s.Step()))
	}
	if status != "" && !strings.Contains(status, "It would "+strings.Join(does, "; ")+". ") {
		r.Fatalf("the status says\n%s\nand the plan\n%q", status, does)
	}
	p.store(r, n)
	is := p.settled(r, n.Name)
	done := p.writes.take()
	if is.Status != metav1.ConditionTrue {
		r.Fatalf("%s is not applied: %s: %s", asJSON(n.Spec), is.Reason, is.Message)
	}
	slices.Sort(done)
	slices.Sort(want)
	if !slices.Equal(done, want) {
		r.Fatalf("%s\nplanned\n%s\nwhich are the writes\n%q\nand done were\n%q", asJSON(n.Spec), strings.Join(does, "\n"),
			want, done)
	}
	if again := p.plan(r, n); len(again.Steps) > 0 {
		r.Fatalf("after it was done, the plan is %+v", again.Steps)
	}
}

// store writes a Network as kubectl apply does.
func (p planned) store(r *rapid.T, n *cloudteamv1.Network) {
	r.Helper()
	api := networks.CloudteamV1().Networks(n.Namespace)
	patch, err := json.Marshal([]map[string]any{{"op": "replace", "path": "/spec", "value": n.Spec}})
	if err != nil {
		r.Fatal(err)
	}
	_, err = api.Patch(p.t.Context(), n.Name, types.JSONPatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		_, err = api.Create(p.t.Context(), n, metav1.CreateOptions{})
	}
	if err != nil {
		r.Fatal(err)
	}
}

// settled waits until the controller has handled the spec, and gives the condition Ready.
func (p planned) settled(r *rapid.T, name string) metav1.Condition {
	r.Helper()
	var ready *metav1.Condition
	err := harness.Poll(nil, harness.Patience, 10*time.Millisecond, func() error {
		n, err := networks.CloudteamV1().Networks(p.namespace).Get(p.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		ready = meta.FindStatusCondition(n.Status.Conditions, cloudteamv1.ConditionReady)
		done := ready != nil && (ready.Status == metav1.ConditionTrue || ready.Reason == cloudteamv1.ReasonPlanned)
		if !done || ready.ObservedGeneration != n.Generation || n.Status.ObservedGeneration != n.Generation {
			return fmt.Errorf("%s is not settled: %s", asJSON(n.Spec), asJSON(n.Status))
		}
		return nil
	})
	if err != nil {
		r.Fatal(err)
	}
	return *ready
}

// remove deletes a Network with its resources, so that the next one has its ranges.
func (p planned) remove(r *rapid.T, name string) {
	ctx, api := context.WithoutCancel(p.t.Context()), networks.CloudteamV1().Networks(p.namespace)
	// It may never have been made. What is retained would have its addresses on.
	_, _ = api.Patch(ctx, name, types.MergePatchType, []byte(`{"spec":{"deletionPolicy":null}}`), metav1.PatchOptions{})
	_ = api.Delete(ctx, name, metav1.DeleteOptions{})
	err := harness.Poll(nil, harness.Patience, 10*time.Millisecond, func() error {
		left, err := api.Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			return fmt.Errorf("Network %s is still there: %s", name, asJSON(left.Status))
		}
		return nil
	})
	if err != nil {
		r.Error(err)
	}
	p.writes.take()
}

// writeLog are the writes that an emulated Neutron has accepted.
type writeLog struct {
	mu  sync.Mutex
	all []string
}

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
			l.mu.Lock()
			defer l.mu.Unlock()
			l.all = append(l.all, writesOf(req.Method, path, body)...)
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
	plan.FieldRoutes: "routes",
}

// writeOf is the write that a step of a plan is.
func writeOf(r *rapid.T, s plan.Step) string {
	r.Helper()
	write, known := requests[s.Action]
	if !known {
		r.Fatalf("a Network's plan has the step %s, of which this test knows no request", s)
	}
	switch s.Action {
	case plan.UpdateNetwork, plan.UpdateSubnet, plan.UpdateRouter:
		fields := map[string]bool{}
		for _, d := range s.Differences {
			name, known := attributes[d.Field]
			if !known {
				r.Fatalf("the step %s is about a field of which this test knows no name in Neutron", s)
			}
			fields[name] = true
		}
		write += " " + strings.Join(slices.Sorted(maps.Keys(fields)), " ")
	}
	return write
}
