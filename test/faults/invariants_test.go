package faults

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

// state is what there is in Neutron and in Kubernetes, without what differs from run to run: ids and times. Each kind's
// resources and objects are in the order of their texts.
type state map[string][]any

// volatile are the fields that say nothing but when or which, and the counts of addresses, which are written when they
// have moved by enough.
var volatile = []string{
	"id", "created_at", "updated_at", "revision_number", "provider:segmentation_id", "project_id", "tenant_id",
	"standard_attr_id", "managedFields", "resourceVersion", "uid", "creationTimestamp", "lastTransitionTime", "cloud",
	"security_groups", "annotations", "usedAddresses",
}

// state reads what there is. Ids that one thing has of another become the other's name, so that a wrong one shows.
func (w *world) state() state {
	w.t.Helper()
	names := []string{w.namespace, "<world>", w.cluster, "<cluster>"}
	found := map[string][]any{}
	for collection, resources := range w.ours() {
		for _, r := range resources {
			names = append(names, r.ID(), fmt.Sprintf("<%s %v>", collection, r["name"]))
			found[collection] = append(found[collection], r)
		}
	}
	for _, group := range w.cloud.List("security-groups", "name=default") {
		names = append(names, group.ID(), "<default group>")
	}
	selector := metav1.ListOptions{LabelSelector: worldLabel + "=" + w.namespace}
	networks, err := w.api().Networks("").List(w.t.Context(), selector)
	expect.NoError(w.t, err)
	for _, n := range networks.Items {
		names = append(names, string(n.UID), "<Network "+n.Namespace+"/"+n.Name+">")
		found["Networks"] = append(found["Networks"], n)
	}
	ports, err := w.portClient().List(w.t.Context(), metav1.ListOptions{})
	expect.NoError(w.t, err)
	for _, p := range ports.Items {
		names = append(names, string(p.UID), "<NetworkPort "+p.Namespace+"/"+p.Name+">")
		found["NetworkPorts"] = append(found["NetworkPorts"], p)
	}
	replace := strings.NewReplacer(names...)
	plain := state{}
	for kind, things := range found {
		for _, thing := range things {
			plain[kind] = append(plain[kind], canonical(w, thing, replace))
		}
		slices.SortFunc(plain[kind], func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	}
	return plain
}

func canonical(w *world, thing any, replace *strings.Replacer) any {
	w.t.Helper()
	text, err := json.Marshal(thing)
	expect.NoError(w.t, err)
	// The names that ids became may hold the namespace.
	var decoded any
	expect.NoError(w.t, json.Unmarshal([]byte(replace.Replace(replace.Replace(string(text)))), &decoded))
	return withoutVolatile(decoded)
}

func withoutVolatile(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for _, field := range volatile {
			delete(value, field)
		}
		for field := range value {
			value[field] = withoutVolatile(value[field])
		}
	case []any:
		for i := range value {
			value[i] = withoutVolatile(value[i])
		}
	}
	return value
}

// hold holds that the world has come to the state that is wanted, that nothing foreign was touched, that there were
// never two of one, and that nothing is written any more.
func (w *world) hold(want state) {
	w.t.Helper()
	w.await(func() error {
		if diff := cmp.Diff(want, w.state()); diff != "" {
			return fmt.Errorf("not the state that undisturbed work ends in (-want +got):\n%s", diff)
		}
		return nil
	})
	w.awaitSilence()
	expect.Equal(w.t, want, w.state(), "not the state that undisturbed work ends in, when all is silent")
	w.holdOthers()
	w.searchServed()
}

func (w *world) holdOthers() {
	w.t.Helper()
	expect.Equal(w.t, w.foreign, w.notOurs(), "foreign resources were touched")
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mayDouble {
		return
	}
	for _, double := range w.doubles {
		w.t.Errorf("there were two of %s", double)
	}
}

// audits is how many audits have begun: each begins with the first page of the networks.
func (w *world) audits() int { return w.neutron.Count("GET", "/v2.0/networks") }

// writes is how many there were, to either API.
func (w *world) writes() int { return len(w.neutron.Writes()) + len(w.kube.Writes()) }

// awaitSilence waits until nothing has been written over two whole audits.
func (w *world) awaitSilence() {
	w.t.Helper()
	writes, audits := w.writes(), w.audits()
	w.await(func() error {
		if now := w.writes(); now != writes {
			writes, audits = now, w.audits()
		}
		// The third to begin shows that the second has ended.
		if begun := w.audits() - audits; begun < 3 {
			return fmt.Errorf("no silence: %d writes, the last %s, then %d audits", writes, w.lastWrites(), begun)
		}
		return nil
	})
}

func (w *world) lastWrites() string {
	var last []string
	for api, entries := range map[string]fmt.Stringer{"Neutron": w.neutron, "Kubernetes": w.kube} {
		lines := strings.Split(strings.TrimSpace(entries.String()), "\n")
		last = append(last, api+": "+lines[len(lines)-1])
	}
	return strings.Join(last, "; ")
}

// holdNothing removes what is left and holds that it leaves nothing.
func (w *world) holdNothing() {
	w.t.Helper()
	w.endOfLife()
	w.await(func() error {
		if left := w.ours(); len(left) > 0 {
			return fmt.Errorf("resources are left: %v", left)
		}
		return nil
	})
	w.holdOthers()
}
