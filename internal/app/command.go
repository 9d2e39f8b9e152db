package app

import (
	"github.com/spf13/cobra"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
)

// NewCommand makes the command line of network-controller. It runs with the context that it is executed with.
func NewCommand() *cobra.Command {
	options := NewOptions()
	logging := logsapi.NewLoggingConfiguration()
	command := &cobra.Command{
		Use:   "network-controller",
		Short: "Make Network objects real in OpenStack Neutron, and Foos in Kubernetes",
		Long: `network-controller watches Networks (cloudteam.ztgame.com/v1) in Kubernetes and keeps, for each,
one network with its subnet in OpenStack Neutron: created when the object is applied, put right when
somebody changes it, deleted before the object goes. Deployments and Pods that declare networks
(annotation k8s.v1.cni.cncf.io/networks) get ports there, each with an address of its own. It watches
Foos (samplecontroller.k8s.io/v1alpha1), too, and keeps one Deployment for each.

It needs the CRDs (kubectl apply -f config/crd/), an API server and, for Networks, a cloud. A controller
whose CRD is not there waits for it and holds up no other. Several of these processes may run: one leads
(--leader-elect), the others stand by. SIGTERM lets running work finish and then stops;
a second one stops at once.`,
		Example: `  # From outside the cluster, with the cloud "mycloud" of ~/.config/openstack/clouds.yaml:
  network-controller --kubeconfig ~/.kube/config --cloud mycloud

  # In a Pod, with clouds.yaml mounted from a Secret:
  OS_CLIENT_CONFIG_FILE=/etc/openstack/clouds.yaml network-controller --cloud mycloud

  # Look for drift every ten seconds, and say more:
  network-controller --kubeconfig ~/.kube/config --cloud mycloud --audit-interval 10s -v 4

  # Foos alone, without a cloud:
  network-controller --kubeconfig ~/.kube/config --controllers foo`,
		Version:       Version,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := options.Validate(); err != nil {
				return err
			}
			if err := logsapi.ValidateAndApply(logging, nil); err != nil {
				return err
			}
			defer logs.FlushLogs()
			return Run(command.Context(), options)
		},
	}
	var sections cliflag.NamedFlagSets
	options.AddFlags(sections.FlagSet("controller"))
	logsapi.AddFlags(logging, sections.FlagSet("logging"))
	for _, section := range sections.FlagSets {
		command.Flags().AddFlagSet(section)
	}
	cliflag.SetUsageAndHelpFunc(command, sections, 100)
	return command
}
