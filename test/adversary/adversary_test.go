package adversary

import (
	"fmt"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/proxy"
)

// TestAdversary has tenants attack each other, all in one cluster and one project.
func TestAdversary(t *testing.T) {
	for name, attack := range map[string]func(*testing.T, *world){
		"a forged finalizer does not hold another's Network": forgedFinalizer,
		"an API that hangs concerns its user":                hangingAPI,
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, func(t *testing.T) { attack(t, newWorld(t, "--workers=20", "--cloud-timeout=10m")) })
		})
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
