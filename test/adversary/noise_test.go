package adversary

import (
	"fmt"
	"slices"
	"testing"
	"time"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/virtual"
)

// noise is how many Networks wait.
const noise = 300

// TestANoisyNeighbourSlowsNobody has one namespace hold hundreds of Networks that wait, and measures what another's
// Network takes to become Ready, in virtual time: it waits for its own calls, and not for others' turns.
func TestANoisyNeighbourSlowsNobody(t *testing.T) {
	if !virtualTime {
		t.Skip("it compares how long Networks take")
	}
	inTime(t, func(t *testing.T) {
		w := newWorld(t)
		attacker, bystander := w.newTenant(), w.newTenant()
		made := 0
		median := func() time.Duration {
			var took []time.Duration
			for range 7 {
				made++
				name, began := fmt.Sprint("net-", made), time.Now()
				bystander.network(name, fmt.Sprintf("10.78.%d.0/24", made), fmt.Sprintf("10.78.%d.1", made))
				bystander.awaitReady(name)
				took = append(took, virtual.Since(began))
			}
			slices.Sort(took)
			return took[len(took)/2]
		}
		idle := median()
		for i := range noise {
			attacker.network(fmt.Sprint("noise-", i), "10.79.0.0/24", "10.79.0.1", func(spec *cloudteamv1.NetworkSpec) {
				spec.QoSPolicy = fmt.Sprint("absent-", i)
			})
		}
		if busy := median(); busy > 2*idle {
			t.Errorf("a Network is Ready after %s beside %d of another namespace's, and after %s when all is quiet", busy, noise,
				idle)
		}
	})
}
