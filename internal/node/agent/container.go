package agent

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"cloudteam.ztgame.com/network-controller/internal/node/capture"
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

// newCaptureCommand makes the command that `kubectl network capture` runs in a Pod, hidden as newProbeCommand is. With
// --hold it keeps its container and captures nothing: what the first program of a container writes is in the log, and
// more people may read logs than may see packets. The capture then runs beside it.
func newCaptureCommand() *cobra.Command {
	var limits capture.Limits
	mac, hold := "", time.Duration(0)
	command := &cobra.Command{
		Use:    "capture",
		Short:  "Write the packets of an interface as a pcap to standard output, until standard input ends",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			ctx, end := context.WithCancel(command.Context())
			defer end()
			if hold > 0 {
				ctx, cancel := context.WithTimeout(ctx, hold)
				defer cancel()
				<-ctx.Done()
				return nil
			}
			if err := limits.Validate(); err != nil {
				return err
			}
			socket, err := capture.Open(mac)
			if err != nil {
				return err
			}
			defer socket.Close()
			go func() {
				_, _ = io.Copy(io.Discard, command.InOrStdin()) // it ends when the user, or the connection, ends it
				end()
			}()
			says, err := capture.Write(ctx, command.OutOrStdout(), socket, limits)
			fmt.Fprintln(command.ErrOrStderr(), says)
			return err
		},
	}
	limits.AddFlags(command.Flags())
	command.Flags().StringVar(&mac, "mac", "", "hardware address of the interface")
	command.Flags().DurationVar(&hold, "hold", 0, "capture nothing, and end after this time")
	return command
}
