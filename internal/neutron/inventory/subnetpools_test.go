package inventory

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// newPool makes a subnet pool and returns its id.
func (e emulated) newPool(name string, more map[string]any) string {
	e.t.Helper()
	body := map[string]any{"name": name, "prefixes": []string{"10.8.0.0/16"}, "default_prefixlen": 24}
	maps.Copy(body, more)
	return e.byHand(http.MethodPost, "subnetpools", "subnetpool", body)
}

// pooled is a spec of subnets from pools.
func (e emulated) pooled(from ...plan.Allocation) plan.Spec {
	e.t.Helper()
	spec := plan.Spec{Owner: e.owner, Name: "n"}
	for _, a := range from {
		pool, err := e.SubnetPool(e.t.Context(), plan.FieldSubnetPool, a.Name)
		expect.NoError(e.t, err)
		a.Pool = pool
		spec.Subnets = append(spec.Subnets, plan.Subnet{From: &a, DHCP: true})
	}
	return spec
}

func (e emulated) cidrs() (cidrs []string) {
	e.t.Helper()
	n, _ := e.observed().Network()
	for _, s := range n.Subnets {
		cidrs = append(cidrs, s.CIDR.String())
	}
	slices.Sort(cidrs)
	return cidrs
}

func TestSubnetsFromPoolsAreAsPlannedAfterTheirSteps(t *testing.T) {
	e := newEmulated(t, Options{})
	e.newPool("four", nil)
	six := e.newPool("six", map[string]any{"prefixes": []string{"fd00:8::/48"}, "default_prefixlen": 64})
	e.planned(e.pooled(plan.Allocation{Name: "four"}, plan.Allocation{Name: six}))
	expect.Equal(t, []string{"10.8.0.0/24", "fd00:8::/64"}, e.cidrs(), "CIDRs")

	// The gateway's absence follows from the CIDR, so that it takes a second plan.
	other := e.pooled(plan.Allocation{Name: "four", PrefixLength: 28, NoGateway: true})
	e.apply(plan.Network(other, e.observed()))
	e.planned(other)
	expect.Equal(t, []string{"10.8.0.0/28"}, e.cidrs(), "CIDRs")
}

func TestAStepThatTookACIDRFromAPoolTellsWhich(t *testing.T) {
	e := newEmulated(t, Options{})
	e.newPool("four", nil)
	done := e.apply(plan.Network(e.pooled(plan.Allocation{Name: "four"}), e.observed()))
	const want = `create subnet 10.8.0.0/24 from subnet pool "four" (it is declared but missing)`
	expect.Equal(t, want, done[len(done)-1].String(), "the step")
}

// A list can fall short. Neutron would make a second subnet from the pool.
func TestASubnetFromAPoolThatIsThereIsNotMadeOnceMore(t *testing.T) {
	e := newEmulated(t, Options{})
	e.newPool("four", nil)
	spec := e.pooled(plan.Allocation{Name: "four"})
	e.apply(plan.Network(spec, e.observed()))
	short := e.observed()
	short.Networks = slices.Clone(short.Networks)
	short.Networks[0].Subnets = nil
	change, err := plan.Network(spec, short)
	if err != nil || len(change) != 1 {
		t.Fatalf("planned %v\n%s", err, change)
	}
	if _, err := e.Apply(t.Context(), change); !client.IsConflict(err) {
		t.Errorf("got %v, want a conflict", err)
	}
	expect.Len(t, 1, e.cidrs(), "subnets")
}

func TestAPoolWithoutARangeIsExhausted(t *testing.T) {
	e := newEmulated(t, Options{})
	e.newPool("small", map[string]any{"prefixes": []string{"10.9.0.0/24"}})
	e.apply(plan.Network(e.pooled(plan.Allocation{Name: "small"}), e.observed()))
	e.owner.Object = "another"
	change, err := plan.Network(e.pooled(plan.Allocation{Name: "small"}), e.observed())
	expect.NoError(t, err)
	_, err = e.Apply(t.Context(), change)
	if !client.IsKind(err, client.Exhausted) || client.MaybeDone(err) {
		t.Errorf("got %v, want that nothing is left, and that nothing was done", err)
	}
}

func TestSubnetPoolsAreFoundByIDOrName(t *testing.T) {
	e := newEmulated(t, Options{})
	one := e.newPool("one", map[string]any{"min_prefixlen": 20, "max_prefixlen": 28})
	e.newPool("twins", nil)
	e.newPool("twins", nil)
	want := plan.SubnetPool{ID: one, IPVersion: 4, MinPrefixLength: 20, MaxPrefixLength: 28, DefaultPrefixLength: 24}
	for _, idOrName := range []string{"one", one} {
		got, err := e.SubnetPool(t.Context(), plan.FieldSubnetPool, idOrName)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", idOrName, err, diff)
		}
	}
	for field, want := range map[string]string{
		plan.FieldSubnetPool:              "find subnet pool: spec.subnetPool: ",
		"additionalSubnets[1].subnetPool": "find subnet pool: spec.additionalSubnets[1].subnetPool: ",
	} {
		for idOrName, says := range map[string]string{
			"twins":  want + `2 are called "twins": write the id`,
			"nobody": want + `"nobody" is neither the id nor the name`,
		} {
			_, err := e.SubnetPool(t.Context(), field, idOrName)
			if !client.IsKind(err, client.Invalid) || !strings.Contains(err.Error(), says) {
				t.Errorf("%s in %s: %v, want %q", idOrName, field, err, says)
			}
		}
	}
}
