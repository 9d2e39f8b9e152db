package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"cloudteam.ztgame.com/network-controller/test/harness"
)

func poolGroup() group {
	return group{
		id: "pool", clouds: []string{emulator, openStack}, components: harness.AllComponents(),
		size: func(o options) int { return o.replicas },
		benchmarks: []benchmark{
			{
				id: "pool", name: "a Deployment of %d on a Network, apply to all Pods running, pool ÷ no pool", limit: 0.5,
				how: "Without a pool, what gives Pods their ports learns of each when it appears: the same Deployment's Pods " +
					"are held by a gate of the benchmark's own, and a loop creates one port for one Pod after another, each " +
					"with the attributes that the controller gives it, and opens the Pod's gate. The controller is stopped " +
					"meanwhile. Scheduler, Node and Neutron are the same; the Pods start no containers (kwok).",
			},
			{
				id: "pool-calls", name: "calls to Neutron per Pod of it, with the pool", limit: 0.35,
				how: "All that Neutron's proxy sees in that time, lists included. Without a pool it is one.",
			},
			{
				id: "restart", name: "rolling restart of the Deployment of %d, pool ÷ no pool", limit: noLimit,
				how: "From the change of the Pod template until the Deployment is all of new Pods that are available. " +
					"Without a pool, each Pod's port is deleted when the Pod is gone, and the new Pod's is created.",
			},
			{
				id: "restart-calls", name: "calls to Neutron per Pod of the rolling restart, with the pool", limit: 0.35,
				how: "All that Neutron's proxy sees in that time, lists included. Without a pool there are two.",
			},
			{
				id: "restart-rest", name: "calls to Neutron per Pod after the rolling restart, with the pool", limit: noLimit,
				how: "From then until there are no more ports than Pods, without lists: a port that the restart needed beyond " +
					"the replicas is deleted once the pool's cool-down is over, each by a call.",
			},
		},
		measure: measurePool,
	}
}

// pool is the group pool while it is measured.
type pool struct{ *workload }

// rollout is what a Deployment's start and its restart took, and the calls to Neutron meanwhile. restCalls are those
// after the restart that are no lists.
type rollout struct {
	start, restart                      time.Duration
	startCalls, restartCalls, restCalls int
}

func measurePool(ctx context.Context, b *bench) error {
	w, err := b.newWorkload(ctx)
	if err != nil {
		return err
	}
	m := &pool{w}
	for round := range b.rounds {
		without, err := m.withoutPool(ctx)
		if err != nil {
			return fmt.Errorf("without a pool: %w", err)
		}
		with, err := m.withPool(ctx)
		if err != nil {
			return fmt.Errorf("with the pool: %w", err)
		}
		n := float64(b.size)
		b.report.add("pool", with.start.Seconds()/without.start.Seconds())
		b.report.add("pool-calls", float64(with.startCalls)/n)
		b.report.add("restart", with.restart.Seconds()/without.restart.Seconds())
		b.report.add("restart-calls", float64(with.restartCalls)/n)
		b.report.add("restart-rest", float64(with.restCalls)/n)
		b.say("round %d: start %s with %d calls, without a pool %s with %d; restart %s with %d, and %d later, "+
			"without %s with %d",
			round+1, short(with.start), with.startCalls, short(without.start), without.startCalls,
			short(with.restart), with.restartCalls, with.restCalls, short(without.restart), without.restartCalls)
	}
	return nil
}

func (m *pool) withPool(ctx context.Context) (rollout, error) {
	c, err := m.start(ctx, m.site, m.Kubeconfig, alone...)
	if err != nil {
		return rollout{}, err
	}
	profiled := m.profile(ctx, c, "pool")
	r, err := m.roll(ctx, false)
	if err != nil {
		return r, c.explain(err)
	}
	if err := profiled(); err != nil {
		return r, err
	}
	if err := m.awaitPorts(ctx, 0); err != nil {
		return r, c.explain(err)
	}
	return r, c.stop(ctx)
}

func (m *pool) withoutPool(ctx context.Context) (r rollout, err error) {
	err = m.withBareLoop(ctx, nil, func(ctx context.Context) error {
		r, err = m.roll(ctx, true)
		return err
	})
	return r, err
}

// roll applies a Deployment, restarts it, and deletes it with its Pods. With bare, they get their ports without the
// controller.
func (m *pool) roll(ctx context.Context, bare bool) (r rollout, err error) {
	began, mark := time.Now(), m.site.mark()
	if err := m.deploy(ctx, m.size, bare); err != nil {
		return r, err
	}
	if err := m.awaitAvailable(ctx); err != nil {
		return r, err
	}
	r.start, r.startCalls = time.Since(began), len(m.site.since(mark))

	began, mark = time.Now(), m.site.mark()
	_, err = m.Kube.AppsV1().Deployments(m.namespace).Patch(ctx, deploymentName, types.StrategicMergePatchType,
		[]byte(`{"spec":{"template":{"metadata":{"annotations":{"restarted":"yes"}}}}}`), metav1.PatchOptions{})
	if err != nil {
		return r, err
	}
	if err := m.awaitAvailable(ctx); err != nil {
		return r, err
	}
	r.restart, r.restartCalls = time.Since(began), len(m.site.since(mark))
	if !bare {
		if r.restCalls, err = m.awaitRest(ctx); err != nil {
			return r, err
		}
	}
	return r, m.undeploy(ctx)
}

// awaitRest waits until there are as many ports as Pods, and gives the number of calls until then that are no lists.
func (m *pool) awaitRest(ctx context.Context) (calls int, err error) {
	mark := m.site.mark()
	err = m.awaitPorts(ctx, m.size)
	for _, call := range m.site.since(mark) {
		if !call.lists() {
			calls++
		}
	}
	return calls, err
}
