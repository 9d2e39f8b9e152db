package kubectl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/text"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/tree"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// usage is how full a subnet of a Network is. Of a Network that has none yet, there is one usage without a subnet.
type usage struct {
	Namespace string `json:"namespace"`
	Network   string `json:"network"`
	Subnet    string `json:"subnet,omitempty"`
	// Used and Total count addresses in the allocation pools; nil if the controller does not know them.
	Used  *int64 `json:"usedAddresses,omitempty"`
	Total *int64 `json:"totalAddresses,omitempty"`
	// Ports counts the NetworkPorts on the Network, and Waiting those of them that are not Ready.
	Ports   int `json:"ports"`
	Waiting int `json:"portsWaiting"`
	// Drift names the fields that differ in Neutron.
	Drift []string `json:"drift,omitempty"`
	// Reason is that of the condition Ready.
	Reason string `json:"reason,omitempty"`
}

// share is the used part of the addresses, and -1 if that is unknown.
func (u usage) share() float64 {
	if u.Used == nil || u.Total == nil || *u.Total == 0 {
		return -1
	}
	return float64(*u.Used) / float64(*u.Total)
}

func (f *factory) top() *cobra.Command {
	output, everywhere := "", false
	c := &cobra.Command{
		Use:   "top [NETWORK]",
		Short: "Show which subnets are the fullest, with the ports and the drift of their Networks",
		Long: `top shows for each subnet how many of its addresses are in use, the fullest first.

The counts are those of the objects' status, or of the NetworkPorts where these have more. PORTS are NetworkPorts, and
WAITING those of them that are not Ready. DRIFT counts the fields that somebody changed in Neutron; -o wide names them.
-o name gives the Networks, that of the fullest subnet first.

It shows no calls to Neutron: these are in the controller's metrics, which bundle collects.`,
		Example: `  # The fullest subnets of the cluster:
  kubectl network top -A | head`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: f.completeNetworks,
		RunE: func(c *cobra.Command, args []string) error {
			namespace, cluster, err := f.where(everywhere)
			if err != nil {
				return err
			}
			all, err := usages(c.Context(), cluster, namespace)
			if err != nil {
				return err
			}
			if len(args) > 0 {
				all = slices.DeleteFunc(all, func(u usage) bool { return u.Network != args[0] })
			}
			err = f.print(output, all, func() []string { return networksOf(all) },
				func() error { return f.printUsages(all, output == "wide") })
			return errors.Join(err, f.notes(cluster))
		},
	}
	f.outputFlag(c, &output, "wide", "json", "yaml", "name")
	c.Flags().BoolVarP(&everywhere, "all-namespaces", "A", false, "The Networks of all namespaces")
	return c
}

// usages reads the Networks of a namespace, the fullest subnet first. Of NetworkPorts in other namespaces it counts
// those that the user may list.
func usages(ctx context.Context, c *ask.Cluster, namespace string) ([]usage, error) {
	networks, err := c.Networks.CloudteamV1().Networks(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, ask.Networks(err)
	}
	ports, waiting := map[types.NamespacedName][]*cloudteamv1.NetworkPort{}, map[types.NamespacedName]int{}
	for _, port := range tree.PortsOf(ctx, c, namespace) {
		ports[port.Network()] = append(ports[port.Network()], port)
		if !meta.IsStatusConditionTrue(port.Status.Conditions, cloudteamv1.ConditionReady) {
			waiting[port.Network()]++
		}
	}
	all := []usage{}
	for i := range networks.Items {
		n := &networks.Items[i]
		key := types.NamespacedName{Namespace: n.Namespace, Name: n.Name}
		of := usage{Namespace: n.Namespace, Network: n.Name, Ports: len(ports[key]), Waiting: waiting[key]}
		for _, d := range n.Status.Drift {
			of.Drift = append(of.Drift, d.Field)
		}
		if ready := meta.FindStatusCondition(n.Status.Conditions, cloudteamv1.ConditionReady); ready != nil {
			of.Reason = ready.Reason
		}
		if len(n.Status.Subnets) == 0 {
			all = append(all, of)
		}
		for _, subnet := range n.Status.Subnets {
			of.Subnet, of.Used, of.Total = subnet.CIDR, tree.Used(subnet, ports[key], nil), subnet.TotalAddresses
			all = append(all, of)
		}
	}
	slices.SortStableFunc(all, func(a, b usage) int {
		return cmp.Or(cmp.Compare(b.share(), a.share()), cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Network, b.Network))
	})
	return all, nil
}

// networksOf names the Networks, each once.
func networksOf(all []usage) (names []string) {
	seen := map[types.NamespacedName]bool{}
	for _, u := range all {
		key := types.NamespacedName{Namespace: u.Namespace, Name: u.Network}
		if !seen[key] {
			seen[key], names = true, append(names, nameOf("Network", u.Network))
		}
	}
	return names
}

func (f *factory) printUsages(all []usage, wide bool) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(f.ErrOut, "No Networks found.")
		return err
	}
	table := tabwriter.NewWriter(f.Out, 0, 0, 3, ' ', 0)
	row := func(cells ...string) {
		if !wide {
			cells = cells[:len(cells)-1]
		}
		_, _ = fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	row("NAMESPACE", "NETWORK", "SUBNET", "USED", "TOTAL", "USED%", "PORTS", "WAITING", "DRIFT", "STATE", "DRIFTED FIELDS")
	for _, u := range all {
		used, total, share := "-", "-", "-"
		if u.share() >= 0 {
			used, total = strconv.FormatInt(*u.Used, 10), strconv.FormatInt(*u.Total, 10)
			share = fmt.Sprintf("%.0f%%", 100*u.share())
		}
		row(u.Namespace, u.Network, text.Plain(cmp.Or(u.Subnet, "-")), used, total, share, strconv.Itoa(u.Ports),
			strconv.Itoa(u.Waiting), strconv.Itoa(len(u.Drift)), text.Plain(cmp.Or(u.Reason, "-")),
			text.Plain(cmp.Or(strings.Join(u.Drift, ","), "-")))
	}
	return table.Flush()
}
