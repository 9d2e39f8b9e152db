package adversary

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/virtual"
)

// inSecretOf has a Network use the credentials in a Secret.
func inSecretOf(name string) func(*cloudteamv1.NetworkSpec) {
	return func(s *cloudteamv1.NetworkSpec) { s.Cloud = &cloudteamv1.CloudReference{SecretName: name} }
}

// TestCloudsWithoutAnswersConcernTheirNamespaces has tenants make many Networks whose Secrets lead to a Keystone that
// takes connections and does not answer, or to one that is not there, and replace half of these Secrets all the while.
// Another's Networks with a Secret become Ready all the same.
func TestCloudsWithoutAnswersConcernTheirNamespaces(t *testing.T) {
	if !virtualTime {
		t.Skip("it waits for minutes, and for clouds that do not answer, and holds how long a Network takes")
	}
	inTime(t, cloudsWithoutAnswers)
}

func cloudsWithoutAnswers(t *testing.T) {
	w := newSurroundings(t)
	released := make(chan struct{})
	var hanging atomic.Int64
	hangs := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		hanging.Add(1)
		select {
		case <-released:
		case <-r.Context().Done():
		}
	})}
	listener, dead := w.Listen("hangs"), w.Listen("dead")
	_ = dead.Close()
	go func() { _ = hangs.Serve(listener) }()
	t.Cleanup(func() { close(released); _ = hangs.Close() })
	endpoints := []string{w.keystone.URL().String()}
	var leads []string
	for _, of := range []net.Listener{listener, dead} {
		url := "http://" + of.Addr().String()
		endpoints = append(endpoints, url)
		leads = append(leads, harness.CloudsOf(t, w.clouds, cloudName, func(entry map[string]any) {
			entry["auth"].(map[string]any)["auth_url"] = url + "/v3"
		}))
	}
	w.arguments = []string{
		"--workers=20", "--cloud-timeout=5s", "--allowed-identity-endpoints=" + strings.Join(endpoints, ","),
	}
	w.start()

	ended := make(chan struct{})
	var attackers sync.WaitGroup
	defer func() { close(ended); attackers.Wait() }() // before their namespaces go
	for range 3 {
		who := w.newTenant()
		secrets := who.kube.CoreV1().Secrets(who.name)
		replace := func(i, to int) error {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("secret-", i)}}
			secret.StringData = map[string]string{"clouds.yaml": leads[to%len(leads)]}
			err := secrets.Delete(cleanup(t), secret.Name, metav1.DeleteOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				return err
			}
			_, err = secrets.Create(cleanup(t), secret, metav1.CreateOptions{})
			return err
		}
		for i := range 12 { // two more than a namespace's share
			expect.NoError(t, replace(i, i))
			for n := range 3 {
				who.network(fmt.Sprintf("net-%d-%d", i, n), "10.97.0.0/24", "10.97.0.1", inSecretOf(fmt.Sprint("secret-", i)))
			}
		}
		// From now on, syncs of it call a cloud that hangs. Before, they wait for its first audit.
		networks := who.networks.CloudteamV1().Networks(who.name)
		harness.Await(t, w, networks, "net-0-0", func(network *cloudteamv1.Network) error {
			if len(network.Status.Conditions) == 0 {
				return errors.New("nothing is said of the cloud that hangs")
			}
			return nil
		})
		attackers.Go(func() {
			tick := time.NewTicker(100 * time.Millisecond)
			defer tick.Stop()
			for round := 0; ; round++ {
				select {
				case <-ended:
					return
				case <-tick.C:
				}
				if err := replace(6+round%6, round/6+round); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}

	if hanging.Load() == 0 {
		t.Error("no request hung")
	}
	for i := range 6 {
		who := w.newTenant()
		who.credentials(w.clouds)
		began := time.Now()
		who.network("net", fmt.Sprintf("10.98.%d.0/24", i), fmt.Sprintf("10.98.%d.1", i), inSecretOf(secretName))
		who.awaitReady("net")
		if took := virtual.Since(began); took > 10*time.Second {
			t.Errorf("beside 36 clouds that do not answer, a Network with a Secret is Ready after %s", took)
		}
	}
}
