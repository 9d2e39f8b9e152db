package why

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"cloudteam.ztgame.com/network-controller/internal/kinds"
	"cloudteam.ztgame.com/network-controller/internal/osc"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// advice is what to do about a cause.
type advice struct {
	remedy   string
	commands []string
}

// run is the advice where the condition's message says what to do: only commands that help with it.
func run(commands ...string) advice { return advice{commands: commands} }

const (
	edit    = "kubectl edit {kind} {name} -n {ns}"
	ports   = "kubectl get networkports -n {ns}"
	classes = "kubectl get networkclasses"
)

// Words for causes that no condition says.
const (
	// notSeen: the controller has not handled the object, or its last change.
	notSeen = "NotSeen"
	// noController: no controller holds the Lease.
	noController = "NoController"
	// notFound: the object does not exist.
	notFound = "NotFound"
	// notAllowed: the Network does not list the namespace.
	notAllowed = "NotAllowed"
	// hasAddress: the object has the address or MAC that another one wants.
	hasAddress = "HasAddress"
	// owns: the object's marker is on what another one wants to import.
	owns = "Owns"
	// full: no address of the subnets is free.
	full = "Full"
	// inUseBy: the object uses what has to go.
	inUseBy = "Uses"
	// deleting: the object is being deleted.
	deleting = "Deleting"
	// noLabel: the namespace has no label, so the policies do not guard it.
	noLabel = "NoLabel"
	// noPolicy: the namespace has the label and the Pod no gate.
	noPolicy = "NoGate"
	// noDataplane: the node does not attach ports.
	noDataplane = "NoDataplane"
	// noAgent: no agent runs on the node.
	noAgent = "NoAgent"
	// wrongHost: what the Node says of itself.
	wrongHost = "DataplaneHost"
	// unscheduled: the scheduler waits.
	unscheduled = "Unscheduled"
	// otherGate: a scheduling gate of others.
	otherGate = "SchedulingGated"
	// sandbox: the container runtime cannot make the Pod's interfaces.
	sandbox = "SandboxFailed"
	// notStarted: the Pod starts, or does not for another reason than its networks.
	notStarted = "NotStarted"
	// secretAt: the credentials are in this Secret.
	secretAt = "Credentials"
	// classSays: what the class allows.
	classSays = "Class"
	// noBackend: a Service selects no Pod that a floating IP could lead to.
	noBackend = "NoBackend"
	// waitsForPort: a Pod whose ports exist and are not bound to it.
	waitsForPort = "WaitsForPort"
)

// advices has what to do about Reasons of the API whose message does not say it, and about the words above, and the
// commands that help. {kind}, {ns} and {name} are those of the object that says it.
var advices = map[string]advice{
	cloudteamv1.ReasonDriftDetected: {
		"Somebody changed it in Neutron, and driftPolicy Report leaves that. Undo the change there, or edit the spec: " +
			"the next edit applies all of it. With driftPolicy Correct the controller undoes such changes.",
		[]string{"kubectl get {kind} {name} -n {ns} -o jsonpath='{.status.drift}'"}},
	cloudteamv1.ReasonPaused: run("kubectl annotate {kind} {name} -n {ns} " + cloudteamv1.AnnotationPaused + "-"),
	cloudteamv1.ReasonImportNotFound: {
		"Compare spec.import.id or spec.import.filter with \"" + osc.Networks + "\" of the same project. The import cannot " +
			"change: delete this Network and create one with the right id.", nil},
	cloudteamv1.ReasonImportAmbiguous: run(osc.Networks),
	cloudteamv1.ReasonImportMismatch:  run("kubectl get {kind} {name} -n {ns} -o jsonpath='{.status.drift}'"),
	cloudteamv1.ReasonProjectMismatch: run(edit),
	cloudteamv1.ReasonInvalidSpec:     run(edit),
	cloudteamv1.ReasonRejected:        run(edit),
	cloudteamv1.ReasonForbidden:       run(edit),
	cloudteamv1.ReasonQuotaExceeded:   run("kubectl network doctor"),
	cloudteamv1.ReasonCloudUnavailable: {
		"Wait, or have the cloud's operator look at Neutron and Keystone. The controller continues by itself.",
		[]string{osc.Networks}},
	cloudteamv1.ReasonCredentialsRejected: {
		"Correct the password, project or domain of the credentials. The controller retries when they change.", nil},
	cloudteamv1.ReasonCloudMismatch:     run("kubectl get {kind} {name} -n {ns} -o jsonpath='{.status.cloud}'"),
	cloudteamv1.ReasonForbiddenByClass:  run(classes),
	cloudteamv1.ReasonClassNotFound:     run(classes),
	cloudteamv1.ReasonClassLimitReached: run(classes, "kubectl get {kinds} -n {ns}"),
	cloudteamv1.ReasonPortNotReady:      run(ports),
	cloudteamv1.ReasonConflict: {
		"Wait a minute. If it stays, find who else changes the network in Neutron at the same time.", nil},
	cloudteamv1.ReasonBlocked: run(osc.SubnetsOf(
		"$(kubectl get {kind} {name} -n {ns} -o jsonpath='{.status.networkID}')")),
	cloudteamv1.ReasonMarkerNotKept: run(osc.CreateProbe, osc.DeleteProbe),
	cloudteamv1.ReasonNotConverged:  run(edit),
	cloudteamv1.ReasonNetworkNotReady: {
		"Make the Network Ready.", []string{"kubectl network why network/NAME -n {ns}"}},
	cloudteamv1.ReasonAddressesExhausted: run(ports),
	cloudteamv1.ReasonAddressesLow:       run(ports),
	cloudteamv1.ReasonAddressInUse:       run(osc.PortsAt("ADDRESS")),
	cloudteamv1.ReasonReconcileFailed: {
		"Read the message: it has the cause. The controller retries with backoff; its log has more.", nil},

	cloudteamv1.ReasonNetworkNotFound: run("kubectl get " + fullName(KindNetwork) + " -A"),
	cloudteamv1.ReasonPortsNotReady: {
		"Wait: ports are being created. If it stays, look at the NetworkPorts.",
		[]string{ports}},
	cloudteamv1.ReasonPortsFailed: {
		"Correct what the message says of the first port. The other ports have most often the same cause.",
		[]string{ports}},
	cloudteamv1.ReasonSchedulingGateMissing: run("kubectl delete pod {name} -n {ns}"),

	cloudteamv1.ReasonWaitingForPlug: {
		"Wait until the Pod's containers start. If it stays, look at the agent of the node.",
		[]string{"kubectl -n network-agent get pods -o wide"}},
	cloudteamv1.ReasonBindingFailed: {
		"See that Neutron knows the node and that its agent there is alive, and that --binding-cloud may bind ports.",
		[]string{osc.Agents}},
	cloudteamv1.ReasonPlugFailed: {
		"See that ovn-controller, or Neutron's agent, runs on the node. The node's agent retries.",
		[]string{"kubectl -n network-agent get pods -o wide"}},

	notSeen: {
		"Wait some seconds. If it stays, look at the controller's log: it runs, and does not handle this object.",
		[]string{"kubectl -n network-controller logs deployment/network-controller"}},
	noController: {
		"Start the controller, or find out why it does not run.",
		[]string{"kubectl -n network-controller get pods"}},
	notFound: {
		"Create it, or correct the name.", []string{"kubectl get {kinds}{where}"}},
	notAllowed: {
		"Add the namespace to spec.allowedNamespaces of the Network.", []string{edit}},
	hasAddress: {
		"Delete this NetworkPort, or declare another address or MAC in the other one.",
		[]string{"kubectl delete {kind} {name} -n {ns}"}},
	owns: {
		"Use this Network in place of the other one: list namespaces in its spec.allowedNamespaces where needed. To move " +
			"the network to the other one, set deletionPolicy Retain here, and delete this one.",
		[]string{"kubectl get {kind} {name} -n {ns} -o yaml"}},
	full: {
		"Declare another subnet in additionalSubnets of the Network, widen its allocationPools if they leave out a part " +
			"of the cidr, or delete Pods and NetworkPorts that nobody needs.",
		[]string{"kubectl get networkports -A", edit}},
	inUseBy: {
		"Delete it. What waits for it continues by itself.", []string{"kubectl delete {kind} {name} -n {ns}"}},
	deleting: {
		"Wait for the end of the deletion, and create it again.", nil},
	noLabel: {
		"Label the namespace, and replace the Pod.",
		[]string{"kubectl label namespace {name} " + cloudteamv1.LabelNetworks + "=" + cloudteamv1.LabelNetworksEnabled}},
	noPolicy: {
		"Replace the Pod. If its successor has no gate either, install the admission policies (kubectl apply -k " +
			"config/admission). Create Pods without spec.nodeName.", nil},
	noDataplane: {
		"Install the node agent and the plugin there (docs/dataplane.md), or attach Pods by another plugin " +
			"(--attachment-plugin).",
		[]string{"kubectl apply -k config/node"}},
	noAgent: {
		"Start the agent on the node.", []string{"kubectl -n network-agent get pods -o wide"}},
	wrongHost: {
		"Look for that name in \"" + osc.Agents + "\". If its agent is not alive, start ovn-controller or " +
			"Neutron's agent on the node. If Neutron has another name for the node, start network-agent with --host.",
		[]string{osc.Agents}},
	unscheduled: {
		"The networks are ready. What the scheduler says is the cause.", []string{"kubectl describe pod {name} -n {ns}"}},
	otherGate: {
		"The networks are ready. Have what set the gate take it off: this controller takes off its own alone.",
		[]string{"kubectl get pod {name} -n {ns} -o jsonpath='{.spec.schedulingGates}'"}},
	sandbox: {
		"Read the message of the container runtime. docs/dataplane.md lists the messages of the plugin.",
		[]string{"kubectl describe pod {name} -n {ns}"}},
	notStarted: {
		"The networks are ready. Look at the Pod's containers.", []string{"kubectl describe pod {name} -n {ns}"}},
	secretAt:  run("kubectl get secret {name} -n {ns}"),
	classSays: run("kubectl get networkclass {name} -o yaml"),
	noBackend: {
		"Correct spec.selector, or the annotation " + cloudteamv1.AnnotationEndpointsSelector + ", or have Pods with these " +
			"labels declare a Network.",
		[]string{"kubectl get {kind} {name} -n {ns} -o jsonpath='{.spec.selector}'",
			"kubectl get pods -n {ns} --show-labels"}},
	waitsForPort: {
		"Wait some seconds. If it stays, see that the controllers \"deployment\" and \"pod\" run (--controllers).",
		[]string{"kubectl -n network-controller get pods"}},
}

// adviceOf has what to do about a link.
func adviceOf(l Link) advice {
	if known, differs := adviceFor[l.Object.Kind][l.Reason]; differs {
		return known
	}
	for _, of := range advicesOf {
		if known, brings := of[l.Reason]; brings {
			return known
		}
	}
	return advices[l.Reason]
}

// addressIn is the first address that a message names, to stand in a command in the place of a word.
func addressIn(message, word string) string {
	for text := range strings.FieldsSeq(message) {
		if a, err := netip.ParseAddr(strings.Trim(text, ".,;:()\"")); err == nil && a.Zone() == "" { // a zone can be any text
			return a.String()
		}
	}
	return word
}

// remedyOf says what to do about the last link of a chain; remedy is empty where the link's message says it. A link
// that only shows where to look has the remedy of the one before.
func remedyOf(chain []Link) (remedy string, commands []string) {
	for _, link := range slices.Backward(chain) {
		of := link.Object
		names := strings.NewReplacer("{kind}", resource(of.Kind, strings.ToLower(of.Kind)),
			"{kinds}", resource(of.Kind, plural(of.Kind)), "{where}", where(of), "{ns}", of.Namespace, "{name}", of.Name)
		known := adviceOf(link)
		remedy = names.Replace(known.remedy)
		for _, command := range known.commands {
			if command = names.Replace(command); link.Writer != nil && command == names.Replace(edit) {
				w := *link.Writer
				command = "kubectl edit " + resource(w.Kind, strings.ToLower(w.Kind)) + " " + w.Name + " -n " + w.Namespace
				remedy = strings.TrimSpace(remedy + " Change " + w.Kind + " " + w.Name + ", by which the controller writes it.")
			}
			commands = append(commands, strings.Replace(command, "ADDRESS", addressIn(link.Message, "ADDRESS"), 1))
		}
		if link.Reason != secretAt && link.Reason != classSays {
			return remedy, commands
		}
	}
	return "", commands
}

// fullName is how a command names a kind of the table. Other products have such kinds, too, and kubectl takes any of
// them for "network".
func fullName(kind string) string {
	known, _ := kinds.Of(kind)
	return known.Resource.Resource + "." + known.Resource.Group
}

// resource is how a command names a kind: by a short name, or by one that no other product's has.
func resource(kind, short string) string {
	if _, ours := kinds.Of(kind); ours && kind != KindNetworkPort {
		return fullName(kind)
	}
	return short
}

// where says where else to look for an object that does not exist. Of another namespace, only a Network is of use.
func where(of Object) string {
	switch {
	case of.Namespace == "":
		return ""
	case of.Kind != KindNetwork:
		return " -n " + of.Namespace
	}
	return " -A"
}

// plural is the resource of a kind.
func plural(kind string) string {
	if kind = strings.ToLower(kind); strings.HasSuffix(kind, "s") {
		return kind + "es"
	}
	return kind + "s"
}

// Commands returns each command of the remedies, about an object. A test runs them.
func Commands(of Object) []string {
	var all []string
	for _, table := range append(slices.Collect(maps.Values(advicesOf)), advices, adviceFor[of.Kind]) {
		for reason := range table {
			_, commands := remedyOf([]Link{{Object: of, Reason: reason}})
			all = append(all, commands...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// RemedyOf says what to do about a Reason that an object's condition has; it is empty where the message says it.
func RemedyOf(of Object, reason string) string {
	remedy, _ := remedyOf([]Link{{Object: of, Reason: reason}})
	return remedy
}
