package faults

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/proxy"
)

// bulks are creates of many resources in one call that go wrong.
func bulks() map[string]scenario {
	all := map[string]scenario{
		"a bulk create of which one member is bad: the others are made, and the bad one says what is wrong with it": {
			live: func(w *world) {
				names := w.createCrowd(func() {
					tooLarge := int32(9999)
					w.createNetwork(w.namespace, "bad", "10.99.0.0/24", "none",
						func(spec *cloudteamv1.NetworkSpec) { spec.MTU = &tooLarge })
				})
				w.awaitStalled("bad", cloudteamv1.ReasonRejected)
				w.removeCrowd(append(names, "bad"))
				w.life()
			},
		},
		"quota for a few of a bulk: as many are made, and the others when there is room": {
			live: func(w *world) {
				const room = 5
				made := 0
				refused := w.neutron.Break(func(c proxy.Call) bool {
					// Neutron counts the whole bulk against the quota.
					size := bulkSize(c, "networks")
					if size == 0 || made+size <= room {
						made += size
						return false
					}
					return true
				}, 0, proxy.Refuse(http.StatusConflict, `{"NeutronError": {"type": "OverQuota", `+
					`"message": "Quota exceeded for resources: ['network'].", "detail": ""}}`))
				names := w.createCrowd(nil)
				w.await(func() error {
					if now := len(w.ours()["networks"]); now != room {
						return fmt.Errorf("there are %d networks, want the %d for which there is room", now, room)
					}
					return nil
				})
				refused.Mend()
				w.removeCrowd(names)
				w.life()
			},
		},
	}
	for how, fault := range map[string]proxy.Fault{
		"is lost":             proxy.After(proxy.Reset),
		"is 503":              proxy.After(refuse(http.StatusServiceUnavailable)),
		"ends in its middle":  proxy.Truncate,
		"is in another order": proxy.Change(reverse),
		"lacks one of them":   proxy.Change(shorten),
	} {
		for _, collection := range []string{"networks", "subnets"} {
			all[fmt.Sprintf("the answer to a bulk create of %s %s", collection, how)] = scenario{
				slow: how != "is lost",
				live: func(w *world) {
					broken := w.neutron.Break(func(c proxy.Call) bool { return bulkSize(c, collection) > 1 }, 2, fault)
					w.removeCrowd(w.createCrowd(nil))
					if broken.Hits() == 0 {
						w.t.Errorf("there was no bulk create of %s to break", collection)
					}
					w.life()
				},
			}
		}
	}
	return all
}

// crowd is how many Networks have their resources created in few calls.
const crowd = 12

// createCrowd creates a crowd of Networks and what also does. If their first creates go alone, Neutron holds them up, so
// that those of the others go together. It returns their names.
func (w *world) createCrowd(also func()) (names []string) {
	w.t.Helper()
	release := make(chan struct{})
	// As many as are under way at first. What is behind them gathers.
	w.neutron.Break(func(c proxy.Call) bool { return bulkSize(c, "networks") == 1 }, 2, proxy.Hold(release))
	for i := range crowd {
		name := fmt.Sprint("crowd-", i)
		names = append(names, name)
		w.createNetwork(w.namespace, name, fmt.Sprintf("10.%d.0.0/24", 100+i), "none")
	}
	if also != nil {
		also()
	}
	w.await(func() error {
		// The finalizers come right before the creates.
		if claimed := w.kube.Count("PATCH", kubeNetworks+"/{name}"); claimed < crowd {
			return fmt.Errorf("%d Networks have their finalizer, want %d", claimed, crowd)
		}
		return nil
	})
	close(release)
	return names
}

// removeCrowd waits for Networks to be Ready, but for one of the name "bad", and removes them.
func (w *world) removeCrowd(names []string) {
	w.t.Helper()
	for _, name := range names {
		if name != "bad" {
			w.awaitNetwork(w.namespace, name)
		}
	}
	for _, name := range names {
		w.deleteNetwork(w.namespace, name)
	}
	for _, name := range names {
		w.awaitNetworkGone(w.namespace, name)
	}
}

// bulkSize is how many resources of a collection a call is to create.
func bulkSize(c proxy.Call, collection string) int {
	if !is("POST", "/v2.0/"+collection)(c) {
		return 0
	}
	var body map[string]json.RawMessage
	var many []json.RawMessage
	if json.Unmarshal(c.Body, &body) != nil || json.Unmarshal(body[collection], &many) != nil {
		return 1
	}
	return len(many)
}

// reverse turns the order of what was created around, and shorten leaves the last one out.
func reverse(a *proxy.Answer) {
	reorder(a, func(made []any) []any {
		for i := range len(made) / 2 {
			made[i], made[len(made)-1-i] = made[len(made)-1-i], made[i]
		}
		return made
	})
}

func shorten(a *proxy.Answer) { reorder(a, func(made []any) []any { return made[:len(made)-1] }) }

func reorder(a *proxy.Answer, how func([]any) []any) {
	var body map[string][]any
	if json.Unmarshal(a.Body, &body) != nil {
		return
	}
	for collection := range maps.Keys(body) {
		body[collection] = how(body[collection])
	}
	if changed, err := json.Marshal(body); err == nil {
		a.Body = changed
	}
}
