//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// nameByHand is what the demo renames the network to in Neutron.
const nameByHand = "renamed-by-hand"

// story is the life of one Network, and of a Deployment on it.
type story struct {
	*surroundings
	sample sample
	web    workload
	// namespace, name and uid are the object's; uid is empty until it was applied.
	namespace, name string
	uid             types.UID
	// clusterUID is what the marks in Neutron name the cluster by.
	clusterUID string
	marks      marks
	// seen is what was shown of Neutron last.
	seen picture
	// deleted says that the object is gone, and its network with it.
	deleted bool
}

// show tells the whole story. It returns nil when every step came true.
func show(ctx, hurry context.Context, o options, n *narrator) (err error) {
	began := time.Now()
	n.title("network-controller: one Network in Kubernetes and OpenStack Neutron")
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	around, err := newSurroundings(o, n, fail)
	if err != nil {
		n.bad(err)
		return err
	}
	s := &story{surroundings: around}
	defer func() {
		if errors.Is(err, errInterrupted) {
			n.warn("\nInterrupted; stopping all processes")
		}
		if err = s.end(hurry, err, s.tidy(hurry)); err == nil {
			took := time.Since(began).Seconds()
			n.title(fmt.Sprintf("\nAll steps succeeded; all processes have stopped. %.1f s.", took))
			n.say("make run leaves it running, with a page that shows the controller from inside.")
		}
	}()
	for i, step := range steps {
		if !o.plays(step, s.real) {
			continue
		}
		n.steps = i // the numbers are those of --help, whatever was left out
		if err := step.play(s, ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *story) surround(ctx context.Context) error {
	s.n.step("Surroundings", standing)
	if err := s.start(ctx); err != nil {
		return err
	}
	var err error
	if s.sample, err = loadSample(s.root, s.dir); err != nil {
		return err
	}
	if s.web.sample, err = loadDeploymentSample(s.root); err != nil {
		return err
	}
	s.namespace, s.name = s.sample.object.GetNamespace(), s.sample.object.GetName()
	s.introduce()
	if s.real {
		s.n.warn("This is a real cloud. The demo creates one network named %s with the subnet %s and a few\n"+
			"ports, changes them, and deletes them. It touches nothing else.",
			s.name, s.sample.cidr())
	} else {
		s.n.say("The emulator answers like a real Keystone and Neutron. --cloud=NAME uses your own cloud.")
	}
	return nil
}

func (s *story) create(ctx context.Context) error {
	s.n.step("Apply "+s.name, "The controller creates a network with a subnet in Neutron from two lines of spec.")
	s.n.command("cat " + s.sample.path)
	s.n.say("%s", s.sample.text)

	system, err := s.cluster.kube.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return or(ctx, err)
	}
	applied, err := s.apply(ctx, networkKind, s.sample)
	if err != nil {
		return err
	}
	s.uid, s.clusterUID = applied.GetUID(), string(system.UID)
	owner := plan.Owner{Cluster: s.clusterUID, Object: string(s.uid)}
	s.marks = marks{network: owner.Describe(s.sample.description()), subnet: owner.Marker()}

	if err := s.awaitReady(ctx, applied.GetGeneration()); err != nil {
		return err
	}
	s.n.say("In Neutron, the description names the owner. The controller touches nothing without it:")
	return s.showNeutron(ctx, nil)
}

// apply creates a sample's object, and refuses where there is one of its name already.
func (s *story) apply(
	ctx context.Context, resource schema.GroupVersionResource, of sample,
) (*unstructured.Unstructured, error) {
	kind, namespace, name := of.object.GetKind(), of.object.GetNamespace(), of.object.GetName()
	client := s.cluster.dynamic.Resource(resource).Namespace(namespace)
	_, err := client.Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		return nil, fmt.Errorf("there is a %s %s/%s in %s already, and the demo touches only what it made: delete it "+
			"(bin/demo --stay --dir=%s, and kubectl delete %s %s), or name another --dir",
			kind, namespace, name, s.dir, s.dir, strings.ToLower(kind), name)
	}
	if !apierrors.IsNotFound(err) {
		return nil, or(ctx, err)
	}
	s.n.command("kubectl apply -f " + of.path)
	// Ctrl-C does not break off the call: an object whose UID is not known could not be tidied up.
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepPatience)
	defer cancel()
	applied, err := client.Apply(whole, name, of.object, metav1.ApplyOptions{FieldManager: fieldManager})
	if err != nil {
		return nil, or(ctx, fmt.Errorf("applying %s: %w", of.path, err))
	}
	return applied, nil
}

func (s *story) change(ctx context.Context) error {
	s.n.step("Change the spec",
		"The controller updates the gateway of the existing subnet in Neutron.")
	gateway, err := lastAddress(s.sample.cidr())
	if err != nil {
		return fmt.Errorf("the cidr of %s: %w", s.sample.path, err)
	}
	patch := fmt.Sprintf(`{"spec":{"gateway":%q}}`, gateway)
	s.n.command("kubectl patch network " + s.name + " --type=merge -p '" + patch + "'")
	changed, err := s.cluster.networks.CloudteamV1().Networks(s.namespace).Patch(
		ctx, s.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: fieldManager})
	if err != nil {
		return or(ctx, fmt.Errorf("changing the gateway: %w", err))
	}
	if err := s.awaitReady(ctx, changed.Generation); err != nil {
		return err
	}
	return s.showNeutron(ctx, func(p picture) error {
		if got := p.subnet.text("gateway_ip"); got != gateway {
			return fmt.Errorf("the gateway in Neutron is %s", got)
		}
		return nil
	})
}

func (s *story) drift(ctx context.Context) error {
	s.n.step("Change the network by hand in Neutron",
		"The controller audits Neutron every "+s.options.auditInterval.String()+" here. It finds the drift and corrects it.")
	declared := s.seen
	subnet, net := declared.subnet.id(), declared.network.id()
	s.n.command("openstack subnet set --gateway none " + subnet)
	changedSubnet, err := s.cloud.update(ctx, "subnets", subnet, resource{"gateway_ip": nil})
	if err != nil {
		return or(ctx, err)
	}
	s.n.command("openstack network set --name " + nameByHand + " " + net)
	changedNetwork, err := s.cloud.update(ctx, "networks", net, resource{"name": nameByHand})
	if err != nil {
		return or(ctx, err)
	}
	began := time.Now()
	s.n.say("Neutron after the change:")
	s.see(picture{network: changedNetwork, subnet: changedSubnet})

	err = s.showNeutron(ctx, func(p picture) error {
		for _, field := range []struct{ what, got, want string }{
			{"gateway", p.subnet.text("gateway_ip"), declared.subnet.text("gateway_ip")},
			{"name", p.network.text("name"), declared.network.text("name")},
		} {
			if field.got != field.want {
				return fmt.Errorf("the %s in Neutron is %s, not %s", field.what, field.got, field.want)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.n.good("drift corrected within %.1f s", time.Since(began).Seconds())
	events, err := s.awaitEvents(ctx, cloudteamv1.EventDriftCorrected, nameByHand, "gateway none")
	if err != nil {
		return err
	}
	s.n.say("The Event:")
	for _, event := range events {
		s.n.say("%s", event.Message)
	}
	return nil
}

func (s *story) remove(ctx context.Context) error {
	s.n.step("Delete the Network",
		"The finalizer keeps the object until the network has left Neutron.")
	s.n.command("kubectl delete network " + s.name)
	if err := s.deleteObject(ctx); err != nil {
		return or(ctx, err)
	}
	if err := s.awaitGone(ctx, stepPatience); err != nil {
		return err
	}
	s.n.good("Kubernetes has no Network %s", s.name)
	id := s.seen.network.id()
	found, err := s.cloud.exists(ctx, "networks", id)
	if err != nil {
		return or(ctx, err)
	}
	if found {
		return fmt.Errorf("expected: network %s is gone from Neutron before its object is gone. It is still there", id)
	}
	for collection, description := range map[string]string{"networks": s.marks.network, "subnets": s.marks.subnet} {
		left, err := s.cloud.marked(ctx, collection, description)
		if err != nil {
			return or(ctx, err)
		}
		if len(left) > 0 {
			return fmt.Errorf("expected: none of the %s in Neutron is the Network's. There is %s",
				collection, left[0].id())
		}
	}
	s.n.good("Neutron has neither network %s nor its subnet", id)
	s.deleted = true

	if _, err := s.awaitEvents(ctx, cloudteamv1.EventDeleted, id); err != nil {
		return err
	}
	s.n.say("All Events of the Network:")
	s.n.command("kubectl get events --field-selector involvedObject.name=" + s.name)
	table, err := s.cluster.eventTable(ctx, s.namespace, s.name)
	if err != nil {
		return or(ctx, err)
	}
	s.n.say("%s", strings.Join(new(tablePrinter).render(table), "\n"))
	return nil
}

// awaitReady waits until the object is Ready at a generation of its spec, and prints its row each time that it changes.
func (s *story) awaitReady(ctx context.Context, generation int64) error {
	s.n.command("kubectl get network " + s.name + " -o wide --watch")
	printer := &tablePrinter{wide: true}
	return await(ctx, stepPatience, "Network "+s.name+" is Ready", func(ctx context.Context) error {
		object, err := s.cluster.networks.CloudteamV1().Networks(s.namespace).Get(ctx, s.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		// Read after the object, the row is never older than what is judged.
		table, err := s.cluster.networkTable(ctx, s.namespace, s.name)
		if err != nil {
			return err
		}
		if lines := printer.render(table); len(lines) > 0 {
			s.n.say("%s", strings.Join(lines, "\n"))
		}
		ready := meta.FindStatusCondition(object.Status.Conditions, cloudteamv1.ConditionReady)
		switch {
		case ready == nil:
			return errors.New("it has no condition Ready")
		case ready.ObservedGeneration != generation:
			return fmt.Errorf("the controller has seen generation %d, not %d", ready.ObservedGeneration, generation)
		case ready.Status != metav1.ConditionTrue:
			return fmt.Errorf("the condition Ready is %s, %s: %s", ready.Status, ready.Reason, ready.Message)
		}
		return nil
	})
}

// showNeutron shows what Neutron has, once it satisfies the check; nil is satisfied by anything.
func (s *story) showNeutron(ctx context.Context, check func(picture) error) error {
	var is picture
	err := await(ctx, stepPatience, "Neutron has what is declared", func(ctx context.Context) error {
		var err error
		if is, err = s.cloud.picture(ctx, s.marks); err == nil && check != nil {
			err = check(is)
		}
		return err
	})
	if err != nil {
		return err
	}
	s.n.command("openstack network show " + is.network.id() + "; openstack subnet show " + is.subnet.id())
	s.see(is)
	return nil
}

// see prints a picture and what in it is other than what was shown before.
func (s *story) see(p picture) {
	s.n.say("%s", strings.Join(p.render(s.seen), "\n"))
	s.seen = p
}

// awaitEvents waits until the object's Events of a reason mention every text, and gives them.
func (s *story) awaitEvents(ctx context.Context, reason string, texts ...string) (events []corev1.Event, err error) {
	expected := fmt.Sprintf("Events %s that mention %q", reason, texts)
	err = await(ctx, stepPatience, expected, func(ctx context.Context) error {
		var err error
		if events, err = s.cluster.events(ctx, s.namespace, string(s.uid), reason); err != nil {
			return err
		}
		var all strings.Builder
		for _, event := range events {
			all.WriteString(event.Message + "\n")
		}
		for _, text := range texts {
			if !strings.Contains(all.String(), text) {
				return fmt.Errorf("there are %d, and none mentions %q", len(events), text)
			}
		}
		return nil
	})
	return events, err
}

// deleteObject asks for the deletion of the object that the demo made, and of no other that bears its name.
func (s *story) deleteObject(ctx context.Context) error {
	err := s.cluster.networks.CloudteamV1().Networks(s.namespace).Delete(ctx, s.name,
		metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &s.uid}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting Network %s: %w", s.name, err)
	}
	return nil
}

func (s *story) awaitGone(ctx context.Context, patience time.Duration) error {
	return await(ctx, patience, "Network "+s.name+" is gone", func(ctx context.Context) error {
		object, err := s.cluster.networks.CloudteamV1().Networks(s.namespace).Get(ctx, s.name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		return fmt.Errorf("its conditions are %v", object.Status.Conditions)
	})
}

// lateCreate is how long Neutron may go on with a create whose sender was killed: twenty times what one was measured to
// take (92 ms).
const lateCreate = 2 * time.Second

// sweep deletes in Neutron what bears the marks. Where it finds nothing, it looks again until lateCreate has passed.
func (s *story) sweep(ctx context.Context) (removed []string, err error) {
	nothing := errors.New("nothing bears the marks")
	late := await(ctx, lateCreate, "something to delete", func(ctx context.Context) error {
		if removed, err = s.cloud.remove(ctx, s.marks); err == nil && len(removed) == 0 {
			return nothing
		}
		return err
	})
	if errors.Is(late, nothing) {
		return nil, nil
	}
	return removed, late
}

// tidyPatience bounds how long a story that broke off waits for its network to be deleted.
const tidyPatience = 30 * time.Second

// tidy deletes the Network, and the Deployment on it, of a story that broke off, for a real cloud and a folder that is
// kept outlive the demo.
func (s *story) tidy(hurry context.Context) error {
	if s.uid == "" || s.deleted || !s.real && s.temporary {
		return nil
	}
	s.n.warn("Deleting the demo's Network %s and its ports (Ctrl-C again to stop waiting)", s.name)
	var err error
	if s.web.object != nil {
		err = s.deleteDeployment(hurry)
	}
	err = errors.Join(err, s.deleteObject(hurry))
	if err == nil && s.controller.Ended() {
		err = errors.New("the controller has ended")
	}
	if err == nil {
		err = s.awaitGone(hurry, tidyPatience)
	}
	if err == nil {
		s.n.good("Network %s and its network in Neutron are deleted", s.name)
		return nil
	}
	if !s.real {
		return fmt.Errorf("the Network %s is left in %s: %w", s.name, s.dir, err)
	}
	// Without the API server nobody would know the network any more. What bears the object's mark is the demo's own,
	// and nobody creates more of it once the controller has stopped.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(hurry), tidyPatience)
	defer cancel()
	stopped := s.controller.Stop(hurry)
	if hurry.Err() != nil {
		stopped = nil
	}
	removed, sweep := s.sweep(ctx)
	if sweep != nil {
		return errors.Join(stopped, fmt.Errorf("the demo's network is left in %s (%w): find it with openstack network "+
			"list --long, by the description %s, and delete it: %w", s.cloudName, err, s.marks.network, sweep))
	}
	if len(removed) == 0 {
		removed = []string{"there was none left"}
	}
	s.n.good("its network is deleted in Neutron directly, not by the controller (%v): %s",
		err, strings.Join(removed, ", "))
	return stopped
}
