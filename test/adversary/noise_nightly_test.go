package adversary

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/nightly"
)

// TestANoisyNeighbourSlowsNobody has one namespace hold thousands of Networks that wait (ADVERSARY_NOISE), and measures
// what another's Network takes to become Ready, as a ratio to what it takes when all is quiet.
func TestANoisyNeighbourSlowsNobody(t *testing.T) {
	nightly.Only(t, "it compares latencies beside thousands of objects, and needs the machine for itself")
	newWorld(t)
	attacker, bystander := newTenant(t), newTenant(t)
	made := 0
	median := func() time.Duration {
		var took []time.Duration
		for range 7 {
			made++
			name, began := fmt.Sprint("net-", made), time.Now()
			bystander.network(name, fmt.Sprintf("10.78.%d.0/24", made), fmt.Sprintf("10.78.%d.1", made))
			bystander.awaitReady(name)
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		return took[len(took)/2]
	}
	idle := median()
	noise := int64(1500)
	if text := os.Getenv("ADVERSARY_NOISE"); text != "" {
		var err error
		if noise, err = strconv.ParseInt(text, 10, 32); err != nil {
			t.Fatal(err)
		}
	}
	var next atomic.Int64
	var makers sync.WaitGroup
	for range 16 {
		makers.Go(func() {
			for i := next.Add(1); i <= noise && !t.Failed(); i = next.Add(1) {
				network := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("noise-", i)}}
				network.Spec.CIDR, network.Spec.QoSPolicy = "10.79.0.0/24", fmt.Sprint("absent-", i)
				_, err := attacker.networks.CloudteamV1().Networks(attacker.name).
					Create(t.Context(), network, metav1.CreateOptions{})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	meanwhile := median()
	makers.Wait()
	bound := max(2*idle, time.Second)
	busy := median()
	for range 4 { // the machine's other work comes and goes, and the noise stays
		if busy > bound {
			busy = min(busy, median())
		}
	}
	t.Logf("a Network is Ready after %s when all is quiet, after %s while another namespace's %d are made (%.1f times that), "+
		"and after %s while they wait (%.1f)", idle, meanwhile, noise, float64(meanwhile)/float64(idle), busy,
		float64(busy)/float64(idle))
	// Below a second, the machine's other work decides. While they are made, it is the API server's: a starved one sends
	// the events of a watch seconds late, to an idle client, too. The sync itself takes half a second then.
	if busy > bound {
		t.Errorf("a Network is Ready after %s beside %d of another namespace's, and after %s when all is quiet; want %s at "+
			"most", busy, noise, idle, bound)
	}
}
