package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"cloudteam.ztgame.com/network-controller/internal/class"
	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/kinds"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/tree"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// network explains a Network; the chain is empty if nothing is wrong.
func (w *walk) network(n *cloudteamv1.Network) []Link {
	return w.ours(n, func(l Link) []Link {
		switch l.Reason {
		case cloudteamv1.ReasonInUse:
			return w.usersOf(n, l.Message)
		case cloudteamv1.ReasonAlreadyOwned:
			return w.ownerOf(l.Message)
		}
		return w.common(n, l)
	}, cloudteamv1.ConditionAddressesLow, cloudteamv1.ConditionClassViolated)
}

// classOf shows the class of an object with a className.
func (w *walk) classOf(className string) []Link {
	of := Object{Kind: KindNetworkClass, Name: className}
	all, is := w.allClasses(cmp.Or(of.Name, "(all)"))
	if is != ask.There {
		return nil
	}
	var names []string
	for _, c := range all {
		names = append(names, c.Name)
	}
	if of.Name == "" {
		found := class.Default(all)
		if found == nil {
			return nil // the object's message says that none is the default, or the rules are built in
		}
		of.Name = found.Name
	}
	at := slices.Index(names, of.Name)
	if at < 0 {
		return []Link{{Object: of, Reason: notFound, Message: "There is no such class. There are: " + orNone(names) + "."}}
	}
	return []Link{{Object: of, Reason: classSays, Message: whatAllows(all[at], nil)}}
}

func (w *walk) allClasses(name string) (all []*cloudteamv1.NetworkClass, is ask.Presence) {
	list, is := ask.List(w.ctx, w.Cluster, Object{Kind: KindNetworkClass, Name: name},
		w.Networks.CloudteamV1().NetworkClasses().List, metav1.ListOptions{})
	for i := 0; is == ask.There && i < len(list.Items); i++ {
		all = append(all, &list.Items[i])
	}
	return all, is
}

// whatAllows says in short what objects of a class may do. u is what is known of its use; nil for nothing.
func whatAllows(c *cloudteamv1.NetworkClass, u *use) string {
	var fields []string
	for _, field := range c.Spec.AllowedFields {
		fields = append(fields, string(field))
	}
	says := []string{fmt.Sprintf("It allows the fields: %s; the ranges: %s.", orNone(fields),
		cmp.Or(strings.Join(c.Spec.AllowedRanges, ", "), "all private ones"))}
	if c.Spec.NamespaceSelector != nil {
		says = append(says, "It is for namespaces with "+metav1.FormatLabelSelector(c.Spec.NamespaceSelector)+
			u.namespaces()+".")
	}
	if limits := c.Spec.Limits; limits != nil {
		for _, limit := range []struct {
			what string
			is   *int32
		}{
			{kinds.Network + ofNamespace, limits.NetworksPerNamespace}, {onNetwork, limits.PortsPerNetwork},
			{ofDeployment, limits.PortsPerDeployment},
			{kinds.SecurityGroup + ofNamespace, limits.SecurityGroupsPerNamespace},
			{kinds.FloatingIP + ofNamespace, limits.FloatingIPsPerNamespace},
		} {
			if limit.is != nil {
				says = append(says, fmt.Sprintf("At most %d %s%s.", *limit.is, limit.what, u.most(limit.what)))
			}
		}
	}
	return strings.Join(says, " ")
}

// What the limits of a class are about; before ofNamespace comes a kind.
const (
	ofNamespace  = "s in a namespace"
	onNetwork    = "ports on a Network"
	ofDeployment = "ports of a Deployment"
)

func orNone(words []string) string { return cmp.Or(strings.Join(words, ", "), "none") }

// credentialsOf shows the Secret of an object's credentials, by its spec.cloud and its status; it is empty for the
// controller's own.
func credentialsOf(
	obj metav1.Object, cloud *cloudteamv1.CloudReference, status *cloudteamv1.ResourceStatus,
) []Link {
	var secret Object
	entry := ""
	switch from := status.Credentials; {
	case cloud != nil:
		secret, entry = ask.New("Secret", obj.GetNamespace(), cloud.SecretName), cloud.Name
	case from != nil:
		secret, entry = ask.New("Secret", from.Namespace, from.SecretName), from.Name
	default:
		return nil
	}
	return []Link{secretLink(secret, entry)}
}

func secretLink(secret Object, entry string) Link {
	message := "The credentials belong into its key clouds.yaml."
	if entry != "" {
		message = fmt.Sprintf("The credentials belong into its key clouds.yaml, entry %q.", entry)
	}
	return Link{Object: secret, Reason: secretAt, Message: message}
}

// ownerOf shows the Network whose marker a message has. It is empty if that Network is gone, or another cluster's, or
// if the user may not see it.
func (w *walk) ownerOf(message string) []Link {
	for _, n := range within[*cloudteamv1.Network](w, KindNetwork, metav1.NamespaceAll) {
		if n.UID != "" && strings.Contains(message, "/"+string(n.UID)) {
			return []Link{{Object: ask.Of(n), Reason: owns, Message: "It owns the network, which another Network imports."}}
		}
	}
	return nil
}

// within gives the objects of a kind, of the type T, in a namespace, or all for "", that the user may see.
func within[T kinds.Object](w *walk, kind, namespace string) []T {
	of, _ := kinds.Of(kind)
	all, _ := ask.Objects(w.ctx, w.Cluster, of, namespace)
	return ask.Known[T](all)
}

// usersOf shows a port that keeps a Network, or a part of it. Without a deletion only those count that the message
// names. One that a Pod uses comes first, because that one does not go by itself.
func (w *walk) usersOf(n *cloudteamv1.Network, message string) []Link {
	if n.DeletionTimestamp == nil {
		return w.namedUser(n, message)
	}
	ports := w.portsOn(n)
	if len(ports) == 0 {
		return w.namedUser(n, message)
	}
	slices.SortStableFunc(ports, func(a, b *cloudteamv1.NetworkPort) int {
		bound := func(p *cloudteamv1.NetworkPort) int {
			if p.Status.BoundTo != nil {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(bound(a), bound(b)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	port := ports[0]
	if len(ports) > 1 {
		w.warnings = append(w.warnings, fmt.Sprintf("%d more NetworkPorts are on the Network.", len(ports)-1))
	}
	return onNetworkOf(port)
}

// onNetworkOf shows a port that keeps its Network, and what uses it.
func onNetworkOf(p *cloudteamv1.NetworkPort) []Link {
	return append([]Link{{Object: ask.Of(p), Reason: inUseBy, Message: "Its port is on the network."}}, userOf(p)...)
}

// namedUser shows the port or FloatingIP that a message about a part of a Network names: by its id or that of its
// floating IP, as the controller names what is in the way. The name of a port in Neutron proves nothing, because
// anybody may choose it. Two external networks may have the same addresses. A floating IP may be that of a port on
// another Network behind the same router.
func (w *walk) namedUser(n *cloudteamv1.Network, message string) []Link {
	for _, p := range tree.PortsOf(w.ctx, w.Cluster, n.Namespace) {
		if f := p.Status.FloatingIP; f != nil && names(message, f.ID) {
			return []Link{{Object: ask.Of(p), Reason: hasFloatingIP,
				Message: "Its floating IP " + f.Address + " needs the router."}}
		}
		if names(message, p.Status.PortID) {
			return onNetworkOf(p)
		}
	}
	if !strings.Contains(message, plan.FloatingIPResource) {
		return nil
	}
	for _, f := range w.allFloatingIPs(n.Namespace) {
		if names(message, f.Status.FloatingIPID) {
			return []Link{{Object: ask.Of(f), Reason: hasFloatingIP,
				Message: "Its address " + f.Status.Address + " needs the router."}}
		}
	}
	return nil
}

// names reports whether a text names an id, and not a longer one that contains it.
func names(text, what string) bool {
	inside := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(".:-_", r) }
	return what != "" && slices.ContainsFunc(strings.FieldsFunc(text, func(r rune) bool { return !inside(r) }),
		func(word string) bool { return strings.TrimRight(word, ".:") == what })
}

// userOf shows what a port is bound to.
func userOf(p *cloudteamv1.NetworkPort) []Link {
	bound := p.Status.BoundTo
	if bound == nil {
		return nil
	}
	return []Link{{Object: ask.New(bound.Kind, p.Namespace, bound.Name), Reason: inUseBy, Message: "It uses the port."}}
}

// portsOn are the NetworkPorts on a Network that the user may see.
func (w *walk) portsOn(n *cloudteamv1.Network) []*cloudteamv1.NetworkPort {
	return slices.DeleteFunc(tree.PortsOf(w.ctx, w.Cluster, n.Namespace), func(p *cloudteamv1.NetworkPort) bool {
		return p.Network() != types.NamespacedName{Namespace: n.Namespace, Name: n.Name}
	})
}

// networkFor explains the Network that objects of a namespace want to use. missing says whether one that does not exist
// is a problem: a Pod's network may also be Multus' alone.
func (w *walk) networkFor(name types.NamespacedName, namespace string, missing bool) []Link {
	of := networkObject(name)
	n, is := read[*cloudteamv1.Network](w, of)
	switch {
	case is == ask.Hidden, is == ask.Absent && !missing:
		return nil
	case is == ask.Absent:
		return []Link{{Object: of, Reason: notFound, Message: "There is no such Network."}}
	case !controller.Allows(n, namespace):
		return []Link{{Object: of, Reason: notAllowed, Message: fmt.Sprintf(
			"spec.allowedNamespaces does not list %s. It lists: %s.", namespace, orNone(n.Spec.AllowedNamespaces))}}
	case n.DeletionTimestamp != nil && controller.Serves(n):
		return []Link{beingDeleted(of, n)}
	case controller.Serves(n) && !w.stale(n):
		w.network(n) // for its warnings
		return nil
	}
	return w.network(n)
}

// stale reports whether the controller has not seen a Network's last change.
func (w *walk) stale(n *cloudteamv1.Network) bool { return n.Status.ObservedGeneration < n.Generation }
