package batch

import (
	"errors"
	"maps"
	"net/http"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
)

// declined reports whether Neutron, or a proxy, refused a create: nothing was created. If the call had several creates,
// some may succeed alone. A failed log-in is not a refusal of the create.
func declined(err error) bool {
	e, ok := errors.AsType[*client.Error](err)
	return ok && !e.MaybeDone && e.Kind != client.Throttled && e.Kind != client.Unauthenticated && !e.OfLogin() &&
		(e.Kind != client.Transient || e.Status >= http.StatusBadRequest)
}

// concernsAll reports whether the error of one create applies to the rest of its batch. A quota without room for one
// has no room for the next, and a rate limit applies to all. A pool or a type of network that is used up is not what
// the others ask for.
func concernsAll(err error) bool {
	e, ok := errors.AsType[*client.Error](err)
	return ok && (e.Type == "OverQuota" || e.Kind == client.Throttled)
}

// asTold is the error of a call as so many callers are told it. If they are several, Neutron's sentence may be about
// one item, which is nobody else's business. A quota's sentence is about none.
func asTold(err error, callers int) error {
	e, ok := errors.AsType[*client.Error](err)
	if !ok || callers < 2 || e.Status == 0 || e.Type == "OverQuota" || e.Kind == client.Throttled || e.OfLogin() ||
		e.Fresh || e.Foreign() {
		return err
	}
	return client.Amended(err, func(e *client.Error) { e.Reason = client.StatusReason(e.Status) })
}

// suspect is a create that failed, in a batch or alone.
type suspect struct {
	// most is how many creates may go in one call with it at a retry, itself included.
	most  int
	until time.Time
}

// suspicion is how long a create stays a suspect. It is longer than any usual backoff.
const suspicion = 10 * time.Minute

// remember records how many creates may go together at a retry. If a call fails with unknown cause (one create provokes
// a 500 each time), each retry halves the group. A create that was refused alone, after its batch was split, goes
// alone.
func (b *Queue) remember(group []*pending, err error, halved bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	most := 0
	switch {
	case client.MaybeDone(err) && (len(group) > 1 || group[0].most < maxBatch):
		most = max(1, len(group)/2)
	case err != nil && len(group) == 1 && halved && declined(err):
		most = 1
	}
	now := time.Now()
	if most > 0 {
		maps.DeleteFunc(b.suspects, func(_ string, s suspect) bool { return now.After(s.until) })
	}
	for _, c := range group {
		if most > 0 {
			b.suspects[c.Key] = suspect{most, now.Add(suspicion)}
		} else {
			delete(b.suspects, c.Key)
		}
	}
}

// mostWith returns how many creates may go in one call with the create of a key. The caller holds mu.
func (b *Queue) mostWith(key string) int {
	if s, ok := b.suspects[key]; ok && time.Now().Before(s.until) {
		return s.most
	}
	return maxBatch
}
