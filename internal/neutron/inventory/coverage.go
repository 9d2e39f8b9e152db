package inventory

import (
	"time"
)

const (
	// coverFor is how long lists cover routers after they were last asked for, longer than any pause between attempts.
	coverFor = 10 * time.Minute
	// coverEvery is how often a list covers routers that nobody asks for: an orphan may be one.
	coverEvery = time.Hour
)

// coverage decides which lists show routers and their interfaces, and which with whom networks are shared. Most fleets
// have neither, and one list more per audit is a third more calls. So routers are listed at first, for what an earlier
// process has left; as long as there are any; for some time after CoverRouters; and now and then. Nothing that this
// process has made is missed: what it holds keeps them listed. Shares go with their networks, so that nobody looks for
// what is left of them: they are listed as long as there are any, and for some time after CoverShares.
//
// The Inventory's mu guards it.
type coverage struct {
	// asked is when CoverRouters was last called.
	asked time.Time
	// last is when the last list began that showed routers.
	last time.Time
	// shown is what the last list showed that was completed.
	shown scope
	// sharesAsked is when CoverShares was last called.
	sharesAsked time.Time
}

// scope is what a list shows besides networks and subnets. Interfaces are ports, which are listed for their own sake as
// a rule.
//
// patrol is true where routers are shown for no need but to find what is left of them.
type scope struct{ routers, ports, shares, patrol bool }

// interfaces reports whether routers are shown with their interfaces.
func (s scope) interfaces() bool { return s.routers && s.ports }

// CoverRouters has what Observed gives be complete as to routers and their interfaces, from now on and for some time.
// It costs a list where the last one left them out. It MUST be called before Observed for who has or declares a router.
func (i *Inventory) CoverRouters() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.coverage.asked = time.Now()
}

// CoverShares is CoverRouters for with whom networks are shared. It MUST be called before Observed, or Foreign, for who
// declares that. What others change in it moves the network's revision, of which an audit tells, whatever it lists.
func (i *Inventory) CoverShares() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.coverage.sharesAsked = time.Now()
}

// scope decides what a list shows that begins now. The caller holds mu.
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

// needsShares reports whether a list that begins now has to show with whom networks are shared. The caller holds mu.
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

// readsShares is needsShares for the read of one network. The caller does not hold mu.
func (i *Inventory) readsShares(networkID string) bool {
	i.mu.RLock()
	defer i.mu.RUnlock()
	held, ours := i.networks.held[networkID]
	return i.areSharesAsked() || ours && len(held.Shares) > 0
}

// enough reports whether a list of the scope shows what is asked for. The caller holds mu.
func (i *Inventory) enough(s scope) bool {
	return (s.interfaces() || !i.isAsked()) && (s.shares || !i.areSharesAsked())
}

// suffices reports whether the last list began at since or later and shows what is asked for. The caller holds mu.
func (i *Inventory) suffices(since time.Time) bool {
	return !i.began.IsZero() && !i.began.Before(since) && i.enough(i.coverage.shown)
}

// holdsPorts reports whether ports are read at all: all of ours, or interfaces. The caller does not hold mu.
func (i *Inventory) holdsPorts() bool {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.options.Ports || i.coverage.shown.interfaces()
}
