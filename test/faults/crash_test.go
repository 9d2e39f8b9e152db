package faults

import (
	"fmt"
	"sync"
	"testing"

	"cloudteam.ztgame.com/network-controller/test/faults/proxy"
)

// reference is how a life without a fault ends, and what it writes.
type reference struct {
	state         state
	neutron, kube []proxy.Entry
}

// undisturbed lives a life without a fault, once.
var undisturbed = sync.OnceValue(func() *reference { return nil })

// TestUndisturbed lives the life that all others are compared with.
func TestFaults(t *testing.T) {
	var want reference
	t.Run("nothing", func(t *testing.T) {
		results.begin(t, "nothing goes wrong")
		w := newWorld(t)
		w.start()
		w.life()
		w.awaitSilence()
		want = reference{w.state(), w.neutron.Writes(), w.kube.Writes()}
		w.hold(want.state)
		w.holdNothing()
		w.stop()
		t.Logf("%d writes to Neutron, %d to Kubernetes\n%s%s", len(want.neutron), len(want.kube), w.neutron, w.kube)
		t.Log(fmt.Sprint(want.state))
	})
}
