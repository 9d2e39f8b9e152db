package faults

import (
	"fmt"
	"testing"

	"cloudteam.ztgame.com/network-controller/test/proxy"
)

// reference is how a life ends that nothing disturbs, and what it writes.
type reference struct {
	state         state
	neutron, kube int
}

// live lives the life that all others are compared with.
func live(t *testing.T) reference {
	var r reference
	t.Run("nothing goes wrong", func(t *testing.T) {
		table.begin(t, headingSudden, "nothing goes wrong")
		w := newWorld(t)
		w.start()
		w.life()
		w.awaitSilence()
		r = reference{w.state(), len(w.neutron.Writes()), len(w.kube.Writes())}
		w.holdOthers()
		w.holdNothing()
		w.stop()
	})
	if r.neutron == 0 || r.kube == 0 {
		t.Fatalf("an undisturbed life has to be lived before others: %d writes to Neutron, %d to Kubernetes", r.neutron,
			r.kube)
	}
	return r
}

// sweepStep is how many writes further on the next crash is tried. A real cloud is slower.
func sweepStep() int {
	if openStack() {
		return 3
	}
	return 1
}

// testCrashes kills the process at each write of a life, in a life of its own for each.
func testCrashes(t *testing.T, want reference) {
	for _, api := range []struct {
		name   string
		writes int
		proxy  func(*world) *proxy.Proxy
	}{
		{"Neutron", want.neutron, func(w *world) *proxy.Proxy { return w.neutron }},
		{"Kubernetes", want.kube, func(w *world) *proxy.Proxy { return w.kube }},
	} {
		for when, fault := range map[string]func(w *world) proxy.Fault{
			"before it is carried out": func(w *world) proxy.Fault {
				return func(x *proxy.Exchange) { w.crash(); x.Reset() }
			},
			"after it was carried out, before the answer": func(w *world) proxy.Fault {
				return proxy.After(func(x *proxy.Exchange) { w.crash(); x.Reset() })
			},
		} {
			sentence := fmt.Sprintf("killed at a write to %s, %s", api.name, when)
			t.Run(sentence, func(t *testing.T) {
				t.Parallel()
				row := table.begin(t, headingSudden, sentence)
				tried := 0
				t.Cleanup(func() {
					// The recorder of Events drops what it has no time for, so the last writes may lack in a life.
					if row.kills < tried*9/10 {
						t.Errorf("killed at %d of %d writes", row.kills, tried)
					}
				})
				for n := 1; n <= api.writes; n += sweepStep() {
					tried++
					t.Run(fmt.Sprint(n), func(t *testing.T) {
						t.Parallel()
						w := newWorld(t)
						rule := api.proxy(w).Break(func(c proxy.Call) bool { return c.Write == n }, 1, fault(w))
						w.start()
						w.life()
						w.hold(want.state)
						w.holdNothing()
						if rule.Hits() > 0 {
							table.killed(row)
						}
					})
				}
			})
		}
	}
}
