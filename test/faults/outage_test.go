package faults

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/proxy"
)

// outages are times in which the cloud does not answer while many objects have something to be done.
func outages() map[string]scenario {
	all := map[string]scenario{}
	for sentence, o := range map[string]struct {
		objects int
		away    func(w *world) *absence
		timeout string
	}{
		"Neutron cuts every connection, with 150 Networks at work: it is probed, and nothing else is called or written": {
			150, func(w *world) *absence { return w.leave(w.neutron, proxy.Reset) }, "1m",
		},
		"Neutron answers 503 to everything, with 40 Networks at work: it is probed, and nothing else is called or written": {
			40, func(w *world) *absence { return w.leave(w.neutron, refuse(http.StatusServiceUnavailable)) }, "1m",
		},
		"Neutron hangs, with 40 Networks at work: it is probed, and nothing else is called or written": {
			40, func(w *world) *absence { return w.leave(w.neutron, proxy.Hang(nil)) }, "1s",
		},
		"Keystone is unavailable and tokens are refused, with 40 Networks at work: it is probed, and nothing else is called or written": {
			40, (*world).leaveKeystone, "1m",
		},
	} {
		all[sentence] = scenario{
			slow:      true,
			arguments: []string{"--cloud-timeout=" + o.timeout, "--bind-address=127.0.0.1:0"},
			live: func(w *world) {
				w.liveThroughOutage(o.objects, o.away)
				w.life()
			},
		}
	}
	return all
}

// absence is an API that does not answer.
type absence struct {
	rules []*proxy.Rule

	mu    sync.Mutex
	calls []string
}

// mend has it answer again.
func (a *absence) mend() {
	for _, rule := range a.rules {
		rule.Mend()
	}
}

// called are the calls since there were so many.
func (a *absence) called(since int) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.calls[since:]...)
}

func (a *absence) note(c proxy.Call) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	what := c.Method + " " + c.Shape
	if c.Query("limit") == "1" {
		what = "probe"
	}
	a.calls = append(a.calls, what)
	return true
}

// leave has every call to an API end in the same fault.
func (w *world) leave(api *proxy.Proxy, fault proxy.Fault) *absence {
	a := &absence{}
	a.rules = []*proxy.Rule{api.Break(a.note, 0, fault)}
	return a
}

// leaveKeystone has Keystone cut every connection, and Neutron refuse the tokens from before.
func (w *world) leaveKeystone() *absence {
	a := &absence{}
	isLogin := func(c proxy.Call) bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.calls = append(a.calls, "probe") // by a log-in
		return true
	}
	a.rules = []*proxy.Rule{
		w.keystone.Break(isLogin, 0, proxy.Reset),
		w.neutron.Break(a.note, 0, refuse(http.StatusUnauthorized)),
	}
	return a
}

// liveThroughOutage makes Networks and has the cloud go while a third of them is edited, another is deleted, and as
// many more come.
func (w *world) liveThroughOutage(count int, away func(*world) *absence) {
	w.t.Helper()
	third := count / 3
	w.createMany(0, 2*third)
	w.await(func() error { return w.manyReady(2 * third) })
	w.awaitSilence()
	before := w.heap()

	gone := away(w)
	w.each(0, third, func(ctx context.Context, short string) error {
		_, err := w.api().Networks(w.namespace).Patch(ctx, w.name(short),
			types.MergePatchType, []byte(`{"spec":{"description":"edited"}}`), metav1.PatchOptions{})
		return err
	})
	w.each(third, 2*third, func(ctx context.Context, short string) error {
		return w.api().Networks(w.namespace).Delete(ctx, w.name(short), metav1.DeleteOptions{})
	})
	w.createMany(2*third, 3*third)

	// Each object comes to say the same: since when the cloud has not answered, and how.
	w.await(func() error { return w.allSayTheyWait(3 * third) })
	w.awaitEvents(3 * third)
	calls := w.awaitQuiet(gone)
	for _, call := range gone.called(calls) {
		expect.Equal(w.t, "probe", call, "the only call to a cloud that is away, with %d Networks waiting", count)
	}
	w.holdFewEvents()
	if after := w.heap(); !virtualTime && after > 2*before+16<<20 {
		w.t.Errorf("the heap grew from %.0f to %.0f bytes", before, after)
	}

	gone.mend()
	w.await(func() error { return w.manyReady(2 * third) })
	err := w.api().Networks(w.namespace).DeleteCollection(w.t.Context(),
		metav1.DeleteOptions{}, metav1.ListOptions{})
	expect.NoError(w.t, err)
	w.await(func() error { return w.manyReady(0) })
}

// each does something for the Networks of a range of numbers, some at a time.
func (w *world) each(from, to int, do func(ctx context.Context, short string) error) {
	w.t.Helper()
	group, ctx := errgroup.WithContext(w.t.Context())
	group.SetLimit(8)
	for i := from; i < to; i++ {
		group.Go(func() error { return do(ctx, fmt.Sprint("n", i)) })
	}
	expect.NoError(w.t, group.Wait())
}

func (w *world) createMany(from, to int) {
	w.t.Helper()
	w.each(from, to, func(ctx context.Context, short string) error {
		_, err := w.api().Networks(w.namespace).Create(ctx, &cloudteamv1.Network{
			ObjectMeta: w.meta(w.namespace, w.name(short)),
			Spec:       cloudteamv1.NetworkSpec{SubnetSpec: cloudteamv1.SubnetSpec{CIDR: "10.4.0.0/24"}},
		}, metav1.CreateOptions{})
		return err
	})
}

func (w *world) networks() []cloudteamv1.Network {
	w.t.Helper()
	list, err := w.api().Networks(w.namespace).List(w.t.Context(), metav1.ListOptions{})
	expect.NoError(w.t, err)
	return list.Items
}

// manyReady is nil where there are so many Networks, and all are Ready as last declared.
func (w *world) manyReady(count int) error {
	w.t.Helper()
	all := w.networks()
	if len(all) != count {
		return fmt.Errorf("there are %d Networks, want %d", len(all), count)
	}
	for _, n := range all {
		if err := harness.Ready(&n); err != nil {
			return err
		}
	}
	return nil
}

// waiting is what the message of an object says that waits for the cloud.
var waiting = regexp.MustCompile(`the cloud has not answered since \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ \(.+\)\. Retrying with backoff\.$`)

// allSayTheyWait is nil where so many Networks wait for the cloud, all since the same time and for the same reason.
func (w *world) allSayTheyWait(count int) error {
	w.t.Helper()
	all := w.networks()
	if len(all) != count {
		return fmt.Errorf("there are %d Networks, want %d", len(all), count)
	}
	said := map[string]bool{}
	for _, n := range all {
		ready := meta.FindStatusCondition(n.Status.Conditions, cloudteamv1.ConditionReady)
		if ready == nil || ready.Reason != cloudteamv1.ReasonCloudUnavailable || !waiting.MatchString(ready.Message) {
			return fmt.Errorf("%s does not say that it waits for the cloud: %+v", n.Name, n.Status.Conditions)
		}
		said[waiting.FindString(ready.Message)] = true
	}
	if len(said) != 1 {
		return fmt.Errorf("of one outage the Networks say: %v", said)
	}
	return nil
}

// warnings are how many Events with a warning there were, by the name of the object that they are about.
func (w *world) warnings() map[string]int {
	w.t.Helper()
	list, err := w.around.Kube.CoreV1().Events(w.namespace).List(w.t.Context(),
		metav1.ListOptions{FieldSelector: "type=Warning,reason=" + cloudteamv1.ReasonCloudUnavailable})
	expect.NoError(w.t, err)
	found := map[string]int{}
	for _, e := range list.Items {
		found[e.InvolvedObject.Name] += int(max(e.Count, 1))
	}
	return found
}

// awaitEvents waits until the Events of so many objects have come: they are sent after the status is written.
func (w *world) awaitEvents(objects int) {
	w.t.Helper()
	writes := -1
	w.await(func() error {
		told := len(w.warnings())
		was := writes
		if writes = len(w.kube.Writes()); told < objects || writes != was {
			return fmt.Errorf("%d objects have Events, want %d; %d writes", told, objects, writes)
		}
		return nil
	})
}

// awaitQuiet waits until nothing is written to Kubernetes any more between two probes, as Events are for a while that
// have waited for their turn, and returns how many calls there were before these.
func (w *world) awaitQuiet(gone *absence) (calls int) {
	w.t.Helper()
	const probes = 2
	calls, writes := len(gone.called(0)), len(w.kube.Writes())
	w.await(func() error {
		if now := len(w.kube.Writes()); now > writes {
			calls, writes = len(gone.called(0)), now
		}
		if more := len(gone.called(calls)); more < probes {
			return fmt.Errorf("%d calls since something was written to Kubernetes of an outage that lasts, want %d: %s",
				more, probes, w.lastWrites())
		}
		return nil
	})
	return calls
}

// holdFewEvents holds that no object has told of one outage more than it may: that a first call failed, that the look
// for what came of it did, and that calls are not sent any more.
func (w *world) holdFewEvents() {
	w.t.Helper()
	for name, count := range w.warnings() {
		if count > 4 {
			w.t.Errorf("%s has %d Events of one outage", name, count)
		}
	}
}

var heapLine = regexp.MustCompile(`(?m)^go_memstats_heap_alloc_bytes (\S+)$`)

// heap is how many bytes the controller has allocated, as its metrics tell.
func (w *world) heap() float64 {
	w.t.Helper()
	if virtualTime {
		return 0 // it is that of all worlds
	}
	var text string
	w.await(func() (err error) {
		_, text, err = w.process.Load().Get(w.t.Context(), "/metrics")
		return err
	})
	found := heapLine.FindStringSubmatch(text)
	if found == nil {
		w.t.Fatalf("there is no heap in the metrics: %s", strings.SplitN(text, "\n", 2)[0])
	}
	bytes, err := strconv.ParseFloat(found[1], 64)
	expect.NoError(w.t, err)
	return bytes
}
