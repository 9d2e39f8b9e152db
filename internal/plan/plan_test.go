package plan_test

import (
	"errors"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	. "cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/internal/plan/plantest"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// asDeclared is what declaredSpec gives in Neutron.
func asDeclared() ObservedNetwork {
	spec := declaredSpec()
	return ObservedNetwork{
		ID: "net-1", Revision: 7, Created: plantest.Epoch, Attributes: spec.Attributes(),
		Subnets: []ObservedSubnet{{
			ID: "sub-1", Revision: 3, Name: spec.Name, Description: testOwner.Marker(), Subnet: spec.Subnets[0],
		}},
	}
}

func observedWith(change func(*ObservedNetwork)) Observed {
	o := plantest.Clone(Observed{Networks: []ObservedNetwork{asDeclared()}})
	change(&o.Networks[0])
	return o
}

// A kind that something here forgets would stay in Neutron when its object is gone.
func TestEachKindIsPlanned(t *testing.T) {
	each := plantest.OneOfEach(testOwner)
	kinds := reflect.TypeFor[Observed]()
	deletes, err := Delete(testOwner, each)
	expect.NoError(t, err)
	releases := Release(testOwner, each)
	for at := range kinds.NumField() {
		id, name := strconv.Itoa(at), kinds.Field(at).Name
		if !hasID(each.Named(), id) {
			t.Errorf("all (plan.go) lacks the kind of Observed.%s: write there for it what the other kinds have", name)
			continue
		}
		if !hasID(each.InOrder().Named(), id) { // what follows goes through it
			t.Errorf("inOrder (plan.go) lacks the kind of Observed.%s: write there for it what the other kinds have", name)
			continue
		}
		is := func(s Step) bool { return s.ID == id }
		for what, has := range map[string]bool{
			"Delete (plan.go)": slices.ContainsFunc(deletes, is),
			"the table of its actions, or the list of these tables (change.go),": !slices.ContainsFunc(deletes,
				func(s Step) bool { return is(s) && (!s.Action.Deletes() || s.Action.Of() == "") }),
			"release of its type": slices.ContainsFunc(releases, is),
		} {
			if !has {
				t.Errorf("%s lacks the kind of Observed.%s: write there for it what the other kinds have", what, name)
			}
		}
	}
}

func hasID(all []Named, id string) bool {
	return slices.ContainsFunc(all, func(n Named) bool { return n.ID == id })
}

// foreignSubnet is a subnet that somebody else made in our network.
func foreignSubnet(cidr string) ObservedSubnet {
	return ObservedSubnet{ID: "sub-foreign", Description: "theirs", Subnet: Subnet{CIDR: prefix(cidr)}}
}

// duplicate is a second network of ours.
func duplicate(id string, created time.Time) ObservedNetwork {
	n := plantest.Clone(Observed{Networks: []ObservedNetwork{asDeclared()}}).Networks[0]
	n.ID, n.Revision, n.Created, n.Subnets = id, 1, created, nil
	return n
}

// The lines are what a person reads of a plan, so the wording is held as well.
func TestPlan(t *testing.T) {
	const differs = " (it differs from the spec)"
	const network, subnet = "update network net-1: ", "update subnet sub-1 (10.0.0.0/24): "
	for want, drift := range map[string]func(*ObservedNetwork){
		network + `name "x" → "net"`:                          func(n *ObservedNetwork) { n.Name = "x" },
		network + `name "a\nb\x1b[31m" → "net"`:               func(n *ObservedNetwork) { n.Name = "a\nb\x1b[31m" },
		network + `description "x" → "db"`:                    func(n *ObservedNetwork) { n.Description = testOwner.Describe("x") },
		network + "adminState down → up":                      func(n *ObservedNetwork) { n.AdminStateUp = false },
		network + "mtu 1500 → 1400":                           func(n *ObservedNetwork) { n.MTU = 1500 },
		network + `name "x" → "net", mtu 1500 → 1400`:         func(n *ObservedNetwork) { n.Name, n.MTU = "x", 1500 },
		network + "portSecurity false → true":                 func(n *ObservedNetwork) { n.PortSecurity = new(false) },
		network + "portSecurity unsupported → true":           func(n *ObservedNetwork) { n.PortSecurity = nil },
		subnet + `name "" → "net"`:                            func(n *ObservedNetwork) { n.Subnets[0].Name = "" },
		subnet + `description "x" → ""`:                       func(n *ObservedNetwork) { n.Subnets[0].Description = testOwner.Describe("x") },
		subnet + "gateway 10.0.0.255 → 10.0.0.1":              func(n *ObservedNetwork) { n.Subnets[0].Gateway = addr("10.0.0.255") },
		subnet + "gateway none → 10.0.0.1":                    func(n *ObservedNetwork) { n.Subnets[0].Gateway = netip.Addr{} },
		subnet + "allocationPools none → 10.0.0.2-10.0.0.254": func(n *ObservedNetwork) { n.Subnets[0].Pools = nil },
		subnet + "dhcp false → true":                          func(n *ObservedNetwork) { n.Subnets[0].DHCP = false },
		subnet + "dnsServers 1.1.1.1, 9.9.9.9 → 9.9.9.9, 1.1.1.1": func(n *ObservedNetwork) {
			slices.Reverse(n.Subnets[0].DNSServers)
		},
		subnet + "hostRoutes 10.9.0.0/16 via 10.0.0.8 → 10.9.0.0/16 via 10.0.0.9": func(n *ObservedNetwork) {
			n.Subnets[0].HostRoutes = []Route{route("10.9.0.0/16", "10.0.0.8")}
		},
	} {
		t.Run(want, func(t *testing.T) { wantSteps(t, declaredSpec(), observedWith(drift), []string{want + differs}) })
	}
	for want, declare := range map[string]func(*Spec){
		network + `description "db" → ""`:     func(s *Spec) { s.Description = "" },
		network + "portSecurity true → false": func(s *Spec) { s.PortSecurity = new(false) },
		subnet + "gateway 10.0.0.1 → none":    func(s *Spec) { s.Subnets[0].Gateway = netip.Addr{} },
		subnet + "gateway 10.0.0.1 → 10.0.0.254, allocationPools 10.0.0.2-10.0.0.254 → 10.0.0.1-10.0.0.253": func(s *Spec) {
			s.Subnets[0].Gateway, s.Subnets[0].Pools = addr("10.0.0.254"), ranges("10.0.0.1-10.0.0.253")
		},
	} {
		t.Run(want, func(t *testing.T) {
			wantSteps(t, specWith(declare), Observed{Networks: []ObservedNetwork{asDeclared()}}, []string{want + differs})
		})
	}
	later := plantest.Epoch.Add(time.Second)
	for sentence, tc := range map[string]struct {
		spec     Spec
		observed Observed
		want     []string
	}{
		"where nothing exists, the network comes before its subnets": {
			declaredSpec(), Observed{}, []string{
				`create network "net" (no network bears the owner's marker)`,
				"create subnet 10.0.0.0/24 (it is declared but missing)",
			},
		},
		"another spelling of the same settings is no difference": {
			declaredSpec(), observedWith(func(n *ObservedNetwork) {
				n.Subnets[0].Pools = ranges("10.0.0.100-10.0.0.254", "10.0.0.2-10.0.0.99")
			}), nil,
		},
		"a subnet of other IPv6 modes is replaced, as these cannot change": {
			specWith(func(s *Spec) {
				s.Subnets = []Subnet{{CIDR: prefix("fd00::/64"), DHCP: true, IPv6AddressMode: SLAAC, IPv6RAMode: SLAAC}}
			}), observedWith(func(n *ObservedNetwork) {
				n.Subnets[0].Subnet = Subnet{CIDR: prefix("fd00::/64"), DHCP: true, IPv6RAMode: SLAAC}
			}), []string{
				"delete subnet sub-1 (fd00::/64) (an immutable field differs)",
				"create subnet fd00::/64 (an immutable field differs)",
			},
		},
		"a subnet of ours that is not declared goes before one comes in its place": {
			specWith(func(s *Spec) { s.Subnets = []Subnet{{CIDR: prefix("10.0.0.0/16")}} }),
			observedWith(func(*ObservedNetwork) {}),
			[]string{
				"delete subnet sub-1 (10.0.0.0/24) (it is no longer declared)",
				"create subnet 10.0.0.0/16 (it is declared but missing)",
			},
		},
		"of two networks of one age the lower id stays": {
			declaredSpec(),
			Observed{Networks: []ObservedNetwork{duplicate("net-2", plantest.Epoch.In(time.FixedZone("east", 3600))), asDeclared()}},
			[]string{"delete network net-2 (it is a duplicate of the older network net-1)"},
		},
		"of three networks one stays, and is put right before the duplicates go": {
			declaredSpec(),
			Observed{Networks: []ObservedNetwork{
				duplicate("net-0", later), duplicate("net-2", later),
				observedWith(func(n *ObservedNetwork) { n.MTU = 1500 }).Networks[0],
			}},
			[]string{
				network + "mtu 1500 → 1400" + differs,
				"delete network net-0 (it is a duplicate of the older network net-1)",
				"delete network net-2 (it is a duplicate of the older network net-1)",
			},
		},
	} {
		t.Run(sentence, func(t *testing.T) { wantSteps(t, tc.spec, tc.observed, tc.want) })
	}
}

func TestPlanCarriesWhatARequestNeeds(t *testing.T) {
	spec := specWith(func(s *Spec) {
		s.Name = "new"
		s.Subnets = append(s.Subnets, Subnet{CIDR: prefix("fd00::/64"), Pools: ranges("fd00::8-fd00::9", "fd00::2-fd00::7")})
	})
	got, err := Network(spec, Observed{Networks: []ObservedNetwork{asDeclared()}})
	expect.NoError(t, err)
	marker := testOwner.Marker()
	want := Change{{
		Action: UpdateNetwork, Ref: Ref{ID: "net-1"}, Revision: 7, Attributes: spec.Attributes(), Reason: ReasonDiffers,
		Differences: []Difference{{"network", FieldName, `"new"`, `"net"`}},
	}, {
		Action: UpdateSubnet, Ref: Ref{ID: "sub-1"}, Revision: 3, NetworkRef: Ref{ID: "net-1"},
		SubnetName: "new", SubnetDescription: marker, Subnet: spec.Subnets[0], Reason: ReasonDiffers,
		Differences: []Difference{{"subnet 10.0.0.0/24", FieldName, `"new"`, `"net"`}},
	}, {
		Action: CreateSubnet, NetworkRef: Ref{ID: "net-1"}, SubnetName: "new", SubnetDescription: marker,
		Subnet:      Subnet{CIDR: prefix("fd00::/64"), Pools: ranges("fd00::2-fd00::9")},
		Reason:      "it is declared but missing",
		Differences: []Difference{{"subnet fd00::/64", FieldExists, "fd00::/64", None}},
	}}
	wantEqual(t, want, got, "the change")
	if !got[0].Changes(FieldName) || got[0].Changes(FieldMTU) {
		t.Error("Changes does not tell the name from the MTU")
	}
}

func TestPlanRefuses(t *testing.T) {
	younger := duplicate("net-2", plantest.Epoch.Add(time.Hour))
	younger.Subnets = []ObservedSubnet{foreignSubnet("10.7.0.0/24")}
	for sentence, tc := range map[string]struct {
		spec     Spec
		observed Observed
		blocked  bool
		text     string
	}{
		"a foreign subnet that overlaps one that is declared": {
			specWith(func(s *Spec) { s.Subnets = append(s.Subnets, Subnet{CIDR: prefix("10.5.0.0/24")}) }),
			observedWith(func(n *ObservedNetwork) { n.Subnets = append(n.Subnets, foreignSubnet("10.5.0.128/25")) }),
			true, "sub-foreign (10.5.0.128/25)",
		},
		"a subnet of ours that lost its marker": {
			declaredSpec(), observedWith(func(n *ObservedNetwork) { n.Subnets[0].Description = "" }), true, "sub-1",
		},
		"a foreign subnet in a duplicate, which would be deleted with it": {
			declaredSpec(), Observed{Networks: []ObservedNetwork{asDeclared(), younger}}, true, "sub-foreign",
		},
		"a network without a marker": {
			declaredSpec(), observedWith(func(n *ObservedNetwork) { n.Description = "db" }), false, "net-1 does not bear the marker",
		},
		"a spec that is not valid": {
			specWith(func(s *Spec) { s.Description = "[owner=" }), Observed{}, false, "description",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			change, err := Network(tc.spec, tc.observed)
			var blocked *BlockedError
			if err == nil || len(change) > 0 || errors.As(err, &blocked) != tc.blocked ||
				!strings.Contains(err.Error(), tc.text) {
				t.Errorf("got %d steps and the error %v (%T), want none and one that says %q", len(change), err, err, tc.text)
			}
		})
	}
}

func TestPlanDelete(t *testing.T) {
	const deleted = " (the object is being deleted)"
	for sentence, tc := range map[string]struct {
		observed Observed
		want     []string
		blocked  bool
		err      string
	}{
		"duplicates go too": {
			observed: Observed{Networks: []ObservedNetwork{duplicate("net-9", plantest.Epoch.Add(time.Hour)), asDeclared()}},
			want:     []string{"delete network net-1" + deleted, "delete network net-9" + deleted},
		},
		"a network without the marker is an error": {
			observed: observedWith(func(n *ObservedNetwork) { n.Description = "db" }), err: "net-1 does not bear the marker",
		},
		"duplicates and ports on other networks go too, the older first": {
			observed: Observed{Ports: []ObservedPort{
				portWith(func(p *ObservedPort) { p.ID, p.Created, p.NetworkID = "port-0", plantest.Epoch.Add(1), "net-2" }),
				portAsDeclared(),
			}},
			want: []string{"delete port port-1" + deleted, "delete port port-0" + deleted},
		},
		"ports go before the network that Neutron keeps for their sake": {
			observed: Observed{Networks: []ObservedNetwork{asDeclared()}, Ports: []ObservedPort{portAsDeclared()}},
			want:     []string{"delete port port-1" + deleted, "delete network net-1" + deleted},
		},
		"a network that may not go keeps the ports": {
			observed: Observed{
				Networks: observedWith(func(n *ObservedNetwork) {
					n.Subnets = append(n.Subnets, foreignSubnet("10.7.0.0/24"))
				}).Networks,
				Ports: []ObservedPort{portAsDeclared()},
			},
			blocked: true, err: "sub-foreign",
		},
		"a port without the marker is an error": {
			observed: observedPort(func(p *ObservedPort) { p.Description = "" }), err: "port-1 does not bear the marker",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			change, err := Delete(testOwner, tc.observed)
			var blocked *BlockedError
			if (err != nil) != (tc.err != "") || err != nil && !strings.Contains(err.Error(), tc.err) ||
				errors.As(err, &blocked) != tc.blocked {
				t.Fatalf("got the error %v (%T), want one that says %q", err, err, tc.err)
			}
			expect.Equal(t, strings.Join(tc.want, "\n"), change.String(), "the plan")
		})
	}
}

func TestPlanRelease(t *testing.T) {
	const released = " (the object is being deleted with deletionPolicy Retain)"
	own, others := testOwner.Marker(), otherOwner.Marker()
	for sentence, tc := range map[string]struct {
		observed Observed
		want     []string
		// left are the descriptions that the steps leave.
		left []string
	}{
		"a network comes after its ports and its subnets, and its text stays": {
			Observed{Networks: []ObservedNetwork{asDeclared()}, Ports: []ObservedPort{portAsDeclared()}}, []string{
				`update port port-1: description "` + own + `" → ""` + released,
				`update subnet sub-1 (10.0.0.0/24): description "` + own + `" → ""` + released,
				`update network net-1: description "db ` + own + `" → "db"` + released,
			}, []string{"", "", "db"},
		},
		"a text that ends with the same marker does not keep it ours": {
			observedWith(func(n *ObservedNetwork) {
				n.Description, n.Subnets = testOwner.Describe(testOwner.Describe(own)), nil
			}),
			[]string{`update network net-1: description "` + strings.Repeat(own+" ", 2) + own + `" → ""` + released}, []string{""},
		},
		"a port's text that ends with another object's marker does not make it that object's": {
			observedPort(func(p *ObservedPort) { p.Description = testOwner.Describe("x " + others) }),
			[]string{`update port port-1: description "x ` + others + " " + own + `" → "x"` + released}, []string{"x"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			change := Release(testOwner, tc.observed)
			expect.Equal(t, strings.Join(tc.want, "\n"), change.String(), "the plan")
			var left []string
			for _, step := range change {
				left = append(left, step.SubnetDescription+step.Attributes.Description+step.Port.Description)
			}
			expect.Equal(t, tc.left, left, "the descriptions that are left")
		})
	}
}

func TestDifferencesReadAsSentences(t *testing.T) {
	for want, d := range map[string]Difference{
		"network does not exist":                             {NetworkResource, FieldExists, "net", None},
		"port does not exist":                                {PortResource, FieldExists, "port", None},
		"port port-1 is not declared":                        {PortResource, FieldExists, None, "port-1"},
		"port addresses is none, declared 10.0.0.5":          {PortResource, FieldAddresses, "10.0.0.5", None},
		"network net-1 is not declared":                      {NetworkResource, FieldExists, None, "net-1"},
		"subnet 10.0.0.0/24 does not exist":                  {"subnet 10.0.0.0/24", FieldExists, "10.0.0.0/24", None},
		"network mtu is 1500, declared 1400":                 {NetworkResource, FieldMTU, "1400", "1500"},
		"subnet fd00::/64 gateway is none, declared fd00::1": {"subnet fd00::/64", FieldGateway, "fd00::1", None},
	} {
		expect.Equal(t, want, d.String(), "the difference as text")
	}
}

// BenchmarkPlan is what it costs to find that all is as declared, and what is to be done where nothing exists.
func BenchmarkPlan(b *testing.B) {
	for name, observed := range map[string]Observed{
		"at rest": observedWith(func(*ObservedNetwork) {}),
		"nothing": {},
	} {
		b.Run(name, func(b *testing.B) {
			spec := declaredSpec()
			b.ReportAllocs()
			for b.Loop() {
				change, err := Network(spec, observed)
				if err != nil || change.Empty() != (name == "at rest") {
					b.Fatal(change, err)
				}
			}
		})
	}
}
