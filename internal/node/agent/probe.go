package agent

import (
	"os"

	"github.com/spf13/cobra"

	"cloudteam.ztgame.com/network-controller/internal/node/probe"
)

// newProbeCommand makes the command that `kubectl network conntest` runs in its Pods. It is hidden: nobody types it. It
// is in this program because the image of the data plane has it, and each node has that image already.
func newProbeCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "probe",
		Short:  "Check whether packets reach other Pods on a Network, and answer their probes",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			plan, err := probe.ReadPlan(os.Getenv(probe.PlanEnv))
			if err != nil {
				return err
			}
			probe.Run(command.Context(), plan, command.OutOrStdout())
			return nil
		},
	}
}
