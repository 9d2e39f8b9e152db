package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

func microGroup() group {
	const how = "`go test -bench BenchmarkSyncAtRest -benchmem` in the package of its controller: a sync of one of " +
		"1,000 objects that are as declared."
	return group{
		id: "micro", clouds: []string{emulator},
		size: func(options) int { return 1000 },
		benchmarks: []benchmark{
			{id: "sync-network", name: "no-op sync of a Network", limit: 50, unit: "µs", how: how},
			{id: "allocs-network", name: "allocations of a no-op sync of a Network", limit: noLimit, how: "As above."},
			{id: "sync-port", name: "no-op sync of a NetworkPort", limit: 50, unit: "µs", how: how},
			{id: "allocs-port", name: "allocations of a no-op sync of a NetworkPort", limit: noLimit, how: "As above."},
		},
		measure: measureMicro,
	}
}

func measureMicro(ctx context.Context, b *bench) error {
	for kind, folder := range map[string]string{"network": "network", "port": "networkport"} {
		cmd := exec.CommandContext(ctx, "go", "test", "-run=^$", "-bench=^BenchmarkSyncAtRest$", "-benchmem",
			"-count="+strconv.Itoa(b.rounds), module+"/internal/controller/"+folder)
		cmd.Stderr = os.Stderr
		output, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("%s: %w\n%s", cmd, err, output)
		}
		results := 0
		for scanner := bufio.NewScanner(bytes.NewReader(output)); scanner.Scan(); {
			values := benchmarkLine(scanner.Text())
			if values == nil {
				continue
			}
			results++
			b.report.add("sync-"+kind, values["ns/op"]/1000)
			b.report.add("allocs-"+kind, values["allocs/op"])
			b.say("no-op sync of a %s: %.1f µs, %.0f allocations", kind, values["ns/op"]/1000, values["allocs/op"])
		}
		if results == 0 {
			return fmt.Errorf("%s gives no result", cmd)
		}
	}
	return nil
}

const module = "cloudteam.ztgame.com/network-controller"

// benchmarkLine reads what go test prints of a benchmark: its values by their units, or nil of another line.
func benchmarkLine(line string) map[string]float64 {
	fields := strings.Fields(line)
	if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
		return nil
	}
	values := map[string]float64{}
	for i := 2; i+1 < len(fields); i += 2 {
		value, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return nil
		}
		values[fields[i+1]] = value
	}
	return values
}
