package kubectl

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/orphans"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/planning"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/text"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/why"
)

func (f *factory) orphans() *cobra.Command {
	output, cloudName, uid := "", "", ""
	c := &cobra.Command{
		Use:   "orphans",
		Short: "List what this cluster's marker is on in Neutron, while its object is gone",
		Long: `orphans lists the networks, subnets, routers, ports, security groups and floating IPs of a project that bear
this cluster's marker, and whose object is gone. It says what the controller does about each. It changes nothing.

The controller removes orphans itself, after several proofs. What it does depends on its flags: the states are those of
the default ones.

  Due       it removes the resource after --orphan-grace
  Retained  it only removes the marker: the object said that the resource stays
  Withheld  more objects are gone than --orphan-max-share allows; it removes none
  Blocked   something else uses the resource
  Ignored   it does not look for the resource

The exit code is 0 if there are none, 2 if there are some, and 1 after an error.`,
		Example: `  # What is left in the project, and why?
  kubectl network orphans --cloud mycloud

  # For a script:
  kubectl network orphans --cloud mycloud -o json | jq -r '.[] | select(.state == "Blocked") | .id'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cluster, all, err := f.findOrphans(c.Context(), cloudName, uid)
			if err != nil {
				return err
			}
			names := objectNames(all, func(o orphans.Orphan) string { return o.Kind + "/" + o.ID })
			err = f.print(output, all, names, func() error { return f.printOrphans(all, output == "wide") })
			return f.ends(cluster, err, len(all) > 0)
		},
	}
	c.Flags().StringVar(&uid, "cluster-uid", "", "UID of the namespace kube-system, if you may not read it")
	f.outputFlag(c, &output, "wide", "json", "yaml", "name")
	f.cloudFlag(c, &cloudName)
	return c
}

func (f *factory) findOrphans(ctx context.Context, cloudName, uid string) (*ask.Cluster, []orphans.Orphan, error) {
	cluster, err := f.cluster()
	if err != nil {
		return nil, nil, err
	}
	cloud, err := f.neutronFor("orphans are in Neutron", cloudName)
	if err != nil {
		return nil, nil, err
	}
	if uid, err = planning.ClusterUID(ctx, cluster, uid); err != nil {
		return nil, nil, err
	}
	all, err := orphans.Find(ctx, cluster, cloud, uid)
	if err != nil {
		return nil, nil, err
	}
	if link, _, _ := why.Controller(ctx, cluster, f.now()); link != nil && len(all) > 0 {
		cluster.Note("No controller runs, so nothing is removed. %s: %s", link.Object, link.Message)
	}
	return cluster, all, nil
}

func (f *factory) printOrphans(all []orphans.Orphan, wide bool) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(f.Out, "There are no orphans in this project.")
		return err
	}
	table := tabwriter.NewWriter(f.Out, 0, 0, 3, ' ', 0)
	row := func(object string, cells ...string) {
		if wide {
			cells = append(cells, object)
		}
		_, _ = fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	row("OBJECT", "KIND", "ID", "NAME", "AGE", "STATE")
	for _, o := range all {
		age := "-"
		if !o.Created.IsZero() {
			age = duration.HumanDuration(f.now().Sub(o.Created))
		}
		row(o.Object, o.Kind, o.ID, text.Plain(cmp.Or(o.Name, "-")), age, string(o.State))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	// Each reason once, with how many it is for.
	to, style := text.NewPrinter(f.Out), text.StyleFor(f.Out)
	to.Line("")
	type reason struct {
		orphans.State
		says string
	}
	var reasons []reason
	first, counted := map[reason]orphans.Orphan{}, map[reason]int{}
	for _, o := range all {
		r := reason{o.State, o.Says}
		if counted[r]++; counted[r] == 1 {
			reasons, first[r] = append(reasons, r), o
		}
	}
	for _, r := range reasons {
		of := first[r].Kind + " " + first[r].ID
		if counted[r] > 1 {
			of += fmt.Sprintf(" and %d more", counted[r]-1)
		}
		to.Line("%s  %s", style.Strong(string(r.State)), of)
		to.Wrapped("  ", r.says)
	}
	return to.Err()
}
