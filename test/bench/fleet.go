package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

func fleetGroup() group {
	return group{
		id: "fleet", clouds: []string{emulator}, components: harness.APIComponents(),
		size:  func(o options) int { return o.fleet },
		lives: func(o options) int { return o.largeRounds },
		benchmarks: []benchmark{
			{
				id: "cold", name: "%d Networks cold ÷ bare loop at its best concurrency", limit: 1.1,
				how: "The Networks are in Kubernetes and nothing is in Neutron; from the controller's start until all are " +
					"Ready. The emulator works on 16 calls at a time (--neutron-workers), as a Neutron with as many API " +
					"workers, each of which takes what it took measured: with a Neutron that is faster than that, it is " +
					"kube-apiserver on the same two CPUs that is measured. The controller may ask kube-apiserver 2000 " +
					"times a second (--kube-api-qps). The bare loop, as above, has an emulator of its own.",
			},
			{
				id: "cold-written", name: "%d Networks cold ÷ bare loop that also writes to Kubernetes", limit: noLimit,
				how: "As above, and the bare loop makes, per network, the two writes to Kubernetes that the controller makes: " +
					"a patch of the metadata of a Network before the bulk, and the status by server-side apply after it, 25 at " +
					"a time in each bulk. The Networks are others, in a namespace of their own. Nothing is read, watched or " +
					"told in Events.",
			},
			{
				id: "fleet-audit-calls", name: "calls of a full audit of %d Networks", limit: noLimit,
				how: "As above.",
			},
			{
				id: "fleet-audit-writes", name: "writes of a full audit of %d Networks, to Neutron and to Kubernetes", limit: 0,
				how: "Seen at the two proxies in the time of that audit.",
			},
			{
				id: "latency", name: "event to POST, p99, during an audit of %d Networks ÷ idle", limit: 2,
				how: "Lone Networks are applied, 20 a second. Each is timed from the end of its create at kube-apiserver to " +
					"the arrival of its POST at Neutron's proxy: first with no audit, and then with one audit after the other " +
					"(--audit-interval=1s), where those count that came between the first and the last page of one.",
			},
		},
		measure: measureFleet,
	}
}

// manyRequests lets the controller ask kube-apiserver as often as it can.
var manyRequests = []string{"--kube-api-qps=2000", "--kube-api-burst=4000"}

func measureFleet(ctx context.Context, b *bench) error {
	namespace, err := b.newNamespace(ctx)
	if err != nil {
		return err
	}
	o, err := b.observe(ctx, namespace)
	if err != nil {
		return err
	}
	s, err := b.openSite(ctx, b.neutronWorkers)
	if err != nil {
		return err
	}
	b.say("applying %s Networks", grouped(b.size))
	if err := b.apply(ctx, namespace, b.size); err != nil {
		return err
	}
	var bareTook time.Duration
	if b.wants("cold") {
		if bareTook, err = b.bareFleet(ctx); err != nil {
			return fmt.Errorf("bare: %w", err)
		}
	}
	began := time.Now()
	c, err := b.launch(ctx, s, b.Kubeconfig, append(manyRequests, alone...)...)
	if err != nil {
		return err
	}
	profiled := b.profile(ctx, c, "cold")
	ready, err := o.awaitReady(ctx, b.size)
	if err != nil {
		return c.explain(err)
	}
	took := ready.Sub(began)
	calls := s.since(0)
	b.say("cold: by the controller in %s with %d calls, of which the first create came after %s", short(took), len(calls),
		short(writes(calls)[0].at.Sub(began)))
	if bareTook > 0 {
		b.report.add("cold", took.Seconds()/bareTook.Seconds())
	}
	one, err := b.Networks.CloudteamV1().Networks(namespace).Get(ctx, nameOf(namespace, 0), metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := profiled(); err != nil {
		return err
	}
	if err := c.stop(ctx); err != nil {
		return err
	}
	if b.wants("fleet-audit-calls", "fleet-audit-writes") {
		if err := b.auditFleet(ctx, s); err != nil {
			return err
		}
	}
	if b.wants("latency") {
		if err := b.latencies(ctx, s, namespace); err != nil {
			return err
		}
	}
	// Last, as it leaves Networks behind that are nobody's.
	if b.wants("cold-written") {
		writtenTook, err := b.writtenFleet(ctx, one)
		if err != nil {
			return fmt.Errorf("bare, with writes to Kubernetes: %w", err)
		}
		b.report.add("cold-written", took.Seconds()/writtenTook.Seconds())
	}
	return nil
}

// bareFleet creates as many networks, bare and as many at a time as is best, in a cloud of its own.
func (b *bench) bareFleet(ctx context.Context) (time.Duration, error) {
	s, err := b.openSite(ctx, b.neutronWorkers)
	if err != nil {
		return 0, err
	}
	l := newBare(s)
	n := min(b.size, 2*b.neutronWorkers*bulkSize)
	atATime, err := l.best(ctx, b, "bare", n, b.neutronWorkers, 2*b.neutronWorkers)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if _, err := l.create(ctx, "bare", b.size, atATime); err != nil {
		return 0, err
	}
	took := time.Since(began)
	b.say("cold: bare in %s, %d at a time", short(took), atATime)
	return took, nil
}

// writtenFleet is bareFleet with two writes to Kubernetes for each network, to Networks that are made first: what the
// controller wrote of ready, a Network that it made.
func (b *bench) writtenFleet(ctx context.Context, ready *cloudteamv1.Network) (time.Duration, error) {
	namespace, err := b.newNamespace(ctx)
	if err != nil {
		return 0, err
	}
	s, err := b.openSite(ctx, b.neutronWorkers)
	if err != nil {
		return 0, err
	}
	b.say("applying %s Networks more", grouped(b.size))
	if err := b.apply(ctx, namespace, b.size); err != nil {
		return 0, err
	}
	client := b.Networks.CloudteamV1().Networks(namespace)
	list, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	// They come in the order of their names, which is that of their numbers.
	networks := list.Items
	each := func(patch func(context.Context, *cloudteamv1.Network) error) func(context.Context, int, int) error {
		return func(ctx context.Context, first, end int) error {
			return inParallel(ctx, end-first, end-first, func(ctx context.Context, i int) error {
				return patch(ctx, &networks[first+i])
			})
		}
	}
	send := func(
		ctx context.Context, n *cloudteamv1.Network, kind types.PatchType, o metav1.PatchOptions, body any, sub ...string,
	) error {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		o.FieldManager = "bench"
		_, err = client.Patch(ctx, n.Name, kind, text, o, sub...)
		return err
	}
	claim := each(func(ctx context.Context, n *cloudteamv1.Network) error {
		return send(ctx, n, types.MergePatchType, metav1.PatchOptions{}, map[string]any{"metadata": map[string]any{
			"uid": n.UID, "resourceVersion": n.ResourceVersion,
			"finalizers": ready.Finalizers, "annotations": ready.Annotations,
		}})
	})
	report := each(func(ctx context.Context, n *cloudteamv1.Network) error {
		return send(ctx, n, types.ApplyPatchType, metav1.PatchOptions{Force: new(true)}, map[string]any{
			"apiVersion": cloudteamv1.SchemeGroupVersion.String(), "kind": "Network",
			"metadata": map[string]any{"name": n.Name, "namespace": n.Namespace, "uid": n.UID},
			"status":   ready.Status,
		}, "status")
	})
	// Twice as many bulks as Neutron works on: it has something to do while the others' writes go to Kubernetes.
	atATime := 2 * b.neutronWorkers
	began := time.Now()
	if _, err := newBare(s).createBetween(ctx, "bare", b.size, atATime, claim, report); err != nil {
		return 0, err
	}
	took := time.Since(began)
	b.say("cold: bare, with writes to Kubernetes, in %s, %d at a time", short(took), atATime)
	return took, nil
}

// fleetAuditPatience is how long two audits of a large fleet may take.
const fleetAuditPatience = 5 * time.Minute

// auditFleet counts the calls and the writes of an audit.
func (b *bench) auditFleet(ctx context.Context, s *site) error {
	kube, kubeconfig, err := b.frontKube()
	if err != nil {
		return err
	}
	c, err := b.start(ctx, s, kubeconfig, append([]string{"--audit-interval=1s"}, alone...)...)
	if err != nil {
		return err
	}
	// The first audit after the start is behind it when it is ready.
	mark, kubeMark := s.mark(), len(kube.Writes())
	calls, err := s.audit(ctx, mark, fleetAuditPatience)
	if err != nil {
		return c.explain(err)
	}
	wrote := len(writes(calls)) + len(kube.Writes()) - kubeMark
	b.say("an audit: %d calls, %d writes", len(calls), wrote)
	b.report.addTo("fleet-audit-calls", float64(len(calls)), auditLimit(calls, b.size))
	b.report.add("fleet-audit-writes", float64(wrote))
	return c.stop(ctx)
}

// auditLimit is how many calls an audit of n Networks may take.
func auditLimit(calls []call, n int) float64 {
	page := n
	for _, c := range calls {
		if address, err := url.ParseRequestURI(c.uri); err == nil && c.begins() {
			if limit, err := strconv.Atoi(address.Query().Get("limit")); err == nil && limit > 0 {
				page = limit
			}
		}
	}
	return float64(2*((n+page-1)/page) + 2)
}

// eventsPerSecond is how often a lone Network is applied where events are timed: seldom enough that none waits for
// another one.
const eventsPerSecond = 20

// latencies times events with and without audits.
func (b *bench) latencies(ctx context.Context, s *site, namespace string) error {
	kinds := []struct{ name, interval string }{{"idle", "1h"}, {"audit", "1s"}}
	p99 := map[string]time.Duration{}
	next := b.size
	for _, kind := range kinds {
		flags := append([]string{"--audit-interval=" + kind.interval}, append(manyRequests, alone...)...)
		c, err := b.start(ctx, s, b.Kubeconfig, flags...)
		if err != nil {
			return err
		}
		// The first one waits for what is done once after a start.
		if _, err := b.timeEvents(ctx, s, namespace, next, 1, false); err != nil {
			return c.explain(err)
		}
		next++
		profiled := b.profile(ctx, c, "latency-"+kind.name)
		var times []time.Duration
		for range eventBatches {
			more, err := b.timeEvents(ctx, s, namespace, next, b.events, kind.name == "audit")
			if err != nil {
				return c.explain(err)
			}
			next += b.events
			if times = append(times, more...); len(times) >= b.events {
				break
			}
		}
		if err := profiled(); err != nil {
			return err
		}
		if err := c.stop(ctx); err != nil {
			return err
		}
		if len(times) == 0 {
			return fmt.Errorf("none of %d events came during an audit: apply more, with --events", eventBatches*b.events)
		}
		slices.Sort(times)
		p99[kind.name] = times[(len(times)*99+99)/100-1]
		b.say("event to POST, %s: median %s, p99 %s of %d", kind.name, times[len(times)/2].Round(time.Microsecond),
			p99[kind.name].Round(time.Microsecond), len(times))
	}
	b.report.add("latency", p99["audit"].Seconds()/p99["idle"].Seconds())
	return nil
}

// eventBatches is how often --events are applied at most until so many of them have come during audits.
const eventBatches = 20

// postPatience is how long the POST of the last event may take.
const postPatience = time.Minute

// timeEvents applies n Networks from the one of number first on, and gives how long it took each until its POST. Where
// it is told to, it leaves those out that did not come while an audit was under way.
func (b *bench) timeEvents(
	ctx context.Context, s *site, namespace string, first, n int, duringAudits bool,
) ([]time.Duration, error) {
	mark := s.mark()
	tick := time.NewTicker(time.Second / eventsPerSecond)
	defer tick.Stop()
	applied := map[string]time.Time{}
	for i := range n {
		name := nameOf(namespace, first+i)
		if err := b.applyOne(ctx, namespace, name); err != nil {
			return nil, err
		}
		applied[name] = time.Now()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	var times []time.Duration
	err := await(ctx, postPatience, func() error {
		times = nil
		calls := s.since(mark)
		posted := 0
		for _, c := range calls {
			if c.method != "POST" || c.shape != "/v2.0/networks" {
				continue
			}
			for name := range names(string(c.body)) {
				at, ours := applied[name]
				if !ours {
					continue
				}
				posted++
				if !duringAudits || underWay(calls, at) {
					times = append(times, c.at.Sub(at))
				}
			}
		}
		if posted < n {
			return fmt.Errorf("%d of %d Networks were posted", posted, n)
		}
		return nil
	})
	return times, err
}

// names are the values of "name" in a body.
func names(body string) map[string]bool {
	found := map[string]bool{}
	for rest := body; ; {
		_, after, ok := strings.Cut(rest, `"name":"`)
		if !ok {
			return found
		}
		name, left, _ := strings.Cut(after, `"`)
		found[name] = true
		rest = left
	}
}

// underWay reports whether a moment lies between the first and the last page of one audit.
func underWay(calls []call, at time.Time) bool {
	var began, ended time.Time
	within := func() bool { return !began.IsZero() && at.After(began) && at.Before(ended) }
	for _, c := range calls {
		switch {
		case c.begins():
			if within() {
				return true
			}
			began, ended = c.at, c.at
		case c.lists():
			ended = c.at
		}
	}
	return within()
}
