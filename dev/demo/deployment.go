//go:build unix

package main

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// workload is a Deployment whose Pods are on the story's Network.
type workload struct {
	sample sample
	// object is the Deployment as it was applied; nil until then.
	object *appsv1.Deployment
	// seen is what was shown of its Pods last.
	seen attachments
}

func (w *workload) selector() string { return metav1.FormatLabelSelector(w.object.Spec.Selector) }

// allocationsOfPods prints what Pods were told of their networks, given a label selector and the annotation's key.
const allocationsOfPods = `kubectl get pods -l %s -o json | jq -r '.items[] | [.metadata.name, .status.phase] +
       (.metadata.annotations["%s"] | fromjson[0] | [.ips[0], .mac, .portID]) | @tsv'`

// deploy applies the Deployment and shows a port in Neutron for each of its Pods.
func (s *story) deploy(ctx context.Context) error {
	s.n.step("Run Pods on it",
		"Pods name the Network in an annotation. Each gets a port in Neutron with its own address.")
	if err := s.awaitComplete(ctx); err != nil {
		return err
	}
	s.n.command("cat " + s.web.sample.path)
	s.n.say("%s", s.web.sample.text)
	applied, err := s.apply(ctx, deploymentKind, s.web.sample)
	if err != nil {
		return err
	}
	s.web.object = new(appsv1.Deployment)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(applied.Object, s.web.object); err != nil {
		return fmt.Errorf("reading the Deployment that was applied: %w", err)
	}
	replicas := 1 // as the API server has it where a Deployment does not say
	if r := s.web.object.Spec.Replicas; r != nil {
		replicas = int(*r)
	}
	s.n.command("kubectl rollout status deployment " + s.web.object.Name)
	is, ports, err := s.awaitAttached(ctx, replicas, nil)
	if err != nil {
		return err
	}
	if err := s.showPorts(ctx); err != nil {
		return err
	}
	s.n.say("Each Pod's annotation shows its port (the Node runs no containers, so no interface is attached):")
	s.n.command(fmt.Sprintf(allocationsOfPods, s.web.selector(), cloudteamv1.AnnotationAllocations))
	s.n.say("%s", strings.Join(new(tablePrinter).render(is.table()), "\n"))
	s.n.good("%d Pods run, each with its own port and address", len(is))
	s.n.command("openstack port list -c ID -c Name -c 'MAC Address' -c 'Fixed IP Addresses' --network " +
		s.seen.network.id())
	s.n.say("%s", strings.Join(new(tablePrinter).render(neutronPortTable(ports)), "\n"))
	s.n.good("Neutron has exactly these %d ports with these addresses", len(ports))
	return nil
}

// replacePod deletes a Pod, and shows that the one in its place has a port and that none is left over.
func (s *story) replacePod(ctx context.Context) error {
	s.n.step("Delete a Pod",
		"Its replacement gets a port with its own address. The other Pods keep theirs.")
	was := s.web.seen
	var victim types.UID
	for uid, a := range was {
		if victim == "" || a.pod < was[victim].pod {
			victim = uid
		}
	}
	s.n.command("kubectl delete pod " + was[victim].pod)
	err := s.cluster.kube.CoreV1().Pods(s.web.object.Namespace).Delete(ctx, was[victim].pod,
		metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &victim}})
	if err != nil {
		return or(ctx, fmt.Errorf("deleting Pod %s: %w", was[victim].pod, err))
	}
	var successor attachment
	is, ports, err := s.awaitAttached(ctx, len(was), func(is attachments) error {
		if _, lives := is[victim]; lives {
			return fmt.Errorf("the Pod %s is still there", was[victim].pod)
		}
		for uid, a := range is {
			if _, known := was[uid]; !known {
				successor = a
			}
		}
		return was.keptBy(is)
	})
	if err != nil {
		return err
	}
	if err := s.showPorts(ctx); err != nil {
		return err
	}
	s.n.good("the replacement %s runs with the address %s", successor.pod, successor.addresses())
	s.n.good("the other %d Pods keep their ports, and Neutron still has %d ports", len(is)-1, len(ports))
	return nil
}

// scaleDown leaves the Deployment one Pod, and shows that one port is left.
func (s *story) scaleDown(ctx context.Context) error {
	const replicas = 1
	name := s.web.object.Name
	s.n.step(fmt.Sprintf("Scale it to %d", replicas), "The controller deletes the ports that no Pod uses.")
	s.n.command(fmt.Sprintf("kubectl scale deployment %s --replicas=%d", name, replicas))
	_, err := s.cluster.kube.AppsV1().Deployments(s.web.object.Namespace).Patch(ctx, name, types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas), metav1.PatchOptions{FieldManager: fieldManager},
		"scale")
	if err != nil {
		return or(ctx, fmt.Errorf("scaling Deployment %s: %w", name, err))
	}
	is, ports, err := s.awaitAttached(ctx, replicas, s.web.seen.keptBy)
	if err != nil {
		return err
	}
	if err := s.showPorts(ctx); err != nil {
		return err
	}
	for _, a := range is.sorted() {
		s.n.good("%s keeps its port, and Neutron has %d port", a.pod, len(ports))
	}
	return nil
}

// undeploy deletes the Deployment, and shows that no port is left.
func (s *story) undeploy(ctx context.Context) error {
	name := s.web.object.Name
	s.n.step("Delete the Deployment", "The controller deletes its ports. The Network stays.")
	s.n.command("kubectl delete deployment " + name)
	if err := s.deleteDeployment(ctx); err != nil {
		return or(ctx, err)
	}
	if _, _, err := s.awaitAttached(ctx, 0, nil); err != nil {
		return err
	}
	s.n.good("Kubernetes has no Pod or NetworkPort of %s", name)
	id := s.seen.network.id()
	found, err := s.cloud.exists(ctx, "networks", id)
	if err != nil {
		return or(ctx, err)
	}
	if !found {
		return fmt.Errorf("expected: network %s stays in Neutron when Deployment %s is deleted. It is gone", id, name)
	}
	s.n.good("Neutron still has network %s, without their ports", id)
	return nil
}

// awaitAttached waits until as many Pods as wanted run, Neutron has their ports and no others, and the check, where
// there is one, is satisfied. It gives the Pods' attachments and Neutron's ports.
func (s *story) awaitAttached(
	ctx context.Context, wanted int, check func(attachments) error,
) (is attachments, ports []resource, err error) {
	cidr, err := netip.ParsePrefix(s.sample.cidr())
	if err != nil {
		return nil, nil, fmt.Errorf("the cidr of %s: %w", s.sample.path, err)
	}
	plan := addressPlan{network: s.namespace + "/" + s.name, within: cidr}
	expected := fmt.Sprintf("%d Pods of Deployment %s run, with a port each in Neutron, and there are no other ports",
		wanted, s.web.object.Name)
	err = await(ctx, stepPatience, expected, func(ctx context.Context) error {
		if err := s.rolledOut(ctx, wanted); err != nil {
			return err
		}
		pods, err := s.cluster.kube.CoreV1().Pods(s.web.object.Namespace).List(ctx,
			metav1.ListOptions{LabelSelector: s.web.selector()})
		if err != nil {
			return err
		}
		owned, err := s.ownedPorts(ctx)
		if err != nil {
			return err
		}
		if is, err = attached(pods.Items, owned, wanted, plan); err != nil {
			return err
		}
		if check != nil {
			if err := check(is); err != nil {
				return err
			}
		}
		// Neutron is asked last, so that it is asked once where it agrees with Kubernetes.
		if ports, err = s.cloud.ports(ctx, s.seen.network.id(), s.clusterUID); err != nil {
			return err
		}
		return is.sameAs(ports)
	})
	s.web.seen = is
	return is, ports, err
}

// rolledOut gives nil once the Deployment has as many available Pods as wanted, or is gone where none is wanted.
func (s *story) rolledOut(ctx context.Context, wanted int) error {
	name := s.web.object.Name
	d, err := s.cluster.kube.AppsV1().Deployments(s.web.object.Namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case wanted == 0 && apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case wanted == 0:
		return fmt.Errorf("the Deployment %s is still there", name)
	case d.Status.ObservedGeneration < d.Generation || int(d.Status.AvailableReplicas) != wanted:
		return fmt.Errorf("%d Pods are available, its conditions are %v", d.Status.AvailableReplicas, d.Status.Conditions)
	}
	return nil
}

// ownedPorts lists the NetworkPorts that the Deployment controls.
func (s *story) ownedPorts(ctx context.Context) ([]cloudteamv1.NetworkPort, error) {
	list, err := s.cluster.networks.CloudteamV1().NetworkPorts(s.web.object.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var owned []cloudteamv1.NetworkPort
	for _, port := range list.Items {
		if owner := metav1.GetControllerOf(&port); owner != nil && owner.UID == s.web.object.UID {
			owned = append(owned, port)
		}
	}
	return owned, nil
}

// showPorts shows the NetworkPorts of the Deployment's namespace.
func (s *story) showPorts(ctx context.Context) error {
	s.n.command("kubectl get networkports")
	table, err := s.cluster.portTable(ctx, s.web.object.Namespace)
	if err != nil {
		return or(ctx, err)
	}
	s.n.say("%s", strings.Join(new(tablePrinter).render(table), "\n"))
	return nil
}

// deleteDeployment asks for the deletion of the Deployment that the demo made, with its Pods and ports, and of no other
// that bears its name.
func (s *story) deleteDeployment(ctx context.Context) error {
	d := s.web.object
	err := s.cluster.kube.AppsV1().Deployments(d.Namespace).Delete(ctx, d.Name, metav1.DeleteOptions{
		PropagationPolicy: new(metav1.DeletePropagationBackground),
		Preconditions:     &metav1.Preconditions{UID: &d.UID},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting Deployment %s: %w", d.Name, err)
	}
	return nil
}
