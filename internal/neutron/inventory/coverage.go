package inventory

import (
	"time"
)

const (
	// coverFor is how long lists cover routers after the last request for them. It is longer than any backoff.
	coverFor = 10 * time.Minute
	// coverEvery is how often a list covers routers without a request: an orphan may be one.
	coverEvery = time.Hour
)

// coverage decides which lists show routers with their interfaces, and which show shares. It saves calls: most clusters
// have neither, and one more list makes an audit a third more expensive.
//
// Lists show routers at first, to find what an earlier process left behind. They show them while the Inventory holds
// any, for some time after CoverRouters, and every coverEvery. So no router that this process created is missed. Shares
// go with their networks, so there are no orphans to find. Lists show them while the Inventory holds any, and for some
// time after CoverShares.
//
// The Inventory's mu guards it.
type coverage struct {
	// asked is when CoverRouters was last called.
	asked time.Time
	// last is when the last list that showed routers began.
	last time.Time
	// shown is the scope of the last completed list.
	shown scope
	// sharesAsked is when CoverShares was last called.
	sharesAsked time.Time
}

// scope is what a list shows besides networks and subnets. Interfaces are ports, which most lists show anyway.
//
// patrol is true if the list shows routers only to find orphans.
type scope struct{ routers, ports, shares, patrol bool }

// interfaces reports whether a list shows routers with their interfaces.
func (s scope) interfaces() bool { return s.routers && s.ports }

// CoverRouters makes Observed complete for routers and their interfaces, from now on and for some time. It costs a list
// if the last one omitted them. It MUST be called before Observed for an owner that has or declares a router.
func (i *Inventory) CoverRouters() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.coverage.asked = time.Now()
}

// CoverShares is CoverRouters for the projects with which networks are shared. It MUST be called before Observed, or
// Foreign, for an owner that declares shares. If others change shares, the network's revision moves, and every audit
// notices that.
func (i *Inventory) CoverShares() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.coverage.sharesAsked = time.Now()
}

// scope decides what a list that begins now shows. The caller holds mu.
func (i *Inventory) scope() scope {
	needed := len(i.routers.held) > 0 || !i.options.Ports && len(i.ports.held) > 0 || i.isAsked()
	due := time.Since(i.coverage.last) >= coverEvery
	return scope{
		routers: needed || due,
		ports:   needed || i.options.Ports,
		shares:  i.needsShares(),
		patrol:  due && !needed,
	}
}

func (i *Inventory) isAsked() bool { return time.Since(i.coverage.asked) < coverFor }

func (i *Inventory) areSharesAsked() bool { return time.Since(i.coverage.sharesAsked) < coverFor }

// needsShares reports whether a list that begins now must show shares. The caller holds mu.
func (i *Inventory) needsShares() bool {
	if i.areSharesAsked() {
		return true
	}
	for _, n := range i.networks.held {
		if len(n.Shares) > 0 {
			return true
		}
	}
	return false
}

// readsShares is needsShares for the read of one network. The caller MUST NOT hold mu.
func (i *Inventory) readsShares(networkID string) bool {
	i.mu.RLock()
	defer i.mu.RUnlock()
	held, ours := i.networks.held[networkID]
	return i.areSharesAsked() || ours && len(held.Shares) > 0
}

// enough reports whether a list of this scope shows what callers asked for. The caller holds mu.
func (i *Inventory) enough(s scope) bool {
	return (s.interfaces() || !i.isAsked()) && (s.shares || !i.areSharesAsked())
}

// suffices reports whether the last list began at since or later and shows what callers asked for. The caller holds mu.
func (i *Inventory) suffices(since time.Time) bool {
	return !i.began.IsZero() && !i.began.Before(since) && i.enough(i.coverage.shown)
}

// holdsPorts reports whether lists show ports: all of ours, or interfaces only. The caller MUST NOT hold mu.
func (i *Inventory) holdsPorts() bool {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.options.Ports || i.coverage.shown.interfaces()
}
