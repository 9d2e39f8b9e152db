package why

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/tree"
	"cloudteam.ztgame.com/network-controller/internal/osc"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// hasGroup: the object puts a port into the SecurityGroup that has to go or to change.
const hasGroup = "HasGroup"

// groupAdvices has what to do about what SecurityGroups bring.
var groupAdvices = map[string]advice{
	cloudteamv1.ReasonSecurityGroupNotReady: run("kubectl get " + fullName(KindSecurityGroup) + " -n {ns}"),
	hasGroup: {
		"Remove the group from spec.securityGroupRefs here. If a Deployment or Pod made the port, remove it from the " +
			"annotation " + cloudteamv1.AnnotationSecurityGroups + " there, or delete the Pod. The SecurityGroup continues by " +
			"itself.",
		[]string{edit}},
}

// adviceForGroups has what to do about a SecurityGroup where that differs.
var adviceForGroups = map[string]advice{
	cloudteamv1.ReasonInUse: run(osc.PortsIn(
		"$(kubectl get {kind} {name} -n {ns} -o jsonpath='{.status.securityGroupID}')")),
}

// group explains a SecurityGroup; the chain is empty if nothing is wrong.
func (w *walk) group(g *cloudteamv1.SecurityGroup) []Link {
	return w.ours(g, func(l Link) []Link {
		switch l.Reason {
		case cloudteamv1.ReasonInUse:
			return w.memberOf(g)
		case cloudteamv1.ReasonSecurityGroupNotReady:
			return w.remoteOf(g)
		}
		return w.common(g, l)
	})
}

// memberOf shows what puts a port into a SecurityGroup: the port's own spec, or that of its Network. It is empty if no
// NetworkPort does, or none that the user may see.
func (w *walk) memberOf(g *cloudteamv1.SecurityGroup) []Link {
	given := map[types.NamespacedName]*cloudteamv1.Network{}
	for _, n := range within[*cloudteamv1.Network](w, KindNetwork, g.Namespace) {
		if slices.Contains(n.Spec.SecurityGroupRefs, g.Name) {
			given[types.NamespacedName{Namespace: n.Namespace, Name: n.Name}] = n
		}
	}
	for _, p := range tree.PortsOf(w.ctx, w.Cluster, g.Namespace) {
		if p.Status.PortID == "" {
			continue
		}
		port := ask.Of(p)
		if p.Namespace == g.Namespace && slices.Contains(p.Spec.SecurityGroupRefs, g.Name) {
			return []Link{{Object: port, Reason: hasGroup, Message: "Its port is in the group."}}
		}
		if n := given[p.Network()]; n != nil && p.TakesGroupsOf(n) {
			return []Link{{Object: ask.Of(n), Reason: hasGroup,
				Message: fmt.Sprintf("It has the group for its ports, such as that of %s.", port)}}
		}
	}
	return nil
}

// remoteOf shows the first SecurityGroup that a rule is about and that is not there, or has its own problem.
func (w *walk) remoteOf(g *cloudteamv1.SecurityGroup) []Link {
	for _, rule := range g.Spec.Rules {
		if rule.RemoteGroup == "" || rule.RemoteGroup == g.Name {
			continue
		}
		if found := w.named(g.Namespace, rule.RemoteGroup); len(found) > 0 {
			return found
		}
	}
	return nil
}

// groupsOf shows the first SecurityGroup of a port that is not there, or has its own problem. Its Network may have
// it for its ports.
func (w *walk) groupsOf(p *cloudteamv1.NetworkPort) []Link {
	namespace, names := p.Namespace, p.Spec.SecurityGroupRefs
	if n, is := w.networkOf(p); is == ask.There && p.TakesGroupsOf(n) {
		namespace, names = n.Namespace, n.Spec.SecurityGroupRefs
	}
	for _, name := range names {
		if found := w.named(namespace, name); len(found) > 0 {
			return found
		}
	}
	return nil
}

// named explains the SecurityGroup of a name; the chain is empty if nothing is wrong.
func (w *walk) named(namespace, name string) []Link {
	of := ask.New(KindSecurityGroup, namespace, name)
	g, is := read[*cloudteamv1.SecurityGroup](w, of)
	switch {
	case is == ask.Absent:
		return []Link{{Object: of, Reason: notFound, Message: "There is no such SecurityGroup in the namespace."}}
	case is != ask.There:
		return nil
	}
	return w.group(g)
}
