package orphan

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// join has the controller look after another cloud, with a network for each UID.
func (w *world) join(others *[]Inventory, project string, uids ...string) *controllertest.Cloud {
	c := controllertest.NewCloud(w.Calls, client.Identity{ProjectID: project}, clusterUID)
	for _, uid := range uids {
		c.Put(plan.ObservedNetwork{ID: "net-" + uid, Revision: 1, Attributes: plan.Attributes{
			Description: plan.Owner{Cluster: clusterUID, Object: uid}.Marker(),
		}})
	}
	*others = append(*others, c)
	w.c.options.Others = func() []Inventory { return *others }
	return c
}

// auditAll lets the interval go by, lists the given clouds and the own one, and syncs.
func (w *world) auditAll(clouds ...*controllertest.Cloud) {
	w.T.Helper()
	controllertest.Settle(interval)
	for _, c := range slices.Concat(clouds, []*controllertest.Cloud{w.Cloud}) {
		c.Audit(w.T)
	}
	w.sync()
}

func TestTheShareIsOneOfAllClouds(t *testing.T) {
	for sentence, c := range map[string]struct {
		// gone is how many of ten small clouds, of one owner each, have lost theirs.
		gone int
		left int
	}{
		"two of thirty go":                        {2, 8},
		"of ten that are gone at once, none goes": {10, 10},
	} {
		t.Run(sentence, func(t *testing.T) {
			var own []string
			for i := range 20 {
				own = append(own, fmt.Sprintf("own-%d", i))
			}
			inWorld(t, Rules{Grace: grace, MaxShare: 0.1}, own, func(t *testing.T, w *world) {
				for _, uid := range own {
					w.create(uid)
				}
				var others []Inventory
				var clouds []*controllertest.Cloud
				for i := range 10 {
					uid := fmt.Sprintf("small-%d", i)
					clouds = append(clouds, w.join(&others, uid, uid))
					if i >= c.gone {
						w.create(uid)
					}
				}
				// Not all of them are listed each time.
				for range 4 * int(grace/interval) {
					w.auditAll(clouds[:7]...)
					w.auditAll(clouds[3:]...)
				}
				left := 0
				for _, cloud := range clouds {
					left += len(cloud.Has())
				}
				if left != c.left || len(w.Cloud.Has()) != len(own) {
					t.Errorf("%d networks are left in small clouds and %d in the own, want %d and %d", left,
						len(w.Cloud.Has()), c.left, len(own))
				}
			})
		})
	}
}

func TestACloudThatIsClosedAndOpenedBeginsAnew(t *testing.T) {
	inWorld(t, Rules{Grace: grace, MaxShare: 1}, nil, func(t *testing.T, w *world) {
		var others []Inventory
		small := w.join(&others, "small", "gone")
		for range int(grace / interval) {
			w.auditAll(small)
		}
		others = nil
		w.auditAll()
		w.wantStates("waiting=0 due=0 withheld=0 blocked=0")
		others = []Inventory{small}
		w.auditAll(small)
		w.auditAll(small)
		if diff := cmp.Diff(1, len(small.Has())); diff != "" {
			t.Errorf("networks before the grace period is over (-want +got):\n%s", diff)
		}
		for range int(grace / interval) {
			w.auditAll(small)
		}
		if diff := cmp.Diff(0, len(small.Has())); diff != "" {
			t.Errorf("networks afterwards (-want +got):\n%s", diff)
		}
	})
}

func TestAProjectToWhichTwoCloudsLeadCountsOnce(t *testing.T) {
	inWorld(t, Rules{Grace: grace, MaxShare: 0.1}, []string{"gone", "a", "b"}, func(t *testing.T, w *world) {
		w.create("a")
		w.create("b")
		var others []Inventory
		second := w.join(&others, "p", "gone", "a", "b")
		for range int(grace/interval) + 2 {
			w.auditAll(second)
		}
		w.want("a", "b")
		if n := len(second.Has()); n != 2 {
			t.Errorf("%d networks are seen by the other way, want 2", n)
		}
	})
}
