// Package planning says what the controller would do in Neutron for an object, by the controller's own code.
package planning

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"cloudteam.ztgame.com/network-controller/internal/controller/classes"
	floatingcontroller "cloudteam.ztgame.com/network-controller/internal/controller/floatingip"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	networkcontroller "cloudteam.ztgame.com/network-controller/internal/controller/network"
	portcontroller "cloudteam.ztgame.com/network-controller/internal/controller/networkport"
	groupcontroller "cloudteam.ztgame.com/network-controller/internal/controller/securitygroup"
	"cloudteam.ztgame.com/network-controller/internal/kinds"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions"
)

// Result is what would be done for one object.
type Result struct {
	Object ask.Object `json:"object"`
	// Steps are in order. None means that nothing would be done.
	Steps []Step `json:"steps,omitempty"`
	// Problem says why nothing would be done, as the object's condition would.
	Problem string `json:"problem,omitempty"`
	// Notes are what else would happen, or would not.
	Notes []string `json:"notes,omitempty"`
}

// Step is one step.
type Step struct {
	// Does says what the step does, to what, and why.
	Does string `json:"does"`
	// Stops says which traffic the step interrupts; empty for none.
	Stops  string `json:"stops,omitempty"`
	Action string `json:"action"`
	step   plan.Step
}

// Step is the step of the plan.
func (s Step) Step() plan.Step { return s.step }

// Planner plans objects. It is the controllers of all kinds with caches that were read once. It never runs them.
type Planner struct {
	of      map[string]planner // by kind
	known   cache.Indexer      // of Networks
	classes *classes.Classes
	// made are the ports that earlier plans create, by the UIDs of their NetworkPorts.
	made map[types.UID]plan.ObservedPort
}

// planner is a controller.
type planner interface {
	preview(ctx context.Context, obj kinds.Object) (managed.Preview, error)
	know(obj kinds.Object) error
	ReachClouds(clouds managed.Clouds)
	Run(ctx context.Context, workers int) error
}

// of is the planner of a type.
type of[T managed.Object] struct{ *managed.Reconciler[T] }

func (c of[T]) preview(ctx context.Context, obj kinds.Object) (managed.Preview, error) {
	return c.Preview(ctx, obj.(T))
}

func (c of[T]) know(obj kinds.Object) error { return c.Know(obj.(T)) }

// New makes a Planner for the cluster of a UID, which is that of the namespace kube-system. It reads what other objects
// an object depends on. What the user may not read is noted. The caller MUST call Close.
func New(ctx context.Context, c *ask.Cluster, in managed.Inventory, cluster string) (*Planner, error) {
	objects := informers.NewSharedInformerFactory(c.Networks, 0).Cloudteam().V1()
	networks, ports, groups := objects.Networks(), objects.NetworkPorts(), objects.SecurityGroups()
	client, by, discard := c.Networks.CloudteamV1(), classesOf(ctx, c), &record.FakeRecorder{}
	p := &Planner{known: networks.Informer().GetIndexer(), classes: by, made: map[types.UID]plan.ObservedPort{}}
	ofNetworks, err := networkcontroller.NewController(client, networks, nil, in, discard, cluster,
		networkcontroller.Options{Classes: by})
	if err != nil {
		return nil, err
	}
	ofPorts, err := portcontroller.NewController(client, ports, networks, groups, in, discard, cluster, by, nil)
	if err != nil {
		return nil, err
	}
	ofGroups, err := groupcontroller.NewController(client, groups, nil, in, discard, cluster, by)
	if err != nil {
		return nil, err
	}
	ofFloating, err := floatingcontroller.NewController(client, objects.FloatingIPs(),
		floatingcontroller.Ports{Ports: ports, Networks: networks}, withComing{in, p}, discard, cluster, by)
	if err != nil {
		return nil, err
	}
	p.of = map[string]planner{
		kinds.Network: of[*cloudteamv1.Network]{ofNetworks}, kinds.NetworkPort: of[*cloudteamv1.NetworkPort]{ofPorts},
		kinds.SecurityGroup: of[*cloudteamv1.SecurityGroup]{ofGroups},
		kinds.FloatingIP:    of[*cloudteamv1.FloatingIP]{ofFloating},
	}
	for _, c := range p.of {
		c.ReachClouds(anyCloud{withComing{in, p}})
	}
	return p, nil
}

// Close ends the goroutines of the controllers' queues.
func (p *Planner) Close() {
	done, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range p.of {
		_ = c.Run(done, 1) // with a context that is done, it only closes the queue
	}
}

// anyCloud has the user's credentials stand for those of each object.
type anyCloud struct{ in managed.Inventory }

// In implements managed.Clouds.
func (a anyCloud) In(managed.CloudRef, bool) (managed.Inventory, error) { return a.in, nil }

// classesOf reads the classes, and the labels of namespaces.
func classesOf(ctx context.Context, c *ask.Cluster) *classes.Classes {
	all := classes.New("network-controller")
	known, spaces := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}),
		cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	list, is := ask.List(ctx, c, ask.New("NetworkClasses", "", "(all)"), c.Networks.CloudteamV1().NetworkClasses().List,
		metav1.ListOptions{})
	if is != ask.There {
		return all // the built-in class
	}
	for i := range list.Items {
		_ = known.Add(&list.Items[i]) // it has a name
	}
	if len(list.Items) > 0 {
		namespaces, is := ask.List(ctx, c, ask.New("Namespaces", "", "(all)"), c.Kubernetes.CoreV1().Namespaces().List,
			metav1.ListOptions{})
		for i := 0; is == ask.There && i < len(namespaces.Items); i++ {
			_ = spaces.Add(&namespaces.Items[i]) // it has a name
		}
		for name, labels := range c.NewNamespaces {
			if _, exists, _ := spaces.GetByKey(name); !exists {
				_ = spaces.Add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
			}
		}
	}
	all.Use(known, spaces)
	return all
}

// Know adds objects that others depend on, or that a class may limit. The latest of a name counts.
func (p *Planner) Know(objects ...kinds.Object) error {
	for _, obj := range objects {
		if err := p.of[kinds.OfObject(obj).Name].know(obj); err != nil {
			return err
		}
	}
	return nil
}

// Plan plans an object as it would be in the API server. If something would be created in Neutron, later plans take it
// for created.
func (p *Planner) Plan(ctx context.Context, obj kinds.Object) (Result, error) {
	of := ask.Of(obj)
	preview, failed := p.of[of.Kind].preview(ctx, obj)
	r, err := resultOf(of, preview, failed)
	if failed == nil && creates(preview.Change, plan.CreateGroup) {
		r.Notes = append(r.Notes, "Neutron gives a new group its default rules. The controller deletes those of them that "+
			"the spec does not declare, once the group exists.")
	}
	if failed == nil && preview.Unresolved == nil {
		err = p.coming(obj, preview.Change)
	}
	return r, err
}

// resultOf makes a Result of a preview. A problem of the object is no error: the condition would say it.
func resultOf(of ask.Object, preview managed.Preview, err error) (Result, error) {
	r := Result{Object: of}
	if problem, ok := errors.AsType[*managed.Problem](err); ok {
		r.Problem = problem.State.Reason + ": " + problem.State.Message
		return r, nil
	}
	if field, ok := errors.AsType[*plan.FieldError](err); ok {
		r.Problem = cloudteamv1.ReasonInvalidSpec + ": " + field.Error()
		return r, nil
	}
	if refusal, ok := errors.AsType[*client.Error](err); ok && refusal.Kind == client.Invalid {
		r.Problem = cloudteamv1.ReasonRejected + ": " + refusal.Error()
		return r, nil
	}
	if err != nil {
		return r, fmt.Errorf("planning %s: %w", of, err)
	}
	for _, step := range preview.Change {
		r.Steps = append(r.Steps, Step{Does: step.String(), Stops: stops(step), Action: string(step.Action), step: step})
	}
	if waits, ok := errors.AsType[*managed.Problem](preview.Unresolved); ok {
		r.Notes = append(r.Notes, waits.State.Reason+": "+waits.State.Message)
	} else if preview.Unresolved != nil {
		r.Notes = append(r.Notes, "Not all names mean something in this cloud: "+preview.Unresolved.Error())
	}
	if preview.Adopts {
		r.Notes = append(r.Notes, "This adopts what the spec imports. What else differs from the spec follows after it.")
	}
	for _, d := range preview.Drift {
		r.Notes = append(r.Notes, "Left as it is (driftPolicy Report): "+d.String())
	}
	return r, nil
}

// stops says which traffic a step interrupts.
func stops(s plan.Step) string {
	switch s.Action {
	case plan.DeleteNetwork, plan.DeletePort:
		return "what uses it loses its network"
	case plan.DeleteSubnet:
		return "ports have no addresses of it any more"
	case plan.DeleteRouter, plan.DetachInterface:
		return "hosts lose this gateway"
	case plan.DeleteRule:
		return "packets that no other rule allows are dropped"
	case plan.UpdateGateway:
		return "connections to the outside break"
	case plan.DeleteFloatingIP, plan.UpdateFloatingIP:
		if leaves(s) {
			return "the outside no longer reaches the port there"
		}
		return ""
	}
	for _, of := range []struct{ field, stops string }{
		{plan.FieldAdminState, "it carries no traffic while it is down"},
		{plan.FieldSegmentationID, "ports move to another segment"},
		{plan.FieldAddresses, "the port has other addresses"},
		{plan.FieldMAC, "the port has another MAC"},
		{plan.FieldSecurityGroups, "other rules apply to the port's connections"},
	} {
		if !s.Action.Creates() && s.Changes(of.field) {
			return of.stops
		}
	}
	return ""
}

// leaves reports whether a step takes a floating IP from a port. Neutron parts it from a port that is deleted; then it
// carries no traffic.
func leaves(s plan.Step) bool {
	if s.Action == plan.DeleteFloatingIP {
		return s.PortRef.ID != ""
	}
	return slices.ContainsFunc(s.Differences, func(d plan.Difference) bool {
		return d.Field == plan.FieldPort && d.Actual != plan.None
	})
}

// Quota is one quota of a project, before and after a plan.
type Quota struct {
	Resource string `json:"resource"`
	Used     int    `json:"used"`
	After    int    `json:"after"`
	// Limit is -1 for none.
	Limit int `json:"limit"`
}

// counted are the quotas that the actions count for.
var counted = map[plan.Action]struct {
	of string
	by int
}{
	plan.CreateNetwork: {"network", 1}, plan.DeleteNetwork: {"network", -1},
	plan.CreateSubnet: {"subnet", 1}, plan.DeleteSubnet: {"subnet", -1},
	plan.CreatePort: {"port", 1}, plan.DeletePort: {"port", -1},
	plan.CreateInterface: {"port", 1}, plan.DetachInterface: {"port", -1}, plan.DeleteInterface: {"port", -1},
	plan.CreateRouter: {"router", 1}, plan.DeleteRouter: {"router", -1},
	plan.ShareNetwork: {"rbac_policy", 1}, plan.UnshareNetwork: {"rbac_policy", -1},
	plan.CreateGroup: {"security_group", 1}, plan.DeleteGroup: {"security_group", -1},
	plan.DeleteRule:       {"security_group_rule", -1},
	plan.CreateFloatingIP: {"floatingip", 1}, plan.DeleteFloatingIP: {"floatingip", -1},
}

// Quotas reads the quotas that the results count for. The cloud may not tell them: then it is empty.
func Quotas(ctx context.Context, cloud *client.Cloud, results []Result) ([]Quota, error) {
	more := map[string]int{}
	for _, r := range results {
		for _, s := range r.Steps {
			if c, ok := counted[s.step.Action]; ok {
				more[c.of] += c.by
			}
			switch s.step.Action {
			case plan.CreateRules:
				more["security_group_rule"] += len(s.step.Rules)
			case plan.CreateGroup:
				more["security_group_rule"] += len(plan.DefaultEgress()) // Neutron adds them
			}
		}
	}
	if len(more) == 0 {
		return nil, nil
	}
	all, err := inventory.Quotas(ctx, cloud)
	var quotas []Quota
	for _, q := range all {
		if n := more[q.Resource]; n != 0 {
			quotas = append(quotas, Quota{q.Resource, int(q.Used), int(q.Used) + n, int(q.Limit)})
		}
	}
	return quotas, err
}

// QuotaName is the resource of a quota in words.
func QuotaName(resource string) string {
	if resource == "floatingip" {
		return plan.FloatingIPResource
	}
	return strings.ReplaceAll(resource, "_", " ")
}

// String says a quota in words.
func (q Quota) String() string {
	limit := "without a limit"
	if q.Limit >= 0 {
		limit = fmt.Sprintf("of %d", q.Limit)
	}
	text := fmt.Sprintf("%s %d → %d %s", QuotaName(q.Resource), q.Used, q.After, limit)
	if q.Exceeded() {
		text += ": too many"
	}
	return text
}

// Exceeded reports whether the plan does not fit.
func (q Quota) Exceeded() bool { return q.Limit >= 0 && q.After > q.Limit && q.After > q.Used }
