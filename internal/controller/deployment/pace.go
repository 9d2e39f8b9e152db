package deployment

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

const (
	// ahead is how many ports a pool may have for Pods that do not exist yet, for each time that the template declares the
	// network. A quota may keep such Pods from being created at all. Others exist soon, and wait for their ports.
	ahead = 100
	// crowd is how many ports a pool may have under way on a Network whose status shows less room than the pool needs. The
	// status may be old in either direction.
	crowd = 100
)

// DefaultLimit is the limit where no NetworkClass sets one.
var DefaultLimit = Limit{Ports: 1000, By: "the default; a NetworkClass sets another by limits.portsPerDeployment"}

// Limit is how many ports a Deployment may have on a Network.
type Limit struct {
	// Ports is the number.
	Ports int
	// By names the rule to users, such as "its NetworkClass"; empty for no limit, as on networks of others.
	By string
}

// allowance has how many ports the Deployment has on each Network.
type allowance map[cache.ObjectName]int

func newAllowance(pools []pool) allowance {
	a := allowance{}
	for _, p := range pools {
		a[p.request.Network] += p.staying()
	}
	return a
}

// take takes up to n ports on a Network. If they are fewer, exceeded says why.
func (a allowance) take(n int, network cache.ObjectName, limit Limit) (taken int, exceeded string) {
	taken = n
	if left := max(limit.Ports-a[network], 0); limit.By != "" && left < taken {
		taken = left
		exceeded = fmt.Sprintf("a Deployment may have %d ports on Network %s (%s)", limit.Ports, network, limit.By)
	}
	a[network] += taken
	return taken, exceeded
}

// aheadOfPods is how many of the needed ports a pool may have before their Pods exist.
func aheadOfPods(p pool, needed int) int {
	most := len(p.held) + p.unmet + p.times*ahead
	return min(needed, max(most-p.staying(), 0))
}

// paced is how many of the missing ports to create now.
//
// If a port of the pool cannot be created for want of addresses, quota or permission, the next ones cannot be either.
// That port is the probe: its own controller retries it with backoff. Until it succeeds the pool creates no others.
// Then it creates as many as have succeeded since, so 1, 2, 4 and so on. The plan keeps how many ports were Ready when
// the last one failed.
func (o observed) paced(p *plan, pool pool, missing int, probed bool) int {
	underWay, done := 0, 0
	for _, port := range slices.Concat(pool.held, pool.free) {
		switch {
		case ready(port):
			done++
		case consumer.BoundTo(port) == "":
			underWay++
		}
	}
	if probed {
		p.stops[pool.request] = done
		return 0
	}
	if missing == 0 {
		return 0
	}
	window := burst
	if was, stopped := o.stops[pool.request]; stopped {
		was = min(was, done)
		p.stops[pool.request] = was
		window = max(done-was, 1)
	} else if pool.standing.counted && pool.standing.room < missing {
		window = max(pool.standing.room, crowd, done)
	}
	return min(missing, max(window-underWay, 0))
}

// stuck gives the free ports of a pool that cannot be created: the one that stays to probe, nil if there is none, and
// the others.
func (p pool) stuck() (probe *cloudteamv1.NetworkPort, others []*cloudteamv1.NetworkPort) {
	for _, port := range slices.SortedFunc(slices.Values(p.free), consumer.CompareByName) {
		switch {
		case !isStuck(port):
		case probe == nil:
			probe = port
		default:
			others = append(others, port)
		}
	}
	return probe, others
}

// isStuck reports whether a port, or its floating IP, cannot be created for want of addresses or quota, or until
// somebody acts.
func isStuck(port *cloudteamv1.NetworkPort) bool {
	exists := port.Status.PortID != "" && (port.Spec.FloatingIP == nil || port.Status.FloatingIP != nil)
	if exists || consumer.StateOf(port) != consumer.PortFailing {
		return false
	}
	switch meta.FindStatusCondition(port.Status.Conditions, cloudteamv1.ConditionReady).Reason {
	case cloudteamv1.ReasonAddressesExhausted, cloudteamv1.ReasonQuotaExceeded:
		return true
	}
	return meta.IsStatusConditionTrue(port.Status.Conditions, cloudteamv1.ConditionStalled)
}
