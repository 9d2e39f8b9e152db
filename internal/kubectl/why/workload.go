package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// deployment explains a Deployment. healthy is the summary if the chain is empty.
func (w *walk) deployment(d *appsv1.Deployment) (chain []Link, healthy string) {
	of := ask.New(KindDeployment, d.Namespace, d.Name)
	if !w.first(of) {
		return nil, ""
	}
	declared, declares := d.Spec.Template.Annotations[selection.Annotation]
	ports := w.portsIn(d.Namespace, func(p *cloudteamv1.NetworkPort) bool {
		return controller.Controls(d, appsv1.SchemeGroupVersion.WithKind(KindDeployment).GroupKind(), p)
	})
	for _, c := range d.Status.Conditions {
		if c.Type == cloudteamv1.ConditionNetworksReady && c.Status != corev1.ConditionTrue {
			l := link(of, metav1.Condition{Type: "NetworksReady", Status: metav1.ConditionStatus(c.Status), Reason: c.Reason,
				Message: c.Message, LastTransitionTime: c.LastTransitionTime})
			return append([]Link{l}, w.lacking(d.Namespace, declared, c.Reason, c.Message, ports)...), ""
		}
	}
	if !declares && len(ports) == 0 {
		return nil, fmt.Sprintf("Nothing is wrong: the Pod template declares no networks (annotation %s).",
			selection.Annotation)
	}
	below := w.firstFailing("", ports)
	if len(ports) == 0 { // then its networks say why
		below = w.lacking(d.Namespace, declared, "", "", ports)
	}
	if len(below) > 0 {
		return append([]Link{{Object: of, Reason: cloudteamv1.ReasonPortsNotReady,
			Message: "Not all of its ports are Ready."}}, below...), ""
	}
	if below := w.podsOf(d); len(below) > 0 {
		return append([]Link{{Object: of, Reason: cloudteamv1.ReasonPortsNotReady,
			Message: "Not all of its Pods have their networks."}}, below...), ""
	}
	return nil, fmt.Sprintf("Nothing is wrong: all %d ports of the Deployment are Ready.", len(ports))
}

// podsOf explains the first Pod of a Deployment with a problem.
func (w *walk) podsOf(d *appsv1.Deployment) []Link {
	selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err != nil {
		return nil
	}
	pods, _ := w.podsWith(d.Namespace, selector)
	return w.firstOf(pods)
}

// firstOf explains the first of some Pods with a problem.
func (w *walk) firstOf(pods []corev1.Pod) []Link {
	for i := range pods {
		if chain, _ := w.pod(&pods[i]); len(chain) > 0 {
			return chain
		}
	}
	return nil
}

// ownerOfPods explains an owner of Pods by the first of them with a problem.
func (w *walk) ownerOfPods(of Object, kind schema.GroupKind) (chain []Link, healthy string, err error) {
	pods, known := w.podsWith(of.Namespace, labels.Everything())
	if !known {
		return nil, "", fmt.Errorf("%s is explained by its Pods: ask for the right to list these", of)
	}
	pods = slices.DeleteFunc(pods, func(p corev1.Pod) bool {
		owner := controller.OwnerOf(&p, kind)
		return owner == nil || owner.Name != of.Name
	})
	if len(pods) == 0 {
		return nil, "", fmt.Errorf("%s has no Pods: check the name, and the namespace (-n)", of)
	}
	if below := w.firstOf(pods); len(below) > 0 {
		return append([]Link{{Object: of, Reason: cloudteamv1.ReasonPortsNotReady,
			Message: "Not all of its Pods have their networks."}}, below...), "", nil
	}
	return nil, fmt.Sprintf("Nothing is wrong: each of its %d Pods has its networks, or declares none.", len(pods)), nil
}

// podsWith are the Pods of a namespace that a selector matches; known is false if they cannot be read.
func (w *walk) podsWith(namespace string, selector labels.Selector) (pods []corev1.Pod, known bool) {
	list, is := ask.List(w.ctx, w.Cluster, Object{Kind: "Pods", Name: "of namespace " + namespace},
		w.Kubernetes.CoreV1().Pods(namespace).List, metav1.ListOptions{LabelSelector: selector.String()})
	if is != ask.There {
		return nil, false
	}
	return list.Items, true
}

// pod explains a Pod. healthy is the summary if the chain is empty.
func (w *walk) pod(p *corev1.Pod) (chain []Link, healthy string) {
	of := ask.New(KindPod, p.Namespace, p.Name)
	if !w.first(of) {
		return nil, ""
	}
	declared, declares := p.Annotations[selection.Annotation]
	allocated := p.Annotations[cloudteamv1.AnnotationAllocations]
	switch {
	case !declares && allocated == "":
		return nil, fmt.Sprintf("Nothing is wrong: the Pod declares no networks (annotation %s).", selection.Annotation)
	case p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed:
		return nil, fmt.Sprintf("Nothing is wrong: the Pod has ended (%s) and needs no networks.", p.Status.Phase)
	}
	ports := w.portsIn(p.Namespace, func(port *cloudteamv1.NetworkPort) bool {
		if slot, ok := consumer.SlotOf(port); ok && isIn(p, slot) {
			return true
		}
		bound := port.Status.BoundTo
		return bound != nil && bound.UID == p.UID || controller.Controls(p, corev1.SchemeGroupVersion.WithKind(KindPod).
			GroupKind(), port)
	})
	if gates := othersGates(p); allocated == "" && gates != "" {
		w.warnings = append(w.warnings, "Beside its ports, the Pod waits for scheduling gates of others: "+gates+".")
	}
	if c := consumer.PodCondition(p, cloudteamv1.ConditionNetworksReady); c != nil && c.Status == corev1.ConditionFalse {
		l := link(of, metav1.Condition{Type: "NetworksReady", Status: metav1.ConditionFalse, Reason: c.Reason,
			Message: c.Message, LastTransitionTime: c.LastTransitionTime})
		return append([]Link{l}, w.withoutPorts(p, declared, c.Reason, c.Message, ports)...), ""
	}
	if allocated == "" {
		l := Link{Object: of, Reason: cloudteamv1.ReasonPortsNotReady, Message: "It waits for its ports."}
		if p.Spec.NodeName != "" {
			l.Reason, l.Message = cloudteamv1.ReasonSchedulingGateMissing, "It was scheduled before its ports existed."
		}
		l = l.since(p.CreationTimestamp)
		below := w.withoutPorts(p, declared, l.Reason, "", ports)
		if len(below) == 0 {
			l.Reason = waitsForPort
			below = w.controller()
		}
		return append([]Link{l}, below...), ""
	}
	if below := w.firstFailing("", ports); len(below) > 0 {
		return append([]Link{{Object: of, Reason: cloudteamv1.ReasonPortsFailed,
			Message: "It has its addresses, and one of its ports has a problem."}}, below...), ""
	}
	if l := w.starting(p); len(l) > 0 {
		return l, ""
	}
	w.warnOfNode(p, ports)
	return nil, "Nothing is wrong: the Pod has its networks" + addressesOf(p) + "."
}

// isIn reports whether a Pod is one of a slot, whose ports it waits for.
func isIn(p *corev1.Pod, slot consumer.Slot) bool {
	if machine, ok := consumer.MachineOf(p); ok {
		return machine == slot
	}
	return slot.Key() == cache.MetaObjectToName(p)
}

// withoutPorts explains why a Pod has no ports: by its own ones, by its Deployment, or by its namespace.
func (w *walk) withoutPorts(
	p *corev1.Pod, declared, reason, message string, ports []*cloudteamv1.NetworkPort,
) []Link {
	if reason == cloudteamv1.ReasonSchedulingGateMissing {
		return w.gateOf(p)
	}
	if below := w.lacking(p.Namespace, declared, reason, message, ports); len(below) > 0 {
		return below
	}
	if d := w.deploymentOf(p); d != nil && aboutPorts(reason) {
		chain, _ := w.deployment(d)
		return chain
	}
	return nil
}

// aboutPorts reports whether a reason is about ports, and not about what the Pod declares.
func aboutPorts(reason string) bool {
	return reason != cloudteamv1.ReasonInvalidNetworks && reason != cloudteamv1.ReasonReconcileFailed
}

// lacking explains why not all ports are there, by the ports and by the declared networks. reason is that of a
// condition, or empty.
func (w *walk) lacking(namespace, declared, reason, message string, ports []*cloudteamv1.NetworkPort) []Link {
	if !aboutPorts(reason) || reason == cloudteamv1.ReasonPortLimitReached {
		return nil
	}
	if below := w.firstFailing(message, ports); len(below) > 0 {
		return below
	}
	selected, err := selection.Parse(declared, namespace)
	if err != nil {
		return nil
	}
	missing := reason == cloudteamv1.ReasonNetworkNotFound || reason == cloudteamv1.ReasonNamespaceNotAllowed
	for _, s := range selected {
		name := types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
		if below := w.networkFor(name, namespace, missing); len(below) > 0 {
			return below
		}
	}
	return nil
}

// firstFailing explains one of several ports: the one that a message names, or the first.
func (w *walk) firstFailing(message string, ports []*cloudteamv1.NetworkPort) (chain []Link) {
	others := 0
	for _, port := range slices.SortedStableFunc(slices.Values(ports), func(a, b *cloudteamv1.NetworkPort) int {
		named := func(p *cloudteamv1.NetworkPort) int { return strings.Index(message, fmt.Sprintf("%q", p.Name)) }
		return cmp.Compare(named(b), named(a))
	}) {
		if len(chain) == 0 {
			chain = w.port(port)
		} else if ready := meta.FindStatusCondition(port.Status.Conditions, cloudteamv1.ConditionReady); ready == nil ||
			ready.Status != metav1.ConditionTrue {
			others++
		}
	}
	if others > 0 {
		w.warnings = append(w.warnings, fmt.Sprintf("%d more NetworkPorts are not Ready.", others))
	}
	return chain
}

// portsIn are the NetworkPorts of a namespace that match, by name.
func (w *walk) portsIn(namespace string, match func(*cloudteamv1.NetworkPort) bool) (ports []*cloudteamv1.NetworkPort) {
	ports = slices.DeleteFunc(within[*cloudteamv1.NetworkPort](w, KindNetworkPort, namespace),
		func(p *cloudteamv1.NetworkPort) bool { return !match(p) })
	slices.SortFunc(ports, func(a, b *cloudteamv1.NetworkPort) int { return cmp.Compare(a.Name, b.Name) })
	return ports
}

// deploymentOf is the Deployment of a Pod; nil if it has none, or if that is unknown.
func (w *walk) deploymentOf(p *corev1.Pod) *appsv1.Deployment {
	apps := appsv1.SchemeGroupVersion
	owner := controller.OwnerOf(p, apps.WithKind("ReplicaSet").GroupKind())
	if owner == nil {
		return nil
	}
	set, is := ask.Get(w.ctx, w.Cluster, ask.New("ReplicaSet", p.Namespace, owner.Name),
		w.Kubernetes.AppsV1().ReplicaSets(p.Namespace).Get)
	if is != ask.There {
		return nil
	}
	if owner = controller.OwnerOf(set, apps.WithKind(KindDeployment).GroupKind()); owner == nil {
		return nil
	}
	d, is := ask.Get(w.ctx, w.Cluster, ask.New(KindDeployment, p.Namespace, owner.Name),
		w.Kubernetes.AppsV1().Deployments(p.Namespace).Get)
	if is != ask.There {
		return nil
	}
	return d
}

// gateOf explains why a Pod did not wait for its ports.
func (w *walk) gateOf(p *corev1.Pod) []Link {
	of := Object{Kind: "Namespace", Name: p.Namespace}
	namespace, is := ask.Get(w.ctx, w.Cluster, of, w.Kubernetes.CoreV1().Namespaces().Get)
	switch {
	case is != ask.There:
		return nil
	case namespace.Labels[cloudteamv1.LabelNetworks] != cloudteamv1.LabelNetworksEnabled:
		return []Link{{Object: of, Reason: noLabel, Message: fmt.Sprintf(
			"It lacks the label %s=%s, so the admission policies set no gate on its Pods.", cloudteamv1.LabelNetworks,
			cloudteamv1.LabelNetworksEnabled)}}
	}
	return []Link{{Object: of, Reason: noPolicy, Message: "It has the label, and the Pod got no scheduling gate: it is " +
		"older than the label or the admission policies, or was created with spec.nodeName."}}
}

// othersGates are the names of a Pod's scheduling gates that are not this controller's.
func othersGates(p *corev1.Pod) string {
	var names []string
	for _, gate := range p.Spec.SchedulingGates {
		if gate.Name != cloudteamv1.SchedulingGate {
			names = append(names, gate.Name)
		}
	}
	return strings.Join(names, ", ")
}

// starting explains why a Pod that has its ports does not run.
func (w *walk) starting(p *corev1.Pod) []Link {
	of := ask.New(KindPod, p.Namespace, p.Name)
	if gates := othersGates(p); gates != "" {
		return []Link{{Object: of, Reason: otherGate, Message: "It has its ports, and is not scheduled before others take " +
			"off their scheduling gates: " + gates + "."}}
	}
	if c := consumer.PodCondition(p, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse {
		l := Link{Object: of, Condition: "PodScheduled=False", Reason: unscheduled, Message: c.Message}
		return []Link{l.since(c.LastTransitionTime)}
	}
	if p.Status.Phase != corev1.PodPending || p.Spec.NodeName == "" {
		return nil
	}
	if message := w.sandboxFailure(p); message != "" {
		chain := []Link{{Object: of, Reason: sandbox, Message: message}}
		switch {
		case strings.Contains(message, "agent.sock"):
			chain = append(chain, Link{Object: Object{Kind: "Node", Name: p.Spec.NodeName}, Reason: noAgent,
				Message: "No agent answers the plugin there."})
		case strings.Contains(message, "is prepared for node"):
			chain = append(chain, w.dataplaneOf(p.Spec.NodeName)...)
		}
		return chain
	}
	l := Link{Object: of, Reason: notStarted, Message: "It has its ports and a node, and its containers have not started."}
	return []Link{l.since(p.CreationTimestamp)}
}

// dataplaneOf says that a node has no data plane; it is empty if it has one, or if that is unknown.
func (w *walk) dataplaneOf(name string) []Link {
	n, is := w.node(name)
	if is != ask.There || n.Annotations[cloudteamv1.AnnotationDataplane] != "" {
		return nil
	}
	return []Link{{Object: Object{Kind: "Node", Name: name}, Reason: noDataplane,
		Message: "It has no data plane: no agent has written its mode."}}
}

// warnOfNode warns that nothing attaches the ports of a Pod that runs.
func (w *walk) warnOfNode(p *corev1.Pod, ports []*cloudteamv1.NetworkPort) {
	attached := slices.ContainsFunc(ports, func(p *cloudteamv1.NetworkPort) bool { return p.Status.Attachment != nil })
	if attached || p.Spec.NodeName == "" {
		return
	}
	notes := w.Notes
	for _, l := range w.dataplaneOf(p.Spec.NodeName) {
		l.Message += " Unless another plugin attaches the interfaces, no packets reach the Pod."
		w.warn(l)
	}
	w.Notes = notes // most users may not read Nodes, and this is a warning only
}

// sandboxFailure is the last message of the kubelet about the Pod's interfaces; empty if there is none.
func (w *walk) sandboxFailure(p *corev1.Pod) string {
	return cmp.Or(w.lastEvent(KindPod, p, "FailedCreatePodSandBox"), &corev1.Event{}).Message
}

// lastEvent is the last Event of an object that has one of the reasons; nil if there is none, or if that is unknown.
func (w *walk) lastEvent(kind string, of metav1.Object, reasons ...string) (last *corev1.Event) {
	about := fields.OneTermEqualSelector("involvedObject.uid", string(of.GetUID()))
	list, is := ask.List(w.ctx, w.Cluster, Object{Kind: "Events", Name: "of " + kind + " " + of.GetName()},
		w.Kubernetes.CoreV1().Events(of.GetNamespace()).List, metav1.ListOptions{FieldSelector: about.String()})
	if is != ask.There {
		return nil
	}
	for i := range list.Items {
		e := &list.Items[i]
		if e.InvolvedObject.UID == of.GetUID() && slices.Contains(reasons, e.Reason) &&
			(last == nil || !e.LastTimestamp.Before(&last.LastTimestamp)) {
			last = e
		}
	}
	return last
}

// addressesOf lists what a Pod got, by its annotation.
func addressesOf(p *corev1.Pod) string {
	all, err := consumer.Allocations(p)
	if err != nil || len(all) == 0 {
		return ""
	}
	var texts []string
	for _, a := range all {
		texts = append(texts, strings.Join(a.IPs, ", ")+" on "+a.Name)
	}
	return ": " + strings.Join(texts, "; ")
}
