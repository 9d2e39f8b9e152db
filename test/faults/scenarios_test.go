package faults

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/proxy"
)

// scenario is one fault. The zero value of each field is the ordinary thing.
type scenario struct {
	// arguments are further ones of the command line.
	arguments []string
	// pageSize is how many resources Neutron gives at most on a page of a list.
	pageSize int
	// mayDouble is true where there may be two of one for a moment.
	mayDouble bool
	// slow keeps the scenario from a real cloud.
	slow bool
	// process keeps it from virtual time: it is about a process or what that serves.
	process bool
	// prepare breaks what is to break from the beginning on.
	prepare func(w *world)
	// live is the life that is lived, with what goes wrong in it; (*world).life by default.
	live func(w *world)
	// check is held when all is silent.
	check func(w *world)
}

// testScenarios lives a life with each fault.
func testScenarios(t *testing.T, want reference) {
	stands := map[string]bool{} // by heading
	for _, group := range []struct {
		heading   string
		scenarios map[string]scenario
	}{
		{headingAnswers, lostWrites()},
		{headingAnswers, bulks()},
		{headingAnswers, hanging()},
		{headingAnswers, bystanders()},
		{headingAnswers, refusedTokens()},
		{headingAnswers, refusals()},
		{headingAnswers, deadTokens()},
		{headingAnswers, outages()},
		{headingAnswers, drawn()},
		{headingAnswers, habits()},
		{headingProcess, rotations()},
		{headingLists, brokenLists()},
		{headingLists, earlyLists()},
		{headingLists, routerLists()},
		{headingOthers, others()},
		{headingOthers, deletionsByHand()},
		{headingOthers, retentions()},
		{headingKubernetes, brokenKubernetes()},
		{headingKubernetes, missedDeletions()},
		{headingProcess, processes()},
		{headingLeaders, leaders()},
		{headingSecrets, secrets()},
	} {
		if fewest() && stands[group.heading] {
			continue
		}
		c := networks()
		c.heading = group.heading
		stands[group.heading] = c.testScenarios(t, group.scenarios, func(w *world, s scenario) {
			if s.live == nil {
				s.live = (*world).life
			}
			s.live(w)
			w.hold(want.state)
			if s.check != nil {
				s.check(w)
			}
			w.holdNothing()
		})
	}
}

// leftOut is why a scenario does not run; empty where it runs. stood is whether one of its group has run.
func (s scenario) leftOut(stood bool) (reason string) {
	switch {
	case virtualTime && s.process:
		return "a process alone shows it"
	case openStack() && s.slow:
		return "slow"
	case sentinels() && stood:
		return "another one of its group stands for it"
	}
	return ""
}

// testScenarios lives a life with each fault, as a test of its own that runs beside others. live lives it to its end and
// holds what has to hold. stood is whether one of them runs.
func (c course) testScenarios(
	t *testing.T, scenarios map[string]scenario, live func(w *world, s scenario),
) (stood bool) {
	for _, name := range slices.Sorted(maps.Keys(scenarios)) {
		s, sentence := scenarios[name], c.name+name
		reason := s.leftOut(stood)
		stood = stood || reason == ""
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			row := table.begin(t, c.heading, sentence)
			if row.reason = reason; reason != "" {
				t.Skip(row.reason)
			}
			inTime(t, func(t *testing.T) {
				w := c.newWorld(t)
				w.arguments, w.pageSize, w.mayDouble = append(w.arguments, s.arguments...), s.pageSize, s.mayDouble
				if s.prepare != nil {
					s.prepare(w)
				}
				w.start()
				live(w, s)
			})
		})
	}
	return stood
}

// byItself lives a scenario that holds by itself what its life comes to.
func byItself(w *world, s scenario) { s.live(w) }

// is chooses the calls of a method and a shape.
func is(method, shape string) func(proxy.Call) bool {
	return func(c proxy.Call) bool { return c.Method == method && c.Shape == shape }
}

// firstOfEach chooses the first write of each method and shape.
func firstOfEach() func(proxy.Call) bool {
	seen := map[string]bool{}
	return func(c proxy.Call) bool {
		kind := c.Method + " " + c.Shape
		if c.Write == 0 || seen[kind] {
			return false
		}
		seen[kind] = true
		return true
	}
}

// everyOther chooses every other write.
func everyOther(c proxy.Call) bool { return c.Write%2 == 1 }

// refuse answers as a proxy in front of an API does that has no server to pass a call on to.
func refuse(status int, headers ...string) proxy.Fault {
	return proxy.Refuse(status, "<html>"+http.StatusText(status)+"</html>", headers...)
}

// refuseKubernetes answers as kube-apiserver does.
func refuseKubernetes(code int, reason metav1.StatusReason) proxy.Fault {
	body, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: "broken by a test",
	})
	if err != nil {
		panic(err) // it is made of strings and a number
	}
	return proxy.Refuse(code, string(body))
}

// lostWrites break writes to Neutron: refused, or done with the answer lost.
func lostWrites() map[string]scenario {
	all := map[string]scenario{}
	for how, fault := range map[string]proxy.Fault{
		"is cut off":           proxy.Reset,
		"is answered with 500": refuse(http.StatusInternalServerError),
		"is answered with 502": refuse(http.StatusBadGateway),
		"is answered with 503": refuse(http.StatusServiceUnavailable),
		"is answered with 504": refuse(http.StatusGatewayTimeout),
	} {
		for when, fault := range map[string]proxy.Fault{
			"before it is carried out": fault, "after it was carried out": proxy.After(fault),
		} {
			for which, choose := range map[string]func() func(proxy.Call) bool{
				"the first write of each kind": firstOfEach,
				"every other write":            func() func(proxy.Call) bool { return everyOther },
			} {
				if which == "every other write" && how != "is cut off" {
					continue
				}
				all[fmt.Sprintf("%s to Neutron %s, %s", which, how, when)] = scenario{
					// A refusal is the same to the controller whatever the number, and nothing of it arrives at the cloud.
					slow:    how != "is cut off" && how != "is answered with 503" && when == "before it is carried out",
					prepare: func(w *world) { w.neutron.Break(choose(), 0, fault) },
				}
			}
		}
	}
	all["the answer to the first write of each kind to Neutron ends in its middle"] = scenario{
		prepare: func(w *world) { w.neutron.Break(firstOfEach(), 0, proxy.Truncate) },
	}
	all["Neutron answers 429 with Retry-After, and is left alone for that long"] = scenario{
		live: func(w *world) {
			w.neutron.Break(is("POST", "/v2.0/networks"), 1, refuse(http.StatusTooManyRequests, "Retry-After", "3"))
			w.createNetwork(w.namespace, "a", cidrA, gatewayA)
			w.awaitNetwork(w.namespace, "a")
			w.createNetworks()
			w.restOfLife()
		},
		check: func(w *world) {
			writes := w.neutron.Writes()
			if again := writes[1].At; again.Before(writes[0].At.Add(3 * time.Second)) {
				w.t.Errorf("it tried again at %s, asked for 3s after %s", again, writes[0].At)
			}
		},
	}
	return all
}

// hanging are calls to Neutron that get no answer.
func hanging() map[string]scenario {
	return map[string]scenario{
		"a create that hangs holds up no other Network": {
			live: func(w *world) {
				release := make(chan struct{})
				rule := w.neutron.Break(is("POST", "/v2.0/networks"), 1, proxy.Hang(release))
				w.createNetwork(w.namespace, "a", cidrA, gatewayA)
				w.awaitHits(rule, 1)
				w.createNetwork(w.namespace, "b", cidrB, gatewayB)
				w.awaitNetwork(w.namespace, "b")
				close(release)
				w.awaitNetwork(w.namespace, "a")
				w.restOfLife()
			},
		},
		"the first write of each kind to Neutron hangs for longer than --cloud-timeout": {
			arguments: []string{"--cloud-timeout=1s"},
			prepare:   func(w *world) { w.neutron.Break(firstOfEach(), 0, proxy.Hang(nil)) },
		},
		"the first write of each kind to Neutron is carried out, and the answer takes longer than --cloud-timeout": {
			arguments: []string{"--cloud-timeout=1s"},
			prepare:   func(w *world) { w.neutron.Break(firstOfEach(), 0, proxy.After(proxy.Hang(nil))) },
		},
		"an audit hangs for longer than --cloud-timeout": {
			arguments: []string{"--cloud-timeout=1s"},
			prepare: func(w *world) {
				w.neutron.Break(func(c proxy.Call) bool {
					return c.Method == http.MethodGet && c.Shape == "/v2.0/subnets"
				}, 2, proxy.Hang(nil))
			},
		},
	}
}

// refusedTokens are tokens that Keystone has revoked, and a cloud that is not there.
func refusedTokens() map[string]scenario {
	return map[string]scenario{
		"the token is revoked while many workers are busy: they log in once": {
			live: func(w *world) {
				var revoked string
				creates := 0
				w.neutron.Break(func(c proxy.Call) bool {
					token := c.Request.Header.Get("X-Auth-Token")
					if creates += bulkSize(c, "networks"); revoked == "" && creates >= 4 {
						revoked = token
					}
					return revoked != "" && token == revoked
				}, 0, refuse(http.StatusUnauthorized))
				const more = 8
				for i := range more {
					w.createNetwork(w.namespace, fmt.Sprint("more-", i), fmt.Sprintf("10.%d.0.0/24", 10+i), "none")
				}
				w.createNetworks()
				for i := range more {
					w.awaitNetwork(w.namespace, fmt.Sprint("more-", i))
					w.deleteNetwork(w.namespace, fmt.Sprint("more-", i))
				}
				for i := range more {
					w.awaitNetworkGone(w.namespace, fmt.Sprint("more-", i))
				}
				w.restOfLife()
			},
			check: func(w *world) {
				logins := 0
				for call, count := range w.keystone.Counts() {
					if strings.HasPrefix(call, "POST ") {
						logins += count
					}
				}
				expect.Equal(w.t, 2, logins, "log-ins")
			},
		},
		"Keystone is unavailable when a token is revoked": {
			live: func(w *world) {
				w.createNetworks()
				away := w.keystone.Break(always, 0, refuse(http.StatusServiceUnavailable))
				var revoked string
				w.neutron.Break(func(c proxy.Call) bool {
					token := c.Request.Header.Get("X-Auth-Token")
					if revoked == "" {
						revoked = token
					}
					return token == revoked
				}, 0, refuse(http.StatusUnauthorized))
				w.createPort("p", "a", addressP, macP)
				w.createPort("q", "b", addressQ, macQ)
				w.awaitHits(away, 3)
				away.Mend()
				w.awaitPort("p")
				w.restOfLife()
			},
		},
		"Neutron is unavailable for a while": {
			live: func(w *world) {
				w.createNetworks()
				away := w.neutron.Break(always, 0, refuse(http.StatusServiceUnavailable))
				w.createPort("p", "a", addressP, macP)
				w.editA()
				w.awaitHits(away, 6)
				away.Mend()
				w.restOfLife()
			},
		},
	}
}

func always(proxy.Call) bool { return true }

// awaitHits waits until a rule has broken so many calls.
func (w *world) awaitHits(rule *proxy.Rule, hits int) {
	w.t.Helper()
	w.await(func() error {
		if now := rule.Hits(); now < hits {
			return fmt.Errorf("%d calls were broken, want %d", now, hits)
		}
		return nil
	})
}

// brokenLists are audits that do not show what there is. Nothing may be written on the strength of them.
func brokenLists() map[string]scenario {
	all := map[string]scenario{}
	first := func(shape string) func(proxy.Call) bool {
		return func(c proxy.Call) bool { return is("GET", shape)(c) && c.Query("marker") == "" }
	}
	second := func(shape string) func(proxy.Call) bool {
		return func(c proxy.Call) bool { return is("GET", shape)(c) && c.Query("marker") != "" }
	}
	ofProject := func(choose func(proxy.Call) bool) func(proxy.Call) bool {
		return func(c proxy.Call) bool { return choose(c) && c.Query("project_id") != "" }
	}
	for _, collection := range collections {
		shape := "/v2.0/" + collection
		empty := proxy.Change(func(a *proxy.Answer) { a.Body = []byte(`{"` + collection + `":[]}`) })
		for how, broken := range map[string]struct {
			choose func(proxy.Call) bool
			fault  proxy.Fault
		}{
			"is empty":                              {ofProject(first(shape)), empty},
			"ends after its first page":             {ofProject(second(shape)), empty},
			"fails with 500 on its second page":     {second(shape), refuse(http.StatusInternalServerError)},
			"is cut off in its middle":              {first(shape), proxy.Truncate},
			"is the page of a portal, with 200":     {first(shape), refuse(http.StatusOK)},
			"has null in the place of its contents": {first(shape), proxy.Refuse(200, `{"`+collection+`":null}`)},
		} {
			for whom, restart := range map[string]bool{"": false, ", of a process that has just begun": true} {
				if restart && how != "is empty" && how != "fails with 500 on its second page" {
					continue
				}
				all[fmt.Sprintf("a list of all %s %s%s", collection, how, whom)] = scenario{
					pageSize: 2,
					// Lists of all collections are read by the same code.
					slow: how != "is empty" && collection != "networks",
					live: func(w *world) { w.lifeWithBrokenLists(broken.choose, broken.fault, restart) },
				}
			}
		}
	}
	return all
}

// lifeWithBrokenLists lives, and then has lists broken for a while, in which nothing is written to Neutron.
func (w *world) lifeWithBrokenLists(choose func(proxy.Call) bool, fault proxy.Fault, restart bool) {
	w.t.Helper()
	w.life()
	w.awaitSilence()
	if restart {
		w.stop()
	}
	writes := len(w.neutron.Writes())
	rule := w.neutron.Break(choose, 0, fault)
	if restart {
		w.start()
	}
	w.awaitHits(rule, 2)
	rule.Mend()
	w.awaitSilence()
	expect.Empty(w.t, w.neutron.Writes()[writes:], "it wrote on the strength of a broken list")
}

// others are people who work on the same resources.
func others() map[string]scenario {
	return map[string]scenario{
		"somebody changes the network, the subnet or the port between the read and the write": {
			prepare: func(w *world) {
				for shape, change := range map[string]harness.Resource{
					"/v2.0/networks/{id}": {"name": "meddled"},
					"/v2.0/subnets/{id}":  {"dns_nameservers": []string{"10.9.9.9"}},
					"/v2.0/ports/{id}":    {"name": "meddled"},
				} {
					for _, method := range []string{http.MethodPut, http.MethodDelete} {
						w.neutron.Break(is(method, shape), 1, func(x *proxy.Exchange) {
							path := strings.Split(x.Shape, "/")
							id := x.Request.URL.Path[strings.LastIndex(x.Request.URL.Path, "/")+1:]
							proxy.Meanwhile(func() { w.cloud.Update(path[2], id, change) })(x)
						})
					}
				}
			},
		},
		"somebody takes the marker off between the read and the deletion, and keeps the network": {
			live: func(w *world) {
				var kept string
				w.neutron.Break(is("DELETE", "/v2.0/networks/{id}"), 1, func(x *proxy.Exchange) {
					kept = x.Request.URL.Path[strings.LastIndex(x.Request.URL.Path, "/")+1:]
					proxy.Meanwhile(func() {
						w.cloud.Update("networks", kept, harness.Resource{"description": "kept"})
					})(x)
				})
				w.life()
				w.cloud.One("networks", "id="+kept)
				w.cloud.Remove("networks", kept)
			},
		},
		"somebody deletes the port": {
			live: func(w *world) {
				w.life()
				was := w.awaitPort("p").Status.PortID
				w.cloud.Remove("ports", was)
				w.awaitOther("ports", was)
			},
		},
		"somebody deletes the port and the subnet": {
			live: func(w *world) {
				w.life()
				was := w.awaitPort("p").Status
				subnet := was.Addresses[0].SubnetID
				w.cloud.Remove("ports", was.PortID)
				// The port may be there again: then the subnet is in use, and it has to go once more.
				w.await(func() error {
					for _, port := range w.ours()["ports"] {
						_, _ = w.cloud.Client.Delete(w.t.Context(), w.cloud.Client.ServiceURL("ports", port.ID()), nil)
					}
					_, err := w.cloud.Client.Delete(w.t.Context(), w.cloud.Client.ServiceURL("subnets", subnet), nil)
					return err
				})
				w.awaitOther("subnets", subnet)
			},
		},
		"a Network of the same name in another namespace comes and goes": {
			live: func(w *world) {
				other := w.newNamespace()
				w.createNetwork(other, "a", cidrA, gatewayA)
				w.createNetworks()
				theirs := w.awaitNetwork(other, "a").Status.NetworkID
				w.restOfLife()
				before := w.awaitNetwork(w.namespace, "a").Status.NetworkID
				if theirs == before {
					w.t.Fatalf("both are network %s", theirs)
				}
				revision := w.cloud.One("networks", "id="+before)["revision_number"]
				w.deleteNetwork(other, "a")
				w.awaitNetworkGone(other, "a")
				if now := w.cloud.One("networks", "id="+before)["revision_number"]; now != revision {
					w.t.Errorf("the other's deletion moved revision %v to %v", revision, now)
				}
			},
		},
		"the finalizer is forced off while the Network is deleted": {
			live: func(w *world) {
				w.createNetwork(w.namespace, "c", "10.3.0.0/24", "none")
				w.awaitNetwork(w.namespace, "c")
				w.forceOff("c")
				w.awaitNetworkGone(w.namespace, "c")
				w.life()
			},
		},
		"the finalizer is forced off and the name taken again while the watch is frozen and then expires": {
			live: func(w *world) {
				was := w.awaitRecreatable()
				w.kube.Freeze(watchOfNetworks)
				w.recreateByForce()
				w.expireWatch()
				w.awaitRecreated(was)
			},
		},
	}
}

// forceOff deletes a Network and takes its finalizers off, as somebody does who will not wait.
func (w *world) forceOff(short string) {
	w.t.Helper()
	w.patchNetwork(short, `{"metadata":{"finalizers":["faults.cloudteam.ztgame.com/held"]}}`)
	w.deleteNetwork(w.namespace, short)
	w.patchNetwork(short, `{"metadata":{"finalizers":null}}`)
}

// awaitOther waits until there is one resource of ours of a collection, and it is not the one of the given id.
func (w *world) awaitOther(collection, was string) {
	w.t.Helper()
	w.await(func() error {
		all := w.ours()[collection]
		if len(all) != 1 || all[0].ID() == was {
			return fmt.Errorf("want one of %s other than %s, have %v", collection, was, all)
		}
		return nil
	})
}

// brokenKubernetes are faults of kube-apiserver.
func brokenKubernetes() map[string]scenario {
	all := map[string]scenario{}
	for how, fault := range map[string]proxy.Fault{
		"is cut off":           proxy.Reset,
		"is answered with 409": refuseKubernetes(http.StatusConflict, metav1.StatusReasonConflict),
		"is answered with 429": refuseKubernetes(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests),
		"is answered with 500": refuseKubernetes(http.StatusInternalServerError, metav1.StatusReasonInternalError),
	} {
		for when, fault := range map[string]proxy.Fault{
			"before it is carried out": fault, "after it was carried out": proxy.After(fault),
		} {
			all[fmt.Sprintf("the first two writes of each kind to Kubernetes, status included: each %s, %s", how, when)] =
				scenario{prepare: func(w *world) {
					w.kube.Break(firstOfEach(), 0, fault)
					w.kube.Break(firstOfEach(), 0, fault)
				}}
		}
	}
	all["every status write is refused for a while"] = scenario{live: func(w *world) {
		refused := w.kube.Break(func(c proxy.Call) bool { return strings.HasSuffix(c.Shape, "/status") }, 0,
			refuseKubernetes(http.StatusInternalServerError, metav1.StatusReasonInternalError))
		w.createNetwork(w.namespace, "a", cidrA, gatewayA)
		w.createNetwork(w.namespace, "b", cidrB, gatewayB)
		w.awaitHits(refused, 6)
		refused.Mend()
		w.awaitNetwork(w.namespace, "a")
		w.awaitNetwork(w.namespace, "b")
		if creates := w.neutron.Count("POST", "/v2.0/networks"); creates > 2 {
			w.t.Errorf("%d calls created networks, want 2 at most", creates)
		}
		w.restOfLife()
	}}
	all["every watch is cut at each of the first writes"] = scenario{prepare: func(w *world) {
		// Further ones would only have it wait: a reflector begins its watch anew after longer and longer pauses.
		w.kube.Break(func(c proxy.Call) bool { return c.Write > 0 }, 5, proxy.Meanwhile(func() { w.kube.Cut(always) }))
	}}
	all["the watches are frozen through a whole create, edit and delete"] = scenario{live: func(w *world) {
		w.createNetwork(w.namespace, "c", "10.3.0.0/24", "none")
		w.awaitNetwork(w.namespace, "c")
		thaw := w.kube.Freeze(always)
		w.patchNetwork("c", `{"spec":{"description":"edited"}}`)
		w.deleteNetwork(w.namespace, "c")
		w.createNetwork(w.namespace, "a", cidrA, gatewayA)
		w.createNetwork(w.namespace, "b", cidrB, gatewayB)
		thaw()
		w.awaitNetworkGone(w.namespace, "c")
		w.awaitNetwork(w.namespace, "a")
		w.awaitNetwork(w.namespace, "b")
		w.restOfLife()
	}}
	all["the watch lags behind the controller's own writes when Neutron changes: it waits, and writes nothing"] =
		scenario{live: (*world).lifeWithLaggingWatch}
	all["kube-apiserver is unavailable for a while"] = scenario{live: func(w *world) {
		w.createNetworks()
		away := w.kube.Break(always, 0, proxy.Reset)
		w.kube.Cut(always)
		w.createPort("p", "a", addressP, macP)
		w.editA()
		w.awaitHits(away, 4)
		away.Mend()
		w.restOfLife()
	}}
	return all
}

// lifeWithLaggingWatch begins with a Network whose status write does not come back while its subnet is changed.
func (w *world) lifeWithLaggingWatch() {
	w.t.Helper()
	frozen := make(chan func(), 1)
	w.kube.Break(is("PATCH", kubeNetworks+"/{name}/status"), 1, proxy.Meanwhile(func() {
		frozen <- w.kube.Freeze(func(c proxy.Call) bool { return c.Shape == kubeNetworks })
	}))
	w.createNetwork(w.namespace, "a", cidrA, gatewayA)
	subnet := w.awaitNetwork(w.namespace, "a").Status.Subnets[0].ID
	thaw := <-frozen
	w.awaitSilence()
	writes := w.writes()
	w.cloud.Update("subnets", subnet, harness.Resource{"dns_nameservers": []string{"10.9.9.9"}})
	w.awaitSilence()
	if more := w.writes() - writes; more > 0 {
		w.t.Errorf("%d writes on the strength of an old state, the last: %s", more, w.lastWrites())
	}
	thaw()
	w.createNetworks()
	w.restOfLife()
}

// processes are faults of the controller's own process, beside its sudden death.
func processes() map[string]scenario {
	return map[string]scenario{
		"stopped while a create is under way: it is finished first, and not done twice": {
			live: func(w *world) {
				release := make(chan struct{})
				held := w.neutron.Break(is("POST", "/v2.0/networks"), 1, proxy.Hold(release))
				w.createNetwork(w.namespace, "a", cidrA, gatewayA)
				w.awaitHits(held, 1)
				p := w.process.Load()
				p.Signal(syscall.SIGTERM)
				close(release)
				expect.Equal(w.t, 0, p.AwaitExit(w.t), "the exit code")
				w.start()
				w.createNetwork(w.namespace, "b", cidrB, gatewayB)
				w.awaitNetwork(w.namespace, "a")
				w.awaitNetwork(w.namespace, "b")
				if creates := w.neutron.Count("POST", "/v2.0/networks"); creates > 2 {
					w.t.Errorf("%d calls created networks, want 2 at most", creates)
				}
				w.restOfLife()
			},
		},
		"two controllers run at once for a while, and both make everything": {
			mayDouble: true,
			live: func(w *world) {
				other := w.process.Load()
				w.start()
				w.createNetworks()
				other.Kill(w.t)
				w.awaitSilence()
				w.restOfLife()
			},
		},
		"killed in the middle of a create, and the Network deleted before the next process begins": {
			live: func(w *world) {
				killed := w.process.Load()
				w.neutron.Break(is("POST", "/v2.0/networks"), 1, proxy.After(func(x *proxy.Exchange) {
					w.crash()
					x.Reset()
				}))
				w.createNetwork(w.namespace, "c", "10.3.0.0/24", "none")
				<-killed.Done()
				w.removeNetwork("c")
				w.life()
			},
		},
		"the next process has the credentials of another project": {
			live: func(w *world) {
				w.life()
				w.stop()
				writes := len(w.neutron.Writes())
				w.cloudName = "admin"
				w.start()
				w.awaitStalled("a", cloudteamv1.ReasonCloudMismatch)
				w.awaitSilence()
				expect.Empty(w.t, w.neutron.Writes()[writes:], "it wrote to another project")
				w.stop()
				w.cloudName = cloudName
				w.start()
			},
		},
		"the finalizer is forced off while no controller runs": {
			arguments: []string{"--controllers=orphan", "--orphan-grace=2s", "--orphan-max-share=1"},
			live: func(w *world) {
				w.createNetwork(w.namespace, "c", "10.3.0.0/24", "none")
				w.awaitNetwork(w.namespace, "c")
				w.process.Load().Kill(w.t)
				w.forceOff("c")
				w.start()
				w.life()
			},
		},
		"a Network is created, deleted and created again while no controller runs": {
			live: func(w *world) {
				w.process.Load().Kill(w.t)
				w.createNetwork(w.namespace, "c", "10.3.0.0/24", "none")
				w.deleteNetwork(w.namespace, "c")
				w.createNetwork(w.namespace, "c", "10.3.0.0/24", "none")
				w.start()
				w.awaitNetwork(w.namespace, "c")
				w.removeNetwork("c")
				w.life()
			},
		},
	}
}
