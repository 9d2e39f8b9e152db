package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/declare"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/tree"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// adviceForPorts has what to do about a NetworkPort where that differs: its own spec asks for what the class forbids.
var adviceForPorts = map[string]advice{cloudteamv1.ReasonForbiddenByClass: run(edit, classes)}

// port explains a NetworkPort; the chain is empty if nothing is wrong.
func (w *walk) port(p *cloudteamv1.NetworkPort) []Link {
	of := ask.Of(p)
	if w.seen[of] {
		return nil
	}
	chain := w.ours(p, func(l Link) []Link {
		switch l.Reason {
		case notSeen:
			return orElse(w.networkFor(p.Network(), p.Namespace, true), w.controller)
		case cloudteamv1.ReasonNetworkNotReady, cloudteamv1.ReasonNamespaceNotAllowed:
			return w.networkFor(p.Network(), p.Namespace, true)
		case cloudteamv1.ReasonAddressInUse:
			if !floats(p) {
				return w.holderOf(p)
			}
			l := Link{Object: of, Reason: outsideTaken, Message: "The port exists. Somebody gave its address a floating IP of " +
				"external network " + p.Spec.FloatingIP.ExternalNetwork + "."}
			return append([]Link{l}, w.floatingTo(p, p.UID)...)
		case cloudteamv1.ReasonAddressesExhausted:
			if floats(p) {
				return []Link{{Object: of, Reason: outsideFull, Message: "The port exists. Its floating IP needs a free address " +
					"of external network " + p.Spec.FloatingIP.ExternalNetwork + "."}}
			}
			if n, is := w.networkOf(p); is == ask.There {
				return fullSubnets(n, p, w.portsOn(n))
			}
		case cloudteamv1.ReasonRejected:
			if n, is := w.networkOf(p); is == ask.There && floats(p) && names(l.Message, noGateway) {
				return []Link{routerOf(n, p.Spec.FloatingIP.ExternalNetwork)}
			}
		case cloudteamv1.ReasonForbiddenByClass, cloudteamv1.ReasonClassLimitReached, cloudteamv1.ReasonCredentialsRejected,
			cloudteamv1.ReasonCredentialsUnavailable, cloudteamv1.ReasonCloudMismatch:
			var chain []Link
			if l.Reason == cloudteamv1.ReasonForbiddenByClass && p.Spec.FloatingIP != nil {
				chain = placedOn(p)
			}
			if n, is := w.networkOf(p); is == ask.There { // it has the port's class and credentials
				chain = append(chain, w.common(n, l)...)
			}
			return chain
		case cloudteamv1.ReasonSecurityGroupNotReady:
			return w.groupsOf(p)
		case cloudteamv1.ReasonConflict:
			return w.pauseOf(p)
		case cloudteamv1.ReasonInUse:
			return userOf(p)
		}
		return nil
	})
	return orElse(chain, func() []Link { return w.attachment(of, p) })
}

// orElse gives the first chain, or the other one if that is empty.
func orElse(chain []Link, other func() []Link) []Link {
	if len(chain) > 0 {
		return chain
	}
	return other()
}

// floats reports whether a port exists, so that what is missing is its floating IP.
func floats(p *cloudteamv1.NetworkPort) bool {
	return p.Spec.FloatingIP != nil && p.Status.PortID != ""
}

// noGateway is Neutron's name of the error that no router connects a port to the floating IP's external network. The
// controller's message has it.
const noGateway = "ExternalGatewayForFloatingIPNotFound"

// routerOf shows where the router of a Network leads. A floating IP needs it to lead to the external network outside.
func routerOf(n *cloudteamv1.Network, outside string) Link {
	has := "It has no spec.router."
	switch r := n.Spec.Router; {
	case r == nil:
	case r.Existing != "":
		has = "Its router is the existing " + r.Existing + "."
	case r.ExternalNetwork == "":
		has = "Its spec.router has no externalNetwork."
	default:
		has = "Its router has a gateway on external network " + r.ExternalNetwork + "."
	}
	return Link{Object: ask.Of(n), Reason: noRouter,
		Message: has + " The floating IP needs a router to external network " + outside + "."}
}

func portWell(p *cloudteamv1.NetworkPort) string {
	var addresses []string
	for _, a := range p.Status.Addresses {
		addresses = append(addresses, a.Address)
	}
	has := cmp.Or(strings.Join(addresses, ", "), "no address")
	if f := p.Status.FloatingIP; f != nil {
		has += ", and the floating IP " + f.Address
	}
	return fmt.Sprintf("Nothing is wrong: the port exists and has %s.", has)
}

// pauseOf shows the pause of a port's Network: what others deleted in Neutron is not made again before it ends.
func (w *walk) pauseOf(p *cloudteamv1.NetworkPort) []Link {
	n, is := w.networkOf(p)
	if is != ask.There {
		return nil
	}
	ready := meta.FindStatusCondition(n.Status.Conditions, cloudteamv1.ConditionReady)
	if ready == nil || ready.Reason != cloudteamv1.ReasonPaused {
		return nil
	}
	return []Link{link(networkObject(p.Network()), *ready)}
}

func (w *walk) networkOf(p *cloudteamv1.NetworkPort) (*cloudteamv1.Network, ask.Presence) {
	of := networkObject(p.Network())
	return read[*cloudteamv1.Network](w, of)
}

// fullSubnets shows the subnets of a Network that serve a port, without a free address by the count that "top" shows,
// too. on are the ports on the Network.
func fullSubnets(n *cloudteamv1.Network, p *cloudteamv1.NetworkPort, on []*cloudteamv1.NetworkPort) []Link {
	var counts []string
	lags := false
	serves := declare.Serves(n, p.Namespace, consumer.WorkloadOf(p))
	for _, s := range n.Status.Subnets {
		if (serves(s) || len(p.Spec.Addresses) > 0) && s.UsedAddresses != nil && s.TotalAddresses != nil {
			used := *tree.Used(s, on, nil)
			counts = append(counts, fmt.Sprintf("%s: %d of %d addresses are in use", s.CIDR, used, *s.TotalAddresses))
			lags = lags || used < *s.TotalAddresses
		}
	}
	message := "The number of its addresses in use is unknown."
	if len(counts) > 0 {
		message = strings.Join(counts, "; ") + "."
	}
	if lags {
		message += " That is the last count, and Neutron's answer is newer. Or the port asks for a subnet that is full."
	}
	return []Link{{Object: ask.Of(n), Reason: full, Message: message}}
}

// holderOf shows the NetworkPort that has the address or MAC which another one declares. It is empty if a port has it
// that is no NetworkPort, or that the user may not see.
func (w *walk) holderOf(p *cloudteamv1.NetworkPort) []Link {
	n, is := w.networkOf(p)
	if is != ask.There {
		return nil
	}
	for _, other := range w.portsOn(n) {
		if other.Namespace == p.Namespace && other.Name == p.Name {
			continue
		}
		for _, a := range other.Status.Addresses {
			address, _, _ := strings.Cut(a.Address, "/")
			if slices.Contains(p.Spec.Addresses, address) {
				l := Link{Object: ask.Of(other), Reason: hasAddress, Message: "It has the address " + address + "."}
				return append([]Link{l}, userOf(other)...)
			}
		}
		if p.Spec.MAC != "" && strings.EqualFold(p.Spec.MAC, other.Status.MAC) {
			l := Link{Object: ask.Of(other), Reason: hasAddress, Message: "It has the MAC " + other.Status.MAC + "."}
			return append([]Link{l}, userOf(other)...)
		}
	}
	return nil
}

// attachment explains why packets do not flow.
func (w *walk) attachment(of Object, p *cloudteamv1.NetworkPort) []Link {
	attached := meta.FindStatusCondition(p.Status.Conditions, cloudteamv1.ConditionAttached)
	if attached == nil || attached.Status == metav1.ConditionTrue {
		return nil
	}
	chain := []Link{link(of, *attached)}
	node := ""
	if a := p.Status.Attachment; a != nil {
		node = a.Node
	}
	if node == "" && p.Status.BoundTo != nil {
		pod, is := ask.Get(w.ctx, w.Cluster, ask.New(KindPod, p.Namespace, p.Status.BoundTo.Name),
			w.Kubernetes.CoreV1().Pods(p.Namespace).Get)
		if is == ask.There {
			node = pod.Spec.NodeName
		}
	}
	switch {
	case node == "":
		return chain
	case attached.Reason == cloudteamv1.ReasonBindingFailed:
		return append(chain, w.hostOf(node)...)
	}
	return append(chain, w.agentOn(node)...)
}

// hostOf shows the name that a node says it has in Neutron.
func (w *walk) hostOf(name string) []Link {
	n, is := w.node(name)
	if is != ask.There || n.Annotations[cloudteamv1.AnnotationDataplane] == string(cloudteamv1.AttachmentTrunk) {
		return nil // a trunk has no host
	}
	host := cmp.Or(n.Annotations[cloudteamv1.AnnotationDataplaneHost], name)
	return []Link{{Object: Object{Kind: "Node", Name: name}, Reason: wrongHost,
		Message: fmt.Sprintf("It says that Neutron calls it %q.", host)}}
}

func (w *walk) node(name string) (*corev1.Node, ask.Presence) {
	return ask.Get(w.ctx, w.Cluster, Object{Kind: KindNode, Name: name}, w.Kubernetes.CoreV1().Nodes().Get)
}

// agentNamespace is where config/node installs the agents.
const agentNamespace = "network-agent"

// agentOn says that no agent runs on a node; it is empty if one does, or if that is unknown.
func (w *walk) agentOn(node string) []Link {
	pods, known := w.podsWith(agentNamespace, labels.Everything())
	if !known {
		return nil
	}
	message := "No Pod of network-agent is on the node."
	for _, pod := range pods {
		if pod.Spec.NodeName != node {
			continue
		}
		if c := consumer.PodCondition(&pod, corev1.PodReady); c != nil && c.Status == corev1.ConditionTrue {
			return nil
		}
		message = fmt.Sprintf("The agent, Pod %s/%s, is not Ready.", pod.Namespace, pod.Name)
	}
	return []Link{{Object: Object{Kind: "Node", Name: node}, Reason: noAgent, Message: message}}
}
