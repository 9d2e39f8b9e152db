package kubectl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"cloudteam.ztgame.com/network-controller/internal/kinds"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/adoption"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/planning"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/text"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
)

// adopter is one run of kubectl network adopt.
type adopter struct {
	*factory
	from, cloudName, uid, output string
	yes, force                   bool
	// silence is how long the old cluster's controller has to be silent.
	silence time.Duration

	cluster *ask.Cluster
	cloud   *client.Cloud
	calls   atomic.Int64
}

func (f *factory) adopt() *cobra.Command {
	a := &adopter{factory: f}
	c := &cobra.Command{
		Use:   "adopt [--from-cluster UID [NAMESPACE/NAME[=NETWORK-ID] ...]]",
		Short: "Give the networks of a cluster that is gone to this cluster's Networks",
		Long: `adopt is for a cluster that was built again: its objects have other UIDs, and the old networks in Neutron bear
the old ones. It writes the UIDs of this cluster's objects into the old networks' descriptions, and nothing else.

Start the controller with firstStart=Report and apply all Networks before. Without --from-cluster it lists the
clusters that have something in the project. With it, it says what it would do; with --yes, it does it.

A network goes to the Network with its name and its spec.cidr, and a port to the NetworkPort with its name on that
network. A floating IP goes to the FloatingIP that names its id or address, or to the NetworkPort or FloatingIP of
its port. Where two fit, none gets it: choose a network by NAMESPACE/NAME=NETWORK-ID. Look at the namespaces: the
first user who applies a Network of that name and cidr would get the network.

Before it writes, it makes sure that no controller of the old cluster runs: it challenges it in Neutron, and waits for
an answer. It may be interrupted, and run again. The exit code is 0 if there is nothing to do or all was done, 2 if
--yes would do something, and 1 after an error or if an object has a problem.`,
		Example: `  # Which clusters have something in the project?
  kubectl network adopt --cloud mycloud

  # What would this cluster get from that one?
  kubectl network adopt --from-cluster 5b0e4c5a-2c1f-4f3b-8a57-0a3b5f4d6c11 --cloud mycloud

  # One Network first:
  kubectl network adopt --from-cluster 5b0e4c5a-2c1f-4f3b-8a57-0a3b5f4d6c11 shop/frontend --yes`,
		RunE: func(c *cobra.Command, args []string) error { return a.run(c.Context(), args) },
	}
	c.Flags().StringVar(&a.from, "from-cluster", "",
		"UID of the old cluster: the first one in the markers [owner=UID/UID]")
	c.Flags().BoolVar(&a.yes, "yes", false, "Write the markers")
	c.Flags().DurationVar(&a.silence, "silence", 3*time.Minute,
		"How long the old cluster's controller has to answer. Three times its --audit-interval is safe")
	c.Flags().BoolVar(&a.force, "force", false,
		"Do not ask whether the old cluster's controller runs. You know that it does not")
	c.Flags().StringVar(&a.uid, "cluster-uid", "", "UID of the namespace kube-system, if you may not read it")
	a.outputFlag(c, &a.output, "json", "yaml")
	a.cloudFlag(c, &a.cloudName)
	return c
}

func (a *adopter) run(ctx context.Context, args []string) (err error) {
	chosen, err := choices(args)
	if err != nil {
		return err
	}
	if len(chosen) > 0 && a.from == "" {
		return errors.New("name the old cluster with --from-cluster")
	}
	if a.cluster, err = a.factory.cluster(); err != nil {
		return err
	}
	if err := a.openCloud(); err != nil {
		return err
	}
	if a.uid, err = planning.ClusterUID(ctx, a.cluster, a.uid); err != nil {
		return err
	}
	if a.from == a.uid {
		return errors.New("--from-cluster is this cluster: its networks are its own already")
	}
	survey, err := adoption.Look(ctx, a.cloud)
	if err != nil {
		return err
	}
	if a.from == "" {
		clusters := survey.Clusters(a.uid)
		return a.print(a.output, clusters, nil, func() error { return a.printClusters(clusters) })
	}
	result, err := a.match(ctx, survey, chosen)
	if err != nil {
		return err
	}
	if err := a.print(a.output, result, nil, func() error { return a.printResult(result) }); err != nil {
		return err
	}
	if a.yes && result.Writes() > 0 {
		if err := a.apply(ctx, result); err != nil {
			return err
		}
	}
	switch {
	case result.Problems():
		return &ExitError{1}
	case !a.yes && result.Writes() > 0:
		return &ExitError{2}
	}
	return nil
}

// choices reads the arguments NAMESPACE/NAME[=NETWORK-ID].
func choices(args []string) (map[string]string, error) {
	chosen := map[string]string{}
	for _, arg := range args {
		object, id, named := strings.Cut(arg, "=")
		if namespace, name, ok := strings.Cut(object, "/"); !ok || namespace == "" || name == "" || named && id == "" {
			return nil, fmt.Errorf("%q is no Network: write NAMESPACE/NAME or NAMESPACE/NAME=NETWORK-ID", arg)
		}
		chosen[object] = id
	}
	return chosen, nil
}

// openCloud opens the user's cloud. Only with --yes it sends writes.
func (a *adopter) openCloud() (err error) {
	a.cloud, err = a.neutronWith(a.cloudName, client.Options{
		Called: func(client.Call) { a.calls.Add(1) },
		Permit: func() error {
			if a.yes {
				return nil
			}
			return errReadOnly
		},
	})
	if err == nil {
		err = requireCloud("an adoption needs Neutron", a.cloud)
	}
	return err
}

// match reads all Networks, NetworkPorts and FloatingIPs: one that the user may not read could be the true owner.
func (a *adopter) match(
	ctx context.Context, survey *adoption.Survey, chosen map[string]string,
) (*adoption.Result, error) {
	objects, err := ask.Everywhere(ctx, a.cluster, kinds.Network, kinds.NetworkPort, kinds.FloatingIP)
	if err != nil {
		return nil, err
	}
	of, err := a.cloud.Identity(ctx)
	if err != nil {
		return nil, err
	}
	return survey.Match(adoption.Request{
		From: a.from, Own: a.uid, Project: of.ProjectID, Chosen: chosen, Objects: objects,
	}), nil
}

// apply writes the markers, once the old cluster is known to be gone.
func (a *adopter) apply(ctx context.Context, result *adoption.Result) error {
	old := inventory.NewChallenge(a.cloud, a.from)
	if !a.force {
		if err := a.challenge(ctx, old); err != nil {
			return err
		}
	}
	written := 0
	err := result.Apply(ctx, a.cloud, func(of adoption.Adoption, t adoption.Taken) {
		written++
		_, _ = fmt.Fprintf(a.ErrOut, "Marked %s %s for %s.\n", t.Kind, t.ID, of.Object)
	})
	if err == nil && len(result.Left) == 0 {
		err = old.Forget(ctx)
	}
	_, _ = fmt.Fprintf(a.ErrOut, "Calls to Neutron: %d, of which %d wrote a marker. The conditions of the objects follow "+
		"with the controller's next audit.\n", a.calls.Load(), written)
	if err != nil {
		return fmt.Errorf("%w; run the same command again, it goes on where it stopped", err)
	}
	return nil
}

// challenge returns an error unless the old cluster's controller is silent.
func (a *adopter) challenge(ctx context.Context, old *inventory.Challenge) error {
	possible, err := old.Write(ctx)
	switch {
	case client.IsConflict(err):
		return errAlive
	case err != nil:
		return fmt.Errorf("asking whether the old cluster's controller runs: %w", err)
	case !possible:
		return errors.New("the old cluster has no term record in this project: nothing shows whether its controller runs. " +
			"Nothing was marked. Make sure that it does not run, and add --force")
	}
	_, _ = fmt.Fprintf(a.ErrOut, "Waiting %s for an answer of the old cluster's controller.\n", a.silence)
	answered, err := old.Answered(ctx, a.silence, max(a.silence/12, 10*time.Millisecond))
	if answered {
		return errAlive
	}
	return err
}

// errAlive is why nothing is taken from a cluster that lives.
var errAlive = errors.New("a controller of the old cluster runs: it answered in Neutron. Nothing was marked. " +
	"For three of its audits, it changes nothing. Stop it, and run the same command again")

func (a *adopter) printClusters(clusters []adoption.Cluster) error {
	to := text.NewPrinter(a.Out)
	if len(clusters) == 0 {
		to.Line("No cluster has anything in this project.")
		return to.Err()
	}
	to.Line("%-36s  %8s  %7s  %5s", "CLUSTER", "NETWORKS", "ROUTERS", "PORTS")
	for _, c := range clusters {
		own := ""
		if c.Own {
			own = "  this cluster"
		}
		to.Line("%-36s  %8d  %7d  %5d%s", c.UID, c.Networks, c.Routers, c.Ports, own)
	}
	return to.Err()
}

// maxLeft bounds the resources that are listed and stay.
const maxLeft = 20

func (a *adopter) printResult(r *adoption.Result) error {
	to, style := text.NewPrinter(a.Out), text.StyleFor(a.Out)
	for _, o := range r.Objects {
		to.Line("%s", style.Strong(o.Object.String()))
		if o.Problem != "" {
			to.Wrapped("  ", "Nothing is adopted. "+o.Problem)
		}
		for _, t := range o.Takes {
			to.Line("  %-7s %s  %s", t.Kind, t.ID, text.Plain(t.Says))
		}
	}
	if len(r.Left) > 0 {
		to.Line("Left with the old cluster's marker, because nothing here fits:")
		for i, t := range r.Left {
			if i == maxLeft {
				to.Line("  and %d more: -o json lists them", len(r.Left)-maxLeft)
				break
			}
			to.Line("  %-7s %s  %s", t.Kind, t.ID, text.Plain(t.Says))
		}
	}
	switch {
	case len(r.Objects) == 0 && len(r.Left) == 0:
		to.Line("Nothing in this project is of cluster %s.", r.From)
	case r.Writes() == 0:
		to.Line("Nothing to adopt.")
	case !a.yes:
		to.Line("")
		to.Line("Nothing was written. With --yes: %d markers, one call to Neutron each.", r.Writes())
	}
	return to.Err()
}
