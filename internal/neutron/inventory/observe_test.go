package inventory

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// owners are those that are known, and when the list began that showed them.
func (b *bench) owners(t *testing.T) (map[string]Holdings, time.Time) {
	t.Helper()
	owners, audited, of, ok := b.Owners()
	if !ok {
		t.Fatal("nothing is known after an audit")
	}
	if identity, err := b.Identity(t.Context()); err != nil || of != identity {
		t.Errorf("they are of %s, %v, want %s", of, err, identity)
	}
	return owners, audited
}

func TestOwnersAreThoseWhoseMarkersAreBorne(t *testing.T) {
	b := newBench(t, Options{Ports: true})
	if owners, audited, _, ok := b.Owners(); ok || owners != nil || !audited.IsZero() {
		t.Errorf("before the first list: %v, %s, %t, want nothing", owners, audited, ok)
	}
	b.put("net-1", ownerOf("both").Marker())
	b.put("net-2", "a text "+ownerOf("both").Marker())
	b.put("net-3", ownerOf("network").Marker())
	b.put("net-4", "nobody's")
	b.put("net-5", plan.Owner{Cluster: "cluster-2", Object: "elsewhere"}.Marker())
	b.putPort("port-1", ownerOf("both").Marker())
	b.putPort("port-2", ownerOf("port").Marker())
	b.putPort("port-3", "nobody's")
	b.audit(t)
	want := map[string]Holdings{
		"both":    {plan.KindNetwork: {"net-1", "net-2"}, plan.KindPort: {"port-1"}},
		"network": {plan.KindNetwork: {"net-3"}},
		"port":    {plan.KindPort: {"port-2"}},
	}
	was, first := b.owners(t)
	expect.Equal(t, want, was, "owners")

	// What is done here is known at once, and is no list.
	n := b.observed(t, "network")[0]
	b.apply(t, plan.Step{Action: plan.DeleteNetwork, Ref: plan.Ref{ID: n.ID}, Revision: n.Revision}, deletePort("port-2", 1))
	now, again := b.owners(t)
	expect.Equal(t, map[string]Holdings{"both": want["both"]}, now, "owners after deletions")
	if !again.Equal(first) {
		t.Errorf("a write passes for a list: %s, before %s", again, first)
	}
	expect.Equal(t, want, was, "an answer that was given was changed")
	b.audit(t)
	if _, later := b.owners(t); !later.After(first) {
		t.Errorf("the list of %s is followed by one of %s", first, later)
	}
}

// A list that fails tells of no owner. Who asks whether an owner was seen by two audits must not count one list twice,
// because that of another kind came later.
func TestOneListOfAKindIsNoTwoAuditsOfOwners(t *testing.T) {
	for _, fails := range []string{"/networks", "/subnets", "/ports", "/routers"} {
		t.Run(fails, func(t *testing.T) {
			b := newBench(t, Options{Ports: true})
			b.put("net-1", ownerOf("o").Marker())
			b.audit(t)
			for range 2 {
				owners, was := b.owners(t)
				b.neutron.answers("", fails, http.StatusServiceUnavailable, "{}")
				began := time.Now()
				if err := b.Audit(t.Context()); err == nil {
					t.Fatal("the audit succeeded")
				}
				now, is := b.owners(t)
				if diff := cmp.Diff(owners, now); diff != "" || !is.Equal(was) {
					t.Errorf("an audit without %s passes for one; owners (-before +after):\n%s", fails, diff)
				}
				b.neutron.setBefore(nil)
				expect.NoError(t, b.auditSince(t.Context(), began, b.stocks, false))
				if _, is = b.owners(t); !is.After(was) {
					t.Error("the list that was missing makes no audit of the others")
				}
				b.audit(t)
				if _, next := b.owners(t); !next.After(is) {
					t.Error("the next audit is none")
				}
			}
		})
	}
}
