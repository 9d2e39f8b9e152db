package adversary

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// hold holds what is true at all times: ports are bound within their namespace, those of a Deployment to Pods of that very
// Deployment, and a Pod that forged its owner or its allocation has none.
func (s *sequence) hold(t *rapid.T, all scene) {
	t.Helper()
	for name, here := range all {
		for _, port := range here.ports {
			bound := port.Status.BoundTo
			if bound == nil {
				continue
			}
			if home, seen := s.homesOf[bound.UID]; seen && home != name {
				t.Fatalf("NetworkPort %s/%s is bound to Pod %s of %s", name, port.Name, bound.Name, home)
			}
			if s.forged[bound.UID] {
				t.Fatalf("NetworkPort %s/%s is bound to the forged Pod %s", name, port.Name, bound.Name)
			}
			s.holdBinding(t, here, &port)
		}
		for _, pod := range here.pods {
			if s.forged[pod.UID] && consumer.Gated(&pod) && pod.Annotations[cloudteamv1.AnnotationAllocations] != "" &&
				pod.OwnerReferences != nil {
				t.Fatalf("the forged Pod %s/%s has %s", name, pod.Name, pod.Annotations[cloudteamv1.AnnotationAllocations])
			}
		}
	}
}

// holdBinding holds that a Deployment's port is bound to a Pod of the Deployment.
func (s *sequence) holdBinding(t *rapid.T, here *place, port *cloudteamv1.NetworkPort) {
	t.Helper()
	owner := metav1.GetControllerOf(port)
	if owner == nil || owner.Kind != "Deployment" {
		return
	}
	for _, pod := range here.pods {
		if pod.UID != port.Status.BoundTo.UID {
			continue
		}
		deployment := here.deploymentOf(&pod)
		lives := slices.ContainsFunc(here.deployments, func(d appsv1.Deployment) bool { return d.UID == owner.UID })
		if lives && metav1.GetControllerOf(&pod) != nil && (deployment == nil || deployment.UID != owner.UID) {
			t.Fatalf("NetworkPort %s/%s of Deployment %s is bound to Pod %s, which is of %v",
				port.Namespace, port.Name, owner.Name, pod.Name, metav1.GetControllerOf(&pod))
		}
	}
}

// settle waits until all that is left to do is what people have to do.
func (s *sequence) settle(t *rapid.T) {
	t.Helper()
	s.await(t, patience, func() error {
		all := s.look(t)
		s.hold(t, all)
		for _, name := range all.everybody() {
			if here := all[name]; here.lives() {
				if err := s.unsettled(all, name, here); err != nil {
					return err
				}
			}
		}
		if left := s.left(t, all); len(left) > 0 {
			return fmt.Errorf("there is still in Neutron: %v", left)
		}
		return nil
	})
}

// unsettled names what is not yet as its namespace declares it.
func (s *sequence) unsettled(all scene, name string, here *place) error {
	for _, n := range here.networks {
		if n.DeletionTimestamp == nil && !ready(n.Status.ResourceStatus, n.Generation) && !s.stuck(here, &n) {
			return fmt.Errorf("Network %s/%s is not Ready: %+v", name, n.Name, n.Status.Conditions)
		}
	}
	for i := range here.deployments {
		if err := s.unsettledDeployment(all, here, &here.deployments[i]); err != nil {
			return err
		}
	}
	for i := range here.pods {
		pod := &here.pods[i]
		switch _, missing := wanted(all, pod.Namespace, pod.Annotations); {
		case s.forged[pod.UID] || missing || !alive(pod) || metav1.GetControllerOf(pod) != nil:
		default:
			if err := s.unprovided(all, here, pod, "Pod", pod.UID); err != nil {
				return err
			}
		}
	}
	for _, port := range here.ports {
		if err := unowned(here, &port); err != nil && port.DeletionTimestamp == nil {
			return err
		}
	}
	return nil
}

// stuck reports whether a Network waits for people: its Secret is not there or is wrong, or its namespace's tenant wrote
// that it is in another cloud.
func (s *sequence) stuck(here *place, n *cloudteamv1.Network) bool {
	return n.Spec.Cloud != nil && !here.secret ||
		strings.Contains(n.Annotations[cloudteamv1.AnnotationCloud], "http://other") &&
			meta.IsStatusConditionTrue(n.Status.Conditions, cloudteamv1.ConditionStalled)
}

func ready(status cloudteamv1.ResourceStatus, generation int64) bool {
	is := meta.FindStatusCondition(status.Conditions, cloudteamv1.ConditionReady)
	return is != nil && is.Status == metav1.ConditionTrue && is.ObservedGeneration == generation
}

func alive(pod *corev1.Pod) bool { return pod.DeletionTimestamp == nil && !consumer.Ended(pod) }

// wanted is how many ports a Pod of a namespace with these annotations gets. missing is whether a Network is not there or
// not for that namespace, so that it gets none.
func wanted(all scene, namespace string, annotations map[string]string) (ports int, missing bool) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Annotations: annotations}}
	selections, err := consumer.DeclaredByPod(pod)
	if err != nil {
		return 0, true
	}
	for _, s := range selections {
		serves := all[s.Namespace] != nil && all[s.Namespace].lives() &&
			slices.ContainsFunc(all[s.Namespace].networks, func(n cloudteamv1.Network) bool {
				return n.Name == s.Name && n.DeletionTimestamp == nil && ready(n.Status.ResourceStatus, n.Generation) &&
					(s.Namespace == namespace || slices.Contains(n.Spec.AllowedNamespaces, "*") ||
						slices.Contains(n.Spec.AllowedNamespaces, namespace))
			})
		if !serves {
			return 0, true
		}
	}
	return len(selections), false
}

// unsettledDeployment names what a Deployment lacks whose Networks are all there: as many Pods as it has replicas, each
// with its ports, and not a port more.
func (s *sequence) unsettledDeployment(all scene, here *place, d *appsv1.Deployment) error {
	each, missing := wanted(all, d.Namespace, d.Spec.Template.Annotations)
	if missing || d.DeletionTimestamp != nil {
		return nil
	}
	replicas := int(*d.Spec.Replicas)
	is := fmt.Sprintf("Deployment %s/%s of %d", d.Namespace, d.Name, replicas)
	if s := d.Status; s.ObservedGeneration != d.Generation || int(s.Replicas) != replicas ||
		int(s.UpdatedReplicas) != replicas || int(s.AvailableReplicas) != replicas {
		return fmt.Errorf("%s is rolling out: %+v", is, s)
	}
	count := 0
	for i := range here.pods {
		pod := &here.pods[i]
		of := here.deploymentOf(pod)
		if of == nil || of.UID != d.UID || !alive(pod) {
			continue
		}
		count++
		if err := s.unprovided(all, here, pod, "", ""); err != nil {
			return err
		}
	}
	ports := 0
	for _, port := range here.ports {
		if metav1.IsControlledBy(&port, d) && counts(&port) {
			ports++
		}
	}
	if count != replicas || ports != replicas*each {
		return fmt.Errorf("%s has %d Pods and %d ports, want %d for each", is, count, ports, each)
	}
	return nil
}

// unprovided names what a Pod lacks: an allocation for each network, by ports of its namespace that are bound to it. A
// Pod without a Deployment has as many ports of its own.
func (s *sequence) unprovided(all scene, here *place, pod *corev1.Pod, kind string, owner types.UID) error {
	each, _ := wanted(all, pod.Namespace, pod.Annotations)
	is := fmt.Sprintf("Pod %s/%s", pod.Namespace, pod.Name)
	var allocations []cloudteamv1.Allocation
	text := pod.Annotations[cloudteamv1.AnnotationAllocations]
	if text == "" {
		return fmt.Errorf("%s waits: %+v", is, pod.Status.Conditions)
	}
	if err := json.Unmarshal([]byte(text), &allocations); err != nil || len(allocations) != each {
		return fmt.Errorf("%s has %s, want %d allocations", is, text, each)
	}
	for _, a := range allocations {
		if !slices.ContainsFunc(here.ports, func(p cloudteamv1.NetworkPort) bool {
			return p.Name == a.Port && p.Status.PortID == a.PortID && p.Status.BoundTo != nil && p.Status.BoundTo.UID == pod.UID
		}) {
			return fmt.Errorf("%s has %s, of which no port of its namespace is", is, text)
		}
	}
	if kind == "" {
		return nil
	}
	ports := 0
	for _, port := range here.ports {
		if by := metav1.GetControllerOf(&port); by != nil && by.UID == owner && counts(&port) {
			ports++
		}
	}
	if ports != each {
		return fmt.Errorf("%s has %d ports, want %d", is, ports, each)
	}
	return nil
}

// counts reports whether a port is one of those that its owner needs: one that is being deleted stays for as long as a
// Pod uses it.
func counts(port *cloudteamv1.NetworkPort) bool {
	return port.DeletionTimestamp == nil || port.Status.BoundTo != nil
}

// unowned names a port that nobody wants: a user made it, or its Deployment or Pod lives.
func unowned(here *place, port *cloudteamv1.NetworkPort) error {
	owner := metav1.GetControllerOf(port)
	if owner == nil && (slices.Contains(portNames, port.Name) || port.Name == "forged") {
		return nil
	}
	if owner != nil && (slices.ContainsFunc(here.deployments, func(d appsv1.Deployment) bool { return d.UID == owner.UID }) ||
		slices.ContainsFunc(here.pods, func(p corev1.Pod) bool { return p.UID == owner.UID })) {
		return nil
	}
	bound := port.Status.BoundTo
	if bound != nil && slices.ContainsFunc(here.pods, func(p corev1.Pod) bool { return p.UID == bound.UID }) {
		return nil // It goes with its Pod.
	}
	return fmt.Errorf("NetworkPort %s/%s is nobody's: %v", port.Namespace, port.Name, owner)
}
