package why

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

func (w *walk) getGroup(of Object) (*cloudteamv1.SecurityGroup, error) {
	return w.Networks.CloudteamV1().SecurityGroups(of.Namespace).Get(w.ctx, of.Name, metav1.GetOptions{})
}

// group explains a SecurityGroup; the chain is empty if nothing is wrong.
func (w *walk) group(g *cloudteamv1.SecurityGroup) []Link {
	of := ask.New(KindSecurityGroup, g.Namespace, g.Name)
	if !w.first(of) {
		return nil
	}
	l, reason, bad := w.ready(of, g, &g.Status.ResourceStatus)
	if !bad {
		return nil
	}
	chain := []Link{l}
	switch reason {
	case notSeen:
		return append(chain, w.controller()...)
	case cloudteamv1.ReasonSecurityGroupNotReady:
		return append(chain, w.remoteOf(g)...)
	}
	return chain
}

// remoteOf shows the first SecurityGroup that a rule is about and that is not there, or has a problem of its own.
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

// groupsOf shows the first SecurityGroup of a port that is not there, or has a problem of its own. Its Network may have
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
	g, is := ask.Read(w.Cluster, of, func() (*cloudteamv1.SecurityGroup, error) { return w.getGroup(of) })
	switch {
	case is == ask.Absent:
		return []Link{{Object: of, Reason: notFound, Message: "There is no such SecurityGroup in the namespace."}}
	case is != ask.There:
		return nil
	}
	return w.group(g)
}

func groupWell(g *cloudteamv1.SecurityGroup) string {
	if ready := meta.FindStatusCondition(g.Status.Conditions, cloudteamv1.ConditionReady); ready != nil {
		return fmt.Sprintf("Nothing is wrong: the SecurityGroup is Ready (%s).", ready.Reason)
	}
	return ""
}
