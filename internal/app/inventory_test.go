package app

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/virtual"
)

// countingUser is a controller that counts how often it was woken for each cloud. meanwhile, where set, is called then.
type countingUser struct {
	playedUser
	mu        sync.Mutex
	woken     map[managed.CloudRef]int
	meanwhile func()
}

func (u *countingUser) EnqueueIn(ref managed.CloudRef) {
	u.mu.Lock()
	u.woken[ref]++
	u.mu.Unlock()
	if u.meanwhile != nil {
		u.meanwhile()
	}
}

// count is how often it was woken for a cloud.
func (u *countingUser) count(ref managed.CloudRef) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.woken[ref]
}

func TestACloudIsWokenAtMostOnceInASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a audience
		user := &countingUser{woken: map[managed.CloudRef]int{}}
		a.add(user)
		another := managed.CloudRef{Namespace: "another", Secret: "openstack"}
		wants := func(when string, team, others int) {
			t.Helper()
			synctest.Wait()
			if got, other := user.count(inTeam), user.count(another); got != team || other != others {
				t.Errorf("%s, they were woken %d and %d times, want %d and %d", when, got, other, team, others)
			}
		}
		for range 100 {
			a.wake(inTeam)
		}
		a.wake(another)
		wants("at once", 1, 1)
		virtual.Elapse(wakeInterval - time.Nanosecond)
		wants("just before the second is over", 1, 1)
		virtual.Elapse(time.Nanosecond)
		wants("after a second", 2, 1)
		virtual.Elapse(time.Hour)
		wants("when nothing happens", 2, 1)
		for range 100 { // in 10.1 s
			a.wake(inTeam)
			virtual.Elapse(wakeInterval/10 + time.Millisecond)
		}
		virtual.Elapse(time.Hour)
		wants("after 100 in ten seconds", 2+11, 1)
		a.wake(inTeam)
		wants("after a pause", 2+12, 1)
		virtual.Elapse(time.Hour)
		a.mu.Lock()
		defer a.mu.Unlock()
		expect.Empty(t, a.woken, "those that it remembers")
	})
}

// TestOthersAreToldWhileOneLooksForItsObjects has a controller ask for the audience's lock.
func TestOthersAreToldWhileOneLooksForItsObjects(t *testing.T) {
	var a audience
	user := &countingUser{woken: map[managed.CloudRef]int{}}
	user.meanwhile = func() {
		if !a.mu.TryLock() {
			t.Error("the audience is locked")
			return
		}
		a.mu.Unlock()
	}
	a.add(user)
	a.wake(inTeam)
	expect.Equal(t, 1, user.count(inTeam), "how often it was woken")
}

// TestEditsOfASecretWakeItsObjectsOnceInASecond edits one that never has credentials.
func TestEditsOfASecretWakeItsObjectsOnceInASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &process{}
		user := &countingUser{woken: map[managed.CloudRef]int{}}
		p.audience.add(user)
		c := &secretCloud{p: p, ref: inTeam}
		for range 50 {
			c.gone()
			secret := &corev1.Secret{}
			secret.Name = inTeam.Secret
			expect.NoError(t, c.Update(secret))
		}
		virtual.Elapse(time.Minute)
		synctest.Wait()
		expect.Equal(t, 2, user.count(inTeam), "how often 100 edits in a moment woke the objects")
	})
}

// TestTheFirstAuditWakesAndNotTheSecretBefore has a Secret be there whose session has no audit yet: until then its
// objects can do nothing.
func TestTheFirstAuditWakesAndNotTheSecretBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &process{}
		user := &countingUser{woken: map[managed.CloudRef]int{}}
		p.audience.add(user)
		first := make(chan struct{})
		c := &secretCloud{p: p, ref: inTeam, ctx: t.Context(), session: &cloudSession{
			uid: "uid", access: &cloudAccess{}, inventory: &sharedInventory{audits: &auditLog{first: first}},
		}}
		there := func() { c.set(func(s *secretState) { s.uid, s.problem = "uid", nil }) }
		there()
		expect.Equal(t, 0, user.count(inTeam), "they are woken before the first audit")
		close(first)
		c.gone()
		there()
		virtual.Elapse(time.Minute)
		synctest.Wait()
		expect.Equal(t, 2, user.count(inTeam), "how often they are woken, when the Secret goes and when it is back")
	})
}
