package deployment

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// burst is the most ports that one plan creates, deletes or binds. Their events trigger the next plan. A Deployment may
// declare two thousand million replicas, and no plan may grow with that. The value is kube-controller-manager's for the
// Pods of a ReplicaSet (BurstReplicas in k8s.io/kubernetes/pkg/controller/replicaset).
const burst = 500

// observed is the input of a plan. A plan MUST NOT change it.
type observed struct {
	// deployment is nil if it is gone or being deleted. Its ports may still be bound then.
	deployment *appsv1.Deployment
	// declared are the networks that the Pod template declares; none if invalid is set.
	declared []selection.Selection
	// extras are what it says of its ports beside their networks.
	extras consumer.Extras
	// invalid says why the declaration cannot be read or satisfied.
	invalid error
	// rolling is true while a rolling update replaces Pods.
	rolling bool
	// pods and ports are the Deployment's, including those that are being deleted.
	pods  []*corev1.Pod
	ports []*cloudteamv1.NetworkPort
	// left are ports that were made for an earlier Deployment of the name, or that lost their owner.
	left []*cloudteamv1.NetworkPort
	// borrowed are ports that the Pods hold but the Deployment does not own: some of left, or ports of another Deployment
	// whose ReplicaSet this one adopted.
	borrowed []*cloudteamv1.NetworkPort
	// deleted are ports that this process deleted while the cache does not show it yet.
	deleted map[types.UID]bool

	// resolve gives what a network's name refers to for the Deployment's namespace.
	resolve func(network cache.ObjectName) standing
	// taken reports whether any NetworkPort of the namespace has the name.
	taken func(name string) bool
	// podNamed gives any Pod of the namespace by its name, nil for none.
	podNamed func(name string) *corev1.Pod
	// givenTo gives the Pods that were given a port by their annotation, and that may still use it.
	givenTo func(*cloudteamv1.NetworkPort) []*corev1.Pod
	// rival gives another port that shows an address of this port, nil for none.
	rival func(*cloudteamv1.NetworkPort) *cloudteamv1.NetworkPort

	// stops are those of the last plan, nil for none.
	stops map[consumer.Request]int

	// now is the time of the observation. cooldown is how long ports stay after they were needed. demands are those of the
	// last plan, nil for none.
	now      time.Time
	cooldown time.Duration
	demands  map[consumer.Request]demand
}

// standing describes what a declared name refers to.
type standing struct {
	kind consumer.Kind
	// stalled is true for a Network that does not become Ready until somebody acts.
	stalled bool
	// going is true for a Network that is being deleted, which waits for its ports.
	going bool
	// limit is what the Network says of the number of the Deployment's ports on it.
	limit Limit
	// room is how many free addresses the Network's status shows, if counted is true.
	room    int
	counted bool
}

// plan is what to do so that the Deployment and its Pods have the ports that they need.
type plan struct {
	bindings
	// create are the ports to create, grouped by request.
	create [][]*cloudteamv1.NetworkPort
	// remove are the ports to delete. No Pod has one of them.
	remove []*cloudteamv1.NetworkPort
	// say is what to tell users.
	say verdict
	// stops are kept for the next plan; see observed.paced. withheld is how many needed ports wait for others.
	stops    map[consumer.Request]int
	withheld int
	// exceeded says which limit keeps needed ports from being created; empty for none.
	exceeded string
	// demands are kept for the next plan. again is when that plan may delete ports that this one keeps; zero if it keeps
	// no unneeded ports.
	demands map[consumer.Request]demand
	again   time.Time
}

// newPlan first plans which Pod gets which port, then how many ports there should be.
//
// It never deletes a port that a Pod has. It creates no port beyond the larger of two numbers: what the template
// declares for its replicas, and what the existing Pods have or wait for. It creates them no faster than Pods and
// Neutron follow (see observed.paced), and not beyond the limits. It deletes what exceeds the maximum of that within
// the cool-down.
//
// While the declaration cannot be read, it deletes nothing: a typing error must not cost a pool.
func newPlan(o observed) plan {
	declarations := o.declarations()
	p := plan{
		bindings: o.bindings(declarations), say: verdict{settled: true},
		demands: map[consumer.Request]demand{}, stops: map[consumer.Request]int{},
	}
	if o.deployment == nil {
		return p
	}
	p.remove = append(p.remove, p.doubles...)
	pools := o.pools(p.bindings, declarations)
	stay := o.size(&p, pools)
	o.judge(&p, pools, stay)
	return p
}

// declarations gives what the Pods that wait for ports declare, by their UIDs.
func (o observed) declarations() map[types.UID]consumer.Declaration {
	declarations := map[types.UID]consumer.Declaration{}
	for _, pod := range o.pods {
		if waits(pod) {
			declarations[pod.UID] = o.declarationOf(pod)
		}
	}
	return declarations
}

func (o observed) declarationOf(pod *corev1.Pod) consumer.Declaration {
	return consumer.DeclarationOf(pod, func(_ string, network cache.ObjectName) consumer.Kind {
		return o.resolve(network).kind // for the Deployment's namespace, which is the Pod's
	})
}

// waits reports whether a Pod waits for ports. A Pod that has them does not: its annotation was rewritten with what it
// got.
func waits(pod *corev1.Pod) bool { return consumer.Waiting(pod) && !pod.Spec.HostNetwork }
