// Package doctor checks an installation: what the API server serves, the controller, the objects, the nodes, and the
// cloud. It only reads.
package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"cloudteam.ztgame.com/network-controller/config/crd"
	"cloudteam.ztgame.com/network-controller/internal/kinds"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/why"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// State is the outcome of a check.
type State string

// The states. Only Fails makes the whole fail.
const (
	OK      State = "OK"
	Warns   State = "WARN"
	Fails   State = "FAIL"
	Unknown State = "UNKNOWN"
)

// Check is one check.
type Check struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// Says is what was found. Remedy is what to do; empty if the check is OK.
	Says   string `json:"says"`
	Remedy string `json:"remedy,omitempty"`
	// hidden is true if the user may not see what the check needs.
	hidden bool
}

// is gives a check its outcome.
func (c Check) is(state State, says, remedy string) Check {
	c.State, c.Says, c.Remedy = state, says, remedy
	return c
}

// unseen is a check of what the user may not see.
func (c Check) unseen(says string) Check {
	c.hidden = true
	return c.is(Unknown, says, "Ask an administrator to run this.")
}

// together makes one check of all that the user may not see: they have one cause and one remedy.
func together(checks []Check) []Check {
	var names []string
	for _, c := range checks {
		if c.hidden {
			names = append(names, c.Name)
		}
	}
	if len(names) < 2 {
		return checks
	}
	checks = slices.DeleteFunc(checks, func(c Check) bool { return c.hidden })
	all := "you may not read what these need: " + strings.Join(names, ", ")
	return append(checks, Check{Name: "not checked"}.unseen(all))
}

// Options are what else the checks need.
type Options struct {
	// Cloud is nil if the user names none.
	Cloud *client.Cloud
	// ClusterUID is the UID of the namespace kube-system, if the user gives it.
	ClusterUID string
	// Version is that of this program.
	Version string
	// Now is the time by this machine's clock, to judge what objects say.
	Now time.Time
	// Ahead gives how far the API server's clock is ahead of this machine's, by its answers; nil if nobody noted it.
	Ahead func() Clock
}

// Run runs all checks.
func Run(ctx context.Context, c *ask.Cluster, options Options) []Check {
	d := doctor{ctx, c, options}
	nodes, nodesAre := ask.List(ctx, c, ask.New("Nodes", "", "(all)"), c.Kubernetes.CoreV1().Nodes().List,
		metav1.ListOptions{})
	if nodesAre != ask.There {
		nodes = &corev1.NodeList{}
	}
	api := d.version()
	if api.State == Fails { // the checks of the cluster would all fail for the same cause
		c.Notes = nil
		return append([]Check{api}, d.cloud(nil, false)...)
	}
	crds := d.crds()
	checks := []Check{api, crds}
	if crds.State == OK {
		checks = append(checks, d.schemas())
	}
	controller, holder, leaseIs := d.controller()
	checks = append(checks, d.policies(), controller, d.controllersCloud(), d.versions(holder, leaseIs, nodes.Items))
	objects, networks, is := d.objects()
	checks = append(checks, objects...)
	checks = append(checks, d.agents(nodes.Items, nodesAre), d.mtu(networks, is))
	of := d.cloud(networks, true)
	checks = together(append(append(checks, d.clock()), of...))
	c.Notes = slices.DeleteFunc(c.Notes, ask.IsForbidden) // the checks say so
	return checks
}

// Failed reports whether a check fails.
func Failed(checks []Check) bool {
	return slices.ContainsFunc(checks, func(c Check) bool { return c.State == Fails })
}

type doctor struct {
	ctx context.Context //nolint:containedctx // a doctor is one call
	*ask.Cluster
	Options
}

func (d doctor) version() Check {
	c := Check{Name: "API server", State: Unknown}
	info, err := d.Kubernetes.Discovery().ServerVersion()
	switch {
	case apierrors.IsForbidden(err):
		return c.unseen("you may not read its version")
	case err != nil:
		return c.is(Fails, "It does not answer: "+err.Error(), "Check your kubeconfig and --context.")
	}
	says := "Kubernetes " + info.GitVersion
	is, err := version.ParseGeneric(info.GitVersion)
	switch {
	case err != nil:
		return c.is(Unknown, says, "")
	case is.LessThan(version.MajorMinor(1, 34)):
		return c.is(Warns, says, "Mutating admission policies need Kubernetes 1.34. Put the scheduling gate into Pod "+
			"templates (docs/deployment.md).")
	}
	return c.is(OK, says, "")
}

func (d doctor) crds() Check {
	needed := []string{"networkclasses"}
	for _, kind := range kinds.All {
		needed = append(needed, kind.Resource.Resource)
	}
	slices.Sort(needed)
	c := Check{Name: "CRDs", State: OK, Says: "served: " + strings.Join(needed, ", ")}
	list, err := d.Kubernetes.Discovery().ServerResourcesForGroupVersion(cloudteamv1.SchemeGroupVersion.String())
	served := map[string]bool{}
	for i := 0; err == nil && i < len(list.APIResources); i++ {
		served[list.APIResources[i].Name] = true
	}
	var missing []string
	for _, name := range needed {
		if !served[name] {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return c.is(Fails, "not served: "+strings.Join(missing, ", "), crd.Install)
	}
	return c
}

// policies are those of config/admission.
var policies = []string{"network-controller-account", "network-controller-classes", "network-controller-pods"}

func (d doctor) policies() Check {
	c := Check{Name: "admission policies", State: OK, Says: "all are installed"}
	var missing []string
	is := ask.There
	note := func(name string, found ask.Presence) {
		if is = max(is, found); found == ask.Absent {
			missing = append(missing, name)
		}
	}
	v1, v1beta1 := d.Kubernetes.AdmissionregistrationV1(), d.Kubernetes.AdmissionregistrationV1beta1()
	for _, name := range policies {
		_, found := ask.Get(d.ctx, d.Cluster, ask.New("ValidatingAdmissionPolicy", "", name),
			v1.ValidatingAdmissionPolicies().Get)
		note(name, found)
	}
	for _, name := range []string{"network-controller-scheduling-gate", "network-controller-networks"} {
		of := ask.New("MutatingAdmissionPolicy", "", name)
		_, found := ask.Get(d.ctx, d.Cluster, of, v1.MutatingAdmissionPolicies().Get)
		if found == ask.Absent { // Kubernetes 1.34 and 1.35
			_, found = ask.Get(d.ctx, d.Cluster, of, v1beta1.MutatingAdmissionPolicies().Get)
		}
		note(name, found)
	}
	switch {
	case len(missing) > 0:
		return c.is(Warns, "missing: "+strings.Join(missing, ", "), "kubectl apply -k config/admission")
	case is == ask.Hidden:
		return c.unseen("you may not read them")
	}
	return c
}

// controller checks that one runs, and gives the identity that holds the Lease.
func (d doctor) controller() (c Check, holder string, is ask.Presence) {
	c = Check{Name: "controller", State: OK, Says: "one holds the Lease"}
	link, holder, is := why.Controller(d.ctx, d.Cluster, d.Now)
	switch {
	case is == ask.Hidden:
		c = c.unseen("you may not read its Lease")
	case link != nil:
		c = c.is(Fails, fmt.Sprintf("%s: %s", link.Object, link.Message), "kubectl -n network-controller get pods")
	}
	return c, holder, is
}

// lately is how old an Event may be that still says how the controller is. The controller repeats it with each audit.
const lately = 15 * time.Minute

// controllersCloud checks whether the controller can log in to its cloud.
func (d doctor) controllersCloud() Check {
	c := Check{Name: "controller's cloud", State: OK, Says: "no log-in of the controller was rejected lately"}
	of := ask.New("Events", why.ControllerNamespace, cloudteamv1.ReasonCredentialsRejected)
	events, is := ask.List(d.ctx, d.Cluster, of, d.Kubernetes.CoreV1().Events(of.Namespace).List,
		metav1.ListOptions{FieldSelector: "reason=" + of.Name})
	if is != ask.There {
		return c.unseen("you may not list the Events of its namespace")
	}
	var last corev1.Event
	for _, e := range events.Items {
		if e.Reason == of.Name && e.InvolvedObject.Kind == "Pod" && last.LastTimestamp.Before(&e.LastTimestamp) {
			last = e
		}
	}
	if ago := d.Now.Sub(last.LastTimestamp.Time).Round(time.Second); !last.LastTimestamp.IsZero() && ago < lately {
		return c.is(Fails, fmt.Sprintf("%s ago: %s", ago, last.Message),
			"Correct the clouds.yaml in the Secret of the controller. It logs in again without a restart.")
	}
	return c
}

// objects checks the conditions of all objects that the user may see. It gives the Networks.
func (d doctor) objects() (checks []Check, networks []*cloudteamv1.Network, is ask.Presence) {
	var packets Check
	for _, kind := range kinds.All {
		objs, are := ask.Objects(d.ctx, d.Cluster, kind, metav1.NamespaceAll)
		found := map[string][]metav1.Condition{}
		for _, obj := range objs {
			found[obj.GetNamespace()+"/"+obj.GetName()] = kind.Status(obj).Conditions
		}
		checks = append(checks, conditions(kind.Name+"s", cloudteamv1.ConditionReady, kind, found, are))
		switch kind.Name {
		case kinds.Network:
			networks, is = ask.Known[*cloudteamv1.Network](objs), are
		case kinds.NetworkPort:
			packets = conditions("packets", cloudteamv1.ConditionAttached, kind, found, are)
		}
	}
	return append(checks, packets), networks, is
}

// conditions checks one condition of all objects of a kind. Objects without Attached have no data plane.
func conditions(name, of string, kind kinds.Kind, all map[string][]metav1.Condition, is ask.Presence) Check {
	c := Check{Name: name, State: OK}
	if is != ask.There {
		return c.unseen("you may not list them")
	}
	reasons, first, counted := map[string]int{}, "", 0
	for _, object := range slices.Sorted(maps.Keys(all)) {
		found := meta.FindStatusCondition(all[object], of)
		switch {
		case found == nil && of != cloudteamv1.ConditionReady:
			continue
		case found == nil:
			reasons["NotSeen"]++
		case found.Status != metav1.ConditionTrue:
			reasons[found.Reason]++
		}
		if counted++; first == "" && len(reasons) > 0 {
			first = object
		}
	}
	if len(reasons) == 0 {
		switch {
		case counted > 0:
			c.Says = fmt.Sprintf("all %d are %s", counted, of)
		case of == cloudteamv1.ConditionAttached:
			c.Says = "no port is attached to a node"
		default:
			c.Says = "there are none"
		}
		return c
	}
	var counts []string
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		counts = append(counts, fmt.Sprintf("%d %s", reasons[reason], reason))
	}
	namespace, object, _ := strings.Cut(first, "/")
	return c.is(Fails, fmt.Sprintf("of %d: %s", counted, strings.Join(counts, ", ")),
		fmt.Sprintf("kubectl network why %s/%s -n %s", strings.ToLower(kind.Name), object, namespace))
}

// hasAgents reports whether the node agent is installed, also if that may not be read. Without it, ports are addresses
// that nothing attaches, as where another plugin attaches Pods.
func (d doctor) hasAgents() bool {
	_, err := d.Kubernetes.AppsV1().DaemonSets("network-agent").Get(d.ctx, "network-agent", metav1.GetOptions{})
	return !apierrors.IsNotFound(err)
}

// agents checks the nodes' data plane.
func (d doctor) agents(nodes []corev1.Node, is ask.Presence) Check {
	c := Check{Name: "node agents", State: OK}
	if is != ask.There {
		return c.unseen("you may not list Nodes")
	}
	var without []string
	versions := map[string]int{}
	for _, node := range nodes {
		if node.Annotations[cloudteamv1.AnnotationDataplane] == "" {
			without = append(without, node.Name)
			continue
		}
		versions[node.Annotations[cloudteamv1.AnnotationDataplaneVersion]]++
	}
	switch {
	case len(without) == len(nodes) && !d.hasAgents():
		c.Says = "no node has a data plane, and no agent is installed: ports are addresses (docs/dataplane.md)"
	case len(without) > 0:
		return c.is(Warns, fmt.Sprintf("%d of %d nodes have no data plane: %s", len(without), len(nodes),
			strings.Join(without[:min(len(without), 3)], ", ")),
			"Install the agent (kubectl apply -k config/node), if no other plugin attaches Pods.")
	case len(versions) > 1:
		return c.is(Warns, "they have several versions: "+strings.Join(slices.Sorted(maps.Keys(versions)), ", "),
			"kubectl -n network-agent rollout status daemonset/network-agent")
	default:
		c.Says = fmt.Sprintf("all %d nodes have a data plane", len(nodes))
	}
	return c
}
