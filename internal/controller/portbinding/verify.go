package portbinding

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// doubts tell of which ports Neutron is to be asked where they are, although nothing is to be done by the caches. Its
// zero value is empty.
type doubts struct {
	mu sync.Mutex
	of map[cache.ObjectName]doubt
}

// doubt is about one port.
type doubt struct {
	// moved is true if it differs from what the Inventory held.
	moved bool
	// failed is the failure that was looked into.
	failed failure
	// looked is when that was. It stays while the port exists.
	looked time.Time
}

// lookInterval is the least time between two looks into failures to plug a port, each of which costs a read and an
// Event. A node or a Pod can have a port fail at any time.
const lookInterval = time.Minute

// failure is one failure to plug a port.
type failure struct {
	portID string
	since  metav1.Time
}

// failureOf returns the failure that a port's agent reports; the zero value if it reports none.
func failureOf(port *cloudteamv1.NetworkPort) failure {
	c := meta.FindStatusCondition(port.Status.Conditions, cloudteamv1.ConditionAttached)
	if c == nil || c.Reason != cloudteamv1.ReasonPlugFailed {
		return failure{}
	}
	return failure{port.Status.PortID, c.LastTransitionTime}
}

// change changes the doubt about a port. None is kept that says nothing.
func (d *doubts) change(key cache.ObjectName, change func(*doubt)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	is := d.of[key]
	change(&is)
	switch {
	case is == (doubt{}):
		delete(d.of, key)
		return
	case d.of == nil:
		d.of = map[cache.ObjectName]doubt{}
	}
	d.of[key] = is
}

// add adds a port that may have moved.
func (d *doubts) add(key cache.ObjectName) { d.change(key, func(is *doubt) { is.moved = true }) }

// take reports what is to be looked into, and takes it that it is. fails says that a failure to plug the port is new.
// It is not reported before wait, if the last one was looked into just now.
func (d *doubts) take(key cache.ObjectName, port *cloudteamv1.NetworkPort) (moved, fails bool, wait time.Duration) {
	d.change(key, func(is *doubt) {
		moved, is.moved = is.moved, false
		switch failed, ago := failureOf(port), time.Since(is.looked); {
		case failed == (failure{}), failed == is.failed:
			is.failed = failed
		case ago < lookInterval:
			wait = lookInterval - ago
		default:
			fails, is.failed, is.looked = true, failed, time.Now()
		}
	})
	return moved, fails, wait
}

// again has a port looked for again after a look that failed: by the next sync, or as a failure to plug that is new.
func (d *doubts) again(key cache.ObjectName, next bool) {
	d.change(key, func(is *doubt) {
		if next {
			is.moved = true
		} else {
			is.failed = failure{}
		}
	})
}

// forget forgets what is to be looked into, because the port is not attached, or is attached again. gone says that the
// port does not exist.
func (d *doubts) forget(key cache.ObjectName, gone bool) {
	d.change(key, func(is *doubt) {
		if *is = (doubt{looked: is.looked}); gone {
			*is = doubt{}
		}
	})
}

// Moved looks where the port of the NetworkPort with a UID is, if it is attached. The Inventory calls it when a port
// differs from what it held: somebody may have bound it to another host.
func (c *Controller) Moved(uid string) {
	for _, port := range controller.Indexed[*cloudteamv1.NetworkPort](
		c.caches.Ports.Informer().GetIndexer(), indexAttached, uid) {
		key := cache.MetaObjectToName(port)
		c.doubts.add(key)
		c.Enqueue(key)
	}
}

// indexAttached is the index of the attached NetworkPorts by their UID.
const indexAttached = "portbinding/attached"

func byUIDOfAttached(port *cloudteamv1.NetworkPort) []string {
	if port.Status.Attachment == nil {
		return nil
	}
	return []string{string(port.UID)}
}

// sendEvent records on a Pod that runs that its interface is not connected any more. The kubelet tells it of one that
// starts.
func (c *Controller) sendEvent(port *cloudteamv1.NetworkPort) {
	pod := c.caches.PodOf(port)
	attached := meta.FindStatusCondition(port.Status.Conditions, cloudteamv1.ConditionAttached)
	if pod != nil && pod.Status.Phase == corev1.PodRunning && attached != nil {
		c.recorder.Eventf(consumer.Reference(corev1.SchemeGroupVersion.WithKind("Pod"), pod), corev1.EventTypeWarning,
			attached.Reason, "NetworkPort %s: %s", port.Name, attached.Message)
	}
}

// verify asks Neutron where an attached port is, if something speaks for another place, and brings it back. The
// attachment stays meanwhile: without it, the agent would unplug a Pod that may have packets.
func (c *Controller) verify(
	ctx context.Context, key cache.ObjectName, port *cloudteamv1.NetworkPort, wanted *cloudteamv1.PortAttachment,
) (controller.Result, error) {
	moved, fails, wait := c.doubts.take(key, port)
	if fails {
		c.sendEvent(port)
	}
	if !moved && !fails {
		return controller.Result{RequeueAfter: wait}, nil
	}
	is := port.Status.Attachment
	there, err := c.clouds.Verify(ctx, port, is)
	if err == nil && !there {
		klog.FromContext(ctx).Info("Somebody moved an attached port in Neutron; attaching it again", "port", is.PortID,
			"host", is.Host, "mode", is.Mode)
		err = c.expect(ctx, port, wanted)
	}
	if err != nil {
		c.doubts.again(key, moved || errors.Is(err, ErrNotYet))
		return controller.Result{}, notYetIsStale(err)
	}
	if there || is.VLAN == wanted.VLAN {
		return controller.Result{RequeueAfter: wait}, nil
	}
	return controller.Result{}, c.write(ctx, key, port, wanted, waitingFor(wanted))
}
