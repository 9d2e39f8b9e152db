package pod

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/selection"
)

// The Pods of a Deployment that wait for ports stand in line. To have all of them look for each port that comes free
// would be the square of their number in syncs, of which all but one find nothing. So one looks, and then has the next
// one look where that may find something:
//
//   - a port that comes free, or fails, has the first in line look (keysOfPort), and so has a Pod that leaves the line
//     (keysOfPod): it may have been about to look;
//   - a Pod that takes ports has the next one look, before it writes anything, so that Pods are bound side by side;
//   - a Pod that finds too little ends it for all that declare the same, which would find as little;
//   - a Pod that fails gives up its turn, and stands out of line for as long as its pause lasts; a turn that comes to
//     it between the two goes on as well (heldBack).
//
// Looks go down the line only, so that they end. Nothing is remembered of who looked: a Pod that comes to look for
// another reason, or twice, does no harm, and what no event tells is found by the look that each Pod takes now and then
// by itself (recheck).

// place is a Pod's in its line: Pods that declare the same stand together, the older ones first.
type place struct {
	declares string
	since    time.Time
	key      cache.ObjectName
}

func placeOf(pod *corev1.Pod) place {
	return place{pod.Annotations[selection.Annotation], pod.CreationTimestamp.Time, cache.MetaObjectToName(pod)}
}

func (p place) compare(other place) int {
	return cmp.Or(
		cmp.Compare(p.declares, other.declares), p.since.Compare(other.since), cmp.Compare(p.key.Name, other.key.Name))
}

// first names the first Pod in the line of a Deployment of which want says so; none where there is none. Left out are
// Pods that would not look, because the cache is behind a write to them, and those that are being bound or that failed
// a moment ago: they look again by themselves.
func (c *Controller) first(deployment types.UID, want func(place) bool) []cache.ObjectName {
	var found []place
	busy := c.ledger.pods()
	for _, set := range c.caches.ReplicaSetsOf(deployment) {
		objects, err := c.podIndexer.ByIndex(indexWaiting, string(set.UID))
		if err != nil {
			return nil // the index is made in NewController
		}
		for _, obj := range objects {
			pod, ok := obj.(*corev1.Pod)
			if !ok {
				continue
			}
			p := placeOf(pod)
			if len(found) > 0 && p.compare(found[0]) > 0 || !want(p) || busy[p.key] || c.paused(p.key) ||
				!c.expected.Met(p.key, pod.UID, pod.ResourceVersion) {
				continue
			}
			found = []place{p}
		}
	}
	if len(found) == 0 {
		return nil
	}
	return []cache.ObjectName{found[0].key}
}

// head names the Pod of a Deployment that is the first to look.
func (c *Controller) head(deployment types.UID) []cache.ObjectName {
	return c.first(deployment, func(place) bool { return true })
}

// headAfter names the Pod that is the first to look once a Pod has left its line. pod is a state of it, of which it is
// not known whether it is the last: nobody is named where it still stands in line or never did.
func (c *Controller) headAfter(pod *corev1.Pod) []cache.ObjectName {
	if !consumer.Waiting(pod) {
		return nil
	}
	now, err := c.caches.Pods.Pods(pod.Namespace).Get(pod.Name)
	if err == nil && now.UID == pod.UID && consumer.Waiting(now) {
		return nil
	}
	deployment, _ := c.caches.DeploymentOf(pod)
	if deployment == nil {
		return nil
	}
	return c.head(deployment.UID)
}

// turn says who looks after a Pod.
type turn int

const (
	// next is the next in line.
	next turn = iota
	// nextOther is the next that declares something else.
	nextOther
	// anyOther is the first in line, be it ahead of the Pod.
	anyOther
	// nobody is where it was passed on already, or there is no need.
	nobody
)

// heldBack passes on the turn of a Pod that is not looked at, since it has failed: whoever gave it the turn did so
// before.
func (c *Controller) heldBack(key cache.ObjectName) { c.passOn(key, anyOther) }

// passOn has the Pod look whose turn it is after another's, where that one stands in a line.
func (c *Controller) passOn(key cache.ObjectName, to turn) {
	if to == nobody {
		return
	}
	pod, err := c.caches.Pods.Pods(key.Namespace).Get(key.Name)
	if err != nil || !consumer.Waiting(pod) {
		return // the event that told of its leaving had the first one look
	}
	deployment, _ := c.caches.DeploymentOf(pod)
	if deployment == nil {
		return
	}
	from := placeOf(pod)
	for _, other := range c.first(deployment.UID, func(p place) bool {
		switch to {
		case nextOther:
			return p.declares > from.declares
		case anyOther:
			return p.key != key
		default:
			return p.compare(from) > 0
		}
	}) {
		c.look(other)
	}
}
