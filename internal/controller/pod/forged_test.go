package pod

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// controlledBy is an owner reference to a controller.
func controlledBy(version, kind, name string, uid types.UID) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: name, UID: uid, Controller: new(true)}}
}

// declaringPod is a Pod that waits for a port on team/net.
func declaringPod(namespace string, owners []metav1.OwnerReference) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "web-1-a", UID: "pod", OwnerReferences: owners,
			Annotations: map[string]string{selection.Annotation: "team/net"},
		},
		Spec: corev1.PodSpec{SchedulingGates: []corev1.PodSchedulingGate{{Name: cloudteamv1.SchedulingGate}}},
	}
}

// openNetwork is team/net, which every namespace may use and which is Ready.
func openNetwork() *cloudteamv1.Network {
	network := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "net"}}
	network.Spec.AllowedNamespaces = []string{"*"}
	network.Status.Conditions = []metav1.Condition{{Type: cloudteamv1.ConditionReady, Status: metav1.ConditionTrue}}
	return network
}

func TestAForgedReplicaSetTellsNothingOfAnothersPorts(t *testing.T) {
	web := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web", UID: "web"}}
	port := portOf("web-net-0")
	port.OwnerReferences = controlledBy("apps/v1", "Deployment", "web", "web")
	port.Status.Conditions = []metav1.Condition{{
		Type: cloudteamv1.ConditionReady, Status: metav1.ConditionFalse,
		Reason: cloudteamv1.ReasonAddressesExhausted, Message: "a secret",
	}}
	for name, c := range map[string]struct {
		namespace string
		uid       types.UID
	}{
		"in another namespace":              {"evil", "web"},
		"in the same one, with a false UID": {"team", "false"},
	} {
		t.Run(name, func(t *testing.T) {
			set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
				Namespace: c.namespace, Name: "web-1", UID: "set",
				OwnerReferences: controlledBy("apps/v1", "Deployment", "web", c.uid),
			}}
			pod := declaringPod(c.namespace, controlledBy("apps/v1", "ReplicaSet", "web-1", "set"))
			controller := newIdle(t, openNetwork(), web, port, set, pod)
			p, err := controller.reconcile(t.Context(), cache.MetaObjectToName(pod), pod)
			expect.NoError(t, err)
			if p.reason != cloudteamv1.ReasonPortsNotReady || strings.Contains(p.message, "web-net-0") ||
				strings.Contains(p.message, "secret") || !strings.Contains(p.message, "not known") {
				t.Errorf("the Pod is told %s: %s", p.reason, p.message)
			}
		})
	}
}

// A stranger's port that names our Pod as its owner is neither bound to it nor deleted with its ports.
func TestAPortOfAnotherNamespaceIsNoPodsOwn(t *testing.T) {
	pod := declaringPod("team", nil)
	port := portOf("web-net-0")
	port.Namespace, port.Spec.NetworkNamespace = "evil", "team"
	port.OwnerReferences = controlledBy("v1", "Pod", pod.Name, pod.UID)
	port.Status.Conditions = []metav1.Condition{{Type: cloudteamv1.ConditionReady, Status: metav1.ConditionTrue}}
	c := newIdle(t, openNetwork(), port, pod)
	expect.NoError(t, c.deleteOwn(controllertest.Logged(t), c.madeFor(pod, nil), nil))
	key := cache.MetaObjectToName(pod)
	bound, err := c.bindOwn(controllertest.Logged(t), key, pod, c.madeFor(pod, nil), []consumer.Request{requestFor("net")}, nil)
	if err != nil || len(bound) > 0 {
		t.Errorf("bound %v, error %v", bound, err)
	}
}

// Nobody finds out by a Pod's condition which Networks another namespace has.
func TestANetworkThatIsNotAllowedReadsAsOneThatDoesNotExist(t *testing.T) {
	pod := declaringPod("evil", nil)
	closed := openNetwork()
	closed.Spec.AllowedNamespaces = []string{"friends"}
	told := func(shown ...runtime.Object) progress {
		p, err := newIdle(t, append(shown, pod)...).reconcile(t.Context(), cache.MetaObjectToName(pod), pod)
		expect.NoError(t, err)
		return p
	}
	none := told()
	if none.reason != cloudteamv1.ReasonNamespaceNotAllowed || !strings.Contains(none.message, "allows namespace evil") {
		t.Errorf("it says %s: %s", none.reason, none.message)
	}
	expect.Equal(t, none, told(closed), "what it says, without the Network and with it")
	if open := told(openNetwork()); open == none {
		t.Errorf("it says %+v of a Network that allows the namespace", open)
	}
}
