// Command metrics writes the reference of the metrics, docs/metrics.md, from the metrics that the programs make.
package main

import (
	_ "embed"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	_ "cloudteam.ztgame.com/network-controller/internal/app" // makes the controller's metrics
	"cloudteam.ztgame.com/network-controller/internal/metric"
	_ "cloudteam.ztgame.com/network-controller/internal/node/agent" // makes the node agent's metrics
)

//go:embed preface.md
var preface string

func main() {
	out := flag.String("out", "docs/metrics.md", "file to write")
	flag.Parse()
	if err := os.WriteFile(*out, []byte(page()), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func page() string {
	var b strings.Builder
	b.WriteString(preface)
	agents := func(d metric.Definition) bool { return strings.HasPrefix(d.Name, "network_agent_") }
	table(&b, "network-controller", slices.DeleteFunc(metric.All(), agents))
	table(&b, "network-agent", slices.DeleteFunc(metric.All(), func(d metric.Definition) bool { return !agents(d) }))
	b.WriteString("\n## Labels\n\nNo label has values without bound, whatever users and clouds do.\n\n" +
		"| label | values |\n| --- | --- |\n")
	for _, label := range slices.Sorted(maps.Keys(metric.Labels)) {
		fmt.Fprintf(&b, "| `%s` | %s |\n", label, metric.Labels[label])
	}
	return b.String()
}

func table(b *strings.Builder, title string, definitions []metric.Definition) {
	fmt.Fprintf(b, "\n## %s\n\n| name | type | labels | stability | meaning |\n| --- | --- | --- | --- | --- |\n", title)
	for _, d := range definitions {
		labels := make([]string, len(d.Labels))
		for i, label := range d.Labels {
			labels[i] = "`" + label + "`"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n", d.Name, d.Type, strings.Join(labels, ", "), d.Stability,
			strings.ReplaceAll(d.Help, "|", `\|`))
	}
}
