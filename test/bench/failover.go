package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"cloudteam.ztgame.com/network-controller/test/harness"
)

func failoverGroup() group {
	return group{
		id: "failover", clouds: []string{emulator, openStack}, components: harness.APIComponents(),
		size: func(options) int { return 2 },
		benchmarks: []benchmark{
			{
				id: "kill", name: "kill -9 of the leader to the first POST of the other ÷ lease duration", limit: 1.6,
				how: "Two controllers run. A Network is applied right after the kill, and its POST at Neutron's proxy ends the " +
					"time. The lease is --lease-duration: 5 s unless the command sets another. Renew deadline and retry " +
					"period are in proportion to it as by default. A standby sees the last renewal and the end of the lease " +
					"up to 2.2 retry periods late each (client-go's jitter).",
			},
			{
				id: "stop", name: "SIGTERM of the leader to the first POST of the other", limit: 2, unit: "s",
				how: "As above; the Network is applied when the leader's process has ended.",
			},
		},
		measure: measureFailover,
	}
}

func measureFailover(ctx context.Context, b *bench) error {
	s, err := b.openSite(ctx, 1)
	if err != nil {
		return err
	}
	namespace, err := b.newNamespace(ctx)
	if err != nil {
		return err
	}
	b.sweepAfter(ctx, newBare(s), namespace)
	flags := []string{
		"--leader-elect-resource-namespace=" + harness.AccountName,
		"--leader-elect-lease-duration=" + b.lease.String(),
		"--leader-elect-renew-deadline=" + (b.lease * 10 / 15).String(),
		"--leader-elect-retry-period=" + (b.lease * 2 / 15).String(),
	}
	leader, err := b.launch(s, b.Kubeconfig, flags...)
	if err != nil {
		return err
	}
	err = leader.await(ctx, harness.Patience, func() error {
		if !strings.Contains(leader.Output.String(), "Successfully acquired lease") { // as client-go words it
			return errors.New("it does not lead")
		}
		return nil
	})
	if err != nil {
		return err
	}
	applied := 0
	// takeOver ends the leader, has the other one make a Network, and gives how long that took.
	takeOver := func(end func(*controller) error) (time.Duration, error) {
		other, err := b.start(ctx, s, b.Kubeconfig, flags...)
		if err != nil {
			return 0, err
		}
		mark, began := s.mark(), time.Now()
		if err := end(leader); err != nil {
			return 0, err
		}
		leader = other
		name := nameOf(namespace, applied)
		applied++
		if err := b.applyOne(ctx, namespace, name, plainSpec()); err != nil {
			return 0, err
		}
		var at time.Time
		err = other.await(ctx, 3*b.lease+harness.Patience, func() error {
			for _, c := range s.since(mark) {
				if c.method == "POST" && strings.Contains(string(c.body), `"name":"`+name+`"`) {
					at = c.at
					return nil
				}
			}
			return errors.New("the other controller posts nothing")
		})
		return at.Sub(began), err
	}
	for round := range b.rounds {
		killed, err := takeOver(func(c *controller) error { c.Process.Process.Kill(); return nil })
		if err != nil {
			return fmt.Errorf("kill: %w", err)
		}
		stopped, err := takeOver(func(c *controller) error { return c.stop(ctx) })
		if err != nil {
			return fmt.Errorf("stop: %w", err)
		}
		b.report.add("kill", killed.Seconds()/b.lease.Seconds())
		b.report.add("stop", stopped.Seconds())
		b.say("round %d: %s after a kill, %s after a stop", round+1, short(killed), short(stopped))
	}
	return nil
}
