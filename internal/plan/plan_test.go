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
			t.Errorf("all (plan.go) lacks the kind of Observed.%s", name)
			continue
		}
		is := func(s Step) bool { return s.ID == id }
		for what, has := range map[string]bool{
			"inOrder (plan.go)": hasID(each.InOrder().Named(), id),
			"Delete (plan.go)":  slices.ContainsFunc(deletes, is),
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
		"where all is as declared, there is nothing to do": {declaredSpec(), observedWith(func(*ObservedNetwork) {}), nil},
		"another spelling of the same settings is no difference": {
			declaredSpec(), observedWith(func(n *ObservedNetwork) {
				n.Subnets[0].Pools = ranges("10.0.0.100-10.0.0.254", "10.0.0.2-10.0.0.99")
			}), nil,
		},
		"what the spec leaves to the cloud is no difference": {
			specWith(func(s *Spec) { s.MTU, s.PortSecurity = 0, nil }),
			observedWith(func(n *ObservedNetwork) { n.MTU, n.PortSecurity = 1234, new(false) }), nil,
		},
		"usage and revisions are no difference": {
			declaredSpec(), observedWith(func(n *ObservedNetwork) {
				n.Revision, n.Subnets[0].Revision = 99, 99
				n.Subnets[0].Used = new(int64(5))
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
		"a foreign subnet that is not in the way is let be": {
			declaredSpec(), observedWith(func(n *ObservedNetwork) {
				n.Subnets = append(n.Subnets, foreignSubnet("10.0.1.0/24"))
			}), nil,
		},

		"another name is put back": {
			declaredSpec(), observedWith(func(n *ObservedNetwork) { n.Name = "x" }),
			[]string{network + `name "x" → "net"` + differs},
		},
		"another description is put back": {
			declaredSpec(), observedWith(func(n *ObservedNetwork) { n.Description = testOwner.Describe("x") }),
			[]string{network + `description "x" → "db"` + differs},
		},
		"a description that should be empty is emptied": {
			specWith(func(s *Spec) { s.Description = "" }), observedWith(func(*ObservedNetwork) {}),
			[]string{network + `description "db" → ""` + differs},
		},
		"a network that was switched off is switched on": {
			declaredSpec(), observedWith(func(n *ObservedNetwork) { n.AdminStateUp = false }),
			[]string{network + "adminState down → up" + differs},
		},
		"another MTU is put back": {
			declaredSpec(), observedWith(func(n *ObservedNetwork) { n.MTU = 1500 }),
			[]string{network + "mtu 1500 → 1400" + differs},
		},
		"port security that was switched off is switched on": {
			declaredSpec(), observedWith(func(n *ObservedNetwork) { n.PortSecurity = new(false) }),
			[]string{network + "portSecurity false → true" + differs},
		},
		"port security that should be off is switched off": {
			specWith(func(s *Spec) { s.PortSecurity = new(false) }), observedWith(func(*ObservedNetwork) {}),
			[]string{network + "portSecurity true → false" + differs},
		},
		"port security that the cloud does not have is said to be unsupported": {
			declaredSpec(), observedWith(func(n *ObservedNetwork) { n.PortSecurity = nil }),
			[]string{network + "portSecurity unsupported → true" + differs},
		},
		"a subnet's other name is put back": {
			declaredSpec(), observedWith(func(n *ObservedNetwork) { n.Subnets[0].Name = "" }),
			[]string{subnet + `name "" → "net"` + differs},
		},
		"a text in front of a subnet's marker goes": {
			declaredSpec(), observedWith(func(n *ObservedNetwork) { n.Subnets[0].Description = testOwner.Describe("x") }),
			[]string{subnet + `description "x" → ""` + differs},
		},
		"another gateway is put back": {
			declaredSpec(), observedWith(func(n *ObservedNetwork) { n.Subnets[0].Gateway = addr("10.0.0.255") }),
			[]string{subnet + "gateway 10.0.0.255 → 10.0.0.1" + differs},
		},
		"a gateway that was taken off is put back": {
			declaredSpec(), observedWith(func(n *ObservedNetwork) { n.Subnets[0].Gateway = netip.Addr{} }),
			[]string{subnet + "gateway none → 10.0.0.1" + differs},
		},
		"a gateway that should not be is taken off": {
			specWith(func(s *Spec) { s.Subnets[0].Gateway = netip.Addr{} }), observedWith(func(*ObservedNetwork) {}),
			[]string{subnet + "gateway 10.0.0.1 → none" + differs},
		},
		"a gateway moves together with the pools around it": {
			specWith(func(s *Spec) {
				s.Subnets[0].Gateway, s.Subnets[0].Pools = addr("10.0.0.254"), ranges("10.0.0.1-10.0.0.253")
			}), observedWith(func(*ObservedNetwork) {}),
			[]string{subnet + "gateway 10.0.0.1 → 10.0.0.254, " +
				"allocationPools 10.0.0.2-10.0.0.254 → 10.0.0.1-10.0.0.253" + differs},
		},
		"other pools are put back": {
			declaredSpec(), observedWith(func(n *ObservedNetwork) { n.Subnets[0].Pools = nil }),
			[]string{subnet + "allocationPools none → 10.0.0.2-10.0.0.254" + differs},
		},
		"DHCP that was switched off is switched on": {
			declaredSpec(), observedWith(func(n *ObservedNetwork) { n.Subnets[0].DHCP = false }),
			[]string{subnet + "dhcp false → true" + differs},
		},
		"another order of name servers is a difference": {
			declaredSpec(), observedWith(func(n *ObservedNetwork) {
				n.Subnets[0].DNSServers = []netip.Addr{addr("1.1.1.1"), addr("9.9.9.9")}
			}),
			[]string{subnet + "dnsServers 1.1.1.1, 9.9.9.9 → 9.9.9.9, 1.1.1.1" + differs},
		},
		"another route is put back": {
			declaredSpec(), observedWith(func(n *ObservedNetwork) {
				n.Subnets[0].HostRoutes = []Route{route("10.9.0.0/16", "10.0.0.8")}
			}),
			[]string{subnet + "hostRoutes 10.9.0.0/16 via 10.0.0.8 → 10.9.0.0/16 via 10.0.0.9" + differs},
		},
		"several differences of one resource are one step": {
			declaredSpec(), observedWith(func(n *ObservedNetwork) { n.Name, n.MTU = "x", 1500 }),
			[]string{network + `name "x" → "net", mtu 1500 → 1400` + differs},
		},
		"texts that would garble a terminal are quoted": {
			declaredSpec(), observedWith(func(n *ObservedNetwork) { n.Name = "a\nb\x1b[31m" }),
			[]string{network + `name "a\nb\x1b[31m" → "net"` + differs},
		},

		"a subnet that is missing is created in the network there is": {
			declaredSpec(), observedWith(func(n *ObservedNetwork) { n.Subnets = nil }),
			[]string{"create subnet 10.0.0.0/24 (it is declared but missing)"},
		},
		"a subnet of ours that is not declared goes before one comes in its place": {
			specWith(func(s *Spec) { s.Subnets = []Subnet{{CIDR: prefix("10.0.0.0/16")}} }),
			observedWith(func(*ObservedNetwork) {}),
			[]string{
				"delete subnet sub-1 (10.0.0.0/24) (it is no longer declared)",
				"create subnet 10.0.0.0/16 (it is declared but missing)",
			},
		},
		"a subnet of ours of another length is another subnet": {
			specWith(func(s *Spec) { s.Subnets = nil }), observedWith(func(*ObservedNetwork) {}),
			[]string{"delete subnet sub-1 (10.0.0.0/24) (it is no longer declared)"},
		},

		"of two networks the older stays": {
			declaredSpec(),
			Observed{Networks: []ObservedNetwork{duplicate("net-0", later), asDeclared()}},
			[]string{"delete network net-0 (it is a duplicate of the older network net-1)"},
		},
		"of two networks of one age the lower id stays": {
			declaredSpec(),
			Observed{Networks: []ObservedNetwork{duplicate("net-2", plantest.Epoch.In(time.FixedZone("east", 3600))), asDeclared()}},
			[]string{"delete network net-2 (it is a duplicate of the older network net-1)"},
		},
		"of three networks one stays, and is put right before the duplicates go": {
			declaredSpec(),
			Observed{Networks: []ObservedNetwork{
				duplicate("net-3", later), duplicate("net-2", later),
				observedWith(func(n *ObservedNetwork) { n.MTU = 1500 }).Networks[0],
			}},
			[]string{
				network + "mtu 1500 → 1400" + differs,
				"delete network net-2 (it is a duplicate of the older network net-1)",
				"delete network net-3 (it is a duplicate of the older network net-1)",
			},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			change, err := Network(tc.spec, tc.observed)
			wantChange(t, change, err, tc.want)
		})
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
	addForeign := func(cidr string) Observed {
		return observedWith(func(n *ObservedNetwork) {
			n.Subnets = append(n.Subnets, foreignSubnet(cidr))
		})
	}
	withSubnet := func(cidr string) Spec {
		return specWith(func(s *Spec) { s.Subnets = append(s.Subnets, Subnet{CIDR: prefix(cidr)}) })
	}
	younger := duplicate("net-2", plantest.Epoch.Add(time.Hour))
	younger.Subnets = []ObservedSubnet{foreignSubnet("10.7.0.0/24")}
	for sentence, tc := range map[string]struct {
		spec     Spec
		observed Observed
		blocked  bool
		text     string
	}{
		"a foreign subnet where ours is declared": {
			withSubnet("10.5.0.0/24"), addForeign("10.5.0.0/24"), true, "sub-foreign (10.5.0.0/24)",
		},
		"a foreign subnet that overlaps one that is declared": {
			withSubnet("10.5.0.0/24"), addForeign("10.5.0.128/25"), true, "sub-foreign (10.5.0.128/25)",
		},
		"a subnet of ours that lost its marker": {
			declaredSpec(), observedWith(func(n *ObservedNetwork) { n.Subnets[0].Description = "" }), true, "sub-1",
		},
		"a subnet that bears another object's marker": {
			declaredSpec(), observedWith(func(n *ObservedNetwork) { n.Subnets[0].Description = otherOwner.Marker() }),
			true, "sub-1",
		},
		"a foreign subnet in a duplicate, which would be deleted with it": {
			declaredSpec(), Observed{Networks: []ObservedNetwork{asDeclared(), younger}}, true, "sub-foreign",
		},
		"a network without a marker": {
			declaredSpec(), observedWith(func(n *ObservedNetwork) { n.Description = "db" }), false, "net-1 does not bear the marker",
		},
		"a network with another object's marker": {
			declaredSpec(), observedWith(func(n *ObservedNetwork) { n.Description = otherOwner.Marker() }),
			false, "net-1 does not bear the marker",
		},
		"a network whose marker does not stand at the end": {
			declaredSpec(), observedWith(func(n *ObservedNetwork) { n.Description = testOwner.Marker() + "." }),
			false, "net-1 does not bear the marker",
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
		"nothing takes nothing": {observed: Observed{}},
		"a network takes its steps": {
			observed: Observed{Networks: []ObservedNetwork{asDeclared()}}, want: []string{"delete network net-1" + deleted},
		},
		"duplicates go too": {
			observed: Observed{Networks: []ObservedNetwork{duplicate("net-9", plantest.Epoch.Add(time.Hour)), asDeclared()}},
			want:     []string{"delete network net-1" + deleted, "delete network net-9" + deleted},
		},
		"a foreign subnet blocks it": {
			observed: observedWith(func(n *ObservedNetwork) { n.Subnets = append(n.Subnets, foreignSubnet("10.7.0.0/24")) }),
			blocked:  true, err: "sub-foreign",
		},
		"a foreign subnet in one of two networks blocks both": {
			observed: Observed{Networks: []ObservedNetwork{
				duplicate("net-0", plantest.Epoch),
				observedWith(func(n *ObservedNetwork) { n.Subnets[0].Description = "" }).Networks[0],
			}},
			blocked: true, err: "sub-1",
		},
		"a network without the marker is an error": {
			observed: observedWith(func(n *ObservedNetwork) { n.Description = "db" }), err: "net-1 does not bear the marker",
		},
		"a network of another object's is an error": {
			observed: observedWith(func(n *ObservedNetwork) { n.Description = otherOwner.Marker() }), err: "net-1 does not bear the marker",
		},
		"a port takes its step": {
			observed: observedPort(func(*ObservedPort) {}), want: []string{"delete port port-1" + deleted},
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
		"a port of another object's is an error": {
			observed: observedPort(func(p *ObservedPort) { p.Description = otherOwner.Marker() }), err: "port-1 does not bear the marker",
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
	for sentence, tc := range map[string]struct {
		observed Observed
		want     []string
		// left are the descriptions that the steps leave.
		left []string
	}{
		"nothing takes nothing": {},
		"the network comes last": {
			observed: Observed{Networks: []ObservedNetwork{asDeclared()}},
			want: []string{
				`update subnet sub-1 (10.0.0.0/24): description "` + testOwner.Marker() + `" → ""` + released,
				`update network net-1: description "db ` + testOwner.Marker() + `" → "db"` + released,
			},
			left: []string{"", "db"},
		},
		"what is not ours is let be": {
			observed: observedWith(func(n *ObservedNetwork) {
				n.Subnets[0].Description = otherOwner.Marker()
				n.Subnets = append(n.Subnets, foreignSubnet("10.7.0.0/24"))
			}),
			want: []string{`update network net-1: description "db ` + testOwner.Marker() + `" → "db"` + released},
			left: []string{"db"},
		},
		"a text that ends with another object's marker does not make it that object's": {
			observed: observedWith(func(n *ObservedNetwork) {
				n.Description, n.Subnets = testOwner.Describe("db "+otherOwner.Marker()), nil
			}),
			want: []string{`update network net-1: description "db ` + otherOwner.Marker() + " " + testOwner.Marker() +
				`" → "db"` + released},
			left: []string{"db"},
		},
		"a text that ends with the same marker does not keep it ours": {
			observed: observedWith(func(n *ObservedNetwork) {
				n.Description, n.Subnets = testOwner.Describe(testOwner.Describe(testOwner.Marker())), nil
			}),
			want: []string{`update network net-1: description "` + strings.Repeat(testOwner.Marker()+" ", 2) +
				testOwner.Marker() + `" → ""` + released},
			left: []string{""},
		},
		"a port loses its marker": {
			observed: observedPort(func(*ObservedPort) {}),
			want:     []string{`update port port-1: description "` + testOwner.Marker() + `" → ""` + released},
			left:     []string{""},
		},
		"a text in front of the marker stays": {
			observed: observedPort(func(p *ObservedPort) { p.Description = testOwner.Describe("x") }),
			want:     []string{`update port port-1: description "x ` + testOwner.Marker() + `" → "x"` + released},
			left:     []string{"x"},
		},
		"a port's text that ends with another object's marker does not make it that object's": {
			observed: observedPort(func(p *ObservedPort) { p.Description = testOwner.Describe(otherOwner.Marker()) }),
			want: []string{`update port port-1: description "` + otherOwner.Marker() + " " + testOwner.Marker() +
				`" → ""` + released},
			left: []string{""},
		},
		"a port that is not ours is let be": {
			observed: Observed{Ports: []ObservedPort{
				portAsDeclared(),
				portWith(func(p *ObservedPort) { p.ID, p.Description = "port-2", otherOwner.Marker() }),
				portWith(func(p *ObservedPort) { p.ID, p.Description = "port-3", "" }),
			}},
			want: []string{`update port port-1: description "` + testOwner.Marker() + `" → ""` + released},
			left: []string{""},
		},
		"a network comes after its ports": {
			observed: Observed{
				Networks: observedWith(func(n *ObservedNetwork) { n.Subnets = nil }).Networks,
				Ports:    []ObservedPort{portAsDeclared()},
			},
			want: []string{
				`update port port-1: description "` + testOwner.Marker() + `" → ""` + released,
				`update network net-1: description "db ` + testOwner.Marker() + `" → "db"` + released,
			},
			left: []string{"", "db"},
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
