package network

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	"cloudteam.ztgame.com/network-controller/internal/declare"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

const (
	specCluster = "11111111-2222-3333-4444-555555555555"
	specUID     = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
)

var specOwner = plan.Owner{Cluster: specCluster, Object: specUID}

func networkOf(spec cloudteamv1.NetworkSpec) *cloudteamv1.Network {
	return &cloudteamv1.Network{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "example", UID: specUID}, Spec: spec,
	}
}

func specOf(subnet cloudteamv1.SubnetSpec) cloudteamv1.NetworkSpec {
	return cloudteamv1.NetworkSpec{SubnetSpec: subnet}
}

func poolOf(start, end string) plan.Range {
	return plan.Range{Start: netip.MustParseAddr(start), End: netip.MustParseAddr(end)}
}

// names are a cloud in which nothing has the names that begin with "no", and each other name is an id.
type names struct {
	*controllertest.Neutron
}

// lookUp gives the id, or refuses the field.
func (names) lookUp(field, name string) (string, error) {
	if strings.HasPrefix(name, "no") {
		return "", &client.Error{Kind: client.Invalid, Op: "find", Reason: "spec." + field + ": " + name}
	}
	return name + "-id", nil
}

func (n names) QoSPolicy(_ context.Context, name string) (string, error) {
	return n.lookUp("qosPolicy", name)
}

func (n names) Router(_ context.Context, name string) (string, error) {
	return n.lookUp("router.existing", name)
}

func (n names) SubnetPool(_ context.Context, field, name string) (plan.SubnetPool, error) {
	id, err := n.lookUp(field, name)
	return plan.SubnetPool{ID: id}, err
}

func TestResolve(t *testing.T) {
	pooled := func(name string) cloudteamv1.SubnetSpec { return cloudteamv1.SubnetSpec{SubnetPool: name} }
	for sentence, tc := range map[string]struct {
		spec cloudteamv1.NetworkSpec
		// policy is the QoS policy that is left in the declaration, empty where none is, and pools are its subnets', by
		// id, or "?" for one that is not known.
		policy string
		pools  []string
		// router is the id of the existing router, or "?".
		router string
		// says are the lines of the error.
		says []string
	}{
		"what is known has its id": {
			cloudteamv1.NetworkSpec{
				SubnetSpec: pooled("a"), QoSPolicy: "gold", Router: &cloudteamv1.RouterSpec{Existing: "r"},
				AdditionalSubnets: []cloudteamv1.SubnetSpec{{CIDR: "10.0.0.0/24"}, pooled("b")},
			},
			"gold-id", []string{"a-id", "", "b-id"}, "r-id", nil,
		},
		"a policy that is not known is not declared": {
			cloudteamv1.NetworkSpec{SubnetSpec: pooled("a"), QoSPolicy: "none-such"}, "", []string{"a-id"}, "",
			[]string{"find: spec.qosPolicy: none-such"},
		},
		"a pool that is not known leaves others known": {
			cloudteamv1.NetworkSpec{
				SubnetSpec: pooled("no-a"), QoSPolicy: "gold", Router: &cloudteamv1.RouterSpec{Existing: "r"},
				AdditionalSubnets: []cloudteamv1.SubnetSpec{pooled("b")},
			},
			"gold-id", []string{"?", "b-id"}, "r-id", []string{"find: spec.subnetPool: no-a"},
		},
		"everything that is not known is told, with its field": {
			cloudteamv1.NetworkSpec{
				SubnetSpec: pooled("no-a"), QoSPolicy: "no-policy", Router: &cloudteamv1.RouterSpec{Existing: "no-router"},
				AdditionalSubnets: []cloudteamv1.SubnetSpec{pooled("b"), pooled("no-c")},
			},
			"", []string{"?", "b-id", "?"}, "?", []string{
				"find: spec.qosPolicy: no-policy", "find: spec.subnetPool: no-a",
				"find: spec.additionalSubnets[1].subnetPool: no-c", "find: spec.router.existing: no-router",
			},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			spec, err := declare.Network(networkOf(tc.spec), specOwner)
			expect.NoError(t, err)
			before := slices.Clone(spec.Subnets)
			declared, err := declaration{Spec: spec}.Resolve(t.Context(), names{})
			var says []string
			if err != nil {
				says = strings.Split(err.Error(), "\n")
			}
			expect.Equal(t, tc.says, says, "it says")
			d := declared.(declaration)
			policy, router := "", ""
			if d.QoSPolicy != nil {
				policy = *d.QoSPolicy
			}
			if d.Router != nil && d.Router.Unresolved {
				router = "?"
			} else if d.Router != nil {
				router = d.Router.Existing
			}
			if policy != tc.policy || router != tc.router {
				t.Errorf("the policy is %q and the router %q, want %q and %q", policy, router, tc.policy, tc.router)
			}
			var pools []string
			for i, s := range d.Subnets {
				switch {
				case s.From == nil:
					pools = append(pools, "")
				case s.From.Unresolved:
					pools = append(pools, "?"+s.From.Pool.ID)
				default:
					pools = append(pools, s.From.Pool.ID)
				}
				if from := before[i].From; from != nil && (from.Unresolved || from.Pool.ID != "") {
					t.Errorf("what was declared is written to: %+v", from)
				}
			}
			expect.Equal(t, tc.pools, pools, "pools")
		})
	}
}

// partsWithNames have a spec call something by the name r1.
var partsWithNames = map[string]func(*cloudteamv1.NetworkSpec){
	"the router, by its name": func(s *cloudteamv1.NetworkSpec) { s.Router = &cloudteamv1.RouterSpec{Existing: "r1"} },
	"the router, by the name of what it shall lead to": func(s *cloudteamv1.NetworkSpec) {
		s.Router = &cloudteamv1.RouterSpec{ExternalNetwork: "r1"}
	},
	"the QoS policy": func(s *cloudteamv1.NetworkSpec) { s.QoSPolicy = "r1" },
	"the pool of a subnet": func(s *cloudteamv1.NetworkSpec) {
		s.AdditionalSubnets = []cloudteamv1.SubnetSpec{{SubnetPool: "r1"}}
	},
}

func TestANetworkIsKeptWhileAPartOfItIsNotKnown(t *testing.T) {
	for sentence, part := range partsWithNames {
		t.Run(sentence, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				edit := func(description string) {
					t.Helper()
					w.Edit(func(obj *cloudteamv1.Network) {
						part(&obj.Spec)
						obj.Spec.Description = description
					})
					controllertest.Settle(time.Second)
					ready := w.Ready()
					if ready.Status != metav1.ConditionFalse || ready.Reason != cloudteamv1.ReasonRejected ||
						!strings.Contains(ready.Message, "r1") {
						t.Errorf("condition Ready is %+v, want False for what is not known", ready)
					}
					if is := w.Neutron.Has()[0].Description; !strings.HasPrefix(is, description) {
						t.Errorf("the network's description is %q, want %q", is, description)
					}
				}
				edit("one")
				edit("two")
				if status := w.Get().Status; status.NetworkID == "" {
					t.Errorf("the status does not show the network: %+v", status)
				}
				// It is looked for as long as it takes, and nothing is written meanwhile.
				w.Calls.Take()
				lookups := 0
				w.Neutron.Reads = func(line string) error {
					if strings.HasPrefix(line, "names of ") {
						lookups++
					}
					return nil
				}
				controllertest.Settle(time.Hour)
				for _, asked := range w.Calls.Take() {
					if !strings.HasPrefix(asked, "find ") {
						t.Errorf("while it is looked for: %s", asked)
					}
				}
				if lookups < 2 {
					t.Errorf("it is looked for %d times", lookups)
				}
			})
		})
	}
}

func TestWhatCannotBeAskedForIsNotTakenForUnknown(t *testing.T) {
	for sentence, part := range partsWithNames {
		t.Run(sentence, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.Neutron.Reads = func(line string) error {
					if strings.HasPrefix(line, "names of ") {
						return &client.Error{Kind: client.Transient, Op: "find it", Reason: "no answer in time"}
					}
					return nil
				}
				before := w.Neutron.Has()[0].Description
				w.Edit(func(obj *cloudteamv1.Network) {
					part(&obj.Spec)
					obj.Spec.Description = "one"
				})
				controllertest.Settle(time.Second)
				expect.Equal(t, cloudteamv1.ReasonCloudUnavailable, w.Ready().Reason, "the reason of condition Ready")
				expect.Equal(t, before, w.Neutron.Has()[0].Description, "the network's description")
			})
		})
	}
}

func TestASubnetWhosePoolIsNoLongerKnownIsKept(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		edit := func(change func(*cloudteamv1.NetworkSpec)) cloudteamv1.NetworkStatus {
			t.Helper()
			w.Edit(func(obj *cloudteamv1.Network) { change(&obj.Spec) })
			controllertest.Settle(time.Second)
			return w.Get().Status
		}
		w.Neutron.PutPool("p1", netip.MustParsePrefix("2001:db8::/32"), 64)
		was := edit(func(s *cloudteamv1.NetworkSpec) {
			s.AdditionalSubnets = []cloudteamv1.SubnetSpec{{SubnetPool: "p1"}, {CIDR: "10.0.0.0/24"}}
		})
		if ready := w.Ready(); ready.Status != metav1.ConditionTrue || len(was.Subnets) != 3 {
			t.Fatalf("condition Ready is %+v, status.subnets %+v", ready, was.Subnets)
		}

		w.Neutron.Missed = map[string]bool{"p1": true}
		controllertest.Settle(time.Minute) // what a name means is known so long
		is := edit(func(s *cloudteamv1.NetworkSpec) {
			s.AdditionalSubnets = []cloudteamv1.SubnetSpec{{SubnetPool: "p1", DNSServers: []string{"2620:fe::9"}}}
		})
		if ready := w.Ready(); ready.Reason != cloudteamv1.ReasonRejected ||
			!strings.Contains(ready.Message, "p1") {
			t.Errorf("condition Ready is %+v, want False for what is not known", ready)
		}
		expect.Equal(t, was.Subnets[:2], is.Subnets, "status.subnets")
		subnets := w.Neutron.Has()[0].Subnets
		if len(subnets) != 2 || len(subnets[1].DNSServers) != 1 {
			t.Errorf("Neutron has the subnets %+v", subnets)
		}

		// Of another length it would have to be made anew, which is not done before it is known of which pool.
		longer := func(s *cloudteamv1.NetworkSpec) { s.AdditionalSubnets[0].PrefixLength = new(int32(72)) }
		is = edit(longer)
		expect.Equal(t, was.Subnets[:2], is.Subnets, "status.subnets")
		w.Neutron.Missed = nil
		controllertest.Settle(time.Minute)
		is = edit(func(s *cloudteamv1.NetworkSpec) { s.Description = "known again" })
		if ready := w.Ready(); ready.Status != metav1.ConditionTrue || !strings.HasSuffix(is.Subnets[1].CIDR, "/72") {
			t.Errorf("condition Ready is %+v, status.subnets %+v", ready, is.Subnets)
		}
	})
}
