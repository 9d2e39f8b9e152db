package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"cloudteam.ztgame.com/network-controller/internal/cli"
	attachmentcontroller "cloudteam.ztgame.com/network-controller/internal/controller/attachment"
	deploymentcontroller "cloudteam.ztgame.com/network-controller/internal/controller/deployment"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/controller/orphan"
	podcontroller "cloudteam.ztgame.com/network-controller/internal/controller/pod"
	"cloudteam.ztgame.com/network-controller/internal/controller/portbinding"
	"cloudteam.ztgame.com/network-controller/internal/inspect"
	"cloudteam.ztgame.com/network-controller/internal/neutron/batch"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/serving"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// Options are the values of the flags, whose texts say what each is for. NewOptions returns the defaults.
type Options struct {
	Kubeconfig, Master  string
	Cloud, BindingCloud string
	// AllowedIdentityEndpoints are those of client.NewConfinement.
	AllowedIdentityEndpoints []string
	PermitInsecureClouds     bool
	MaxClouds                int
	// SameClouds are those of managed.ParseSameClouds.
	SameClouds    []string
	CloudTimeout  time.Duration
	CloudMaxCalls int
	Namespace     string
	// Controllers are the names of the controllers to run; see enabled.
	Controllers []string
	// Workers is that of controller.Loop.Run.
	Workers                                   int
	ResyncPeriod, AuditInterval, PoolCooldown time.Duration
	// Policies apply to objects that set none.
	Policies managed.Policies
	// AddressesLow is a percentage.
	AddressesLow float64
	Attachment   attachmentcontroller.Options
	// Orphan are the rules of the flags; see orphanRules. Without a grace period, orphans are ignored.
	Orphan         orphan.Rules
	LeaderElection LeaderElection
	BindAddress    string
	Metrics        serving.Metrics
	// TracesEndpoint is the URL that a collector takes traces at, by OTLP over HTTP; empty for none. No flag sets it; see
	// tracesEndpoint.
	TracesEndpoint string
	InspectAddress string

	// Dial, where set, opens all connections to the API server and to clouds, and Credentials loads those of a name as
	// client.LoadCredentials does. No flag sets them: tests do that run the whole process in virtual time.
	Dial        func(ctx context.Context, network, address string) (net.Conn, error)
	Credentials func(name string) (client.Credentials, error)
}

// credentials loads the credentials of a cloud.
func (o *Options) credentials(name string) (client.Credentials, error) {
	if o.Credentials != nil {
		return o.Credentials(name)
	}
	return client.LoadCredentials(name)
}

// DefaultWorkers keeps all calls to the cloud full: batch.DefaultMaxCalls bulk creates with 25 resources each, and a
// quarter more for workers that write to Kubernetes meanwhile. Fewer workers would make smaller or fewer calls. A
// sync that waits costs a few kilobytes of stack.
const DefaultWorkers = 500

// NewOptions returns the defaults.
func NewOptions() Options {
	return Options{
		MaxClouds:      100,
		CloudTimeout:   time.Minute,
		CloudMaxCalls:  batch.DefaultMaxCalls,
		Controllers:    []string{"*"},
		Workers:        DefaultWorkers,
		ResyncPeriod:   30 * time.Second,
		AuditInterval:  time.Minute,
		PoolCooldown:   deploymentcontroller.DefaultCooldown,
		Policies:       managed.DefaultPolicies,
		AddressesLow:   10,
		Attachment:     attachmentcontroller.Options{Plugin: attachmentcontroller.DefaultPlugin},
		Orphan:         orphan.Rules{Grace: orphan.DefaultGrace, MaxShare: orphan.DefaultMaxShare},
		BindAddress:    ":8080",
		TracesEndpoint: tracesEndpoint(),
		LeaderElection: newLeaderElection(),
	}
}

// AddFlags adds the flags to flags.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig,
		"Path of a kubeconfig file. Without this and --master, the controller uses the ServiceAccount of its Pod.")
	flags.StringVar(&o.Master, "master", o.Master,
		"Address of the Kubernetes API server. Overrides the address in the kubeconfig.")
	flags.StringVar(&o.Cloud, "cloud", o.Cloud,
		"Name of the cloud in clouds.yaml. The default is $OS_CLOUD, or the standard OS_* environment variables. "+
			"clouds.yaml is read from $OS_CLIENT_CONFIG_FILE, or from ., ~/.config/openstack or /etc/openstack. "+
			"Only these controllers need a cloud: "+strings.Join(callsNeutron, ", ")+".")
	flags.StringVar(&o.BindingCloud, "binding-cloud", o.BindingCloud,
		"Name of an entry in clouds.yaml whose credentials may bind ports to hosts (binding:host_id), which takes an "+
			"administrator or a policy. They are used for nothing else. The default is each cloud's own credentials. Only "+
			"nodes with a data plane need this.")
	flags.StringSliceVar(&o.AllowedIdentityEndpoints, "allowed-identity-endpoints", o.AllowedIdentityEndpoints,
		"Identity endpoints (Keystone) that credentials in a Network's spec.cloud may use. Write URLs, whose paths are "+
			"prefixes, or hosts, which mean https, or '*' for all. The default is the endpoint of the controller's own cloud. "+
			"Link-local addresses and metadata services are always refused. Loopback is refused unless a listed endpoint is "+
			"on loopback.")
	flags.BoolVar(&o.PermitInsecureClouds, "permit-insecure-clouds", o.PermitInsecureClouds,
		"Permit 'verify: false' in the credentials of a Network's spec.cloud.")
	flags.IntVar(&o.MaxClouds, "max-clouds", o.MaxClouds,
		"Maximum clouds that Networks' spec.cloud names: Secrets, and entries in them. Each costs a watch, a session and "+
			"the memory of what it lists. One namespace may have a tenth of them, and at least one.")
	flags.StringSliceVar(&o.SameClouds, "same-cloud", o.SameClouds,
		"An endpoint of Neutron that was renamed, as old=new, for example "+
			"http://neutron.example.com:9696/=https://neutron.example.com:9696/. Without it, the objects of the old endpoint "+
			"are Stalled with reason CloudMismatch. Repeat it for each endpoint. It can be removed when no object's "+
			"status.cloud names the old endpoint.")
	flags.DurationVar(&o.CloudTimeout, "cloud-timeout", o.CloudTimeout,
		"Timeout of one call to the cloud.")
	flags.IntVar(&o.CloudMaxCalls, "cloud-max-calls", o.CloudMaxCalls,
		"Maximum concurrent writes to one Neutron, with all credentials together. Below this limit, the controller "+
			"adapts to the latency that it measures. Creates that wait are sent together as one bulk call.")
	flags.StringVar(&o.Namespace, "namespace", o.Namespace,
		"The only namespace to watch and act in, with rights there and few in the cluster. The default is all namespaces. "+
			"The namespace needs the label "+cloudteamv1.LabelController+" with the Lease's namespace as its value; a "+
			"controller of all namespaces leaves it alone then. Orphans are not removed.")
	flags.StringSliceVar(&o.Controllers, "controllers", o.Controllers,
		"Controllers to run: '*' for all, 'name' for one, '-name' for all but one. All: "+
			strings.Join(controllers, ", ")+". Only deployment binds and releases the ports of Deployments: without it, "+
			"these stay bound to Pods that are gone.")
	flags.IntVar(&o.Workers, "workers", o.Workers,
		"Concurrent syncs of each controller for one namespace. All namespaces in one cloud may have twice as many, and all "+
			"clouds four times as many. The more others run, the fewer a namespace or cloud may have, so that there is room "+
			"for the next one. Syncs mostly wait for responses and cost little. Many of them let creates go to the cloud in "+
			"bulk.")
	flags.DurationVar(&o.ResyncPeriod, "resync-period", o.ResyncPeriod,
		"Resync period of the informers. 0 disables resyncs.")
	flags.DurationVar(&o.AuditInterval, "audit-interval", o.AuditInterval,
		"How often Neutron is listed to detect drift, with 10% jitter. A kind of resources rests after its list for three "+
			"times as long as that took, five minutes at most, and is listed by the next audit after that.")
	flags.DurationVar(&o.PoolCooldown, "pool-cooldown", o.PoolCooldown,
		"How long a Deployment keeps ports that its Pods no longer need. New Pods, for example of a rolling update, use "+
			"them again. 0 deletes them at once.")
	flags.StringVar((*string)(&o.Policies.Deletion), "deletion-policy", string(o.Policies.Deletion),
		"Default of spec.deletionPolicy. Delete removes the object's resources from Neutron. Retain removes the owner's "+
			"marker and leaves the resources, which are then yours to delete: a namespace that is deleted by mistake deletes "+
			"no network. With Retain, orphaned resources are reported and never removed, as with "+
			"--orphan-max-share=0. Ports of Deployments and Pods are always deleted.")
	flags.StringVar((*string)(&o.Policies.Drift), "drift-policy", string(o.Policies.Drift),
		"Default of spec.driftPolicy: what happens when somebody else changes in Neutron what the spec declares. Correct "+
			"reverts the change. Report lists it in status.drift and leaves it until the spec next changes; use it "+
			"to take over a cloud in which others still make changes. Drift of ports of Deployments and Pods is always "+
			"corrected.")
	flags.BoolVar(&o.Policies.Plan, "report-only", o.Policies.Plan,
		"Write nothing to Neutron. The conditions of Networks and NetworkPorts say what would be done there, with the "+
			"reason Planned. Only these controllers run: "+strings.Join(callsNeutron, ", ")+", and pod, which gives no Pod a "+
			"port. Use it for a first start, to see what follows.")
	flags.Var((*percentage)(&o.AddressesLow), "addresses-low",
		"Percentage of a subnet's addresses that should be free. With fewer, the Network's condition AddressesLow is True. "+
			"It says how many addresses are in use and what to do, before ports fail. It clears when half as many more are "+
			"free. 0 disables it. It uses the counts in status.subnets.")
	flags.Var(&o.Attachment, "attachment-plugin",
		"CNI plugin that attaches Pods to Networks when Multus is installed. neutron-port makes the Pod's interface the "+
			"port in Neutron; it needs the network-agent on the nodes. Others get the port's addresses, and may take the "+
			"nodes' interface that Pods attach to, such as macvlan:eth1. Without it, macvlan takes that of the default route.")
	flags.DurationVar(&o.Orphan.Grace, "orphan-grace", o.Orphan.Grace,
		"How long the object of resources in Neutron must be gone before the resources are removed as orphans. Applies when "+
			"no controller saw the object's deletion. 0 disables the search for orphans.")
	flags.Float64Var(&o.Orphan.MaxShare, "orphan-max-share", o.Orphan.MaxShare,
		"Largest share, from 0 to 1, of all owners in Neutron whose orphans one audit may remove. When more owners are "+
			"gone, orphan cleanup halts; to confirm it, start once with 1. Each namespace with its own credentials is "+
			"judged apart. Above 0, one owner may always be removed. 0 only "+
			"reports orphans in logs and metrics; use it when Networks with deletionPolicy Retain may lose their "+
			"finalizer while no controller runs.")
	o.LeaderElection.addFlags(flags)
	flags.StringVar(&o.BindAddress, "bind-address", o.BindAddress,
		"Address that serves /livez and /readyz without TLS, and /metrics to callers on loopback. Empty serves nothing.")
	o.Metrics.AddFlags(flags)
	flags.StringVar(&o.InspectAddress, "inspect-address", o.InspectAddress,
		"Address on loopback that streams what happens to each object inside this process, for the page of 'make run'. For "+
			"development: recording costs time. The variable INSPECT_TOKEN has the token of the stream. Empty records nothing.")
	cli.Removed(flags, map[string]string{
		"kube-api-qps":             noKubeLimit,
		"kube-api-burst":           noKubeLimit,
		"max-ports-per-deployment": "remove it; set limits.portsPerDeployment in a NetworkClass where 1000 is not right",
		"attachment-master":        "write the interface after the plugin, such as --attachment-plugin=macvlan:eth1",
		"tracing-endpoint":         "set the variable OTEL_EXPORTER_OTLP_ENDPOINT",
		"tracing-sampling-rate":    "set the variables OTEL_TRACES_SAMPLER=traceidratio and OTEL_TRACES_SAMPLER_ARG",
		"profiling":                "remove it: loopback always gets /debug/pprof/ at --bind-address",
	})
}

const noKubeLimit = "remove it: the API server's Priority and Fairness limits requests"

// findings collects what is wrong with the flags.
type findings []error

// require adds a finding unless a condition holds. The finding says what to write instead.
func (f *findings) require(holds bool, format string, args ...any) {
	if !holds {
		*f = append(*f, fmt.Errorf(format, args...))
	}
}

// Validate returns an error for each invalid flag, with what to write instead.
func (o *Options) Validate() error {
	var found findings
	found.require(o.Workers >= 1, "--workers=%d: write at least 1", o.Workers)
	found.require(o.CloudMaxCalls >= 1, "--cloud-max-calls=%d: write at least 1", o.CloudMaxCalls)
	_, err := client.NewConfinement(o.AllowedIdentityEndpoints, client.Credentials{}, false)
	found.require(err == nil, "--allowed-identity-endpoints: %w", err)
	found.require(o.MaxClouds >= 1, "--max-clouds=%d: write at least 1", o.MaxClouds)
	_, err = managed.ParseSameClouds(o.SameClouds)
	found.require(err == nil, "--same-cloud: %w", err)
	found.require(o.Namespace == "" || len(validation.IsDNS1123Label(o.Namespace)) == 0,
		"--namespace=%s: write the name of one namespace, or nothing for all", o.Namespace)
	found.require(o.Namespace == "" || o.LeaderElection.Enabled, "--namespace=%s needs --leader-elect: its Lease is what "+
		"the namespace's label names", o.Namespace)
	found.require(o.AuditInterval >= time.Second, "--audit-interval=%s: write at least 1s", o.AuditInterval)
	found.require(o.ResyncPeriod >= 0, "--resync-period=%s: write 0 or more", o.ResyncPeriod)
	found.require(o.PoolCooldown >= 0, "--pool-cooldown=%s: write 0 or more", o.PoolCooldown)
	deletions := []cloudteamv1.DeletionPolicy{cloudteamv1.DeletionPolicyDelete, cloudteamv1.DeletionPolicyRetain}
	found.require(slices.Contains(deletions, o.Policies.Deletion), "--deletion-policy=%s: write %s or %s",
		o.Policies.Deletion, deletions[0], deletions[1])
	drifts := []cloudteamv1.DriftPolicy{cloudteamv1.DriftPolicyCorrect, cloudteamv1.DriftPolicyReport}
	found.require(slices.Contains(drifts, o.Policies.Drift), "--drift-policy=%s: write %s or %s",
		o.Policies.Drift, drifts[0], drifts[1])
	// NaN fails both comparisons.
	found.require(o.AddressesLow >= 0 && o.AddressesLow <= 100,
		"--addresses-low=%s: write a percentage from 0%% to 100%%, such as 10%%", (*percentage)(&o.AddressesLow))
	found.require(o.Orphan.Grace >= 0, "--orphan-grace=%s: write 0 or more", o.Orphan.Grace)
	found.require(o.Orphan.MaxShare >= 0 && o.Orphan.MaxShare <= 1,
		"--orphan-max-share=%g: write a share from 0 to 1", o.Orphan.MaxShare)
	o.LeaderElection.validate(&found)
	found.require(isTracesEndpoint(o.TracesEndpoint), "OTEL_EXPORTER_OTLP_ENDPOINT, or that of TRACES: write a URL with "+
		"a scheme, a host and a port, such as http://collector.monitoring:4318")
	if o.InspectAddress != "" {
		err := inspect.CheckAddress(o.InspectAddress)
		found.require(err == nil, "--inspect-address: %w", err)
	}
	found.require(o.CloudTimeout >= time.Second, "--cloud-timeout=%s: write at least 1s", o.CloudTimeout)
	all := strings.Join(controllers, ", ")
	found.require(slices.ContainsFunc(controllers, o.enabled),
		"--controllers=%s runs no controller: write * or some of %s", strings.Join(o.Controllers, ","), all)
	for _, name := range o.Controllers {
		bare := strings.TrimPrefix(name, "-")
		found.require(name == "*" || slices.Contains(controllers, bare),
			"--controllers: there is no controller %q: write * or some of %s", bare, all)
	}
	return errors.Join(append(found, o.Attachment.Validate(), o.Metrics.Validate())...)
}

// orphanRules returns the rules in effect. The deletion policy of an object that is gone is unknown, so the default
// decides: with Retain, nothing is removed.
func (o *Options) orphanRules() orphan.Rules {
	rules := o.Orphan
	if o.Policies.Deletion == cloudteamv1.DeletionPolicyRetain {
		rules.MaxShare = 0
	}
	return rules
}

// sameClouds returns the endpoints that lead to one cloud. Validate has checked the flag.
func (o *Options) sameClouds() managed.SameClouds {
	same, _ := managed.ParseSameClouds(o.SameClouds)
	return same
}

// inClouds are the controllers that act on what others have in a cloud.
var inClouds = map[string]bool{orphan.Name: true, portbinding.Name: true}

// enabled reports whether to run the controller of a name. As in kube-controller-manager, a name takes precedence over
// '*', in any order. The controllers of orphans and of port bindings do not run in a process without a cloud, nor that
// of orphans without a grace period, nor in one of a single namespace: it cannot tell orphans from what belongs to
// others. With --report-only, only those of what is in Neutron run, and that of Pods, which says why they wait.
func (o *Options) enabled(name string) bool {
	switch {
	case o.Policies.Plan && !slices.Contains(callsNeutron, name) && name != podcontroller.Name:
		return false
	case name == orphan.Name && (o.Orphan.Grace == 0 || o.Namespace != ""), inClouds[name] && !o.needsCloud():
		return false
	case slices.Contains(o.Controllers, name):
		return true
	case slices.Contains(o.Controllers, "-"+name):
		return false
	default:
		return slices.Contains(o.Controllers, "*")
	}
}

// percentage is a flag's value such as 10%. It is a pflag.Value.
type percentage float64

// String formats the percentage as Set reads it.
func (p *percentage) String() string { return strconv.FormatFloat(float64(*p), 'g', -1, 64) + "%" }

// Set reads a number with a percent sign, or 0. Other numbers without the sign are ambiguous: 0.1 might mean a share,
// and 10 a count.
func (p *percentage) Set(text string) error {
	number, signed := strings.CutSuffix(text, "%")
	value, err := strconv.ParseFloat(number, 64)
	if err != nil || !signed && value != 0 {
		return errors.New("write a percentage such as 10%, or 0")
	}
	*p = percentage(value)
	return nil
}

// Type is the name of the value in --help.
func (p *percentage) Type() string { return "percentage" }
