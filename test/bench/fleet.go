package main

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloudteam.ztgame.com/network-controller/test/harness"
)

func fleetGroup() group {
	return group{
		id: "fleet", clouds: []string{emulator}, components: harness.APIComponents(),
		size:  func(o options) int { return o.fleet },
		lives: func(o options) int { return o.largeRounds },
		benchmarks: []benchmark{
			{
				id: "cold-fast", name: "%d Networks cold ÷ bare loop, Neutron faster than this machine", limit: 1.1,
				how: "As above, with an emulator that works on 16 calls at a time (--fleet-workers), as a Neutron on many " +
					"machines: here it is kube-apiserver on the same CPUs as everything else that is measured.",
			},
			{
				id: "cold-written", name: "%d Networks cold ÷ bare loop that also writes to Kubernetes", limit: noLimit,
				how: "As above, and the bare loop makes, per network, the two writes to Kubernetes that the controller makes: " +
					"a patch of the metadata of a Network before the bulk, and the status by server-side apply after it, 64 at " +
					"a time. The Networks are others, in a namespace of their own, and 2,000 at most, of which the time for all " +
					"follows. Nothing is read, watched or told in Events.",
			},
			{
				id: "cold-cpu-apiserver", name: "CPU time of kube-apiserver per Network, of %d cold", limit: noLimit, unit: "ms",
				how: "Of its process, as the system counts it, from the controller's start until all Networks are Ready. The " +
					"controller and the benchmark each watch the Networks.",
			},
			{
				id: "cold-cpu-etcd", name: "CPU time of etcd per Network, of %d cold", limit: noLimit, unit: "ms",
				how: "As above.",
			},
			{
				id: "cold-cpu", name: "CPU time of the controller per Network, of %d cold", limit: noLimit, unit: "ms",
				how: "As above.",
			},
			{
				id: "fleet-audit-calls", name: "calls of a full audit of %d Networks", limit: noLimit,
				how: "From one audit's first call to the next one's, the longer of two. The target is 2·⌈N/page⌉ + 4, with the " +
					"page that the controller asks for.",
			},
			{
				id: "fleet-audit-writes", name: "writes of a full audit of %d Networks, to Neutron and to Kubernetes", limit: 0,
				how: "Seen at the two proxies in the time of those audits.",
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

func measureFleet(ctx context.Context, b *bench) error {
	f, err := b.applyFleet(ctx, b.fleetWorkers)
	if err != nil {
		return err
	}
	if b.wants("cold-fast") {
		if err := f.createBare(ctx); err != nil {
			return err
		}
	}
	if err := f.createCold(ctx); err != nil {
		return err
	}
	f.reportRatio("cold-fast", f.bareTook)
	if b.wants("fleet-audit-calls", "fleet-audit-writes") {
		if err := b.auditFleet(ctx, f.site); err != nil {
			return err
		}
	}
	if b.wants("latency") {
		if err := b.latencies(ctx, f.site, f.namespace); err != nil {
			return err
		}
	}
	// Last, as it leaves Networks behind that are nobody's.
	if b.wants("cold-written") {
		writtenTook, err := f.createWritten(ctx)
		if err != nil {
			return fmt.Errorf("bare, with writes to Kubernetes: %w", err)
		}
		f.reportRatio("cold-written", writtenTook)
	}
	return nil
}

// fleetAuditPatience is how long three audits of a large fleet may take.
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
	audits, err := s.audits(ctx, mark, 2, fleetAuditPatience)
	if err != nil {
		return c.explain(err)
	}
	calls := longest(audits)
	wrote := len(writes(calls)) + len(kube.Writes()) - kubeMark
	b.say("an audit: %d calls, %d writes", len(calls), wrote)
	b.report.addTo("fleet-audit-calls", float64(len(calls)), auditLimit(calls, b.size))
	b.report.add("fleet-audit-writes", float64(wrote))
	return c.stop(ctx)
}

// auditLimit is how many calls an audit of n Networks without ports may take: the pages of networks and subnets, and
// one call each for ports, routers, RBAC policies and the counts of addresses.
func auditLimit(calls []call, n int) float64 {
	page := n
	for _, c := range calls {
		if address, err := url.ParseRequestURI(c.uri); err == nil && c.begins() {
			if limit, err := strconv.Atoi(address.Query().Get("limit")); err == nil && limit > 0 {
				page = limit
			}
		}
	}
	return float64(2*((n+page-1)/page) + 4)
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
