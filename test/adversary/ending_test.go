package adversary

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/proxy"
)

// endingPatience is how long a namespace may take to end while a call hangs for a minute.
const endingPatience = 4 * time.Minute

// TestANamespaceEndsWhateverTheCloudDoes deletes namespaces with a Secret, Networks, a Deployment, and ports of others on
// them, while Neutron breaks deletions. Each ends without a person, and nothing is left in Neutron.
func TestANamespaceEndsWhateverTheCloudDoes(t *testing.T) {
	deletes := func(c proxy.Call) bool { return c.Method == http.MethodDelete }
	for sentence, breaks := range map[string]func(t *testing.T, w *world) *proxy.Rule{
		"Neutron is busy (429)": func(_ *testing.T, w *world) *proxy.Rule {
			return w.neutron.Break(deletes, 6, proxy.Refuse(http.StatusTooManyRequests, `{}`, "Retry-After", "1"))
		},
		"Neutron fails (500)": func(_ *testing.T, w *world) *proxy.Rule {
			return w.neutron.Break(deletes, 6, proxy.Refuse(http.StatusInternalServerError, `{}`))
		},
		"answers are lost": func(_ *testing.T, w *world) *proxy.Rule {
			return w.neutron.Break(deletes, 6, proxy.After(proxy.Reset))
		},
		"calls hang for a minute": func(t *testing.T, w *world) *proxy.Rule {
			released := make(chan struct{})
			timer := time.AfterFunc(time.Minute, func() { close(released) })
			t.Cleanup(func() { timer.Stop() })
			return w.neutron.Break(deletes, 3, proxy.Hang(released))
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			inTime(t, func(t *testing.T) {
				w := newWorld(t)
				holdEnding(t, w, true, func() *proxy.Rule { return breaks(t, w) }, func() {})
			})
		})
	}
	// Credentials of a Secret that is gone are known to no other process (ADR 32).
	t.Run("the controller is killed", func(t *testing.T) {
		inTime(t, func(t *testing.T) {
			w := newWorld(t)
			killed := w.process
			holdEnding(t, w, false, func() *proxy.Rule {
				return w.neutron.Break(deletes, 1, func(x *proxy.Exchange) { killed.Signal(syscall.SIGKILL); x.Reset() })
			}, func() {
				killed.AwaitExit(t)
				w.start()
			})
		})
	})
}

// holdEnding has a namespace deleted, and holds that it ends. breaks is called before the deletion, and meanwhile after
// it.
func holdEnding(t *testing.T, w *world, withSecret bool, breaks func() *proxy.Rule, meanwhile func()) {
	t.Helper()
	who, other := w.newTenant(), w.newTenant()
	w.AwaitGate(t, who.name)
	who.network("net", "10.95.0.0/24", "10.95.0.1", func(s *cloudteamv1.NetworkSpec) {
		s.Router = &cloudteamv1.RouterSpec{}
		s.AllowedNamespaces = []string{who.name, other.name}
	})
	if withSecret {
		who.credentials(w.clouds)
		who.network("own", "10.96.0.0/24", "10.96.0.1", func(s *cloudteamv1.NetworkSpec) {
			s.Cloud = &cloudteamv1.CloudReference{SecretName: secretName}
		})
		who.awaitReady("own")
	}
	who.awaitReady("net")
	who.deployment("web", "net", 2)
	who.awaitRunning(2)
	port := &cloudteamv1.NetworkPort{ObjectMeta: metav1.ObjectMeta{Name: "guest"}}
	port.Spec.NetworkName, port.Spec.NetworkNamespace = "net", who.name
	harness.Create(t, other.networks.CloudteamV1().NetworkPorts(other.name), port)
	w.Eventually(t, func() error {
		if ports := other.ports(); len(ports) != 1 || ports[0].Status.PortID == "" {
			return fmt.Errorf("the other's ports are %+v", ports)
		}
		return nil
	})
	owners := append(who.owners(), other.owners()...)
	if was := markedBy(w.cloud, owners); len(was["networks"]) == 0 || len(was["ports"]) < 3 {
		t.Fatalf("there are in Neutron %v", was)
	}

	rule := breaks()
	t.Cleanup(rule.Mend)
	namespaces := w.Kube.CoreV1().Namespaces()
	expect.NoError(t, namespaces.Delete(t.Context(), who.name, metav1.DeleteOptions{}))
	meanwhile()
	err := harness.Poll(nil, endingPatience, 200*time.Millisecond, func() error {
		is, err := namespaces.Get(t.Context(), who.name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is still there: %w, %+v", err, is.Status.Conditions)
	})
	expect.NoError(t, err)
	if rule.Hits() == 0 {
		t.Error("nothing was broken")
	}
	w.Eventually(t, func() error {
		if left := markedBy(w.cloud, owners); len(left) > 0 {
			return fmt.Errorf("there is still in Neutron %v", left)
		}
		return nil
	})
	if ports := other.ports(); len(ports) != 1 || ports[0].Status.PortID != "" || strings.Contains(fmt.Sprint(ports[0].Finalizers), "cloudteam") {
		t.Errorf("the other's port has the status %+v", ports[0].Status)
	}
}
