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
		of := ask.New(KindSecurityGroup, g.Namespace, rule.RemoteGroup)
		other, is := ask.Read(w.Cluster, of, func() (*cloudteamv1.SecurityGroup, error) { return w.getGroup(of) })
		switch is {
		case ask.Absent:
			return []Link{{Object: of, Reason: notFound, Message: "There is no such SecurityGroup in the namespace."}}
		case ask.There:
			if found := w.group(other); len(found) > 0 {
				return found
			}
		}
	}
	return nil
}

func groupWell(g *cloudteamv1.SecurityGroup) string {
	if ready := meta.FindStatusCondition(g.Status.Conditions, cloudteamv1.ConditionReady); ready != nil {
		return fmt.Sprintf("Nothing is wrong: the SecurityGroup is Ready (%s).", ready.Reason)
	}
	return ""
}
