package kubectl

import (
	"errors"

	"github.com/spf13/cobra"

	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/text"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/tree"
)

func (f *factory) tree() *cobra.Command {
	output, cloudName, everywhere := "", "", false
	c := &cobra.Command{
		Use:   "tree [NETWORK]",
		Short: "Show how Networks are connected: router, subnets, ports, and what has them",
		Long: `tree shows each Network from the outside over its router and subnets to the ports, and the Pods on them.

Kubernetes knows the ports that NetworkPorts have. To see servers and others' ports too, name a cloud of your
clouds.yaml with --cloud or OS_CLOUD.`,
		Example: `  # The Networks of a namespace:
  kubectl network tree -n shop

  # One Network, with the servers on it:
  kubectl network tree frontend --cloud mycloud

  # A picture:
  kubectl network tree -A -o dot | dot -Tsvg > networks.svg`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: f.completeNetworks,
		RunE: func(c *cobra.Command, args []string) error {
			name := ""
			if len(args) > 0 {
				name = args[0]
			}
			if everywhere && name != "" {
				return errors.New("-A is for all Networks: leave the name out, or write -n NAMESPACE")
			}
			namespace, cluster, err := f.where(everywhere)
			if err != nil {
				return err
			}
			neutron, err := f.portsIn(cloudName)
			if err != nil {
				return err
			}
			trees, err := tree.Of(c.Context(), cluster, neutron, namespace, name)
			if err != nil {
				return err
			}
			switch output {
			case "dot":
				err = tree.Dot(f.Out, trees)
			case "mermaid":
				err = tree.Mermaid(f.Out, trees)
			default:
				names := objectNames(trees, func(t *tree.Node) string { return nameOf(t.Kind, t.Name) })
				err = f.print(output, trees, names, func() error { return tree.Print(f.Out, trees, text.StyleFor(f.Out)) })
			}
			return errors.Join(err, f.notes(cluster))
		},
	}
	f.outputFlag(c, &output, "dot", "mermaid", "json", "yaml", "name")
	f.cloudFlag(c, &cloudName)
	c.Flags().BoolVarP(&everywhere, "all-namespaces", "A", false, "The Networks of all namespaces")
	return c
}

// portsIn reads the ports of a network with the user's credentials of the cloud; nil if the user names no cloud.
func (f *factory) portsIn(cloudName string) (tree.Neutron, error) {
	cloud, err := f.neutron(cloudName)
	if err != nil || cloud == nil {
		return nil, err
	}
	return tree.In(cloud), nil
}

// notes tells on the error output what could not be read, so that the output stays what it is.
func (f *factory) notes(cluster *ask.Cluster) error {
	p := text.NewPrinter(f.ErrOut)
	for _, note := range cluster.Notes {
		p.Wrapped("", "Note: "+note)
	}
	return p.Err()
}

// ends ends a command that has printed: with what failed, or with the exit code 2 if it found something.
func (f *factory) ends(cluster *ask.Cluster, err error, found bool) error {
	if err = errors.Join(err, f.notes(cluster)); err == nil && found {
		err = &ExitError{2}
	}
	return err
}

// completeNetworks completes the name of a Network, once.
func (f *factory) completeNetworks(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return f.namesOf(c.Context(), "network"), cobra.ShellCompDirectiveNoFileComp
}
