package why

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// service explains the endpoints and the floating IP that a Service asks for. healthy is the summary if the chain is
// empty.
func (w *walk) service(s *corev1.Service) (chain []Link, healthy string) {
	_, asks := s.Annotations[cloudteamv1.AnnotationFloatingIP]
	if consumer.AsksForEndpoints(s) {
		if chain, healthy = w.endpoints(s); len(chain) > 0 || !asks {
			return chain, healthy
		}
	}
	if !asks {
		return nil, fmt.Sprintf("Nothing is wrong: the Service asks for no floating IP (annotation %s) and for no "+
			"endpoints on a Network (%s).", cloudteamv1.AnnotationFloatingIP, cloudteamv1.AnnotationEndpointsNetwork)
	}
	self := Link{Object: ask.New(KindService, s.Namespace, s.Name), Reason: cloudteamv1.EventFloatingIPFailed}
	of := ask.New(KindFloatingIP, s.Namespace, s.Name)
	f, is := read[*cloudteamv1.FloatingIP](w, of)
	switch {
	case is != ask.There:
	case !controller.Controls(s, corev1.SchemeGroupVersion.WithKind(KindService).GroupKind(), f):
		self.Message = "It has no FloatingIP."
		return []Link{self, {Object: of, Reason: notItsOwn, Message: "The Service does not control it."}}, ""
	default:
		self.Message = "Its FloatingIP is not Ready."
		if below := w.floatingIP(f); len(below) > 0 {
			return append([]Link{self}, below...), ""
		}
		if f.Spec.PortName != "" {
			if told := w.toldOf(s); told != nil { // such as of a wrong annotation, which changes nothing
				self.Message = told.Message
				w.warn(self)
			}
			return nil, floatingIPWell(f)
		}
	}
	return w.withoutBackend(s, self), ""
}

// withoutBackend explains why a floating IP is associated with no Pod of a Service: by the Pods that the Service
// selects, or by what the controller told of the Service. Pods come first, because an Event may be older than what it
// tells of.
func (w *walk) withoutBackend(s *corev1.Service, self Link) []Link {
	of := self.Object
	if pods, known := w.podsWith(s.Namespace, labels.SelectorFromSet(s.Spec.Selector)); known {
		pods = slices.DeleteFunc(pods, func(p corev1.Pod) bool {
			return len(s.Spec.Selector) == 0 || !consumer.UsesNetworks(&p) || consumer.Ended(&p)
		})
		if len(pods) == 0 {
			return []Link{{Object: of, Reason: noBackend, Message: "It selects no Pod that declares a Network."}}
		}
		pods = slices.DeleteFunc(pods, func(p corev1.Pod) bool { return consumer.Allocated(&p) })
		if below := w.firstOf(pods); len(below) > 0 {
			self.Message = "No Pod that it selects has a port that a floating IP can be associated with."
			return append([]Link{self}, below...)
		}
	}
	if told := w.toldOf(s); told != nil {
		self.Message = told.Message
		return append([]Link{self.since(told.LastTimestamp)}, w.classFor(s, told)...)
	}
	l := Link{Object: of, Reason: notSeen, Message: "No FloatingIP is associated with a Pod of it yet."}
	return append([]Link{l}, w.controller()...)
}

// classFor names the Network by whose class a Service gets no floating IP, if that is what the controller told.
func (w *walk) classFor(s *corev1.Service, told *corev1.Event) []Link {
	if !strings.Contains(told.Message, KindNetworkClass) { // a policy that refuses the FloatingIP names it, too
		return nil
	}
	pods, _ := w.podsWith(s.Namespace, labels.SelectorFromSet(s.Spec.Selector))
	bound := w.portsIn(s.Namespace, func(p *cloudteamv1.NetworkPort) bool {
		return p.Status.BoundTo != nil && slices.ContainsFunc(pods, func(pod corev1.Pod) bool {
			return pod.Name == p.Status.BoundTo.Name
		})
	})
	if len(bound) == 0 {
		return nil
	}
	chain := placedOn(bound[0])
	if n, is := w.networkOf(bound[0]); is == ask.There {
		chain = append(chain, w.classOf(n.Spec.ClassName)...)
	}
	return chain
}

// toldOf is the last Event about the floating IP of a Service, if it tells of a failure; nil otherwise.
func (w *walk) toldOf(s *corev1.Service) *corev1.Event {
	last := w.lastEvent(KindService, s, cloudteamv1.EventFloatingIPFailed, cloudteamv1.EventFloatingIPAssociated)
	if last == nil || last.Reason != cloudteamv1.EventFloatingIPFailed {
		return nil
	}
	return last
}
