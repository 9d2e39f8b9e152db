package app

import (
	"context"

	"github.com/spf13/cobra"

	"cloudteam.ztgame.com/network-controller/config/crd"
	"cloudteam.ztgame.com/network-controller/internal/cli"
)

// NewCommand makes the command line of network-controller.
func NewCommand() *cobra.Command {
	options := NewOptions()
	command := &cobra.Command{
		Use:   program,
		Short: "Reconcile Networks with OpenStack Neutron, and Foos with Deployments",
		Long: `network-controller reconciles Networks (cloudteam.ztgame.com/v1) with OpenStack Neutron: it creates a
network with its subnets for each object, corrects drift, and deletes them before the object goes.
Deployments and Pods that declare networks (annotation k8s.v1.cni.cncf.io/networks) get a port with an
address on each. The controller also reconciles Foos (samplecontroller.k8s.io/v1alpha1): one Deployment
for each.

It needs the CRDs (` + crd.Install + `), an API server
and, for Networks, a cloud. A controller whose CRD is missing waits for it; the others run. You can run
several replicas: one leads (--leader-elect), the others stand by. SIGTERM lets running syncs finish and
then stops the process; a second SIGTERM stops it at once.`,
		Example: `  # Outside the cluster, with the cloud "mycloud" in ~/.config/openstack/clouds.yaml:
  network-controller --kubeconfig ~/.kube/config --cloud mycloud

  # In a Pod, with clouds.yaml mounted from a Secret:
  OS_CLIENT_CONFIG_FILE=/etc/openstack/clouds.yaml network-controller --cloud mycloud

  # Detect drift every ten seconds, with more logs:
  network-controller --kubeconfig ~/.kube/config --cloud mycloud --audit-interval 10s -v 4

  # Only Foos, without a cloud:
  network-controller --kubeconfig ~/.kube/config --controllers foo`,
	}
	cli.Daemon(command, "controller", &options, func(ctx context.Context) error { return Run(ctx, options) })
	return command
}
