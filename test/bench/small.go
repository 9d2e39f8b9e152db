package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
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
				id: "create-writes", name: "writes to Kubernetes per Network created, beside Events", limit: 2,
				how: "All that the controller writes in the same time, as kube-apiserver's proxy sees it.",
			},
			{
				id: "delete-writes", name: "writes to Kubernetes per Network deleted, beside Events", limit: 2,
				how: "As above, without the deletion itself, which is the user's.",
			},
			{
				id: "audit-calls", name: "calls of a full audit of %d Networks", limit: noLimit,
				how: "From one audit's first call to the next one's: the largest of a process's first three audits, of which " +
					"a later one also asks for the counts of addresses. The target is 2·⌈N/page⌉ + 4, with the page that the " +
					"controller asks for.",
			},
			{
				id: "idle", name: "writes while nothing happens, to Neutron and to Kubernetes", limit: 0,
				how: "Seen at the two proxies during --idle, in which there are ten audits and twenty resyncs of Networks " +
					"at rest: 30 s unless the command says otherwise, and 10 m is the controller's default intervals. The " +
					"controller runs without leader election, whose lease is written all the time.",
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
			{
				id: "rich-calls", limit: 1.3,
				name: "calls to Neutron per Network created that has two subnets, tags, a DNS domain and a description",
				how: "Counted as for plain ones, of as many. One more subnet, of IPv6, goes in bulk as the first does, the DNS " +
					"domain and the description are in the network's own create, and Neutron takes tags in no create, one " +
					"network at a time: so the target is a plain Network's and one call.",
			},
			{
				id: "router-calls", limit: 3.3,
				name: "calls to Neutron per Network created that has a router of its own",
				how: "As above. Neutron takes routers in no bulk, and interfaces in a call each; an " +
					"interface's port goes alone, since it names its address, and Neutron loses addresses in a bulk of ports " +
					"that it refuses. So the target is a plain Network's and three calls.",
			},
			{
				id: "router-delete-calls", limit: 3.1,
				name: "calls to Neutron per Network deleted that has a router of its own",
				how: "Of the same Networks. Neutron takes an interface, a router and a network each in a call of its own: so " +
					"the target is a plain Network's and two calls.",
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
	if b.wants("create", "delete", "create-calls", "delete-calls", "create-writes", "delete-writes", "audit-calls",
		"idle", "idle-calls") {
		if err := m.fleets(ctx); err != nil {
			return err
		}
	}
	if b.wants("lone") {
		if err := m.lone(ctx); err != nil {
			return err
		}
	}
	if b.wants("rich-calls") {
		if err := m.countCalls(ctx, "rich", m.size, richSpec()); err != nil {
			return err
		}
	}
	if b.wants("router-calls", "router-delete-calls") {
		return m.countCalls(ctx, "router", m.size, routedSpec())
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

// fleets creates and deletes all Networks in each round, bare and by the controller, and lets them rest once.
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
		bareCreate, bareDelete, err := m.bareFleet(ctx, round, atATime)
		if err != nil {
			return fmt.Errorf("bare: %w", err)
		}
		err = m.timed(ctx, c, "create", bareCreate,
			func() error { return m.apply(ctx, m.namespace, m.size) },
			func() (time.Time, error) { return m.observer.awaitReady(ctx, m.size) })
		if err != nil {
			return err
		}
		if round == m.rounds-1 && m.wants("audit-calls", "idle", "idle-calls") {
			if c, err = m.rest(ctx, c); err != nil {
				return err
			}
		}
		err = m.timed(ctx, c, "delete", bareDelete,
			func() error { return m.remove(ctx, m.namespace, 0, m.size) },
			func() (time.Time, error) { return m.observer.awaitGone(ctx, 0) })
		if err != nil {
			return err
		}
	}
	return c.stop(ctx)
}

// timed has the user do something to all Networks, from which on the controller is timed until the moment that done
// gives, and reports that, as a ratio to what was bare, and what was called and written meanwhile: the figures id,
// id-calls and id-writes.
func (m *small) timed(
	ctx context.Context, c *controller, id string, bareTook time.Duration, do func() error, done func() (time.Time, error),
) error {
	profiled := m.profile(ctx, c, id)
	took, calls, wrote, err := m.during(c, do, done)
	if err != nil {
		return err
	}
	m.report.add(id, took.Seconds()/bareTook.Seconds())
	m.report.add(id+"-calls", float64(calls)/float64(m.size))
	m.report.add(id+"-writes", float64(wrote)/float64(m.size))
	m.say("%s: bare in %s, by the controller in %s with %d calls", id, short(bareTook), short(took), calls)
	return profiled()
}

// during has the user do something, and gives how long it takes from then until the moment that done gives, how often
// Neutron is called meanwhile, and how much is written to Kubernetes.
func (m *small) during(
	c *controller, do func() error, done func() (time.Time, error),
) (took time.Duration, calls, wrote int, err error) {
	began, mark, kubeMark := time.Now(), m.site.mark(), len(m.kube.Writes())
	if err := do(); err != nil {
		return 0, 0, 0, err
	}
	at, err := done()
	if err != nil {
		return 0, 0, 0, c.explain(err)
	}
	return at.Sub(began), len(m.site.since(mark)), m.wroteSince(kubeMark), nil
}

// countCalls creates n Networks of a spec in each round, deletes them, and reports what was called: the figures
// id-calls and id-delete-calls.
func (m *small) countCalls(ctx context.Context, id string, n int, spec cloudteamv1.NetworkSpec) error {
	c, err := m.start(ctx, m.site, m.kubeconfig, alone...)
	if err != nil {
		return err
	}
	for range m.rounds {
		_, created, _, err := m.during(c,
			func() error { return m.applyAll(ctx, m.namespace, n, spec) },
			func() (time.Time, error) { return m.observer.awaitReady(ctx, n) })
		if err != nil {
			return err
		}
		_, deleted, _, err := m.during(c,
			func() error { return m.remove(ctx, m.namespace, 0, n) },
			func() (time.Time, error) { return m.observer.awaitGone(ctx, 0) })
		if err != nil {
			return err
		}
		m.report.add(id+"-calls", float64(created)/float64(n))
		m.report.add(id+"-delete-calls", float64(deleted)/float64(n))
		m.say("%s: %d Networks created with %d calls, and deleted with %d", id, n, created, deleted)
	}
	return c.stop(ctx)
}

// richSpec is of a Network with more than it must have, of what Neutron's members may set.
func richSpec() cloudteamv1.NetworkSpec {
	spec := plainSpec()
	spec.AdditionalSubnets = []cloudteamv1.SubnetSpec{{CIDR: "fd00::/64"}}
	spec.Tags = []string{"benchmark", "rich"}
	spec.DNSDomain = "example.org."
	spec.Description = "a Network that has more than it must have"
	return spec
}

// routedSpec is of a Network with a router of its own.
func routedSpec() cloudteamv1.NetworkSpec {
	spec := plainSpec()
	spec.Router = &cloudteamv1.RouterSpec{}
	return spec
}

// wroteSince is how many writes kube-apiserver's proxy saw after so many, without those of Events.
func (m *small) wroteSince(mark int) int {
	count := 0
	for _, w := range m.kube.Writes()[mark:] {
		if !strings.Contains(w.Shape, "/events") {
			count++
		}
	}
	return count
}

// bareFleet creates and deletes as many networks as there are Networks, bare.
func (m *small) bareFleet(ctx context.Context, round, atATime int) (create, remove time.Duration, err error) {
	began := time.Now()
	ids, err := m.bare.create(ctx, fmt.Sprintf("%s-bare%d", m.namespace, round), m.size, atATime)
	if err != nil {
		return 0, 0, err
	}
	create = time.Since(began)
	began = time.Now()
	err = m.bare.remove(ctx, ids, atATime)
	return create, time.Since(began), err
}

// restFlags are the flags with which there are ten audits and twenty resyncs in a time, as with the defaults in ten
// minutes.
func restFlags(idle time.Duration) []string {
	return append([]string{
		"--audit-interval=" + (idle / 10).String(), "--resync-period=" + (idle / 20).String(),
	}, alone...)
}

// rest has the controller run with nothing to do, and gives one that runs as before.
func (m *small) rest(ctx context.Context, c *controller) (*controller, error) {
	if err := c.stop(ctx); err != nil {
		return nil, err
	}
	mark := m.site.mark()
	c, err := m.start(ctx, m.site, m.kubeconfig, restFlags(m.idle)...)
	if err != nil {
		return nil, err
	}
	audits, err := m.site.audits(ctx, mark, 3, m.idle)
	if err != nil {
		return nil, c.explain(err)
	}
	calls := longest(audits)
	m.report.addTo("audit-calls", float64(len(calls)), auditLimit(calls, m.size))

	mark, kubeWrites := m.site.mark(), len(m.kube.Writes())
	m.say("nothing is to happen for %s", m.idle)
	if err := rest(ctx, m.idle); err != nil {
		return nil, err
	}
	idle := m.site.since(mark)
	others := 0
	for _, c := range idle {
		if !c.lists() {
			others++
		}
	}
	wrote := m.kube.Writes()[kubeWrites:]
	m.report.add("idle", float64(len(writes(idle))+len(wrote)))
	m.report.add("idle-calls", float64(others))
	for _, w := range wrote {
		m.say("written to Kubernetes: %s", w)
	}
	if err := c.stop(ctx); err != nil {
		return nil, err
	}
	return m.start(ctx, m.site, m.kubeconfig, alone...)
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
	for round := range m.rounds * loneRounds {
		name := nameOf(m.namespace, 90000+round)
		began, mark := time.Now(), m.site.mark()
		if err := m.applyOne(ctx, m.namespace, name); err != nil {
			return err
		}
		ready, err := m.observer.awaitReady(ctx, 1)
		if err != nil {
			return c.explain(err)
		}
		took, calls := ready.Sub(began), m.site.since(mark)
		began = time.Now()
		created, err := m.bare.replay(ctx, calls, string(system.UID))
		if err != nil {
			return fmt.Errorf("bare: %w", err)
		}
		bareTook := time.Since(began)
		m.report.add("lone", took.Seconds()/bareTook.Seconds())
		m.say("one Network: bare in %s, by the controller in %s with %d calls", short(bareTook), short(took), len(calls))
		if len(created) > 0 {
			if _, err := m.bare.send(ctx, http.MethodDelete, "networks/"+created[0], nil); err != nil {
				return err
			}
		}
		if err := m.remove(ctx, m.namespace, 90000+round, 90000+round+1); err != nil {
			return err
		}
		if _, err := m.observer.awaitGone(ctx, 0); err != nil {
			return c.explain(err)
		}
	}
	return c.stop(ctx)
}

// short is a duration with as many digits as matter here.
func short(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
