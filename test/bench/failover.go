package main

import (
	"context"
	"errors"
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
	for round := range b.rounds {
		other, err := b.start(ctx, s, b.Kubeconfig, flags...)
		if err != nil {
			return err
		}
		mark, began := s.mark(), time.Now()
		leader.Process.Process.Kill()
		leader = other
		name := nameOf(namespace, round)
		if err := b.applyOne(ctx, namespace, name); err != nil {
			return err
		}
		var took time.Duration
		err = leader.await(ctx, 3*b.lease+harness.Patience, func() error {
			for _, c := range s.since(mark) {
				if c.method == "POST" && strings.Contains(string(c.body), `"name":"`+name+`"`) {
					took = c.at.Sub(began)
					return nil
				}
			}
			return errors.New("the other controller posts nothing")
		})
		if err != nil {
			return err
		}
		b.report.add("kill", took.Seconds()/b.lease.Seconds())
		b.say("round %d: %s after a kill", round+1, short(took))
	}
	return nil
}
