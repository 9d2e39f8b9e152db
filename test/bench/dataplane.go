package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
)

func dataplaneGroup() group {
	const pods = "On two nodes with kubelets, from the first create until each has had an answer from its gateway. " +
		"Multus calls the plugin."
	const macvlan = "With macvlan and host-local in place of Neutron."
	const beyond = "What Neutron's log gives for each POST and PUT of a port is taken off."
	return group{
		id: "dataplane", clouds: []string{dataplane},
		size: func(options) int { return 200 },
		benchmarks: []benchmark{
			{
				id: "add", name: "ADD of neutron-port, without the wait for OVN ÷ ADD of the plugin bridge", limit: 1.5,
				how: "The plugin is called as by the container runtime, in turn with bridge and host-local. The wait is the " +
					"time of the agent's answer to its second request: one transaction in Open vSwitch, until OVN has " +
					"installed the port's flows.",
			},
			{id: "del", name: "DEL of neutron-port ÷ DEL of the plugin bridge", limit: 1.5, how: "As above."},
			{
				id: "agent-memory", name: "memory of the agent with %d interfaces", limit: noLimit, unit: "MiB",
				how: "Its resident memory, on a node with OVN and without kubelet.",
			},
			{
				id: "agent-rest", name: "CPU time of the agent per minute at rest, with %d interfaces", limit: noLimit, unit: "ms",
				how: "User and system time, over two minutes. It compares all once a minute.",
			},
			{id: "start-1-s", name: "1 Pod to its first packet", limit: noLimit, unit: "s", how: pods},
			{id: "start-1", name: "the same ÷ macvlan", limit: 2.5, how: macvlan},
			{id: "start-10-s", name: "10 Pods to their first packets", limit: noLimit, unit: "s", how: pods},
			{id: "start-10", name: "the same ÷ macvlan", limit: 2, how: macvlan},
			{id: "start-50-s", name: "50 Pods to their first packets", limit: noLimit, unit: "s", how: pods},
			{id: "start-50", name: "the same ÷ macvlan", limit: 2, how: macvlan},
			{id: "beyond-1", name: "1 Pod, without the time of Neutron's answers ÷ macvlan", limit: 1.2, how: beyond},
			{id: "beyond-10", name: "10 Pods, without the time of Neutron's answers ÷ macvlan", limit: 1.2, how: beyond},
			{id: "beyond-50", name: "50 Pods, without the time of Neutron's answers ÷ macvlan", limit: 1.2, how: beyond},
			{
				id: "start-behind-s", name: "1 Pod to its first packet, while the ports of 50 others are deleted",
				limit: noLimit, unit: "s", how: "Right after the 50 Pods of the same namespace have ended.",
			},
			{
				id: "calls", name: "POST and PUT of ports at Neutron per Pod, with binding", limit: noLimit,
				how: "Of the 50 Pods, which have no Deployment, in Neutron's log. One is the binding. Reads are not counted.",
			},
			{
				id: "bare-bind", name: "a PUT that binds one port to a node, bare", limit: noLimit, unit: "s",
				how: "Without the controller, one call after another, before the Pods. Neutron has no bulk updates: with one " +
					"API worker, n Pods take n of these.",
			},
			{
				id: "bare-bulk-10", name: "a POST of ten ports without a host, bare", limit: noLimit, unit: "s",
				how: "Without the controller, before the Pods.",
			},
			{
				id: "bare-bulk-10-bound", name: "a POST of ten ports with their host, bare", limit: noLimit, unit: "s",
				how: "As above.",
			},
		},
		measure: measureDataplane,
	}
}

// measureDataplane has the tests of the data plane measure: they bring the nodes up.
func measureDataplane(ctx context.Context, b *bench) error {
	path := b.file("figures")
	cmd := exec.CommandContext(ctx, "go", "test", "-v", "-count=1", "-timeout=40m", "-run=^TestMeasure",
		"./test/dataplane")
	cmd.Env = append(os.Environ(), "DATAPLANE_OPENSTACK=1", "DATAPLANE_FIGURES="+path)
	cmd.Stdout, cmd.Stderr = b.out, b.out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", cmd, err)
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		var figure struct {
			ID    string
			Value float64
		}
		if err := json.Unmarshal(scanner.Bytes(), &figure); err != nil {
			return err
		}
		b.report.add(figure.ID, figure.Value)
	}
	return nil
}
