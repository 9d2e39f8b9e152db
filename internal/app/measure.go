package app

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/kinds"
	"cloudteam.ztgame.com/network-controller/internal/metric"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// These metrics are computed from the caches when somebody reads them. Only the leader serves them, so that a sum over
// all replicas is right.
var (
	objects = metric.NewComputed("network_controller_objects",
		"Objects that have something in Neutron, by kind, and by status and reason of their condition Ready. Only the "+
			"leader serves it.",
		"kind", "ready", "reason")
	subnetAddresses = metric.NewComputed("network_controller_subnet_addresses",
		"Addresses in the allocation pools of a Network's subnet, as in its status. Only the leader serves it.", ofSubnet...)
	subnetAddressesUsed = metric.NewComputed("network_controller_subnet_addresses_used",
		"Addresses in use of a Network's subnet, as in its status. Only the leader serves it.", ofSubnet...)
	subnetsUnlisted = metric.NewComputed("network_controller_subnets_unlisted",
		"Subnets with known counts of addresses that network_controller_subnet_addresses leaves out, because there are "+
			"fuller ones. Only the leader serves it.")
	portsUnattached = metric.NewComputed("network_controller_ports_unattached",
		"NetworkPorts whose condition Attached is False, by its reason. Only the leader serves it.", "reason")
	podsWaiting = metric.NewComputed("network_controller_pods_waiting",
		"Pods that wait for their ports before they are scheduled, by the reason of their condition "+
			"cloudteam.ztgame.com/NetworksReady. Only the leader serves it.", "reason")
	podsWaitingOldest = metric.NewComputed("network_controller_pods_waiting_oldest_seconds",
		"Age of the oldest of these Pods. Only the leader serves it.", "reason")
	callsLimit = metric.NewComputed("network_controller_cloud_calls_limit",
		"How many writes to a cloud may run at the same time, as adapted to its latency, up to --cloud-max-calls. Only the "+
			"leader serves it.", ofCloud...)
	callsRunning = metric.NewComputed("network_controller_cloud_calls_running",
		"Writes to a cloud that run now. Only the leader serves it.", ofCloud...)
	writesWaiting = metric.NewComputed("network_controller_cloud_writes_waiting",
		"Writes to a cloud that wait for others to be sent with, or for their turn. Only the leader serves it.", ofCloud...)
	cloudSilence = metric.NewComputed("network_controller_cloud_silence_seconds",
		"How long calls to a cloud have waited since it last answered one, or how long its outage has lasted; 0 if no call "+
			"waits. Only the leader serves it.", ofCloud...)
	quotaLimit = metric.NewComputed("network_controller_quota_limit",
		"Neutron's quota of the cloud's project, by resource; absent if there is no limit, or if the cloud does not say. It "+
			"is read with each tenth audit. Only the leader serves it.", ofQuota...)
	quotaUsed = metric.NewComputed("network_controller_quota_used",
		"What is used of that quota, by whomever. Only the leader serves it.", ofQuota...)

	ofQuota  = append(slices.Clone(ofCloud), "resource")
	ofSubnet = []string{"namespace", "network", "cidr"}
)

// Tenants can create as many Networks as their quota allows, so the series of subnets are limited.
const (
	maxSubnets            = 2000
	maxSubnetsOfNamespace = 100
)

// measured is what the computed metrics are about. What a controller gives is nil before that is built.
type measured struct {
	mu        sync.Mutex
	of        map[string]cache.Indexer // by kind
	consumers *consumer.Caches
	own       *sharedInventory
}

// add sets fields.
func (m *measured) add(set func(*measured)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of == nil {
		m.of = map[string]cache.Indexer{}
	}
	set(m)
}

// measure computes the metrics. It calls nobody.
func (p *process) measure(set metric.Set) {
	if !p.election.leads() {
		return
	}
	m := &p.measured
	m.mu.Lock()
	of, consumers, own := maps.Clone(m.of), m.consumers, m.own
	m.mu.Unlock()
	tally, unattached := map[state]int{}, map[string]int{}
	for _, kind := range kinds.All {
		if of[kind.Name] == nil {
			continue
		}
		for _, obj := range of[kind.Name].List() {
			conditions := kind.Status(obj.(kinds.Object)).Conditions
			tally[stateOf(kind.Name, conditions)]++
			c := meta.FindStatusCondition(conditions, cloudteamv1.ConditionAttached) // of a NetworkPort
			if c != nil && c.Status == metav1.ConditionFalse {
				unattached[knownReason(c.Reason)]++
			}
		}
	}
	if networks := of[kinds.Network]; networks != nil {
		measureSubnets(set, networks.List())
	}
	for reason, n := range unattached {
		set(portsUnattached, float64(n), reason)
	}
	for s, n := range tally {
		set(objects, float64(n), s.kind, string(s.ready), s.reason)
	}
	if consumers != nil {
		measurePods(set, consumers.Gated(), time.Now())
	}
	if own != nil {
		measureLoad(set, managed.CloudRef{}, own)
	}
	if p.clouds != nil {
		for ref, s := range p.clouds.sessions() {
			measureLoad(set, ref, s)
		}
	}
}

func measureLoad(set metric.Set, ref managed.CloudRef, s *sharedInventory) {
	now, labels := s.Load(), labelsOf(ref)
	set(callsLimit, float64(now.Limit), labels...)
	set(callsRunning, float64(now.Calls), labels...)
	set(writesWaiting, float64(now.Waiting), labels...)
	if s.quotas != nil {
		set(cloudSilence, s.quotas.cloud.Silence().Seconds(), labels...)
		measureQuotas(set, labels, s.quotas.found.Load())
	}
}

func measureQuotas(set metric.Set, cloud []string, all *[]inventory.Quota) {
	if all == nil {
		return
	}
	for _, q := range *all {
		labels := append(slices.Clone(cloud), q.Resource)
		set(quotaUsed, float64(q.Used), labels...)
		if q.Limit >= 0 {
			set(quotaLimit, float64(q.Limit), labels...)
		}
	}
}

// state is what objects are counted by.
type state struct {
	kind   string
	ready  metav1.ConditionStatus
	reason string
}

func stateOf(kind string, conditions []metav1.Condition) state {
	ready := meta.FindStatusCondition(conditions, cloudteamv1.ConditionReady)
	if ready == nil {
		return state{kind, metav1.ConditionUnknown, ""}
	}
	s := state{kind, ready.Status, knownReason(ready.Reason)}
	if s.ready != metav1.ConditionTrue && s.ready != metav1.ConditionFalse {
		s.ready = metav1.ConditionUnknown
	}
	return s
}

// subnet is a subnet with known counts.
type subnet struct {
	namespace, network, cidr string
	used, total              int64
}

// fullness is the share of the addresses in use.
func (s subnet) fullness() float64 {
	if s.total == 0 {
		return 1
	}
	return float64(s.used) / float64(s.total)
}

// fullest returns the fullest of the subnets, at most so many.
func fullest(of []subnet, most int) []subnet {
	if len(of) <= most {
		return of
	}
	slices.SortFunc(of, func(a, b subnet) int {
		return cmp.Or(cmp.Compare(b.fullness(), a.fullness()), cmp.Compare(a.namespace, b.namespace),
			cmp.Compare(a.network, b.network), cmp.Compare(a.cidr, b.cidr))
	})
	return of[:most]
}

func measureSubnets(set metric.Set, networks []any) {
	counted := 0
	byNamespace := map[string][]subnet{}
	for _, obj := range networks {
		n, ok := obj.(*cloudteamv1.Network)
		if !ok {
			continue
		}
		for _, s := range n.Status.Subnets {
			if s.UsedAddresses != nil && s.TotalAddresses != nil {
				counted++
				byNamespace[n.Namespace] = append(byNamespace[n.Namespace],
					subnet{n.Namespace, n.Name, s.CIDR, *s.UsedAddresses, *s.TotalAddresses})
			}
		}
	}
	var listed []subnet
	for _, subnets := range byNamespace {
		listed = append(listed, fullest(subnets, maxSubnetsOfNamespace)...)
	}
	listed = fullest(listed, maxSubnets)
	seen := map[[3]string]bool{} // a status may show a CIDR twice for a moment
	for _, s := range listed {
		if key := [3]string{s.namespace, s.network, s.cidr}; !seen[key] {
			seen[key] = true
			set(subnetAddresses, float64(s.total), key[:]...)
			set(subnetAddressesUsed, float64(s.used), key[:]...)
		}
	}
	set(subnetsUnlisted, float64(counted-len(listed)))
}

// measurePods counts the Pods that wait. Before a Pod's condition says more, its ports are not ready.
func measurePods(set metric.Set, waiting []*corev1.Pod, now time.Time) {
	count, oldest := map[string]int{cloudteamv1.ReasonPortsNotReady: 0}, map[string]time.Duration{}
	for _, pod := range waiting {
		reason := cloudteamv1.ReasonPortsNotReady
		c := consumer.PodCondition(pod, cloudteamv1.ConditionNetworksReady)
		if c != nil && c.Status == corev1.ConditionFalse {
			reason = knownReason(c.Reason)
		}
		count[reason]++
		oldest[reason] = max(oldest[reason], now.Sub(pod.CreationTimestamp.Time))
	}
	for reason, n := range count {
		set(podsWaiting, float64(n), reason)
		set(podsWaitingOldest, oldest[reason].Seconds(), reason)
	}
}

// otherReason is the label of a reason that is not the API's.
const otherReason = "Other"

// knownReason returns a reason, or otherReason for one that this process does not write: each value of a label costs.
func knownReason(reason string) string {
	if reason == "" || reasons.Has(reason) {
		return reason
	}
	return otherReason
}

// reasons are all of the API's reasons of conditions Ready, NetworksReady and Attached.
var reasons = sets.New(
	cloudteamv1.ReasonAvailable, cloudteamv1.ReasonDriftDetected, cloudteamv1.ReasonPaused, cloudteamv1.ReasonObserved,
	cloudteamv1.ReasonImportNotFound, cloudteamv1.ReasonImportAmbiguous, cloudteamv1.ReasonImportMismatch,
	cloudteamv1.ReasonAlreadyOwned, cloudteamv1.ReasonProjectMismatch, cloudteamv1.ReasonInvalidSpec,
	cloudteamv1.ReasonRejected,
	cloudteamv1.ReasonForbidden, cloudteamv1.ReasonQuotaExceeded, cloudteamv1.ReasonCloudUnavailable,
	cloudteamv1.ReasonRateLimited, cloudteamv1.ReasonCredentialsRejected, cloudteamv1.ReasonCredentialsUnavailable,
	cloudteamv1.ReasonCloudMismatch, cloudteamv1.ReasonIdentityDisputed, cloudteamv1.ReasonForbiddenByClass,
	cloudteamv1.ReasonClassNotFound, cloudteamv1.ReasonClassLimitReached, cloudteamv1.ReasonConflict,
	cloudteamv1.ReasonInUse, cloudteamv1.ReasonBlocked, cloudteamv1.ReasonOwnershipLost,
	cloudteamv1.ReasonMarkerNotKept, cloudteamv1.ReasonPending, cloudteamv1.ReasonPlugged,
	cloudteamv1.ReasonWaitingForPlug, cloudteamv1.ReasonBindingFailed, cloudteamv1.ReasonPlugFailed,
	cloudteamv1.ReasonNotConverged, cloudteamv1.ReasonNetworkNotReady, cloudteamv1.ReasonSecurityGroupNotReady,
	cloudteamv1.ReasonNamespaceNotAllowed, cloudteamv1.ReasonPortNotReady,
	cloudteamv1.ReasonAddressesExhausted, cloudteamv1.ReasonAddressesLow, cloudteamv1.ReasonAddressInUse,
	cloudteamv1.ReasonReconcileFailed, cloudteamv1.ReasonInvalidNetworks, cloudteamv1.ReasonPortLimitReached,
	cloudteamv1.ReasonNetworkNotFound, cloudteamv1.ReasonPortsNotReady, cloudteamv1.ReasonPortsFailed,
	cloudteamv1.ReasonSchedulingGateMissing, cloudteamv1.ReasonAllocated, cloudteamv1.ReasonPlanned,
)
