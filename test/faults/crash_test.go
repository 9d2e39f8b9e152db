package faults

import (
	"cmp"
	"fmt"
	"testing"

	"cloudteam.ztgame.com/network-controller/test/proxy"
)

// course is a kind of life: all lives of it do the same work.
type course struct {
	// heading is above its rows, and name begins their sentences.
	heading, name string
	// prepare, unless nil, readies a world before its controller starts.
	prepare func(w *world)
	// live lives a life to its end and holds what has to hold, against the undisturbed life; of that itself, want is the
	// zero reference. It returns the state to compare others with.
	live func(w *world, want reference) state
	// stride is, by API, how many writes further on the process dies again in the same life; 0 has it die once. Of writes
	// to Kubernetes, Events do not count then: those that wait to be sent die with the process, so that a life has the
	// fewer of them the more often it does.
	stride map[string]int
	// varies is how many percent of the writes another life may lack: of two changes that are close together the next write
	// may hold both, and the recorder of Events drops what it has no time for.
	varies int
	// sparsely is how many lives further on the next is lived in which the process dies, on a real cloud, which is slower.
	sparsely int
}

// networks is the course of Networks and NetworkPorts.
func networks() course {
	return course{
		heading: headingSudden,
		live: func(w *world, want reference) state {
			w.life()
			if want.state == nil {
				w.awaitSilence()
				want.state = w.state()
			}
			w.hold(want.state)
			w.holdNothing()
			return want.state
		},
		varies:   10,
		sparsely: 3,
	}
}

// newWorld makes a world for a life.
func (c course) newWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	if c.prepare != nil {
		c.prepare(w)
	}
	return w
}

// reference is how a life ends that nothing disturbs, and what it writes.
type reference struct {
	state         state
	neutron, kube []proxy.Entry
}

// undisturbed lives the life that all others of the course are compared with.
func (c course) undisturbed(t *testing.T) reference {
	var r reference
	sentence := c.name + "nothing goes wrong"
	t.Run(sentence, func(t *testing.T) {
		table.begin(t, c.heading, sentence)
		inTime(t, func(t *testing.T) {
			w := c.newWorld(t)
			w.start()
			is := c.live(w, reference{})
			r = reference{is, w.neutron.Writes(), w.kube.Writes()}
			w.stop()
		})
	})
	if len(r.kube) == 0 {
		t.Fatal("an undisturbed life has to be lived before others")
	}
	return r
}

// kills are the first writes, counted from 1, at which the process dies in one life each, of those that are of the given
// kinds.
func (c course) kills(kinds []string) (at []int) {
	seen := map[string]bool{}
	for i, kind := range kinds {
		switch {
		case sentinels() && (seen[kind] || len(at) > 0 && (c.stride != nil || fewest())):
		case openStack() && i%c.sparsely != 0:
		default:
			at = append(at, i+1)
		}
		seen[kind] = true
	}
	return at
}

// carriedOut is when a process dies whose write arrived, of which it hears no more.
const carriedOut = "after it was carried out, before the answer"

// testCrashes kills the process at each write of a life: in as many lives as there are writes, or in fewer where the
// course has it die several times in one.
func testCrashes(t *testing.T, course course, want reference) {
	for _, api := range []struct {
		name   string
		writes []proxy.Entry
		proxy  func(*world) *proxy.Proxy
	}{
		{"Neutron", want.neutron, func(w *world) *proxy.Proxy { return w.neutron }},
		{"Kubernetes", want.kube, func(w *world) *proxy.Proxy { return w.kube }},
	} {
		stride := course.stride[api.name]
		counts := func(shape string) bool { return stride == 0 || shape != kubeEvents }
		var kinds []string
		for _, entry := range api.writes {
			if counts(entry.Shape) {
				kinds = append(kinds, entry.Method+" "+entry.Shape)
			}
		}
		writes := len(kinds)
		apart := cmp.Or(stride, writes)
		if writes == 0 {
			continue // a life without Networks
		}
		for when, fault := range map[string]func(w *world) proxy.Fault{
			"before it is carried out": func(w *world) proxy.Fault {
				return func(x *proxy.Exchange) { w.crash(); x.Reset() }
			},
			carriedOut: func(w *world) proxy.Fault {
				return proxy.After(func(x *proxy.Exchange) { w.crash(); x.Reset() })
			},
		} {
			if fewest() && (api.name != "Neutron" || when != carriedOut) {
				continue
			}
			if sentinels() && course.heading != headingSudden && (api.name == "Neutron") != (when == carriedOut) {
				continue // Networks die in all four ways, and here each kind in two
			}
			sentence := fmt.Sprintf("%skilled at a write to %s, %s", course.name, api.name, when)
			t.Run(sentence, func(t *testing.T) {
				t.Parallel()
				row := table.begin(t, course.heading, sentence)
				tried := 0
				t.Cleanup(func() {
					said := t.Logf
					if row.kills < tried*(100-course.varies)/100 {
						said = t.Errorf
					}
					said("killed at %d of %d writes", row.kills, tried)
				})
				for _, n := range course.kills(kinds[:min(apart, writes)]) {
					points := (writes-n)/apart + 1
					tried += points
					t.Run(fmt.Sprint(n), func(t *testing.T) {
						t.Parallel()
						inTime(t, func(t *testing.T) {
							w := course.newWorld(t)
							counted := 0
							rule := api.proxy(w).Break(func(c proxy.Call) bool {
								if c.Write == 0 || !counts(c.Shape) {
									return false
								}
								counted++
								return counted >= n && (counted-n)%apart == 0
							}, points, fault(w))
							w.start()
							course.live(w, want)
							table.killed(row, rule.Hits())
						})
					})
				}
			})
		}
	}
}
