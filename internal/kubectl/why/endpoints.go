package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// endpoints explains why a Service that asks for endpoints on a Network has none. healthy is the summary if it has.
func (w *walk) endpoints(s *corev1.Service) (chain []Link, healthy string) {
	self := Link{Object: ask.New(KindService, s.Namespace, s.Name), Reason: cloudteamv1.EventEndpointsFailed}
	e, wrong := consumer.EndpointsOf(s)
	if self.Message = wrong; wrong != "" {
		return []Link{self}, ""
	}
	list, is := ask.List(w.ctx, w.Cluster, Object{Kind: "EndpointSlices", Name: "of namespace " + s.Namespace},
		w.Kubernetes.DiscoveryV1().EndpointSlices(s.Namespace).List,
		metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + s.Name})
	if is == ask.There {
		ready := map[string]bool{} // by the names of the Pods
		for _, slice := range list.Items {
			if by := slice.Labels[discoveryv1.LabelManagedBy]; by != consumer.EndpointsManagedBy {
				other := self
				other.Message = fmt.Sprintf("The Service also has EndpointSlice %s of %s, with other addresses: an earlier "+
					"spec.selector left it, or somebody made it. Delete it.", slice.Name, cmp.Or(by, "nobody"))
				w.warn(other)
				continue
			}
			for _, endpoint := range slice.Endpoints {
				if pod := endpoint.TargetRef; pod != nil {
					ready[pod.Name] = ready[pod.Name] || endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready
				}
			}
		}
		n := 0
		for _, is := range ready {
			if is {
				n++
			}
		}
		if len(ready) > 0 {
			return nil, fmt.Sprintf("Nothing is wrong: the Service has %d Pods on Network %s as endpoints, and %d of them are "+
				"ready.", len(ready), e.Network, n)
		}
	}
	network := ask.New(KindNetwork, s.Namespace, e.Network)
	switch n, is := read[*cloudteamv1.Network](w, network); is {
	case ask.Absent:
		self.Message = "Its Network does not exist."
		return []Link{self, {Object: network, Reason: notFound, Message: "There is no such Network."}}, ""
	case ask.There:
		told := w.lastEvent(KindService, s, cloudteamv1.EventEndpointsFailed)
		if told != nil && strings.Contains(told.Message, KindNetworkClass) {
			self.Message = told.Message
			return append([]Link{self.since(told.LastTimestamp)}, w.classOf(n.Spec.ClassName)...), ""
		}
	}
	if pods, known := w.podsWith(s.Namespace, labels.SelectorFromSet(e.Labels)); known {
		pods = slices.DeleteFunc(pods, func(p corev1.Pod) bool { return !consumer.UsesNetworks(&p) || consumer.Ended(&p) })
		if len(pods) == 0 {
			return []Link{{Object: self.Object, Reason: noBackend, Message: "It selects no Pod that declares a Network."}}, ""
		}
		if below := w.firstOf(pods); len(below) > 0 {
			self.Message = "No Pod that it selects has an attached port on the Network."
			return append([]Link{self}, below...), ""
		}
	}
	if told := w.lastEvent(KindService, s, cloudteamv1.EventEndpointsFailed); told != nil {
		self.Message = told.Message
		return []Link{self.since(told.LastTimestamp)}, ""
	}
	l := Link{Object: self.Object, Reason: notSeen, Message: "It has no endpoints yet."}
	return append([]Link{l}, w.controller()...), ""
}
