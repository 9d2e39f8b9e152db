package deployment

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// burst is the most ports that one plan creates, and the most that it deletes; those that come and go bring the next
// one. A Deployment may declare two thousand million replicas, and nothing here may grow with that. It is what
// kube-controller-manager has for the Pods of a ReplicaSet (BurstReplicas in
// k8s.io/kubernetes/pkg/controller/replicaset).
const burst = 500

// observed is what a plan is made from. Nothing of it is written to.
type observed struct {
	deployment *appsv1.Deployment
	// declared are the networks that the Pod template declares; none where invalid is set.
	declared []selection.Selection
	// invalid says why what the Pod template declares cannot be read, or cannot be.
	invalid error
	// rolling is true while the Pods are being replaced by those of another template.
	rolling bool
	// pods and ports are the Deployment's, those that are going included.
	pods  []*corev1.Pod
	ports []*cloudteamv1.NetworkPort
	// borrowed are ports that the Pods have and that are not the Deployment's: those of an earlier Deployment of the name,
	// or of nobody, whose ReplicaSet it took over.
	borrowed []*cloudteamv1.NetworkPort
	// deleted are the ports that are known to be going although it does not show.
	deleted map[types.UID]bool
	// resolve tells what a network's name stands for.
	resolve func(network cache.ObjectName) standing
	// taken reports whether a NetworkPort of the name is in the namespace, whoever's.
	taken func(name string) bool
	// now is when the rest was looked at, cooldown for how long ports stay that were needed, and demands what the last
	// plan gave, nil for none.
	now      time.Time
	cooldown time.Duration
	demands  map[consumer.Request]demand
}

// standing is what a declared name stands for.
type standing struct {
	kind consumer.Kind
	// stalled is true for a Network that will not become Ready until somebody acts.
	stalled bool
	// going is true for a Network that is being deleted, which waits for its ports.
	going bool
}

// plan is what to do for a Deployment's ports to be as it needs them.
type plan struct {
	// create are the ports to create, those of one request together.
	create [][]*cloudteamv1.NetworkPort
	// remove are the ports to delete. None of them was bound when it was looked at.
	remove []*cloudteamv1.NetworkPort
	say    verdict
	// demands are to be remembered for the next plan. again is when that may delete what this one keeps; the zero time
	// where it keeps nothing that is not needed.
	demands map[consumer.Request]demand
	again   time.Time
}

// verdict is what to tell users.
type verdict struct {
	// reason, of reasons.go, is empty where nothing stands in the way; message says what does, and what to change.
	reason, message string
	// total is how many ports there should be.
	total int
	// settled is true where all ports that are wanted exist and are Ready.
	settled bool
}

// pool is the ports of one Request, and what is asked of them.
type pool struct {
	request  consumer.Request
	standing standing
	// declared is the place of the first selection in the annotation that asks for it, -1 for none; times is how many do.
	declared, times int
	// held are ports that a Pod has. free are the others that stay, those to delete first at the front. leaving are those
	// that are going and that no Pod has.
	held, free, leaving []*cloudteamv1.NetworkPort
	// unmet is how many more the Pods wait for, borrowed how many others' ports they have.
	unmet, borrowed int
}

// planPools decides which ports of a Deployment to create and to delete. It never deletes one that a Pod has, and it
// creates none beyond the larger of two numbers: what the template declares for its replicas, and what the Pods that
// exist have or wait for. It deletes what is beyond the most that this was within the cool-down.
//
// While it cannot be read what the template declares, nothing is deleted: a slip of the pen must not cost a pool.
func planPools(o observed) plan {
	p := plan{say: verdict{settled: true}, demands: map[consumer.Request]demand{}}
	names := naming{o: o, next: map[string]int{}}
	room := burst
	var stay []*cloudteamv1.NetworkPort
	pools := o.pools()
	for _, pool := range pools {
		want := o.want(pool)
		p.say.total += max(want, len(pool.held))

		surplus := min(max(pool.staying()-want, 0), len(pool.free))
		gone := o.givenUp(&p, pool, want, pool.free[:surplus])
		p.remove = append(p.remove, gone[:min(len(gone), burst-len(p.remove))]...)
		stay = append(append(stay, pool.held...), pool.free[surplus:]...)

		missing := max(want-pool.staying(), 0)
		if missing > 0 {
			p.say.settled = false
		}
		if pool.request.Exclusive() {
			// One that is going has the address that its successor is to have.
			missing = max(missing-len(pool.leaving), 0)
		}
		if pool.standing.kind != consumer.Ours {
			continue // a port of a Network that is not there would wait for it, and nobody could tell why
		}
		var created []*cloudteamv1.NetworkPort
		for ; missing > 0 && room > 0; missing, room = missing-1, room-1 {
			created = append(created, consumer.NewPort(o.deployment.Namespace, names.take(pool.request.Network.Name),
				*metav1.NewControllerRef(o.deployment, kind), pool.request))
		}
		if len(created) > 0 {
			p.create = append(p.create, created)
		}
	}
	for _, port := range stay {
		p.say.settled = p.say.settled && ready(port)
	}
	for _, obstacle := range []func(*verdict){
		o.unreadable,
		func(v *verdict) { missingNetworks(v, pools) },
		func(v *verdict) { o.impossible(v, pools) },
		func(v *verdict) { o.failing(v, stay) },
	} {
		if p.say.reason == "" {
			obstacle(&p.say)
		}
	}
	return p
}

// givenUp are those ports to delete of the surplus of a pool, which is in the order of its free ones. The others stay
// for now, and the plan says until when.
//
// What nobody declares any more goes at once, and so does a port whose Network waits for it to be gone, and one with an
// address that was asked for by name: somebody may wait for that very one. A port that fails is none to keep for later.
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
		// Old Pods that end slowly have ports that new ones need. They go step by step, and each step has its ports in one
		// go: singly, they would be a call to Neutron each. No more are made ahead than there are Pods to come.
		step := p.times * max(surge, unavailable)
		coming := p.times * max(replicas-int(o.deployment.Status.UpdatedReplicas), 0)
		want = min(base+roundedUp(demand-base, step), demand+coming)
	}
	if p.request.Exclusive() {
		return min(want, 1)
	}
	return want
}

// roundedUp is the least multiple of step, from 0 on, that is not less than n.
func roundedUp(n, step int) int {
	if step == 0 {
		return n
	}
	return (n + step - 1) / step * step
}

// staying is how many ports count for what is wanted. One that is going does while a Pod has it, because that Pod needs
// no other.
func (p pool) staying() int { return len(p.held) + len(p.free) }

// pools sorts what is declared, what Pods wait for and the ports that exist by Request: first what is declared, in that
// order.
func (o observed) pools() []pool {
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
		p := of(consumer.RequestOf(s))
		if p.standing.kind == consumer.Foreign {
			continue
		}
		if p.times == 0 {
			p.declared = i
		}
		p.times++
	}

	named := o.allocated()
	bound := map[types.UID]map[consumer.Request]int{}
	for _, port := range o.ports {
		request := consumer.ServedBy(port)
		p := of(request)
		switch to := port.Status.BoundTo; {
		case to != nil:
			p.held = append(p.held, port)
			if bound[to.UID] == nil {
				bound[to.UID] = map[consumer.Request]int{}
			}
			bound[to.UID][request]++
			if given, ok := consumer.Given(port); ok && given != request {
				// So asks the Pod for it from whose annotations somebody took what says that it has it.
				bound[to.UID][given]++
			}
		case port.Status.PortID != "" && named[port.Name] == port.Status.PortID:
			p.held = append(p.held, port)
		case port.DeletionTimestamp != nil || o.deleted[port.UID]:
			p.leaving = append(p.leaving, port)
		default:
			p.free = append(p.free, port)
		}
	}

	for _, port := range o.borrowed {
		of(consumer.ServedBy(port)).borrowed++
	}

	for _, pod := range o.pods {
		if !waits(pod) {
			continue
		}
		declared, err := consumer.DeclaredByPod(pod)
		if err != nil {
			continue
		}
		asked := map[consumer.Request]int{}
		for _, s := range declared {
			asked[consumer.RequestOf(s)]++
		}
		for request, times := range asked {
			if p := of(request); p.standing.kind != consumer.Foreign {
				p.unmet += max(times-bound[pod.UID][request], 0)
			}
		}
	}

	sorted := make([]pool, len(pools))
	for i, p := range pools {
		slices.SortFunc(p.free, deleteFirst)
		sorted[i] = *p
	}
	slices.SortStableFunc(sorted, func(a, b pool) int {
		// Those that are not declared go last.
		return cmp.Or(cmp.Compare(uint(a.declared), uint(b.declared)), strings.Compare(a.request.Network.String(),
			b.request.Network.String()), strings.Compare(a.request.Addresses, b.request.Addresses),
			strings.Compare(a.request.MAC, b.request.MAC))
	})
	return sorted
}

// waits reports whether a Pod waits for ports. The annotation of one that has them is no measure of what it asked for:
// it was rewritten with what it got.
func waits(pod *corev1.Pod) bool { return consumer.Waiting(pod) && !pod.Spec.HostNetwork }

// allocated gives the ports, by name, and their ids in Neutron, that the Pods say they have. A port that lost its
// binding is thereby known to be in use. It is looked for only where a port could be taken for free.
func (o observed) allocated() map[string]string {
	if !slices.ContainsFunc(o.ports, func(port *cloudteamv1.NetworkPort) bool {
		return port.Status.BoundTo == nil && port.Status.PortID != ""
	}) {
		return nil
	}
	named := map[string]string{}
	for _, pod := range o.pods {
		text := pod.Annotations[cloudteamv1.AnnotationAllocations]
		if !consumer.Allocated(pod) || consumer.Ended(pod) {
			continue
		}
		var allocations []cloudteamv1.Allocation
		if json.Unmarshal([]byte(text), &allocations) != nil {
			continue // somebody wrote over it; then the bindings alone tell
		}
		for _, a := range allocations {
			named[a.Port] = a.PortID
		}
	}
	return named
}

func ready(port *cloudteamv1.NetworkPort) bool {
	return meta.IsStatusConditionTrue(port.Status.Conditions, cloudteamv1.ConditionReady)
}

// deleteFirst sorts ports that can be spared least before those that can be spared best: what is not Ready goes first,
// then the highest slot.
func deleteFirst(a, b *cloudteamv1.NetworkPort) int {
	if ready(a) != ready(b) {
		if ready(b) {
			return -1
		}
		return 1
	}
	return compareNames(b.Name, a.Name)
}

// compareNames sorts the names of ports by their slots as numbers: 9 is before 10.
func compareNames(a, b string) int {
	prefix, slot := splitName(a)
	otherPrefix, otherSlot := splitName(b)
	return cmp.Or(strings.Compare(prefix, otherPrefix), cmp.Compare(len(slot), len(otherSlot)),
		strings.Compare(slot, otherSlot))
}

func splitName(name string) (prefix, slot string) {
	prefix = strings.TrimRight(name, "0123456789")
	return prefix, name[len(prefix):]
}

// naming gives names to ports.
type naming struct {
	o observed
	// next is the lowest slot, by the Network's name, that may be free.
	next map[string]int
}

// take gives the name of the lowest free slot. Networks of one name in two namespaces share their slots.
func (n naming) take(network string) string {
	for {
		name := consumer.PortName(n.o.deployment.Name, network, strconv.Itoa(n.next[network]))
		n.next[network]++
		if !n.o.taken(name) {
			return name
		}
	}
}

// unreadable is what is wrong with the annotation itself.
func (o observed) unreadable(v *verdict) {
	if o.invalid != nil {
		v.reason = cloudteamv1.ReasonInvalidNetworks
		v.message = fmt.Sprintf("the Pod template's annotation %s declares no networks that can be had: %s",
			selection.Annotation, strings.ReplaceAll(o.invalid.Error(), "\n", "; "))
	}
}

// errHostNetwork is what is wrong with a template whose Pods have no network interfaces of their own.
var errHostNetwork = errors.New("the Pods are on their node's network (hostNetwork: true) and have no interfaces of " +
	"their own: remove hostNetwork from the Pod template, or the annotation")

// missingNetworks names what is declared and does not exist.
func missingNetworks(v *verdict, pools []pool) {
	var names []string
	for _, p := range pools {
		if p.times > 0 && p.standing.kind == consumer.Missing {
			names = append(names, p.request.Network.String())
		}
	}
	if slices.Sort(names); len(names) > 0 {
		names = slices.Compact(names)
		v.reason = cloudteamv1.ReasonNetworkNotFound
		v.message = fmt.Sprintf("there is neither a Network nor a NetworkAttachmentDefinition %s: create it, or correct "+
			"the Pod template's annotation %s", strings.Join(names, ", "), selection.Annotation)
	}
}

// impossible is what is declared and cannot be for as many Pods, because each of them would need the same address.
func (o observed) impossible(v *verdict, pools []pool) {
	for _, p := range pools {
		if !p.request.Exclusive() || p.times == 0 {
			continue
		}
		asked := fmt.Sprintf("networks[%d] asks for %s of Network %s, which one port can have", p.declared,
			strings.Trim(p.request.Addresses+","+p.request.MAC, ","), p.request.Network)
		switch _, unavailable := fenceposts(o.deployment); {
		case p.times > 1:
			v.message = fmt.Sprintf("%s, and %d selections ask for it: remove ips and mac from all but one", asked, p.times)
		case replicasOf(o.deployment) > 1:
			v.message = fmt.Sprintf("%s, and spec.replicas is %d: remove ips and mac from the Pod template's annotation %s, "+
				"or set spec.replicas to 1 and spec.strategy.type to Recreate", asked, replicasOf(o.deployment),
				selection.Annotation)
		case o.rolling && unavailable == 0 && p.unmet > 0 && len(p.held) > 0:
			// The new Pod waits for the old one's port, and the old one for the new one to be available.
			v.message = asked + ", and the rolling update keeps the old Pod, which has it, until the new one is available: " +
				"set spec.strategy.type to Recreate"
		default:
			continue
		}
		v.reason = cloudteamv1.ReasonInvalidNetworks
		return
	}
}

// failing is what the ports themselves say of why they are not Ready.
func (o observed) failing(v *verdict, ports []*cloudteamv1.NetworkPort) {
	var failing []*cloudteamv1.NetworkPort
	made := false
	for _, port := range ports {
		if port.DeletionTimestamp == nil && o.fails(port) {
			failing = append(failing, port)
			made = made || port.Status.PortID != ""
		}
	}
	if len(failing) == 0 {
		return
	}
	first := slices.MinFunc(failing, func(a, b *cloudteamv1.NetworkPort) int { return compareNames(a.Name, b.Name) })
	why := meta.FindStatusCondition(first.Status.Conditions, cloudteamv1.ConditionReady)
	v.reason = cloudteamv1.ReasonPortsFailing
	if why.Reason == cloudteamv1.ReasonNotAllowed {
		v.reason = cloudteamv1.ReasonNotAllowed
	}
	what := "cannot be made"
	if made {
		what = "are failing"
	}
	v.message = fmt.Sprintf("%d of %d ports %s; %s: %s: %s", len(failing), v.total, what, first.Name, why.Reason,
		why.Message)
}

// fails reports whether a port is not Ready for a reason that does not pass by itself in a moment. A Network that is
// being made, a change of somebody else's at the same time and a cloud that asked to wait do; a Network that is stalled
// or not there does not.
func (o observed) fails(port *cloudteamv1.NetworkPort) bool {
	condition := meta.FindStatusCondition(port.Status.Conditions, cloudteamv1.ConditionReady)
	if condition == nil || condition.Status != metav1.ConditionFalse {
		return false
	}
	switch condition.Reason {
	case cloudteamv1.ReasonChanging, cloudteamv1.ReasonThrottled:
		return false
	case cloudteamv1.ReasonWaitingForNetwork:
		network := o.resolve(consumer.NetworkOf(port))
		return network.kind != consumer.Ours || network.stalled
	}
	return true
}
