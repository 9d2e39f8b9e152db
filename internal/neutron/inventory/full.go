package inventory

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// fullness remembers what is full in a project: quotas, and networks without free addresses. One create at a time then
// finds out whether there is room again, and the others wait: a thousand objects cost as many calls as one. They go on
// when that create succeeds, and one does at once when a deletion here makes room. It is safe for concurrent use.
type fullness struct {
	// wake tells the object of a UID that it may try again.
	wake func(object string)

	mu   sync.Mutex
	full map[string]*shortage
}

// shortage is one thing that is full.
type shortage struct {
	refusal client.Error
	// probe is the create that is trying, or nil. next is when the next one may, pause after the last one.
	probe *attempt
	next  time.Time
	pause time.Duration
	// met is when a create last met it.
	met time.Time
	// waiting are the UIDs of the objects that were held back, mostWaiting at most. Nobody tells which of them are gone,
	// and a tenant could create and delete more without end. The others try again by themselves.
	waiting map[string]bool
}

const (
	// The pause between two creates that try doubles from fullFirst to fullLast.
	fullFirst = time.Second
	fullLast  = 30 * time.Second
	// fullKept is how long a shortage is remembered that no create meets: a key is retried far more often.
	fullKept = 10 * time.Minute
	// wokenByRoom is how many objects a deletion wakes. One that succeeds wakes all.
	wokenByRoom = 3
	mostWaiting = 1000
)

func newFullness(wake func(object string)) *fullness {
	return &fullness{wake: wake, full: map[string]*shortage{}}
}

// attempt is a create that may meet a shortage.
type attempt struct {
	in *fullness
	op string
	// quota and addresses are what it needs; addresses is empty if it needs none that others compete for.
	quota, addresses string
	object           string
}

// quotaOf and addressesOn name what may be full.
func quotaOf(of client.Collection) string { return "quota " + of.Many }

func addressesOn(d draw) string {
	return "addresses " + d.network + " " + strings.Join(slices.Sorted(slices.Values(d.subnets)), " ")
}

// attempt begins a create of a step. ended MUST be called with its outcome.
func (f *fullness) attempt(of client.Collection, step plan.Step, description any) *attempt {
	_, owner, _ := plan.ParseDescription(fmt.Sprint(description))
	a := &attempt{in: f, op: string(step.Action), quota: quotaOf(of), object: owner.Object}
	if of == portKind.Collection {
		requested := func(p plan.PortAddress) bool { return p.Address.IsValid() }
		if !slices.ContainsFunc(step.Port.Addresses, requested) {
			a.addresses = addressesOn(drawOf(step))
		}
	}
	if of == floatingKind.Collection && !step.FloatingIP.Address.IsValid() {
		a.addresses = addressesOn(draw{network: step.FloatingIP.NetworkID})
	}
	return a
}

func (a *attempt) needs() []string {
	if a.addresses == "" {
		return []string{a.quota}
	}
	return []string{a.quota, a.addresses}
}

// held returns the earlier refusal if the create must not be sent now. Otherwise, if something is full, this create is
// the one that tries.
func (a *attempt) held() error {
	f := a.in
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, need := range a.needs() {
		s := f.full[need]
		if s == nil || s.probe == a {
			continue
		}
		s.met = time.Now()
		left := time.Until(s.next)
		if s.probe == nil && left <= 0 {
			s.probe = a
			continue
		}
		if len(s.waiting) < mostWaiting {
			s.waiting[a.object] = true
		}
		a.release()
		refusal := s.refusal
		refusal.Op, refusal.Wait, refusal.Gate = a.op, max(left, fullFirst), client.GateRoom
		return &refusal
	}
	return nil
}

// tries reports whether this create finds out if there is room. It needs its own call.
func (a *attempt) tries() bool {
	f := a.in
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(a.needs(), func(need string) bool { return f.full[need] != nil && f.full[need].probe == a })
}

// release lets another create try. The caller holds mu.
func (a *attempt) release() {
	for _, need := range a.needs() {
		if s := a.in.full[need]; s != nil && s.probe == a {
			s.probe = nil
		}
	}
}

// lacked returns what a refusal says is full; empty if it is something else.
func (a *attempt) lacked(err error) string {
	refusal, ok := errors.AsType[*client.Error](err)
	switch {
	case !ok || refusal.Unsent():
		return ""
	case refusal.Type == "OverQuota":
		return a.quota
	case refusal.Type == "IpAddressGenerationFailure", refusal.Type == "ExternalIpAddressExhausted":
		return a.addresses
	}
	return ""
}

// ended records the outcome of the create.
func (a *attempt) ended(err error) {
	f := a.in
	f.mu.Lock()
	lacked := a.lacked(err)
	var woken []string
	for _, need := range a.needs() {
		s := f.full[need]
		switch {
		case need == lacked && s == nil:
			maps.DeleteFunc(f.full, func(_ string, old *shortage) bool { return time.Since(old.met) > fullKept })
			s = &shortage{pause: fullFirst, next: time.Now().Add(fullFirst), met: time.Now(), waiting: map[string]bool{}}
			s.refusal = *asRefusal(err)
			f.full[need] = s
		case s == nil || s.probe != a:
		case need == lacked:
			s.probe, s.refusal = nil, *asRefusal(err)
			s.next = time.Now().Add(s.pause)
			s.pause = min(2*s.pause, fullLast)
		case err == nil:
			delete(f.full, need)
			woken = slices.AppendSeq(woken, maps.Keys(s.waiting))
		default: // it found out nothing
			s.probe = nil
			woken = append(woken, s.some()...)
		}
	}
	f.mu.Unlock()
	f.notify(woken)
}

func asRefusal(err error) *client.Error {
	refusal, _ := errors.AsType[*client.Error](err)
	return refusal
}

// some removes a few of the objects that wait.
func (s *shortage) some() (objects []string) {
	for object := range s.waiting {
		if len(objects) == wokenByRoom {
			break
		}
		objects = append(objects, object)
		delete(s.waiting, object)
	}
	return objects
}

// roomIn records that something that may be full, or any whose name begins so, has more room.
func (f *fullness) roomIn(needs ...string) {
	f.mu.Lock()
	var woken []string
	for name, s := range f.full {
		if slices.ContainsFunc(needs, func(need string) bool { return strings.HasPrefix(name, need) }) {
			s.next, s.pause = time.Now(), fullFirst
			woken = append(woken, s.some()...)
		}
	}
	f.mu.Unlock()
	f.notify(woken)
}

// after records the room that a step made.
func (f *fullness) after(step plan.Step) {
	switch step.Action {
	case plan.DeleteNetwork:
		f.roomIn(quotaOf(networkKind.Collection), quotaOf(subnetKind.Collection))
	case plan.DeleteSubnet:
		f.roomIn(quotaOf(subnetKind.Collection))
	case plan.DeletePort, plan.DeleteInterface, plan.DetachInterface:
		f.roomIn(quotaOf(portKind.Collection), "addresses ")
	case plan.DeleteRouter:
		f.roomIn(quotaOf(routerKind.Collection), quotaOf(portKind.Collection))
	case plan.DeleteFloatingIP:
		f.roomIn(quotaOf(floatingKind.Collection), "addresses "+step.FloatingIP.NetworkID+" ")
	case plan.UnshareNetwork:
		f.roomIn(quotaOf(shareKind.Collection))
	case plan.CreateSubnet, plan.UpdateSubnet:
		f.roomIn("addresses " + step.NetworkRef.ID + " ")
	}
}

// forget drops everything, because the credentials are for another project.
func (f *fullness) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.full)
}

func (f *fullness) notify(objects []string) {
	for _, object := range objects {
		f.wake(object)
	}
}
