package deployment

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// pool has the ports of one Request, and what is requested of them.
type pool struct {
	request  consumer.Request
	standing standing
	// declared is the index of the first selection in the annotation that requests it, -1 for none; times is how many do.
	declared, times int
	// held are ports that a Pod has. free are the others that stay, those to delete first at the front. leaving are being
	// deleted, and no Pod has them.
	held, free, leaving []*cloudteamv1.NetworkPort
	// unmet is how many more the Pods wait for; borrowed is how many ports of others the Pods have.
	unmet, borrowed int
}

// size decides which ports to create and to delete, and gives those that stay.
func (o observed) size(p *plan, pools []pool) (stay []*cloudteamv1.NetworkPort) {
	names, allowed := o.names(), newAllowance(pools)
	room := burst
	for _, pool := range pools {
		want := o.want(pool)
		p.say.total += max(want, len(pool.held))

		surplus := min(max(pool.staying()-want, 0), len(pool.free))
		gone := o.givenUp(p, pool, want, pool.free[:surplus])
		p.remove = append(p.remove, gone[:min(len(gone), max(burst-len(p.remove), 0))]...)
		pool.free = pool.free[surplus:]
		probe, stuck := pool.stuck()
		if len(stuck) > 0 && o.invalid == nil {
			stuck = stuck[:min(len(stuck), max(burst-len(p.remove), 0))]
			p.remove = append(p.remove, stuck...)
			pool.free = slices.DeleteFunc(slices.Clone(pool.free), func(port *cloudteamv1.NetworkPort) bool {
				return slices.Contains(stuck, port)
			})
		}
		stay = append(append(stay, pool.held...), pool.free...)

		needed := max(want-pool.staying()-(surplus-len(gone)), 0)
		missing := aheadOfPods(pool, needed)
		if missing > 0 {
			p.say.settled = false
		}
		if pool.request.Exclusive() {
			// A port that is being deleted has the address that its successor needs.
			missing = max(missing-len(pool.leaving), 0)
		}
		if pool.standing.kind != consumer.Ours {
			continue // a port of a missing Network would wait for it without a reason to show
		}
		missing, exceeded := allowed.take(missing, pool.request.Network, pool.standing.limit)
		if p.exceeded == "" && exceeded != "" {
			p.exceeded = fmt.Sprintf("%d ports are needed for Network %s, and %s: lower spec.replicas, or have the limit raised",
				want, pool.request.Network, exceeded)
		}
		now := o.paced(p, pool, missing, probe != nil)
		if probe != nil {
			p.withheld += missing
		}
		var created []*cloudteamv1.NetworkPort
		for ; now > 0 && room > 0; now, room = now-1, room-1 {
			created = append(created, consumer.NewPort(o.deployment.Namespace, names(pool.request.Network.Name),
				*metav1.NewControllerRef(o.deployment, kind), pool.request))
		}
		if len(created) > 0 {
			p.create = append(p.create, created)
		}
	}
	return stay
}

// givenUp gives the ports to delete from a pool's surplus, which is in the order of its free ports. The others stay for
// now, and the plan records until when.
//
// These are deleted at once: ports that nobody declares any more, ports whose Network is being deleted, and ports with
// a requested address, because somebody may wait for that address. A failing port is not worth keeping.
func (o observed) givenUp(p *plan, pool pool, want int, surplus []*cloudteamv1.NetworkPort) []*cloudteamv1.NetworkPort {
	if pool.times == 0 || pool.request.Exclusive() || pool.standing.going {
		return surplus
	}
	was, known := o.demands[pool.request]
	if !known {
		was.want = pool.staying()
	}
	is := was.next(want, o.now, o.cooldown)
	p.demands[pool.request] = is
	spare, until := is.spare(o.cooldown)
	var gone []*cloudteamv1.NetworkPort
	kept := 0
	for _, port := range slices.Backward(surplus) {
		if kept < spare && !o.fails(port) {
			kept++
		} else {
			gone = append(gone, port)
		}
	}
	if kept > 0 && (p.again.IsZero() || until.Before(p.again)) {
		p.again = until
	}
	slices.Reverse(gone)
	return gone
}

// want is how many ports a pool needs.
func (o observed) want(p pool) int {
	demand := len(p.held) + p.unmet
	if o.invalid != nil {
		return max(demand, p.staying())
	}
	replicas := int(replicasOf(o.deployment))
	surge, unavailable := fenceposts(o.deployment)
	base := p.times * replicas
	if o.rolling {
		base += p.times * surge
	}
	base -= p.borrowed
	want := max(base, demand)
	if o.rolling && demand > base && o.cooldown > 0 && !p.request.Exclusive() {
		// Old Pods that end slowly hold ports that new Pods need. The update goes step by step. Rounding up to a step gets
		// its ports in one call to Neutron instead of one call each. It adds no more ports than there are Pods to come.
		step := p.times * max(surge, unavailable)
		coming := p.times * max(replicas-int(o.deployment.Status.UpdatedReplicas), 0)
		want = min(base+roundedUp(demand-base, step), demand+coming)
	}
	if p.request.Exclusive() {
		return min(want, 1)
	}
	return want
}

// roundedUp is the smallest multiple of step, from 0 on, that is at least n.
func roundedUp(n, step int) int {
	if step == 0 {
		return n
	}
	return (n + step - 1) / step * step
}

// staying is how many of the needed ports exist. A port that is being deleted counts while a Pod has it: that Pod needs
// no other.
func (p pool) staying() int { return len(p.held) + len(p.free) }

// pools groups the declared ports, the awaited ports and the existing ports by Request, in the order of the
// declaration.
func (o observed) pools(b bindings, declarations map[types.UID]consumer.Declaration) []pool {
	var pools []*pool
	byRequest := map[consumer.Request]*pool{}
	of := func(request consumer.Request) *pool {
		p, ok := byRequest[request]
		if !ok {
			p = &pool{request: request, standing: o.resolve(request.Network), declared: -1}
			byRequest[request] = p
			pools = append(pools, p)
		}
		return p
	}
	for i, s := range o.declared {
		p := of(consumer.RequestOf(s, o.extras))
		if p.standing.kind == consumer.Foreign {
			continue
		}
		if p.times == 0 {
			p.declared = i
		}
		p.times++
	}
	held := o.countPorts(b, of)
	for _, port := range o.borrowed {
		of(consumer.ServedBy(port)).borrowed++
	}
	for _, pod := range o.pods {
		asked := map[consumer.Request]int{}
		for _, s := range declarations[pod.UID].Selections {
			asked[consumer.RequestOf(s, declarations[pod.UID].Extras)]++
		}
		for request, times := range asked {
			if p := of(request); p.standing.kind != consumer.Foreign {
				p.unmet += max(times-held[holding{pod.UID, request}], 0)
			}
		}
	}
	sorted := make([]pool, len(pools))
	for i, p := range pools {
		slices.SortFunc(p.free, deleteFirst)
		sorted[i] = *p
	}
	slices.SortStableFunc(sorted, comparePools)
	return sorted
}

// holding is a Pod, and a request that one of its ports serves.
type holding struct {
	pod     types.UID
	request consumer.Request
}

// countPorts adds the Deployment's ports to their pools, and counts those that each Pod holds.
func (o observed) countPorts(b bindings, of func(consumer.Request) *pool) map[holding]int {
	held := map[holding]int{}
	for _, port := range o.ports {
		request := consumer.ServedBy(port)
		p := of(request)
		switch holder := b.holder(port); {
		case holder != "":
			p.held = append(p.held, port)
			held[holding{holder, request}]++
			if given, ok := consumer.Given(port); ok && given != request {
				// A Pod that lost the annotation for this port requests it in this form.
				held[holding{holder, given}]++
			}
		case port.DeletionTimestamp != nil || o.deleted[port.UID] || slices.Contains(b.doubles, port):
			p.leaving = append(p.leaving, port)
		default:
			p.free = append(p.free, port)
		}
	}
	return held
}

// comparePools sorts pools by the declaration. Undeclared ones are last.
func comparePools(a, b pool) int {
	return cmp.Or(cmp.Compare(uint(a.declared), uint(b.declared)),
		strings.Compare(a.request.Network.String(), b.request.Network.String()),
		strings.Compare(a.request.Addresses, b.request.Addresses), strings.Compare(a.request.MAC, b.request.MAC),
		strings.Compare(a.request.Groups, b.request.Groups), strings.Compare(a.request.External, b.request.External))
}

func ready(port *cloudteamv1.NetworkPort) bool {
	return meta.IsStatusConditionTrue(port.Status.Conditions, cloudteamv1.ConditionReady)
}

// deleteFirst sorts free ports so that those to delete are first: those that are not Ready, then the highest slots.
func deleteFirst(a, b *cloudteamv1.NetworkPort) int {
	if ready(a) != ready(b) {
		if ready(b) {
			return -1
		}
		return 1
	}
	return consumer.CompareByName(b, a)
}

// names gives new ports the names of the lowest free slots. Networks of one name in two namespaces share their slots.
func (o observed) names() func(network string) string {
	next := map[string]int{}
	return func(network string) string {
		for {
			name := consumer.PortName(o.deployment.Name, network, strconv.Itoa(next[network]))
			next[network]++
			if !o.taken(name) {
				return name
			}
		}
	}
}
