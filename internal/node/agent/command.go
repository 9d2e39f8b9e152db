package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/cli"
	"cloudteam.ztgame.com/network-controller/internal/metric"
	"cloudteam.ztgame.com/network-controller/internal/node/agentapi"
	"cloudteam.ztgame.com/network-controller/internal/node/link"
	"cloudteam.ztgame.com/network-controller/internal/node/ovs"
	"cloudteam.ztgame.com/network-controller/internal/node/trunk"
	"cloudteam.ztgame.com/network-controller/internal/osc"
	"cloudteam.ztgame.com/network-controller/internal/serving"
	"cloudteam.ztgame.com/network-controller/internal/version"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions"
)

// program is the name of the binary.
const program = "network-agent"

// lostLimit is how long a connection to Open vSwitch may be lost. Then the agent wants to be started again: in a
// container, the folder of the socket may be one that does not exist any more.
const lostLimit = time.Minute

// reviews is how many callers of /metrics the API server is asked about per second. Anybody may ask the agents of all
// nodes at once, and they ask one API server.
const reviews = 0.2

// Options are the command line of network-agent.
type Options struct {
	NodeName, Kubeconfig, Mode, Host, Parent, NetworkData, OVSDB, Bridge, Socket, BindAddress string
	Metrics                                                                                   serving.Metrics
	Wait                                                                                      time.Duration
}

// NewOptions returns the defaults.
func NewOptions() Options {
	return Options{
		NodeName: os.Getenv("NODE_NAME"), NetworkData: metadataService, OVSDB: "unix:/run/openvswitch/db.sock",
		Bridge: "br-int", Socket: agentapi.DefaultSocket, BindAddress: "127.0.0.1:9479", Wait: 40 * time.Second,
	}
}

// AddFlags adds the options' flags.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.NodeName, "node-name", o.NodeName,
		"name of the Node that the agent serves. The default is $NODE_NAME")
	flags.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig,
		"kubeconfig file; empty means the account of the Pod that this process runs in")
	flags.StringVar(&o.Mode, "mode", o.Mode,
		"how the node attaches Pods: ovn (ovn-controller runs here), ovs (neutron-openvswitch-agent runs here), or trunk "+
			"(a virtual machine whose port in Neutron is a trunk's parent). Empty means to look: trunk if --parent is set and "+
			"the database of --ovsdb does not exist, ovn if Open vSwitch's external_ids have ovn-remote, else ovs if the "+
			"integration bridge exists")
	flags.StringVar(&o.Host, "host", o.Host,
		"Neutron's name of this node, as in \""+osc.Agents+"\". Empty means Open vSwitch's "+
			"external_ids:hostname, else the Node's name")
	flags.StringVar(&o.Parent, "parent", o.Parent,
		"in the mode trunk, the node's interface whose port in Neutron is the trunk's parent. Empty means the interface of "+
			"the default route")
	flags.StringVar(&o.NetworkData, "network-data", o.NetworkData,
		"in the mode trunk, URL or absolute path of the machine's network_data.json, which says the id of its port: of "+
			"OpenStack's metadata service, or of a config drive. Empty means none: the controller then finds the port by its "+
			"hardware address, in its own project")
	flags.StringVar(&o.OVSDB, "ovsdb", o.OVSDB, "where Open vSwitch's database listens")
	flags.StringVar(&o.Bridge, "bridge", o.Bridge, "integration bridge of OVN or of Neutron's agent")
	flags.StringVar(&o.Socket, "socket", o.Socket,
		"socket for the CNI plugin. If you change it, set "+agentapi.SocketEnv+" in the container runtime's environment")
	flags.StringVar(&o.BindAddress, "bind-address", o.BindAddress,
		"address for /livez, /readyz and /metrics, which have no authorization; empty serves nothing")
	o.Metrics.AddFlags(flags)
	flags.DurationVar(&o.Wait, "wait", o.Wait,
		"how long each step of an ADD waits, for Neutron to be prepared and for packets to flow. Then the kubelet retries")
}

// flagModes are those of --mode. The controller chooses ovn-unbound.
var flagModes = []cloudteamv1.AttachmentMode{
	cloudteamv1.AttachmentOVN, cloudteamv1.AttachmentOVS, cloudteamv1.AttachmentTrunk,
}

// mode is --mode, or trunk where it is left out, an interface is named and nothing is at the path of Open vSwitch's
// database. Without a named interface each node would look like a virtual machine until its Open vSwitch starts.
func (o *Options) mode() string {
	path, local := strings.CutPrefix(o.OVSDB, "unix:")
	if o.Mode == "" && o.Parent != "" && local {
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			return string(cloudteamv1.AttachmentTrunk)
		}
	}
	return o.Mode
}

// Validate reports the first option that cannot be.
func (o *Options) Validate() error {
	switch {
	case o.NodeName == "":
		return errors.New("the Node is unknown: set --node-name, or NODE_NAME to spec.nodeName of the Pod")
	case o.Mode != "" && !slices.Contains(flagModes, cloudteamv1.AttachmentMode(o.Mode)):
		return fmt.Errorf("--mode %q: write ovn, ovs or trunk, or leave it out", o.Mode)
	case o.Parent != "" && (o.Mode == string(cloudteamv1.AttachmentOVN) || o.Mode == string(cloudteamv1.AttachmentOVS)):
		return fmt.Errorf("--parent is for --mode trunk, and --mode is %s: leave out one of them", o.Mode)
	case !validNetworkData(o.NetworkData):
		return fmt.Errorf("--network-data %q: write an URL with http or https, or an absolute path", o.NetworkData)
	case o.Wait < time.Second || o.Wait > 40*time.Second:
		return fmt.Errorf("--wait %s: write 1s to 40s, because the kubelet gives an ADD two minutes", o.Wait)
	case o.Bridge == "" || o.Socket == "" || o.OVSDB == "":
		return errors.New("--bridge, --socket and --ovsdb cannot be empty")
	}
	return o.Metrics.Validate()
}

// NewCommand makes the command line of network-agent.
func NewCommand() *cobra.Command {
	options := NewOptions()
	command := &cobra.Command{
		Use:   program,
		Short: "Connect the interfaces of this node's Pods to their ports in OpenStack Neutron",
		Long: `network-agent runs on each node, as root and in the node's network namespace. The CNI plugin
neutron-port makes a Pod's interface and asks the agent to plug it. The agent finds the NetworkPort that
the controller bound to the Pod, writes Open vSwitch's database, and waits until packets flow. It plugs
again what somebody removed, follows a port that was made again in Neutron, and removes what no Pod has.

It keeps no files and has no OpenStack credentials. What is plugged works while it is stopped; new Pods
wait. It needs Open vSwitch with ovn-controller or neutron-openvswitch-agent, and the CRDs. On a virtual
machine whose port in Neutron is the parent of a trunk, it needs the kernel's VLANs instead (--mode trunk).`,
		Example: `  # In a Pod of the DaemonSet: see config/node.

  # By hand, on a node:
  network-agent --node-name "$(hostname)" --kubeconfig /etc/kubernetes/agent.conf

  # Neutron knows the node by another name:
  network-agent --node-name node1 --kubeconfig agent.conf --host node1.example.org

  # A virtual machine whose interface eth0 is the parent of a trunk:
  network-agent --node-name vm1 --kubeconfig agent.conf --mode trunk --parent eth0`,
	}
	cli.Daemon(command, "agent", &options, func(ctx context.Context) error { return Run(ctx, options) })
	install := newInstallCommand()
	install.SetUsageFunc((&cobra.Command{}).UsageFunc())
	install.SetHelpFunc((&cobra.Command{}).HelpFunc())
	command.AddCommand(install, newProbeCommand(), newCaptureCommand())
	return command
}

// Run runs the agent until ctx is done.
func Run(ctx context.Context, o Options) error {
	metric.Register()
	config, err := cli.KubeConfig(program, "", o.Kubeconfig)
	if err != nil {
		return err
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a Kubernetes client: %w", err)
	}
	networks, err := versioned.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client for NetworkPorts: %w", err)
	}
	a := &Agent{
		node: o.NodeName, mode: o.mode(), host: o.Host, networkData: o.NetworkData, wait: o.Wait,
		vswitch: ovs.New(o.OVSDB, o.Bridge), links: link.List,
		write: writer(networks), claims: map[types.UID]string{}, names: map[types.UID]string{},
		silent: map[types.UID]time.Time{}, told: map[types.UID]telling{},
	}
	if a.onTrunk() {
		a.vswitch = trunk.New(o.Parent)
	}
	// watch makes an informer of the NetworkPorts that have the node in a field.
	watch := func(field string, by cache.Indexers) (informers.SharedInformerFactory, cache.Indexer, error) {
		factory := informers.NewSharedInformerFactoryWithOptions(networks, 0, informers.WithTransform(trim),
			informers.WithTweakListOptions(func(list *metav1.ListOptions) {
				list.FieldSelector = fields.OneTermEqualSelector(field, o.NodeName).String()
			}))
		informer := factory.Cloudteam().V1().NetworkPorts().Informer()
		if err := informer.AddIndexers(by); err != nil {
			return nil, nil, err
		}
		registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { a.portsChanged.Change() },
			UpdateFunc: func(any, any) { a.portsChanged.Change() },
			DeleteFunc: func(any) { a.portsChanged.Change() },
		})
		if err == nil && a.synced == nil {
			a.synced = registration.HasSynced // of the first one: nothing waits for standbys
		}
		return factory, informer.GetIndexer(), err
	}
	factory, ports, err := watch("status.attachment.node", indexers())
	if err != nil {
		return err
	}
	next, standbys, err := watch("status.standby.node", standbyIndexers())
	if err != nil {
		return err
	}
	a.ports, a.standbys = ports, standbys

	// Everything that can fail comes before everything that runs.
	health, err := serving.Listen(o.BindAddress, a.health(), o.Metrics, kube, program, reviews)
	if err != nil {
		return err
	}
	socket, err := listen(o.Socket)
	if err != nil {
		return err
	}
	klog.FromContext(ctx).Info("Starting", "version", version.Version, "node", o.NodeName, "mode", a.mode,
		"socket", o.Socket)
	if a.onTrunk() {
		// The first repair has to know it. If the interface is not there yet, announce learns it later.
		if s, err := a.look(ctx); err == nil {
			a.learn(ctx, s.Parent)
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	if err := link.Watch(ctx, a.linksChanged.Change); err != nil {
		return err
	}
	group.Go(func() error { a.vswitch.Run(ctx); return nil })
	group.Go(func() error { a.announce(ctx, kube); return nil })
	group.Go(func() error {
		// One comparison as soon as all is read; events tell of the rest.
		if cache.WaitForCacheSync(ctx.Done(), a.synced) {
			a.portsChanged.Change()
		}
		return nil
	})
	group.Go(func() error { a.Run(ctx); return nil })
	group.Go(func() error { return a.serve(ctx, socket) })
	group.Go(func() error { return health(ctx) })
	factory.Start(ctx.Done())
	next.Start(ctx.Done())
	err = group.Wait()
	factory.Shutdown()
	next.Shutdown()
	return err
}

// trim removes from a NetworkPort what users can fill and the agent does not read.
func trim(object any) (any, error) {
	if p, ok := object.(*cloudteamv1.NetworkPort); ok {
		p.ManagedFields, p.Annotations, p.Labels = nil, nil, nil
	}
	return object, nil
}

// health answers at --bind-address.
func (a *Agent) health() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		if since := a.vswitch.Lost(); since > lostLimit {
			http.Error(w, fmt.Sprintf("no connection to Open vSwitch since %s", since.Round(time.Second)),
				http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if _, err := a.ready(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.Handle("GET /metrics", legacyregistry.Handler())
	return mux
}
