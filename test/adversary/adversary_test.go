package adversary

import (
	"fmt"
	"net/http"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/proxy"
)

// TestAdversary has tenants attack each other, all in one cluster and one project.
func TestAdversary(t *testing.T) {
	for name, attack := range map[string]func(*testing.T, *world){
		"a forged owner gets no port of another's workloads": forgedOwner,
		"a Deployment too large for its Network is bounded":  largeDeployment,
		"a forged finalizer does not hold another's Network": forgedFinalizer,
		"an API that hangs concerns its user":                hangingAPI,
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, func(t *testing.T) { attack(t, newWorld(t, "--workers=20", "--cloud-timeout=10m")) })
		})
	}
}

// forgedOwner has Pods that claim to belong to another namespace's Deployment and StatefulSet, and that wait before
// those workloads' own.
func forgedOwner(t *testing.T, w *world) {
	victim, attacker := w.newTenant(), w.newTenant()
	victim.network("net", "10.71.0.0/24", "10.71.0.1")
	victim.awaitReady("net")
	w.AwaitGate(t, victim.name)
	w.AwaitGate(t, attacker.name)
	web, db := victim.deployment("web", "net", 1), victim.statefulSet("db", "net", 1)
	victim.awaitRunning(2)

	attacker.forgeReplicaSet(web, victim.name+"/net", 3)
	attacker.forgeStatefulSet(db, victim.name+"/net")
	forged := map[types.UID]bool{}
	for _, pod := range attacker.pods() {
		forged[pod.UID] = true
	}
	if len(forged) != 5 {
		t.Fatalf("the attacker has %d Pods, want 5", len(forged))
	}
	err := scale(victim, "web", 3)
	if err == nil {
		_, err = victim.kube.AppsV1().StatefulSets(victim.name).Patch(t.Context(), "db", types.MergePatchType,
			[]byte(`{"spec":{"replicas":2}}`), metav1.PatchOptions{})
	}
	expect.NoError(t, err)
	victim.awaitRunning(5)
	for _, port := range victim.ports() {
		if bound := port.Status.BoundTo; bound != nil && forged[bound.UID] {
			t.Errorf("port %s/%s is bound to the attacker's Pod %s", port.Namespace, port.Name, bound.Name)
		}
	}
	if n := len(victim.ports()); n != 5 {
		t.Errorf("the victim has %d ports for 5 Pods", n)
	}
	for _, port := range attacker.ports() {
		if port.Status.PortID != "" {
			t.Errorf("the attacker's port %s is %s in Neutron", port.Name, port.Status.PortID)
		}
	}
	for _, pod := range attacker.pods() {
		if got := pod.Annotations[cloudteamv1.AnnotationAllocations]; got != "" {
			t.Errorf("the attacker's Pod %s has %s", pod.Name, got)
		}
	}
}

// forgeReplicaSet makes a ReplicaSet of another's Deployment, and Pods of it.
func (who *tenant) forgeReplicaSet(of *appsv1.Deployment, networks string, pods int) {
	who.t.Helper()
	t, labels, sets := who.t, map[string]string{"app": "forged"}, who.kube.AppsV1().ReplicaSets(who.name)
	forged, err := sets.Create(t.Context(), &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: "forged", OwnerReferences: controlledBy(appsv1.SchemeGroupVersion.WithKind("Deployment"), of),
			// The garbage collector deletes it, as its owner is not in its namespace, and it stays all the same.
			Finalizers: []string{"attacker.example.com/stay"},
		},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: new(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			},
		},
	}, metav1.CreateOptions{})
	expect.NoError(t, err)
	t.Cleanup(func() {
		_, _ = who.world.Kube.AppsV1().ReplicaSets(who.name).Patch(cleanup(t), forged.Name, types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	})
	// Once it is being deleted, nobody scales it down to the 0 Pods that it asks for.
	who.world.Eventually(t, func() error {
		is, err := sets.Get(t.Context(), forged.Name, metav1.GetOptions{})
		if err == nil && is.DeletionTimestamp == nil {
			err = fmt.Errorf("ReplicaSet %s is not being deleted", forged.Name)
		}
		return err
	})
	for i := range pods {
		who.pod(fmt.Sprint("forged-", i), networks, func(pod *corev1.Pod) {
			pod.Labels = labels
			pod.OwnerReferences = controlledBy(appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), forged)
		})
	}
}

// forgeStatefulSet makes a StatefulSet of one Pod with the name of another's. Beside it, it makes a Pod of the other's,
// with the name of the next one.
func (who *tenant) forgeStatefulSet(of *appsv1.StatefulSet, networks string) {
	who.t.Helper()
	t, pods := who.t, who.kube.CoreV1().Pods(who.name)
	who.statefulSet(of.Name, networks, 1)
	forged := who.pod(of.Name+"-1", networks, func(pod *corev1.Pod) {
		pod.OwnerReferences = controlledBy(appsv1.SchemeGroupVersion.WithKind("StatefulSet"), of)
		pod.Finalizers = []string{"attacker.example.com/stay"} // as with a ReplicaSet
	})
	t.Cleanup(func() {
		_, _ = who.world.Kube.CoreV1().Pods(who.name).Patch(cleanup(t), forged.Name, types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	})
	who.world.Eventually(t, func() error {
		_, err := pods.Get(t.Context(), of.Name+"-0", metav1.GetOptions{})
		return err
	})
}

// largeDeployment asks for far more Pods than the Network has addresses. What the controller makes is bounded by what can
// be had.
func largeDeployment(t *testing.T, w *world) {
	attacker := w.newTenant()
	attacker.network("small", "10.72.0.0/28", "10.72.0.1")
	attacker.awaitReady("small")
	// Beyond the free addresses, a pool may have 100 ports under way before the first refusal shows.
	const free = 13
	const most = free + 100
	attacker.deployment("large", "small", 3*most)
	t.Cleanup(func() { _ = scale(attacker, "large", 0) })
	with := 0
	w.Eventually(t, func() error {
		with = 0
		for _, pod := range attacker.pods() {
			if pod.Annotations[cloudteamv1.AnnotationAllocations] != "" {
				with++
			}
		}
		if n := len(attacker.pods()); n < 2*most || with < 5 {
			return fmt.Errorf("there are %d Pods, and %d have an address", n, with)
		}
		return nil
	})
	// Others use the same controller meanwhile. How seldom Neutron is asked for what is not there,
	// TestAPoolStopsWhereThereIsNoAddress holds.
	if n := len(attacker.ports()); n > most {
		t.Errorf("there are %d NetworkPorts for %d addresses, want at most %d", n, free, most)
	}
}

// forgedFinalizer makes a NetworkPort that looks like one that has something in Neutron, on a Network that does not
// allow it.
func forgedFinalizer(t *testing.T, w *world) {
	victim, attacker := w.newTenant(), w.newTenant()
	victim.network("net", "10.73.0.0/24", "10.73.0.1")
	victim.awaitReady("net")
	_, err := attacker.networks.CloudteamV1().NetworkPorts(attacker.name).Create(t.Context(), &cloudteamv1.NetworkPort{
		ObjectMeta: metav1.ObjectMeta{Name: "forged", Finalizers: []string{cloudteamv1.PortFinalizer}},
		Spec:       cloudteamv1.NetworkPortSpec{NetworkName: "net", NetworkNamespace: victim.name},
	}, metav1.CreateOptions{})
	expect.NoError(t, err)
	networks := victim.networks.CloudteamV1().Networks(victim.name)
	expect.NoError(t, networks.Delete(t.Context(), "net", metav1.DeleteOptions{}))
	w.Eventually(t, func() error {
		network, err := networks.Get(t.Context(), "net", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("it is still there: %+v", network.Status.Conditions)
		}
		return err
	})
}

// hangingAPI has the API for QoS policies hang, which one tenant's Network needs. Another's Network becomes Ready while the
// calls hang, which go on to do so.
func hangingAPI(t *testing.T, w *world) {
	attacker, bystander := w.newTenant(), w.newTenant()
	released := make(chan struct{})
	rule := w.neutron.Break(func(c proxy.Call) bool {
		return c.Method == http.MethodGet && c.Shape == "/v2.0/qos/policies"
	}, 0, proxy.Hang(released))
	t.Cleanup(func() { rule.Mend(); close(released) })
	for i := range 40 { // twice as many as there are workers
		attacker.network(fmt.Sprint("slow-", i), fmt.Sprintf("10.74.%d.0/24", i+1), fmt.Sprintf("10.74.%d.1", i+1),
			func(spec *cloudteamv1.NetworkSpec) { spec.QoSPolicy = "gold" })
	}
	select {
	case <-rule.Hit():
	case <-t.Context().Done():
	}
	bystander.network("after", "10.75.0.0/24", "10.75.0.1")
	bystander.awaitReady("after")
}
