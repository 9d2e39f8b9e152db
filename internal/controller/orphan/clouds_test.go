package orphan

import (
	"fmt"
	"slices"
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// join has the controller look after another cloud of the operator's, with a network for each UID.
func (w *world) join(others *[]Other, project string, uids ...string) *controllertest.Neutron {
	return w.joinTenant(others, "", project, uids...)
}

// joinTenant is join for a cloud with a tenant's credentials.
func (w *world) joinTenant(others *[]Other, tenant, project string, uids ...string) *controllertest.Neutron {
	c := controllertest.NewNeutron(w.Calls, client.Identity{ProjectID: project}, clusterUID)
	for _, uid := range uids {
		c.Put(plan.ObservedNetwork{ID: "net-" + uid, Revision: 1, Attributes: plan.Attributes{
			Description: plan.Owner{Cluster: clusterUID, Object: uid}.Marker(),
		}})
	}
	*others = append(*others, Other{Inventory: c, Tenant: tenant})
	w.c.options.Others = func() []Other { return *others }
	return c
}

// auditAll lets the interval go by, lists the given clouds and the own one, and syncs.
func (w *world) auditAll(clouds ...*controllertest.Neutron) {
	w.T.Helper()
	controllertest.Settle(interval)
	for _, c := range slices.Concat(clouds, []*controllertest.Neutron{w.Neutron}) {
		c.Audit(w.T)
	}
	w.sync()
}

func TestACloudThatIsClosedAndOpenedBeginsAnew(t *testing.T) {
	inWorld(t, Rules{Grace: grace, MaxShare: 1}, nil, func(t *testing.T, w *world) {
		var others []Other
		small := w.join(&others, "small", "gone")
		for range int(grace / interval) {
			w.auditAll(small)
		}
		others = nil
		w.auditAll()
		w.wantStates("waiting=0 due=0 withheld=0 blocked=0")
		others = []Other{{Inventory: small}}
		w.auditAll(small)
		w.auditAll(small)
		expect.Len(t, 1, small.Has(), "networks before the grace period is over")
		for range int(grace / interval) {
			w.auditAll(small)
		}
		expect.Empty(t, small.Has(), "networks afterwards")
	})
}

func TestAProjectToWhichTwoCloudsLeadCountsOnce(t *testing.T) {
	inWorld(t, Rules{Grace: grace, MaxShare: 0.1}, []string{"gone", "a", "b"}, func(t *testing.T, w *world) {
		w.create("a")
		w.create("b")
		var others []Other
		second := w.join(&others, "p", "gone", "a", "b")
		for range int(grace/interval) + 2 {
			w.auditAll(second)
		}
		w.want("a", "b")
		expect.Len(t, 2, second.Has(), "networks are seen by the other way")
	})
}

// uidsFrom gives n UIDs that begin with a word.
func uidsFrom(word string, n int) (uids []string) {
	for i := range n {
		uids = append(uids, fmt.Sprintf("%s-%d", word, i))
	}
	return uids
}

// A tenant decides what its own Neutron lists, so it could halt the cleanup of all others.
func TestMarkersInATenantsCloudHaltOnlyTheTenantsCleanup(t *testing.T) {
	const forged = 100
	own := append(uidsFrom("own", 19), "gone")
	inWorld(t, Rules{Grace: grace, MaxShare: 0.1}, own, func(t *testing.T, w *world) {
		for _, uid := range own[:19] {
			w.create(uid)
		}
		var others []Other
		hostile := w.joinTenant(&others, "hostile", "h", uidsFrom("forged", forged)...)
		class := w.join(&others, "class", "gone-class")
		quiet := w.joinTenant(&others, "quiet", "q", "gone-quiet")
		for range int(grace / interval) {
			w.auditAll(hostile, class, quiet)
		}
		w.lines()
		w.auditAll(hostile, class, quiet)
		w.want(own[:19]...)
		got := []int{len(class.Has()), len(quiet.Has()), len(hostile.Has())}
		expect.Equal(t, []int{0, 0, forged}, got, "networks in the class's, the quiet and the hostile cloud")
		w.wantStates("waiting=0 due=0 withheld=100 blocked=0")
		w.wantLines(4) // three removals and the halt
		w.auditAll(hostile, class, quiet)
		w.wantLines(0)
		others = nil
		w.auditAll()
		w.wantStates("waiting=0 due=0 withheld=0 blocked=0")
		w.wantLines(1)
	})
}

// A cluster that lost its objects lost those of all clouds.
func TestAHaltOfTheOperatorsCloudsHaltsTheTenants(t *testing.T) {
	inWorld(t, Rules{Grace: grace, MaxShare: 0.1}, uidsFrom("own", 2), func(t *testing.T, w *world) {
		var others []Other
		team := w.joinTenant(&others, "team", "t", "of-team")
		for range int(grace/interval) + 2 {
			w.auditAll(team)
		}
		w.wantStates("waiting=0 due=0 withheld=3 blocked=0")
		expect.Len(t, 1, team.Has(), "networks are in the team's cloud")
		for _, uid := range uidsFrom("own", 2) {
			w.create(uid)
		}
		w.auditAll(team)
		w.wantStates("waiting=0 due=0 withheld=0 blocked=0")
		expect.Empty(t, team.Has(), "networks are in the team's cloud after the halt")
	})
}
