package kubectl

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/exporting"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/orphans"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/planning"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/text"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

func (f *factory) export() *cobra.Command {
	cloudName, output := "", ""
	var q exporting.Request
	c := &cobra.Command{
		Use:   "export",
		Short: "Write Networks that import the networks of a project as they are",
		Long: `export writes a Network for each network of a project in Neutron that no object has. Each imports its network
by the id. It declares the network as it is: applying it changes nothing in Neutron but the markers in the descriptions.

What a Network cannot say is in comments. The API server checks each Network by a dry run. The class of the Networks has
to allow imports (docs/classes.md). Networks of other clusters are left out; see "adopt". There is no JSON, because JSON
has no comments.

The exit code is 0, 2 if a network, a subnet or a field is left out because a Network cannot say it, and 1 after an
error.`,
		Example: `  # All networks of the project that nobody manages here:
  kubectl network export --cloud mycloud -n shop > networks.yaml

  # What would applying it do?
  kubectl network plan -f networks.yaml --cloud mycloud

  # One network:
  kubectl network export --cloud mycloud --name frontend | kubectl apply -f -`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cluster, all, err := f.exportAll(c.Context(), cloudName, &q)
			if err != nil {
				return err
			}
			names := objectNames(all, func(e exporting.Exported) string {
				if e.Network == nil {
					return ""
				}
				return nameOf("Network", e.Network.Name)
			})
			format := output
			if format == "yaml" {
				format = "" // as without it: with comments
			}
			err = f.print(format, nil, names, func() error { return f.printExported(all) })
			return f.ends(cluster, err, slices.ContainsFunc(all, func(e exporting.Exported) bool { return e.Incomplete }))
		},
	}
	c.Flags().StringSliceVar(&q.Names, "name", nil, "Name or id of a network in Neutron. Without it, all are written")
	c.Flags().BoolVar(&q.Orphans, "orphan-only", false,
		"Only networks with the marker of an object of this cluster that is gone")
	c.Flags().StringVar(&q.Class, "class", "", "NetworkClass of the Networks. The default is the cluster's default class")
	c.Flags().StringVar(&q.Cluster, "cluster-uid", "", "UID of the namespace kube-system, if you may not read it")
	f.outputFlag(c, &output, "yaml", "name")
	f.cloudFlag(c, &cloudName)
	return c
}

func (f *factory) exportAll(
	ctx context.Context, cloudName string, q *exporting.Request,
) (cluster *ask.Cluster, all []exporting.Exported, err error) {
	if q.Namespace, cluster, err = f.where(false); err != nil {
		return nil, nil, err
	}
	cloud, err := f.neutronFor("networks are in Neutron", cloudName)
	if err != nil {
		return nil, nil, err
	}
	if q.Cluster, err = planning.ClusterUID(ctx, cluster, q.Cluster); err != nil {
		return nil, nil, err
	}
	q.Refusals = func(n *cloudteamv1.Network) []metav1.StatusCause {
		refused, err := planning.Refusals(ctx, cluster, n)
		if why := planning.Denial(err); why != "" {
			cluster.Note("Networks fit the rules, and yet you may not apply all of them: %s.", why)
		} else if err != nil {
			cluster.Note("The API server did not check the Networks: %v. Before you apply them, try it with kubectl apply "+
				"--dry-run=server.", err)
		}
		return refused
	}
	all, skipped, err := exporting.Export(ctx, cloud, *q, func() (map[string]bool, error) {
		return orphans.Live(ctx, cluster)
	})
	if err != nil {
		return nil, nil, err
	}
	if skipped.Managed > 0 && !q.Orphans {
		cluster.Note("%d networks have an object here, and are left out.", skipped.Managed)
	}
	if skipped.Others > 0 {
		cluster.Note("%d networks bear the marker of another cluster, and are left out. If it is gone, see "+
			"\"kubectl network adopt\".", skipped.Others)
	}
	if len(all) == 0 {
		cluster.Note("There is no network to export.")
	}
	return cluster, all, nil
}

// documentOf writes a Network as YAML. A text with rare line breaks, which YAML would read as others, makes it JSON.
func documentOf(m exporting.Manifest) (string, error) {
	document, err := yaml.Marshal(m)
	if err != nil {
		return "", err
	}
	var read exporting.Manifest
	if err := yaml.Unmarshal(document, &read); err == nil && equality.Semantic.DeepEqual(m, read) {
		return string(document), nil
	}
	document, err = json.MarshalIndent(m, "", "  ")
	return strings.ReplaceAll(string(document), "\u0085", `\u0085`), err
}

// printExported writes the Networks as documents of YAML, with comments.
func (f *factory) printExported(all []exporting.Exported) error {
	to := text.NewPrinter(f.Out)
	for i, e := range all {
		if i > 0 && e.Network != nil {
			to.Line("---")
		}
		// Plain keeps a text in its comment: YAML has more line breaks than a terminal.
		to.Line("# Network %s %q in Neutron.", text.Plain(e.ID), e.Name)
		for _, note := range e.Notes {
			if strings.HasPrefix(note, " ") {
				to.Line("# %s", text.Plain(note)) // a command
				continue
			}
			to.Wrapped("# ", note)
		}
		if e.Network == nil {
			continue
		}
		document, err := documentOf(e.Manifest())
		if err != nil {
			return fmt.Errorf("writing the Network of %s: %w", e.ID, err)
		}
		to.Line("%s", strings.TrimSuffix(document, "\n"))
	}
	return to.Err()
}
