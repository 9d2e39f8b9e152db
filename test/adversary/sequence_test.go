package adversary

import (
	"fmt"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/lanes"
)

// sequences is how many run at a time, all with one controller.
const sequences = 4

// TestTenantsGetTheirOwn takes the namespaces of several tenants through random sequences of what tenants, operators and
// Kubernetes may do: Networks, NetworkPorts, Deployments, Pods, Secrets and namespaces come, change and go, and tenants
// write whatever Kubernetes lets them write: owners, finalizers and annotations that are not theirs. The rules that hold
// all the way, and those that hold once all has settled, are in sequence_rules_test.go.
func TestTenantsGetTheirOwn(t *testing.T) {
	if openStack() {
		t.Skip("it needs projects of the emulator's")
	}
	t.Cleanup(func() { t.Log(met.String()) })
	arguments := []string{"--audit-interval=1s", "--pool-cooldown=1s", "--orphan-grace=2s", "--orphan-max-share=1"}
	if virtualTime {
		lanes.Run(t, sequences, func(t *testing.T, check lanes.Check) {
			synctest.Test(t, func(t *testing.T) {
				holdSequences(t, newWorld(t, arguments...), func(property func(*rapid.T)) { check(t, property) })
			})
		})
		return
	}
	holdSequences(t, newWorld(t, arguments...), func(property func(*rapid.T)) {
		t.Run("lane", func(t *testing.T) {
			lanes.Run(t, sequences, func(t *testing.T, check lanes.Check) { check(t, property) })
		})
	})
}

// holdSequences has sequences run with one controller, beside a bystander.
func holdSequences(t *testing.T, w *world, run func(property func(*rapid.T))) {
	t.Helper()
	at := &scenery{world: w, admin: harness.Open(t, w.CloudsFile, "admin")}
	system, err := w.Kube.CoreV1().Namespaces().Get(t.Context(), metav1.NamespaceSystem, metav1.GetOptions{})
	expect.NoError(t, err)
	at.cluster = system.UID
	others := newBystander(at)
	before := others.look()
	run(func(r *rapid.T) { holdSequence(r, at) })
	expect.Equal(t, before, others.look(), "what is nobody's of these tenants changed")
}

// holdSequence draws a sequence, has everything settle and everything go.
func holdSequence(t *rapid.T, at *scenery) {
	s := newSequence(t, at)
	defer s.sweep()
	for i, who := range s.tenants {
		expect.NoError(t, s.world.openNamespace(s.ctx, who.name, i < 2 || rapid.Bool().Draw(t, "labelled")))
	}
	// Most steps are nothing before there is something.
	first := rapid.IntRange(0, 3).Draw(t, "networks to begin with")
	at.habits.Choose(t, first)
	for range first {
		s.declareNetwork(t)
	}
	for range rapid.IntRange(0, 3).Draw(t, "deployments to begin with") {
		s.declareDeployment(t)
	}
	t.Repeat(s.steps())
	s.settle(t)
	s.leave(t)
}

// leave has all namespaces deleted, and holds that they go, with all that was theirs.
func (s *sequence) leave(t *rapid.T) {
	t.Helper()
	for _, who := range s.tenants {
		s.endNamespace(t, who)
	}
	s.await(t, leaving, func() error {
		all := s.look(t)
		for _, name := range all.everybody() {
			if here := all[name]; here.namespace != nil {
				return fmt.Errorf("namespace %s does not go: %+v", name, here.namespace.Status.Conditions)
			}
		}
		if left := s.left(t, all); len(left) > 0 {
			return fmt.Errorf("there is still in Neutron: %v", left)
		}
		return nil
	})
}

// sweep lets go of what a sequence that failed left, so that it disturbs no other for long.
func (s *sequence) sweep() {
	for _, who := range s.tenants {
		if err := s.Kube.CoreV1().Namespaces().Delete(s.ctx, who.name, metav1.DeleteOptions{}); apierrors.IsNotFound(err) {
			continue
		}
		here, err := s.lookAt(who.name)
		if err != nil {
			continue
		}
		for _, set := range here.sets {
			_, _ = s.Kube.AppsV1().ReplicaSets(who.name).Patch(s.ctx, set.Name, "application/merge-patch+json",
				[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		}
	}
}

// bystander is a tenant that none of the sequences knows, beside a network that no object names.
type bystander struct {
	*tenant
	admin   *harness.Cloud
	network string
}

// newBystander makes a Network, a Deployment on it, and a network with a port that people made.
func newBystander(at *scenery) *bystander {
	at.t.Helper()
	b := &bystander{at.newTenant(), at.admin, at.cloud.Create("networks", harness.Resource{"name": "by hand"}).ID()}
	at.cloud.Create("ports", harness.Resource{"network_id": b.network, "name": "by hand"})
	at.AwaitGate(at.t, b.name)
	b.tenant.network("net", "10.80.0.0/26", "10.80.0.1")
	b.awaitReady("net")
	b.deployment("web", "net", 2)
	b.awaitRunning(2)
	return b
}

// look is what the bystander has: its Pods with their allocations, and the revisions of what is in Neutron.
func (b *bystander) look() map[string]any {
	b.t.Helper()
	state := map[string]any{}
	for _, pod := range b.pods() {
		state["Pod "+pod.Name] = string(pod.UID) + pod.Annotations[cloudteamv1.AnnotationAllocations]
	}
	n, err := b.networks.CloudteamV1().Networks(b.name).Get(b.t.Context(), "net", metav1.GetOptions{})
	expect.NoError(b.t, err)
	for _, id := range []string{b.network, n.Status.NetworkID} {
		state[id] = b.admin.One("networks", "id="+id)["revision_number"]
		for _, collection := range []string{"ports", "subnets"} {
			for _, r := range b.admin.List(collection, "network_id="+id) {
				state[r.ID()] = r["revision_number"]
			}
		}
	}
	return state
}
