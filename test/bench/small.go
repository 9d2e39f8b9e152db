package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/proxy"
)

func smallGroup() group {
	return group{
		id: "small", clouds: []string{emulator, openStack}, components: harness.APIComponents(),
		size: func(o options) int { return o.networks },
		benchmarks: []benchmark{
			{
				id: "create", name: "%d Networks, apply to all Ready ÷ bare bulk loop", limit: 1.2,
				how: "The Networks are created at kube-apiserver, 16 requests at a time, with the controller running. The bare " +
					"loop creates as many networks and then their subnets, with the same attributes, in bulk of 25, over " +
					"connections that it keeps, as many at a time as was fastest before.",
			},
			{
				id: "delete", name: "%d Networks, deletion to all gone ÷ bare loop of DELETEs", limit: 1.15,
				how: "As above: the bare loop sends one DELETE per network, as many at a time as its creates.",
			},
			{
				id: "create-calls", name: "calls to Neutron per Network created", limit: 0.3,
				how: "All that Neutron's proxy sees from the apply of the first until all are Ready, lists included.",
			},
			{
				id: "delete-calls", name: "calls to Neutron per Network deleted", limit: 1.1,
				how: "All that Neutron's proxy sees from the deletion of the first until the last is gone, lists included.",
			},
			{
				id: "create-writes", name: "writes to Kubernetes per Network created, beside Events", limit: 3,
				how: "All that the controller writes in the same time, as kube-apiserver's proxy sees it: the finalizer, the " +
					"status, and before that a condition for those that wait longer than a second.",
			},
			{
				id: "delete-writes", name: "writes to Kubernetes per Network deleted, beside Events", limit: 2,
				how: "As above, without the deletion itself, which is the user's.",
			},
			{
				id: "audit-calls", name: "calls of a full audit of %d Networks", limit: noLimit,
				how: "One list of each kind, among those of a process's first three audits. The target is " +
					"2·(⌊(N + ⌊page/10⌋)/page⌋ + 1) + 7, with the page that the controller asks for: a page that is nine " +
					"tenths full has another one after it.",
			},
			{
				id: "idle", name: "writes while nothing happens, to Neutron and to Kubernetes", limit: 0,
				how: "Seen at the two proxies during --idle, in which there are ten audits and twenty resyncs of Networks " +
					"at rest. There is no leader election, whose lease is written all the time.",
			},
			{
				id: "idle-calls", name: "calls to Neutron while nothing happens, other than audits' lists", limit: 0,
				how: "Seen at Neutron's proxy in the same time.",
			},
			{
				id: "lone", name: "one lone Network, apply to Ready ÷ the same calls bare", limit: 1.3,
				how: "The calls that Neutron's proxy saw between apply and Ready are sent once more, one after another, over " +
					"one connection. No audit is under way.",
			},
		},
		measure: measureSmall,
	}
}

// small is the group small while it is measured.
type small struct {
	*bench
	site *site
	bare *bare
	// kube counts what the controller writes to Kubernetes; kubeconfig leads through it.
	kube       *proxy.Proxy
	kubeconfig string
	namespace  string
	observer   *observer
}

// loneRounds is how many lone Networks are timed for each of --rounds: one takes a fraction of a second.
const loneRounds = 3

func measureSmall(ctx context.Context, b *bench) error {
	m := &small{bench: b}
	var err error
	if m.site, err = b.openSite(ctx, 1); err != nil {
		return err
	}
	m.bare = newBare(m.site)
	if m.kube, m.kubeconfig, err = b.frontKube(); err != nil {
		return err
	}
	if m.namespace, err = b.newNamespace(ctx); err != nil {
		return err
	}
	b.sweepAfter(ctx, m.bare, m.namespace)
	if m.observer, err = b.observe(ctx, m.namespace); err != nil {
		return err
	}
	if b.wants("create", "delete", "create-calls", "delete-calls", "create-writes", "delete-writes") {
		if err := m.fleets(ctx); err != nil {
			return err
		}
	}
	if b.wants("audit-calls", "idle", "idle-calls") {
		if err := m.rest(ctx); err != nil {
			return err
		}
	}
	if b.wants("lone") {
		return m.lone(ctx)
	}
	return nil
}

// sweepAfter removes, when the group has been measured, what is left in a cloud that stays.
func (b *bench) sweepAfter(ctx context.Context, l *bare, prefix string) {
	if b.cloud != openStack {
		return
	}
	b.after(func() {
		if err := l.sweep(context.WithoutCancel(ctx), prefix); err != nil {
			b.say("what is left in Neutron, by names that begin with %s, could not be removed: %v", prefix, err)
		}
	})
}

// work is what the controller did for all Networks.
type work struct {
	took time.Duration
	// calls are those to Neutron, and wrote is how much was written to Kubernetes, Events left out.
	calls, wrote int
}

func (w work) String() string { return fmt.Sprintf("%s with %d calls", short(w.took), w.calls) }

// create applies Networks and waits until all are Ready.
func (m *small) create(ctx context.Context) (work, error) {
	return m.during(ctx, m.size, func() error { return m.apply(ctx, m.namespace, m.size) })
}

// remove deletes the Networks and waits until all are gone.
func (m *small) remove(ctx context.Context) (work, error) {
	return m.during(ctx, 0, func() error {
		return inParallel(ctx, appliers, m.size, func(ctx context.Context, i int) error {
			return m.Networks.CloudteamV1().Networks(m.namespace).Delete(ctx, nameOf(m.namespace, i), metav1.DeleteOptions{})
		})
	})
}

// during has the user do something, and gives what happens from then until there are n Networks, all Ready.
func (m *small) during(ctx context.Context, n int, do func() error) (work, error) {
	began, mark, kubeMark := time.Now(), m.site.mark(), len(m.kube.Writes())
	if err := do(); err != nil {
		return work{}, err
	}
	at, err := m.observer.awaitReady(ctx, n)
	_, wrote := wroteSince(m.kube, kubeMark)
	return work{at.Sub(began), len(m.site.since(mark)), wrote}, err
}

// fleets creates and deletes all Networks in each round, bare and by the controller.
func (m *small) fleets(ctx context.Context) error {
	atATime, err := m.bare.best(ctx, m.bench, m.namespace, min(m.size, 2*bulkSize), 1, 4)
	if err != nil {
		return err
	}
	c, err := m.start(ctx, m.site, m.kubeconfig, alone...)
	if err != nil {
		return err
	}
	for round := range m.rounds {
		began := time.Now()
		ids, err := m.bare.create(ctx, fmt.Sprintf("%s-bare%d", m.namespace, round), m.size, atATime)
		if err != nil {
			return fmt.Errorf("bare: %w", err)
		}
		bareCreate := time.Since(began)
		began = time.Now()
		if err := m.bare.remove(ctx, ids, atATime); err != nil {
			return fmt.Errorf("bare: %w", err)
		}
		bareRemove := time.Since(began)
		created, err := m.create(ctx)
		if err != nil {
			return c.explain(err)
		}
		removed, err := m.remove(ctx)
		if err != nil {
			return c.explain(err)
		}
		m.compare("create", created, bareCreate)
		m.compare("delete", removed, bareRemove)
	}
	return c.stop(ctx)
}

// compare reports a figure, its calls and its writes.
func (m *small) compare(id string, by work, bare time.Duration) {
	n := float64(m.size)
	m.report.add(id, by.took.Seconds()/bare.Seconds())
	m.report.add(id+"-calls", float64(by.calls)/n)
	m.report.add(id+"-writes", float64(by.wrote)/n)
	m.say("%s: by the controller in %s, bare in %s", id, by, short(bare))
}

// rest has the controller run with nothing to do. There are ten audits and twenty resyncs, as with the defaults in ten
// minutes.
func (m *small) rest(ctx context.Context) error {
	c, err := m.start(ctx, m.site, m.kubeconfig, alone...)
	if err != nil {
		return err
	}
	if _, err := m.create(ctx); err != nil {
		return c.explain(err)
	}
	if err := c.stop(ctx); err != nil {
		return err
	}
	mark := m.site.mark()
	c, err = m.start(ctx, m.site, m.kubeconfig, append([]string{
		"--audit-interval=" + (m.idle / 10).String(), "--resync-period=" + (m.idle / 20).String(),
	}, alone...)...)
	if err != nil {
		return err
	}
	audits, err := m.site.audits(ctx, mark, 3)
	if err != nil {
		return c.explain(err)
	}
	calls := firstLists(slices.Concat(audits...))
	m.report.addTo("audit-calls", float64(len(calls)), auditLimit(calls, m.size))
	for _, c := range calls {
		m.say("an audit: %s %s", c.method, c.shape)
	}

	mark, kubeMark := m.site.mark(), len(m.kube.Writes())
	m.say("nothing is to happen for %s", m.idle)
	select {
	case <-time.After(m.idle):
	case <-ctx.Done():
		return ctx.Err()
	}
	idle, wrote := m.site.since(mark), m.kube.Writes()[kubeMark:]
	others := slices.DeleteFunc(slices.Clone(idle), call.lists)
	m.report.add("idle", float64(len(writes(idle))+len(wrote)))
	m.report.add("idle-calls", float64(len(others)))
	for _, w := range wrote {
		m.say("written to Kubernetes: %s", w)
	}
	if _, err := m.remove(ctx); err != nil {
		return c.explain(err)
	}
	return c.stop(ctx)
}

// lone times one Network at a time.
func (m *small) lone(ctx context.Context) error {
	system, err := m.Kube.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return err
	}
	c, err := m.start(ctx, m.site, m.kubeconfig, append([]string{"--audit-interval=1h"}, alone...)...)
	if err != nil {
		return err
	}
	for range m.rounds * loneRounds {
		name, mark := nameOf(m.namespace, 0), m.site.mark()
		by, err := m.during(ctx, 1, func() error { return m.applyOne(ctx, m.namespace, name) })
		if err != nil {
			return c.explain(err)
		}
		began := time.Now()
		created, err := m.bare.replay(ctx, m.site.since(mark), string(system.UID))
		if err != nil {
			return fmt.Errorf("bare: %w", err)
		}
		bareTook := time.Since(began)
		m.report.add("lone", by.took.Seconds()/bareTook.Seconds())
		m.say("one Network: by the controller in %s, bare in %s", by, short(bareTook))
		if len(created) > 0 {
			if _, err := m.bare.send(ctx, http.MethodDelete, "networks/"+created[0], nil); err != nil {
				return err
			}
		}
		_, err = m.during(ctx, 0, func() error {
			return m.Networks.CloudteamV1().Networks(m.namespace).Delete(ctx, name, metav1.DeleteOptions{})
		})
		if err != nil {
			return c.explain(err)
		}
	}
	return c.stop(ctx)
}
