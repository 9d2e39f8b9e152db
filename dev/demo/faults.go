//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// mistake applies a range with host bits set, as a dry run, and shows what the API server answers.
func (s *story) mistake(ctx context.Context) error {
	s.n.step("Apply a mistake", "The API server refuses what cannot be built, and says what to write.")
	cidr, err := netip.ParsePrefix(s.sample.cidr())
	if err != nil {
		return fmt.Errorf("the cidr of %s: %w", s.sample.path, err)
	}
	wrong := netip.PrefixFrom(cidr.Addr().Next(), cidr.Bits()).String()
	s.n.command(fmt.Sprintf("sed 's|%s|%s|' %s | kubectl apply -f -", cidr, wrong, s.sample.path))
	object := s.sample.object.DeepCopy()
	if err := unstructured.SetNestedField(object.Object, wrong, "spec", "cidr"); err != nil {
		return err
	}
	_, err = s.cluster.dynamic.Resource(networkKind).Namespace(s.namespace).Apply(ctx, s.name, object,
		metav1.ApplyOptions{FieldManager: fieldManager, Force: true, DryRun: []string{metav1.DryRunAll}})
	if !apierrors.IsInvalid(err) {
		return or(ctx, fmt.Errorf("expected: the API server refuses the range %s. Its answer: %w", wrong, err))
	}
	s.n.say("The %s", err.Error())
	s.n.good("nothing has changed")
	return nil
}

// fillQuota leaves no room for a second Network, shows what that says, and makes room.
func (s *story) fillQuota(ctx context.Context) error {
	const name, limit = "second-network", 1
	s.n.step("Fill the quota", "A Network that Neutron refuses says what to do. It recovers by itself when there is room.")
	admin, err := openEmulator(ctx, s.cloudsFile, "admin")
	if err != nil {
		return or(ctx, err)
	}
	allow := func(networks int) error {
		s.n.command(fmt.Sprintf("openstack --os-cloud=admin quota set --networks %d %s", networks, s.cloud.project))
		body := map[string]any{"quota": map[string]int{"network": networks}}
		return or(ctx, admin.call(ctx, http.MethodPut, "quotas/"+s.cloud.project, body, nil))
	}
	if err := allow(limit); err != nil {
		return err
	}
	second, err := s.applyCopy(ctx, name)
	if err != nil {
		return err
	}
	state, err := s.awaitState(ctx, second, cloudteamv1.ReasonQuotaExceeded)
	if err != nil {
		return err
	}
	s.n.say("%s: %s", state.Reason, state.Message)
	if err := allow(-1); err != nil {
		return err
	}
	began := time.Now()
	if _, err := s.awaitState(ctx, second, cloudteamv1.ReasonAvailable); err != nil {
		return err
	}
	s.n.good("%s is Ready %.1f s later, without a command", name, time.Since(began).Seconds())
	return s.deleteCopy(ctx, second)
}

// loseAnswer has Neutron's answer to a create lost, kills the controller before it can look, and shows that there is
// one network all the same.
func (s *story) loseAnswer(ctx context.Context) error {
	const name = "lost-network"
	s.n.step("Lose an answer, and kill the controller",
		"The create request itself has the owner's marker. So the next process finds what the last one made.")
	s.n.command("kill -USR1 $(pgrep neutron-emulator)   # lose the next answer")
	s.emulator.Signal(syscall.SIGUSR1)
	object, err := s.applyCopy(ctx, name)
	if err != nil {
		return err
	}
	mark := plan.Owner{Cluster: s.clusterUID, Object: string(object.GetUID())}.Describe(s.sample.description())
	exactlyOne := func(ctx context.Context) error {
		made, err := s.cloud.marked(ctx, "networks", mark)
		if err == nil && len(made) != 1 {
			err = fmt.Errorf("there are %d networks with its marker", len(made))
		}
		return err
	}
	if err := await(ctx, stepPatience, "Neutron creates the network of "+name, exactlyOne); err != nil {
		return err
	}
	s.n.command("kill -9 $(pgrep network-controller)")
	s.controller.Kill()
	if err := s.startController(ctx); err != nil {
		return err
	}
	if _, err := s.awaitState(ctx, object, cloudteamv1.ReasonAvailable); err != nil {
		return err
	}
	if err := exactlyOne(ctx); err != nil {
		return or(ctx, fmt.Errorf("expected: one network of %s in Neutron. %w", name, err))
	}
	s.n.good("%s is Ready, and Neutron has one network with its marker", name)
	return s.deleteCopy(ctx, object)
}

// applyCopy applies the sample under another name.
func (s *story) applyCopy(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	s.n.command(fmt.Sprintf("sed 's/%s/%s/' %s | kubectl apply -f -", s.name, name, s.sample.path))
	object := s.sample.object.DeepCopy()
	object.SetName(name)
	applied, err := s.cluster.dynamic.Resource(networkKind).Namespace(s.namespace).Apply(ctx, name, object,
		metav1.ApplyOptions{FieldManager: fieldManager})
	if err != nil {
		return nil, or(ctx, fmt.Errorf("applying %s: %w", name, err))
	}
	return applied, nil
}

// deleteCopy deletes what applyCopy applied, and waits until it is gone.
func (s *story) deleteCopy(ctx context.Context, object *unstructured.Unstructured) error {
	name, uid := object.GetName(), object.GetUID()
	s.n.command("kubectl delete network " + name)
	networks := s.cluster.networks.CloudteamV1().Networks(s.namespace)
	err := networks.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if err != nil {
		return or(ctx, fmt.Errorf("deleting Network %s: %w", name, err))
	}
	return await(ctx, stepPatience, "Network "+name+" is gone", func(ctx context.Context) error {
		_, err := networks.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errors.New("it is still there"))
	})
}

// awaitState waits until a Network's condition Ready has a reason.
func (s *story) awaitState(
	ctx context.Context, object *unstructured.Unstructured, reason string,
) (ready metav1.Condition, err error) {
	name := object.GetName()
	s.n.command("kubectl get network " + name)
	err = await(ctx, stepPatience, "the reason of "+name+" is "+reason, func(ctx context.Context) error {
		network, err := s.cluster.networks.CloudteamV1().Networks(s.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		is := meta.FindStatusCondition(network.Status.Conditions, cloudteamv1.ConditionReady)
		if is == nil || is.Reason != reason {
			return fmt.Errorf("its conditions are %v", network.Status.Conditions)
		}
		ready = *is
		return nil
	})
	if err != nil {
		return ready, err
	}
	table, err := s.cluster.networkTable(ctx, s.namespace, name)
	if err != nil {
		return ready, or(ctx, err)
	}
	s.n.say("%s", strings.Join(new(tablePrinter).render(table), "\n"))
	return ready, nil
}
