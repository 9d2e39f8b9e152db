package app

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	attachmentcontroller "cloudteam.ztgame.com/network-controller/internal/controller/attachment"
	deploymentcontroller "cloudteam.ztgame.com/network-controller/internal/controller/deployment"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/controller/orphan"
	"cloudteam.ztgame.com/network-controller/internal/neutron"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// Options are what the flags say. NewOptions gives the defaults.
type Options struct {
	// Kubeconfig and Master tell the API server; with neither, the process runs in a Pod and asks its ServiceAccount.
	Kubeconfig string
	Master     string
	// KubeQPS and KubeBurst bound the requests to the API server per second; a negative KubeQPS does not.
	KubeQPS   float32
	KubeBurst int
	// Cloud is a name in clouds.yaml; empty for OS_CLOUD or the OS_ variables. Only Networks and NetworkPorts need one.
	Cloud string
	// AllowedIdentityEndpoints are those that credentials in Secrets may lead to; see client.NewConfinement.
	AllowedIdentityEndpoints []string
	// PermitInsecureClouds permits credentials in Secrets to have certificates not verified.
	PermitInsecureClouds bool
	// CloudTimeout bounds one call to the cloud.
	CloudTimeout time.Duration
	// CloudMaxCalls bounds the writes to the cloud that are under way at a time.
	CloudMaxCalls int
	// Controllers are the names of the controllers to run; see enabled.
	Controllers []string
	// Workers is how many keys each controller syncs at a time.
	Workers int
	// ResyncPeriod is how often informers hand out what they hold once more.
	ResyncPeriod time.Duration
	// AuditInterval is how often the cloud is listed for drift.
	AuditInterval time.Duration
	// PoolCooldown is for how long the ports of a Deployment stay when its Pods do not need them any more.
	PoolCooldown time.Duration
	// Policies are those of Networks and NetworkPorts that leave them unset.
	Policies managed.Policies
	// AddressesLow is the percentage of a subnet's addresses below which so few are free that its Network says so.
	AddressesLow float64
	// Attachment is what goes into NetworkAttachmentDefinitions.
	Attachment attachmentcontroller.Options
	// Orphan says when resources in Neutron go whose object is gone. Without a grace period, they are not looked for.
	Orphan orphan.Rules
	// LeaderElection is how one of several processes is chosen to act.
	LeaderElection LeaderElection
	// BindAddress serves /livez, /readyz and /metrics; empty for none.
	BindAddress string
	// Profiling adds the profiles of net/http/pprof to BindAddress, for callers on loopback.
	Profiling bool
}

// DefaultWorkers is as many as wait for the cloud where all the calls that may be under way (neutron.DefaultMaxCalls)
// are creates in bulk, 25 each, and a quarter more, who have Kubernetes told meanwhile. With fewer, the calls of a
// cloud that serves many at a time are smaller than they could be, or fewer. A worker that waits costs its stack, of a
// few kilobytes.
const DefaultWorkers = 500

// NewOptions gives the defaults.
func NewOptions() Options {
	return Options{
		KubeQPS:       -1,
		KubeBurst:     400,
		CloudTimeout:  time.Minute,
		CloudMaxCalls: neutron.DefaultMaxCalls,
		Controllers:   []string{"*"},
		Workers:       DefaultWorkers,
		ResyncPeriod:  30 * time.Second,
		AuditInterval: time.Minute,
		PoolCooldown:  deploymentcontroller.DefaultCooldown,
		Policies:      managed.DefaultPolicies,
		AddressesLow:  10,
		Attachment:    attachmentcontroller.Options{Plugin: attachmentcontroller.DefaultPlugin},
		Orphan:        orphan.Rules{Grace: orphan.DefaultGrace, MaxShare: orphan.DefaultMaxShare},
		BindAddress:   ":8080",

		LeaderElection: newLeaderElection(),
	}
}

// AddFlags adds the flags to flags.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig,
		"Path of a kubeconfig file. With neither this nor --master, the ServiceAccount of the Pod is used.")
	flags.StringVar(&o.Master, "master", o.Master,
		"Address of the Kubernetes API server; overrides the one in the kubeconfig.")
	flags.Float32Var(&o.KubeQPS, "kube-api-qps", o.KubeQPS,
		"Requests per second to the Kubernetes API server. -1 for as many as there are: the server's own Priority and "+
			"Fairness keeps one client from crowding out the others.")
	flags.IntVar(&o.KubeBurst, "kube-api-burst", o.KubeBurst,
		"Requests to the Kubernetes API server that may come at once, where --kube-api-qps bounds them.")
	flags.StringVar(&o.Cloud, "cloud", o.Cloud,
		"Name of the cloud in clouds.yaml. The default is $OS_CLOUD; with neither, OS_AUTH_URL and its kin are read. "+
			"clouds.yaml is looked for at $OS_CLIENT_CONFIG_FILE, or in ., ~/.config/openstack and /etc/openstack. "+
			"Only the controllers network and networkport need a cloud.")
	flags.StringSliceVar(&o.AllowedIdentityEndpoints, "allowed-identity-endpoints", o.AllowedIdentityEndpoints,
		"Identity endpoints (Keystones) that the credentials of a Network's spec.cloud may lead to: URLs, whose paths are "+
			"prefixes, hosts, which stand for https, or '*' for all. The default is that of the controller's own cloud. "+
			"Link-local addresses, metadata services and, unless an endpoint that is listed is there, loopback are "+
			"refused in any case.")
	flags.BoolVar(&o.PermitInsecureClouds, "permit-insecure-clouds", o.PermitInsecureClouds,
		"Permit 'verify: false' in the credentials of a Network's spec.cloud.")
	flags.DurationVar(&o.CloudTimeout, "cloud-timeout", o.CloudTimeout,
		"How long one call to the cloud may take.")
	flags.IntVar(&o.CloudMaxCalls, "cloud-max-calls", o.CloudMaxCalls,
		"How many writes to the cloud may be under way at a time. Up to that, it is as many as the cloud serves without "+
			"having them wait, found out by what they take; creates that wait meanwhile go as one call.")
	flags.StringSliceVar(&o.Controllers, "controllers", o.Controllers,
		"Controllers to run: '*' for all, 'name' for one, '-name' for all but one. All: "+
			strings.Join(controllers, ", ")+".")
	flags.IntVar(&o.Workers, "workers", o.Workers,
		"How many objects each controller works on at a time. A worker waits for answers most of the time, and what it "+
			"costs is that it waits: of many, creates go to the cloud together.")
	flags.DurationVar(&o.ResyncPeriod, "resync-period", o.ResyncPeriod,
		"How often informers hand out all objects once more. 0 for never.")
	flags.DurationVar(&o.AuditInterval, "audit-interval", o.AuditInterval,
		"How often Neutron is listed to find what others changed there, give or take a tenth.")
	flags.DurationVar(&o.PoolCooldown, "pool-cooldown", o.PoolCooldown,
		"How long ports of a Deployment that none of its Pods needs any more are kept for the next ones, such as those of a "+
			"rolling update. 0 to delete them at once.")
	flags.StringVar((*string)(&o.Policies.Deletion), "deletion-policy", string(o.Policies.Deletion),
		"What becomes of the network or port in Neutron when a Network or NetworkPort without a spec.deletionPolicy is "+
			"deleted. Delete removes it. Retain takes the owner's marker off and leaves it, so that a namespace that is "+
			"deleted by mistake takes no network along; what is left so is yours to delete. With Retain, resources whose "+
			"object no controller saw go are shown and never removed, as with --orphan-max-share=0. Ports that are made "+
			"for Deployments and Pods are deleted in either case.")
	flags.StringVar((*string)(&o.Policies.Drift), "drift-policy", string(o.Policies.Drift),
		"What is done where somebody else changed in Neutron what a Network or NetworkPort without a spec.driftPolicy "+
			"declares. Correct puts it back. Report lists it in status.drift and leaves it until the spec next changes, "+
			"for example while a cloud is taken over and it is not known yet who changes what there. Ports that are made "+
			"for Deployments and Pods are put back in either case.")
	flags.Var((*percentage)(&o.AddressesLow), "addresses-low",
		"Percentage of a subnet's addresses that should be free. With fewer, the condition AddressesLow of its Network is "+
			"True, before ports are refused an address, and says how many are in use and what to do; it goes when half as "+
			"many again are free. 0 for no such condition. It follows the counts in status.subnets, which are there with an "+
			"administrator's credentials and, with others', where the controller networkport runs.")
	flags.StringVar(&o.Attachment.Plugin, "attachment-plugin", o.Attachment.Plugin,
		"CNI plugin that attaches Pods to Networks where Multus is installed.")
	flags.StringVar(&o.Attachment.Master, "attachment-master", o.Attachment.Master,
		"Interface of the nodes that the CNI plugin attaches Pods to. The default is the plugin's own; macvlan's is that "+
			"of the default route.")
	flags.DurationVar(&o.Orphan.Grace, "orphan-grace", o.Orphan.Grace,
		"How long the object of resources in Neutron must have been gone before they are removed, where no controller saw "+
			"it go. 0 to neither look for such resources nor remove them.")
	flags.Float64Var(&o.Orphan.MaxShare, "orphan-max-share", o.Orphan.MaxShare,
		"Largest share, from 0 to 1, of all objects that own something in Neutron of which what they left may be removed "+
			"in one audit. Where more are gone, none is removed; to confirm it, start once with 1. Above 0, one object is "+
			"always few enough. 0 to show such resources in log and metrics alone: do so where Networks with "+
			"deletionPolicy Retain may lose their finalizer while no controller runs.")
	o.LeaderElection.addFlags(flags)
	flags.StringVar(&o.BindAddress, "bind-address", o.BindAddress,
		"Address that serves /livez, /readyz and /metrics. Empty for none.")
	flags.BoolVar(&o.Profiling, "profiling", o.Profiling,
		"Serve profiles, too, at /debug/pprof/ of --bind-address, to callers on loopback alone (kubectl port-forward is "+
			"one).")
}

// Validate reports flags that make no sense, each with what to write instead.
func (o *Options) Validate() error {
	var errs []error
	if o.Workers < 1 {
		errs = append(errs, fmt.Errorf("--workers=%d: write at least 1", o.Workers))
	}
	if o.KubeQPS == 0 || o.KubeBurst < 1 {
		errs = append(errs, fmt.Errorf("--kube-api-qps=%g, --kube-api-burst=%d: write more than 0 for both, or "+
			"--kube-api-qps=-1 for no bound", o.KubeQPS, o.KubeBurst))
	}
	if o.CloudMaxCalls < 1 {
		errs = append(errs, fmt.Errorf("--cloud-max-calls=%d: write at least 1", o.CloudMaxCalls))
	}
	if _, err := client.NewConfinement(o.AllowedIdentityEndpoints, client.Credentials{}, false); err != nil {
		errs = append(errs, fmt.Errorf("--allowed-identity-endpoints: %w", err))
	}
	if o.AuditInterval < time.Second {
		errs = append(errs, fmt.Errorf("--audit-interval=%s: write at least 1s", o.AuditInterval))
	}
	if o.ResyncPeriod < 0 {
		errs = append(errs, fmt.Errorf("--resync-period=%s: write 0 or more", o.ResyncPeriod))
	}
	if o.PoolCooldown < 0 {
		errs = append(errs, fmt.Errorf("--pool-cooldown=%s: write 0 or more", o.PoolCooldown))
	}
	if d := o.Policies.Deletion; d != cloudteamv1.DeletionPolicyDelete && d != cloudteamv1.DeletionPolicyRetain {
		errs = append(errs, fmt.Errorf("--deletion-policy=%s: write %s or %s", d,
			cloudteamv1.DeletionPolicyDelete, cloudteamv1.DeletionPolicyRetain))
	}
	if d := o.Policies.Drift; d != cloudteamv1.DriftPolicyCorrect && d != cloudteamv1.DriftPolicyReport {
		errs = append(errs, fmt.Errorf("--drift-policy=%s: write %s or %s", d,
			cloudteamv1.DriftPolicyCorrect, cloudteamv1.DriftPolicyReport))
	}
	if !(o.AddressesLow >= 0 && o.AddressesLow <= 100) { // as is no number
		errs = append(errs, fmt.Errorf("--addresses-low=%s: write a percentage from 0%% to 100%%, such as 10%%",
			(*percentage)(&o.AddressesLow)))
	}
	if o.Orphan.Grace < 0 {
		errs = append(errs, fmt.Errorf("--orphan-grace=%s: write 0 or more", o.Orphan.Grace))
	}
	if !(o.Orphan.MaxShare >= 0 && o.Orphan.MaxShare <= 1) { // as is no number
		errs = append(errs, fmt.Errorf("--orphan-max-share=%g: write a share from 0 to 1", o.Orphan.MaxShare))
	}
	if err := o.Attachment.Validate(); err != nil {
		errs = append(errs, err)
	}
	if err := o.LeaderElection.validate(); err != nil {
		errs = append(errs, err)
	}
	if o.Profiling && o.BindAddress == "" {
		errs = append(errs, errors.New("--profiling needs a --bind-address to be served at: give one, or leave it out"))
	}
	if o.CloudTimeout < time.Second {
		errs = append(errs, fmt.Errorf("--cloud-timeout=%s: write at least 1s", o.CloudTimeout))
	}
	if !slices.ContainsFunc(controllers, o.enabled) {
		errs = append(errs, fmt.Errorf("--controllers=%s leaves nothing to run: write * or some of %s",
			strings.Join(o.Controllers, ","), strings.Join(controllers, ", ")))
	}
	for _, name := range o.Controllers {
		if bare := strings.TrimPrefix(name, "-"); name != "*" && !slices.Contains(controllers, bare) {
			errs = append(errs, fmt.Errorf("--controllers: there is no controller %q: write * or some of %s",
				bare, strings.Join(controllers, ", ")))
		}
	}
	return errors.Join(errs...)
}

// orphanRules are those that hold. Of an object that is gone it is not known what it said; where what is declared
// stays in Neutron by default, so does what it left.
func (o *Options) orphanRules() orphan.Rules {
	rules := o.Orphan
	if o.Policies.Deletion == cloudteamv1.DeletionPolicyRetain {
		rules.MaxShare = 0
	}
	return rules
}

// enabled reports whether the controller of the given name is to run. As in kube-controller-manager, a name by itself
// beats '*', whatever their order. Orphans are not looked for without a
// grace period, nor by a process that makes nothing in the cloud: it has no credentials.
func (o *Options) enabled(name string) bool {
	switch {
	case name == orphan.Name && (o.Orphan.Grace == 0 || !o.needsCloud()):
		return false
	case slices.Contains(o.Controllers, name):
		return true
	case slices.Contains(o.Controllers, "-"+name):
		return false
	default:
		return slices.Contains(o.Controllers, "*")
	}
}
