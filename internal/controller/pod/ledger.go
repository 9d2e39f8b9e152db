package pod

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// ledger is what this process knows of ports that the cache does not show yet: which are being bound at this moment,
// and which were bound or released a moment ago. It keeps Pods that are synced at the same time from choosing the same
// port, and a Pod that is synced twice from choosing two.
//
// It saves conflicts; it is not what keeps two Pods off one port. That is the API server, which refuses a binding that
// was decided on an older state of the port. The ledger may therefore be lost with the process.
type ledger struct {
	mu      sync.Mutex
	entries map[types.UID]*entry // by the port's UID
}

type entry struct {
	// port is what the last write returned; while the first is under way, what it was decided on.
	port *cloudteamv1.NetworkPort
	// written is false while the outcome of a write is not known.
	written bool
	// pod has, or is about to have, the port. It is the zero name after a release.
	pod cache.ObjectName
	uid types.UID
}

// choose assigns ports to a Pod, and notes those that it does not hold yet as being bound to it. bound are the ports
// that the cache shows as the Pod's; free gives the ports that the cache shows to be free for a request, and fits tells
// which of them can be had.
//
// The caller MUST bind what it gets, or abandon it.
func (l *ledger) choose(
	pod cache.ObjectName, uid types.UID, requests []consumer.Request, bound []*cloudteamv1.NetworkPort,
	free func(consumer.Request) []*cloudteamv1.NetworkPort, fits func(*cloudteamv1.NetworkPort) bool,
) assignment {
	l.mu.Lock()
	defer l.mu.Unlock()
	var held []*cloudteamv1.NetworkPort
	for _, port := range bound {
		if l.newer(port) == nil {
			held = append(held, port)
		}
	}
	for _, e := range l.entries {
		if e.pod == pod && e.uid == uid {
			held = append(held, e.port)
		}
	}
	a := assign(requests, held, free, func(port *cloudteamv1.NetworkPort) bool {
		return l.newer(port) == nil && fits(port)
	})
	for _, port := range a.ports {
		if port != nil && boundTo(port) != uid {
			if l.entries == nil {
				l.entries = map[types.UID]*entry{}
			}
			l.entries[port.UID] = &entry{port: port, pod: pod, uid: uid}
		}
	}
	return a
}

// newer gives the entry of a port of which the ledger knows more than the cached state given, nil where it does not.
func (l *ledger) newer(port *cloudteamv1.NetworkPort) *entry {
	e := l.entries[port.UID]
	if e == nil || !e.written {
		return e
	}
	order, err := resourceversion.CompareResourceVersion(port.ResourceVersion, e.port.ResourceVersion)
	if err == nil && order < 0 {
		return e
	}
	delete(l.entries, port.UID)
	return nil
}

// ahead reports whether the ledger knows more of a port than the cached state given: there is nothing to decide on it
// until the cache has come as far, which brings an event.
func (l *ledger) ahead(port *cloudteamv1.NetworkPort) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.newer(port) != nil
}

// wrote notes what a binding or a release returned. A release has no Pod.
func (l *ledger) wrote(port *cloudteamv1.NetworkPort, pod cache.ObjectName, uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.entries == nil {
		l.entries = map[types.UID]*entry{}
	}
	l.entries[port.UID] = &entry{port: port, written: true, pod: pod, uid: uid}
}

// abandon forgets which ports were to be bound to a Pod and were not. It reports whether there were any: others may
// have found them taken.
func (l *ledger) abandon(pod cache.ObjectName) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := false
	for uid, e := range l.entries {
		if e.pod == pod && !e.written {
			delete(l.entries, uid)
			found = true
		}
	}
	return found
}

// pods are those that have ports, or are about to have them, of which the cache does not show it.
func (l *ledger) pods() map[cache.ObjectName]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	pods := make(map[cache.ObjectName]bool, len(l.entries))
	for _, e := range l.entries {
		pods[e.pod] = true
	}
	return pods
}

// forget drops what is noted of a port that is gone.
func (l *ledger) forget(port types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.entries, port)
}
