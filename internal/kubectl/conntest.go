package kubectl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/kubernetes"

	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/conntest"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/text"
)

// logReader gives the log of a container; see conntest.Options.
type logReader func(ctx context.Context, namespace, pod, container string) ([]byte, error)

// podLogs reads logs by the API server.
func podLogs(kube kubernetes.Interface) logReader {
	return func(ctx context.Context, namespace, pod, container string) ([]byte, error) {
		return kube.CoreV1().Pods(namespace).GetLogs(pod, &corev1.PodLogOptions{
			Container: container, LimitBytes: new(int64(conntest.MaxLog)),
		}).DoRaw(ctx)
	}
}

func (f *factory) conntest() *cobra.Command {
	output, to := "", []string(nil)
	var o conntest.Options
	c := &cobra.Command{
		Use:   "conntest NETWORK",
		Short: "Check from inside whether packets flow on a Network, by Pods that it starts and removes",
		Long: `conntest starts two Pods on the Network, on different nodes if there are two. Each probes the other one, by
ICMP and TCP, at all addresses that Neutron gave it. It also probes the Network's router, and the addresses that you
name. Then it deletes the Pods, also after Ctrl-C and after an error.

Each Pod takes one address of the Network for about a minute. It needs the data plane on the nodes (docs/dataplane.md).
Packets have to come from the Pod's address on the Network, so no other network of the Pod can answer in its place.

You need the rights to create, list, patch and delete Pods, and to read their logs: the role edit has them. The Pods are
in the namespace of -n. The Network is there, too, or is NAMESPACE/NAME and allows that namespace.

The image is that of the nodes' agents. If you may not read their DaemonSet, name it with --image.

With --throughput, it then measures what TCP carries between the first Pod and each other one, one direction after the
other. The transfers fill the nodes' network: think of its other users.

The exit code is 0 if all checks pass, 2 if one fails, and 1 after an error. SKIP is no failure: the Pod could not make
the check.`,
		Example: `  # Do Pods on two nodes reach each other?
  kubectl network conntest frontend -n shop

  # A Pod on each node, or on the nodes that you name:
  kubectl network conntest frontend --nodes
  kubectl network conntest frontend --nodes=node1,node7

  # Does the Network reach a host outside, and a service?
  kubectl network conntest frontend --to 192.0.2.7 --to 192.0.2.8:443

  # How much does TCP carry between two nodes, in 5 seconds each way?
  kubectl network conntest frontend --throughput

  # For a script: what does not work?
  kubectl network conntest frontend -o json | jq '.checks[] | select(.state == "FAIL")'`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: f.completeNetworks,
		RunE: func(c *cobra.Command, args []string) error {
			cluster, err := f.conntestOptions(&o, args[0], to)
			if err != nil {
				return err
			}
			report, err := conntest.Run(c.Context(), cluster, o)
			if len(report.Checks) > 0 { // also if Pods are left behind
				print := func() error { return f.printConntest(report, output == "wide") }
				err = errors.Join(f.print(output, report, nil, print), err)
			}
			return f.ends(cluster, err, !report.Passed)
		},
	}
	c.Flags().StringArrayVar(&to, "to", nil,
		"Address that each Pod also probes: by ICMP, or ADDRESS:PORT by TCP. Can be repeated")
	c.Flags().StringSliceVar(&o.Nodes, "nodes", nil,
		"One Pod on each node that takes Pods, or on each that you name (--nodes=NODE,NODE)")
	c.Flags().Lookup("nodes").NoOptDefVal = conntest.EachNode
	c.Flags().StringVar(&o.Image, "image", "",
		"Image with the program network-agent. The default is that of the nodes' agents")
	c.Flags().Uint16Var(&o.Port, "port", 8080,
		"TCP port that the Pods listen on, for security groups that allow some only")
	c.Flags().DurationVar(&o.Timeout, "timeout", 2*time.Minute,
		"How long the Pods may wait for their ports, and again for their start")
	c.Flags().DurationVar(&o.Throughput, "throughput", 0,
		"Measure what TCP carries between the first Pod and each other one: 5s each way, or --throughput=TIME (1s to 30s)")
	c.Flags().Lookup("throughput").NoOptDefVal = "5s"
	f.outputFlag(c, &output, "wide", "json", "yaml")
	return c
}

// conntestOptions completes the options of a test.
func (f *factory) conntestOptions(o *conntest.Options, network string, to []string) (*ask.Cluster, error) {
	namespace, cluster, err := f.where(false)
	if err != nil {
		return nil, err
	}
	o.Namespace, o.Network = namespace, types.NamespacedName{Namespace: namespace, Name: network}
	if of, name, both := strings.Cut(network, "/"); both {
		o.Network = types.NamespacedName{Namespace: of, Name: name}
	}
	for _, word := range to {
		target, err := conntest.ParseTarget(word)
		if err != nil {
			return nil, err
		}
		o.To = append(o.To, target)
	}
	if o.Timeout < time.Second || o.Timeout > time.Hour {
		return nil, fmt.Errorf("--timeout %s: write 1s to 1h", o.Timeout)
	}
	if o.Throughput != 0 && (o.Throughput < time.Second || o.Throughput > 30*time.Second) {
		return nil, fmt.Errorf("--throughput=%s: write 1s to 30s", o.Throughput)
	}
	if o.Port < 1024 {
		return nil, fmt.Errorf("--port %d: write 1024 to 65535, because the Pods do not run as root", o.Port)
	}
	o.Now, o.ID, o.Log = f.now, f.id(), f.logs(cluster.Kubernetes)
	o.Progress = f.progress
	return cluster, nil
}

// randomID is a part of names that is unlike those of other calls.
func randomID() string { return rand.String(5) }

// printConntest writes a line for each check, and below a failed one what to do. Of a test of many nodes, it leaves out
// what passed, unless all is asked for.
func (f *factory) printConntest(report conntest.Report, all bool) error {
	place := places(report.Pods)
	all = all || len(report.Pods) <= 2
	var lines strings.Builder
	table := tabwriter.NewWriter(&lines, 0, 0, 2, ' ', 0)
	row := func(cells ...string) { _, _ = fmt.Fprintln(table, strings.Join(cells, "\t")) }
	var shown []conntest.Check
	for _, c := range report.Checks {
		if !all && c.State == conntest.Passed && c.What != conntest.Throughput {
			continue
		}
		if shown = append(shown, c); len(shown) == 1 {
			row("STATE", "FROM", "TO", "ADDRESS", "CHECK", "RESULT")
		}
		result := "-"
		switch {
		case c.State != conntest.Passed || c.What == "interface":
		case c.What == conntest.Throughput:
			result = fmt.Sprintf("%.1f Mbit/s", c.MegabitsPerSecond)
		default:
			result = fmt.Sprintf("%.1f ms", c.Milliseconds)
		}
		to := cmp.Or(place(c.To), "-")
		if c.To == c.Address {
			to = "-"
		}
		row(string(c.State), place(c.From), to, cmp.Or(c.Address, "-"), c.What, result)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	to, style := text.NewPrinter(f.Out), text.StyleFor(f.Out)
	colours := map[conntest.State]func(string) string{
		conntest.Passed: style.Good, conntest.Failed: style.Bad, conntest.Skipped: style.Warn,
	}
	i, last := -1, ""
	for line := range strings.Lines(lines.String()) {
		line = strings.TrimRight(line, " \n")
		if i++; i == 0 {
			to.Line("%s", line)
			continue
		}
		c := shown[i-1]
		to.Line("%s%s", colours[c.State](string(c.State)), strings.TrimPrefix(line, string(c.State)))
		if c.Says != "" {
			to.Wrapped("       ", c.Says)
		}
		if c.Remedy != "" && c.Remedy != last {
			to.Hanging("       → ", "         ", c.Remedy)
		}
		last = c.Remedy
	}
	passed := 0
	for _, c := range report.Checks {
		if c.State == conntest.Passed {
			passed++
		}
	}
	to.Line("%d of %d checks passed.", passed, len(report.Checks))
	to.Wrapped("", report.Note)
	return to.Err()
}

// places gives a function that names a Pod by its node, if no other Pod is there. Other names stay.
func places(pods []conntest.Pod) func(name string) string {
	return func(name string) string {
		i := slices.IndexFunc(pods, func(p conntest.Pod) bool { return p.Name == name })
		if i < 0 || pods[i].Node == "" {
			return name
		}
		for j, other := range pods {
			if j != i && other.Node == pods[i].Node {
				return name
			}
		}
		return pods[i].Node
	}
}
