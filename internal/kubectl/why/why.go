// Package why finds the cause of a problem with a network: it goes from an object that a user sees, such as a Pod that
// does not start, over what it depends on, to the object that says the cause. It only reads.
package why

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"cloudteam.ztgame.com/network-controller/config/crd"
	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/kinds"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// The kinds that a question can be about.
const (
	KindNetwork       = kinds.Network
	KindNetworkPort   = kinds.NetworkPort
	KindSecurityGroup = kinds.SecurityGroup
	KindFloatingIP    = kinds.FloatingIP
	KindPod           = "Pod"
	KindDeployment    = "Deployment"
	KindService       = "Service"
	KindNode          = "Node"
	KindNetworkClass  = "NetworkClass"

	KindStatefulSet    = "StatefulSet"
	KindDaemonSet      = "DaemonSet"
	KindJob            = "Job"
	KindVirtualMachine = "VirtualMachine"
)

// owners are the kinds that are explained by their Pods, whose controllers they are. The instance of a virtual machine
// has its name.
var owners = map[string]schema.GroupKind{
	KindStatefulSet:    consumer.StatefulSetKind,
	KindDaemonSet:      appsv1.SchemeGroupVersion.WithKind(KindDaemonSet).GroupKind(),
	KindJob:            batchv1.SchemeGroupVersion.WithKind(KindJob).GroupKind(),
	KindVirtualMachine: consumer.InstanceKind,
}

// spelling is how people and commands write a kind.
type spelling struct {
	kind, resource, group string
	short                 []string
}

// spellings are those of the kinds that Explain knows.
func spellings() (all []spelling) {
	for _, k := range kinds.All {
		all = append(all, spelling{k.Name, k.Resource.Resource, k.Resource.Group, []string{k.Short}})
	}
	return append(all, spelling{KindPod, "pods", "", []string{"po"}},
		spelling{KindDeployment, "deployments", "apps", []string{"deploy"}},
		spelling{KindStatefulSet, "statefulsets", "apps", []string{"sts"}},
		spelling{KindDaemonSet, "daemonsets", "apps", []string{"ds"}}, spelling{KindJob, "jobs", "batch", nil},
		spelling{KindVirtualMachine, "virtualmachines", "kubevirt.io", []string{"vm", "vms"}},
		spelling{KindService, "services", "", []string{"svc"}}, spelling{KindNode, "nodes", "", []string{"no"}},
		spelling{KindNetworkClass, "networkclasses", cloudteamv1.SchemeGroupVersion.Group, []string{"netclass"}})
}

// Kinds are those that Explain knows, in lower case.
func Kinds() (all []string) {
	for _, s := range spellings() {
		all = append(all, strings.ToLower(s.kind))
	}
	return all
}

// Spelled finds the kind that a user means, with or without its group; empty if Explain does not know it.
func Spelled(word string) string {
	word = strings.ToLower(word)
	name, group, _ := strings.Cut(word, ".")
	for _, s := range spellings() {
		is := name == s.resource || name == strings.ToLower(s.kind)
		if is && (group == "" || group == s.group) || slices.Contains(s.short, word) {
			return s.kind
		}
	}
	return ""
}

// Explain says why the object is not as it should be. An error means that the object itself cannot be read. What else
// cannot be read is in the notes of the answer.
func Explain(ctx context.Context, cluster *ask.Cluster, of Object, now time.Time) (Answer, error) {
	w := &walk{Cluster: cluster, ctx: ctx, now: now, asked: of, seen: map[Object]bool{}}
	chain, healthy, err := w.start(of)
	if err != nil {
		return Answer{}, err
	}
	a := Answer{Object: of, Healthy: len(chain) == 0, Chain: chain, Summary: healthy}
	if !a.Healthy {
		a.Summary = fmt.Sprintf("%s: %s.", a.Cause().Object, a.Cause().Reason)
		a.Remedy, a.Commands = remedyOf(chain)
		a.Remedy = strings.TrimSpace(a.Remedy + w.whoElse(a.Commands))
		w.warnOfSilence(chain)
	}
	a.Warnings, a.Notes = w.warnings, w.Notes
	return a, nil
}

// walk is one question on its way.
type walk struct {
	*ask.Cluster
	ctx      context.Context //nolint:containedctx // a walk is one call
	now      time.Time
	asked    Object
	seen     map[Object]bool
	warnings []string
}

// start explains the object that a question is about. healthy is the answer if the chain is empty.
type start func(w *walk, of Object) (chain []Link, healthy string, err error)

// explained has the kinds whose objects have causes of their own. plainly explains the others of the table of kinds.
var explained = map[string]start{
	KindNetwork:       begin(get, with((*walk).network, wellBy)),
	KindNetworkPort:   begin(get, with((*walk).port, portWell)),
	KindSecurityGroup: begin(get, with((*walk).group, wellBy)),
	KindFloatingIP:    begin(get, with((*walk).floatingIP, floatingIPWell)),
	KindPod: begin(func(w *walk, of Object) getter[*corev1.Pod] {
		return w.Kubernetes.CoreV1().Pods(of.Namespace).Get
	}, (*walk).pod),
	KindDeployment: begin(func(w *walk, of Object) getter[*appsv1.Deployment] {
		return w.Kubernetes.AppsV1().Deployments(of.Namespace).Get
	}, (*walk).deployment),
	KindService: begin(func(w *walk, of Object) getter[*corev1.Service] {
		return w.Kubernetes.CoreV1().Services(of.Namespace).Get
	}, (*walk).service),
	KindNode: begin(func(w *walk, _ Object) getter[*corev1.Node] { return w.Kubernetes.CoreV1().Nodes().Get },
		func(w *walk, n *corev1.Node) ([]Link, string) {
			return w.dataplaneOf(n.Name), "Nothing is wrong: the node has a data plane."
		}),
	KindNetworkClass: begin(func(w *walk, _ Object) getter[*cloudteamv1.NetworkClass] {
		return w.Networks.CloudteamV1().NetworkClasses().Get
	}, (*walk).networkClass),
}

// advicesOf has what to do about the causes that a kind brings, whichever object says them.
var advicesOf = map[string]map[string]advice{KindSecurityGroup: groupAdvices, KindFloatingIP: floatingIPAdvices}

// adviceFor has what to do for a Reason where that differs for a kind.
var adviceFor = map[string]map[string]advice{
	KindNetworkPort: adviceForPorts, KindSecurityGroup: adviceForGroups, KindFloatingIP: adviceForFloatingIPs,
}

// getter is the Get of a client, for objects of the API type T.
type getter[T any] = func(context.Context, string, metav1.GetOptions) (T, error)

// gone ends the question when the object that it is about cannot be read.
func gone(of Object, err error) error {
	switch {
	case ask.NoKind(err):
		return fmt.Errorf("the API server does not serve %ss: install the CRDs (%s)", of.Kind, crd.Install)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%s does not exist: check the name, and the namespace (-n)", of)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("you may not read %s: ask for the right \"get\" (docs/security.md lists the roles): %w", of, err)
	}
	return fmt.Errorf("reading %s: %w", of, err)
}

// begin reads an object of the API type T and explains it.
func begin[T any](get func(*walk, Object) getter[T], explain func(*walk, T) ([]Link, string)) start {
	return func(w *walk, of Object) ([]Link, string, error) {
		obj, err := get(w, of)(w.ctx, of.Name, metav1.GetOptions{})
		if err != nil {
			return nil, "", gone(of, err)
		}
		chain, healthy := explain(w, obj)
		return chain, healthy, nil
	}
}

// plainly explains objects by their condition Ready, their class and their credentials.
func plainly(w *walk, of Object) ([]Link, string, error) {
	return begin(get, with(func(w *walk, obj kinds.Object) []Link {
		return w.ours(obj, func(l Link) []Link { return w.common(obj, l) })
	}, wellBy))(w, of)
}

// ours explains an object of a kind of the table; the chain is empty if nothing is wrong. below explains the link of
// the condition Ready. warnings are the conditions that it warns of.
func (w *walk) ours(obj kinds.Object, below func(Link) []Link, warnings ...string) []Link {
	of, status := ask.Of(obj), kinds.OfObject(obj).Status(obj)
	if !w.first(of) {
		return nil
	}
	for _, kind := range warnings {
		if c := meta.FindStatusCondition(status.Conditions, kind); c != nil && c.Status == metav1.ConditionTrue {
			w.warn(link(of, *c))
		}
	}
	l, bad := w.ready(of, obj, status)
	if !bad {
		return nil
	}
	return append([]Link{l}, below(l)...)
}

// common explains what all kinds have in common: the controller, the class and the credentials.
func (w *walk) common(obj kinds.Object, l Link) []Link {
	kind := kinds.OfObject(obj)
	var className string
	var cloud *cloudteamv1.CloudReference
	if kind.Class != nil {
		className, cloud, _ = kind.Class(obj)
	}
	switch l.Reason {
	case notSeen:
		return w.controller()
	case cloudteamv1.ReasonForbiddenByClass, cloudteamv1.ReasonClassNotFound, cloudteamv1.ReasonClassLimitReached:
		return w.classOf(className)
	case cloudteamv1.ReasonCredentialsRejected, cloudteamv1.ReasonCredentialsUnavailable, cloudteamv1.ReasonCloudMismatch:
		return credentialsOf(obj, cloud, kind.Status(obj))
	}
	return nil
}

// wellBy says that nothing is wrong with an object that is Ready.
func wellBy[T kinds.Object](obj T) string {
	kind := kinds.OfObject(obj)
	if ready := meta.FindStatusCondition(kind.Status(obj).Conditions, cloudteamv1.ConditionReady); ready != nil {
		return fmt.Sprintf("Nothing is wrong: the %s is Ready (%s).", kind.Name, ready.Reason)
	}
	return ""
}

// with makes one function of the two that explain an object and say that it is well.
func with[T any](explain func(*walk, T) []Link, well func(T) string) func(*walk, T) ([]Link, string) {
	return func(w *walk, obj T) ([]Link, string) { return explain(w, obj), well(obj) }
}

func (w *walk) start(of Object) (chain []Link, healthy string, err error) {
	if start, known := explained[of.Kind]; known {
		return start(w, of)
	}
	if _, known := kinds.Of(of.Kind); known {
		return plainly(w, of)
	}
	if kind, known := owners[of.Kind]; known {
		return w.ownerOfPods(of, kind)
	}
	return nil, "", ErrKind(of.Kind)
}

// ErrKind is the error of a kind that Explain does not know; it names those that it knows.
func ErrKind(kind string) error {
	known := Kinds()
	last := len(known) - 1
	return fmt.Errorf("%q cannot be explained: write %s or %s", kind, strings.Join(known[:last], ", "), known[last])
}

// get is the getter of a kind of the table.
func get[T kinds.Object](w *walk, of Object) getter[T] {
	return func(ctx context.Context, name string, options metav1.GetOptions) (T, error) {
		kind, _ := kinds.Of(of.Kind)
		obj, err := kind.In(w.Networks, of.Namespace).Get(ctx, name, options)
		typed, _ := obj.(T)
		return typed, err
	}
}

// read reads an object of a kind of the table. What cannot be read is noted.
func read[T kinds.Object](w *walk, of Object) (T, ask.Presence) {
	return ask.Get(w.ctx, w.Cluster, of, get[T](w, of))
}

// first reports whether an object is met for the first time. So two objects that wait for each other end the walk.
func (w *walk) first(of Object) bool {
	if w.seen[of] {
		return false
	}
	w.seen[of] = true
	return true
}

// warn adds a warning with what to do about it.
func (w *walk) warn(l Link) {
	remedy, _ := remedyOf([]Link{l})
	text := fmt.Sprintf("%s says %s: %s %s", l.Object, l.Reason, sentence(l.Message), remedy)
	if text = strings.TrimSpace(text); !slices.Contains(w.warnings, text) {
		w.warnings = append(w.warnings, text)
	}
}

func sentence(text string) string {
	if text == "" || strings.HasSuffix(text, ".") {
		return text
	}
	return text + "."
}

// ready gives the link of an object's own conditions; ok is false if there is no problem. The status of an object that
// the controller has not seen since its last change says nothing.
func (w *walk) ready(of Object, obj metav1.Object, status *cloudteamv1.ResourceStatus) (l Link, ok bool) {
	condition := meta.FindStatusCondition(status.Conditions, cloudteamv1.ConditionReady)
	switch {
	case condition == nil:
		return Link{Object: of, Reason: notSeen, Message: "The controller has not handled it yet: it has no conditions."}.
			since(obj.GetCreationTimestamp()), true
	case status.ObservedGeneration < obj.GetGeneration() && obj.GetDeletionTimestamp() == nil:
		return Link{Object: of, Reason: notSeen, Message: "The controller has not handled the last change of the spec."}, true
	case condition.Status != metav1.ConditionTrue:
		l = link(of, *condition)
		l.Writer = writerOf(obj)
		return l, true
	case obj.GetDeletionTimestamp() != nil:
		return beingDeleted(of, obj), true
	}
	// Ready stays True with these, and nothing else waits for it. They matter to those who ask.
	only := []string{cloudteamv1.ReasonPaused, cloudteamv1.ReasonDriftDetected}
	return link(of, *condition), slices.Contains(only, condition.Reason) && of == w.asked
}

func beingDeleted(of Object, obj metav1.Object) Link {
	return Link{Object: of, Reason: deleting, Message: "It is being deleted."}.since(*obj.GetDeletionTimestamp())
}

// writerKinds are the kinds by whose objects a controller of ours writes others.
var writerKinds = []string{
	KindService, KindDeployment, KindStatefulSet, KindPod, KindVirtualMachine, "VirtualMachineInstance",
}

// writerOf gives the object by which a controller writes another one; nil for none. The port of a StatefulSet or of a
// virtual machine has an annotation in the place of an owner. Any text can be there, and people copy the command.
func writerOf(obj metav1.Object) *Object {
	kind, name, _ := strings.Cut(obj.GetAnnotations()[consumer.AnnotationMadeFor], "/")
	name, _, _ = strings.Cut(name, "/")
	if owner := metav1.GetControllerOfNoCopy(obj); owner != nil {
		kind, name = owner.Kind, owner.Name
	}
	if !slices.Contains(writerKinds, kind) || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return nil
	}
	return new(ask.New(kind, obj.GetNamespace(), name))
}

// ControllerNamespace is where the controller is installed.
const ControllerNamespace = "network-controller"

// leases are where the controller's Lease may be: its namespace by default, and that of older ones with --kubeconfig.
var leases = []Object{
	{Kind: "Lease", Namespace: ControllerNamespace, Name: "network-controller"},
	{Kind: "Lease", Namespace: metav1.NamespaceDefault, Name: "network-controller"},
}

// controller says that no controller runs; it is empty if one does, or if that is unknown.
func (w *walk) controller() []Link {
	if l, _, _ := Controller(w.ctx, w.Cluster, w.now); l != nil {
		return []Link{*l}
	}
	return nil
}

// Controller says that no controller runs; the Link is nil if one does, or if the user may not know (ask.Hidden). With
// ask.Absent there is no Lease. holder is the identity of the one that runs: its host, "_" and a UID.
func Controller(ctx context.Context, c *ask.Cluster, now time.Time) (last *Link, holder string, is ask.Presence) {
	for _, of := range leases {
		lease, is := ask.Get(ctx, c, of, c.Kubernetes.CoordinationV1().Leases(of.Namespace).Get)
		switch is {
		case ask.Hidden:
			return nil, "", is
		case ask.Absent:
			continue
		}
		silent := silence(lease, now)
		if silent == 0 {
			return nil, *lease.Spec.HolderIdentity, is // it is not silent, so there is one
		}
		found := Link{Object: of, Reason: noController, Message: fmt.Sprintf(
			"No controller has renewed the Lease for %s.", roughly(silent))}
		if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
			found.Message = "No controller holds the Lease: the last one was stopped."
		}
		if last == nil {
			last = &found
		}
	}
	if last == nil {
		last = &Link{Object: leases[0], Reason: noController,
			Message: "There is no Lease of that name: no controller has run, or it runs with --leader-elect=false, as that of " +
				"make run does."}
		return last, "", ask.Absent
	}
	return last, "", ask.There
}

// silence is how long a Lease has been expired; 0 if it holds.
func silence(lease *coordinationv1.Lease, now time.Time) time.Duration {
	spec := lease.Spec
	if spec.HolderIdentity == nil || *spec.HolderIdentity == "" || spec.RenewTime == nil {
		return max(1, now.Sub(lease.CreationTimestamp.Time))
	}
	allowed := 15 * time.Second
	if spec.LeaseDurationSeconds != nil {
		allowed = time.Duration(*spec.LeaseDurationSeconds) * time.Second
	}
	if silent := now.Sub(spec.RenewTime.Time); silent > 2*allowed { // twice, for clocks that differ
		return silent
	}
	return 0
}

// warnOfSilence warns that the conditions of a chain are old, if no controller runs.
func (w *walk) warnOfSilence(chain []Link) {
	if slices.ContainsFunc(chain, func(l Link) bool { return l.Reason == noController || l.Reason == notSeen }) {
		return
	}
	notes := w.Notes
	// If there is no Lease, the controller that wrote the conditions elects no leader, and may still run.
	if l, _, is := Controller(w.ctx, w.Cluster, w.now); l != nil && is == ask.There {
		l.Message += " What the objects say may be old."
		w.warn(*l)
	}
	w.Notes = notes // who may not read the Lease can do nothing about it
}

// roughly rounds a duration for people.
func roughly(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

func networkObject(name types.NamespacedName) Object {
	return Object{Kind: KindNetwork, Namespace: name.Namespace, Name: name.Name}
}
