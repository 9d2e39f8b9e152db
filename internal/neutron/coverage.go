package neutron

import (
	"time"
)

const (
	// coverFor is how long lists cover routers after they were last asked for, longer than any pause between attempts.
	coverFor = 10 * time.Minute
	// coverEvery is how often a list covers routers that nobody asks for: an orphan may be one.
	coverEvery = time.Hour
)

// coverage decides which lists show routers and their interfaces. Most fleets have none, and one list more per audit is
// a third more calls. So they are listed at first, for what an earlier process has left; as long as there are any; for
// some time after CoverRouters; and now and then. Nothing that this process has made is missed: what it holds keeps
// them listed.
//
// The Inventory's mu guards it.
type coverage struct {
	// asked is when CoverRouters was last called.
	asked time.Time
	// last is when the last list began that showed routers.
	last time.Time
	// covered is whether the last list that was completed showed routers and interfaces.
	covered bool
}

// scope is what a list shows besides networks and subnets. Interfaces are ports, which are listed for their own sake as
// a rule.
type scope struct{ routers, ports bool }

// CoverRouters has what Observed gives be complete as to routers and their interfaces, from now on and for some time.
// It costs a list where the last one left them out. It MUST be called before Observed for who has or declares a router.
func (i *Inventory) CoverRouters() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.coverage.asked = time.Now()
}

// scope decides what a list shows that begins now. The caller holds mu.
func (i *Inventory) scope() scope {
	needed := len(i.routers.held) > 0 || !i.options.Ports && len(i.ports.held) > 0 || i.isAsked()
	return scope{
		routers: needed || time.Since(i.coverage.last) >= coverEvery,
		ports:   needed || i.options.Ports,
	}
}

func (i *Inventory) isAsked() bool { return time.Since(i.coverage.asked) < coverFor }

// suffices reports whether the last list began at since or later and shows what is asked for. The caller holds mu.
func (i *Inventory) suffices(since time.Time) bool {
	return !i.began.IsZero() && !i.began.Before(since) && (i.coverage.covered || !i.isAsked())
}

// holdsPorts reports whether ports are read at all: all of ours, or interfaces. The caller does not hold mu.
func (i *Inventory) holdsPorts() bool {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.options.Ports || i.coverage.covered
}
