package kubectl

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"cloudteam.ztgame.com/network-controller/internal/kubectl/doctor"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/text"
	"cloudteam.ztgame.com/network-controller/internal/version"
)

func (f *factory) doctor() *cobra.Command {
	output, cloudName, uid := "", "", ""
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check the installation: API server, controller, objects, nodes, and Neutron",
		Long: `doctor checks the whole installation and says what to do about each problem. It changes nothing.

It compares the versions of this program, of the controller and of the node agents, and the installed CRDs with those of
this program's version.

It checks what you may read: an administrator sees most. With --cloud or OS_CLOUD it logs in to your cloud and checks
Neutron, too. The exit code is 0, 2 if a check fails, and 1 after an error. A warning is no failure.
There is no -o name: a check is no object.`,
		Example: `  # Everything that Kubernetes knows:
  kubectl network doctor

  # With the cloud of the controller:
  kubectl network doctor --cloud mycloud

  # For a monitoring script:
  kubectl network doctor -o json | jq '.[] | select(.state == "FAIL")'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cluster, err := f.cluster()
			if err != nil {
				return err
			}
			cloud, err := f.neutron(cloudName)
			if err != nil {
				return err
			}
			checks := doctor.Run(c.Context(), cluster, doctor.Options{
				Cloud: cloud, ClusterUID: uid, Version: version.Version, Now: f.now(), Ahead: f.ahead,
			})
			err = f.print(output, checks, nil, func() error { return f.printChecks(checks) })
			return f.ends(cluster, err, doctor.Failed(checks))
		},
	}
	c.Flags().StringVar(&uid, "cluster-uid", "", "UID of the namespace kube-system, if you may not read it")
	f.outputFlag(c, &output, "json", "yaml")
	f.cloudFlag(c, &cloudName)
	return c
}

// printChecks writes a line for each check, and what to do below it.
func (f *factory) printChecks(checks []doctor.Check) error {
	to, style := text.NewPrinter(f.Out), text.StyleFor(f.Out)
	colours := map[doctor.State]func(string) string{
		doctor.OK: style.Good, doctor.Warns: style.Warn, doctor.Fails: style.Bad, doctor.Unknown: style.Warn,
	}
	width := 0
	for _, c := range checks {
		width = max(width, len(c.Name))
	}
	for _, c := range checks {
		state := fmt.Sprintf("%-7s", c.State)
		margin := strings.Repeat(" ", 9+width+2)
		to.Hanging(fmt.Sprintf("%s  %-*s  ", colours[c.State](state), width, c.Name), margin, c.Says)
		if c.Remedy != "" {
			to.Wrapped(margin, "→ "+c.Remedy)
		}
	}
	return to.Err()
}
