package plan_test

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	. "cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/internal/plan/plantest"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// declaredPort is what the tables start from: an address that is named and one that is not.
func declaredPort() PortSpec {
	return PortSpec{
		Owner: testOwner, Name: "port", NetworkID: "net-1", MAC: "fa:16:3e:00:00:01",
		Addresses: []PortAddress{
			{SubnetID: "sub-4", Address: addr("10.0.0.5")},
			{SubnetID: "sub-6"},
		},
		SecurityGroups: []string{"sg-2", "sg-1"},
	}
}

func portSpecWith(change func(*PortSpec)) PortSpec {
	spec := declaredPort()
	change(&spec)
	return spec
}

// portAsDeclared is what declaredPort gives in Neutron, in an order of Neutron's.
func portAsDeclared() ObservedPort {
	return ObservedPort{
		ID: "port-1", Revision: 7, Created: plantest.Epoch, NetworkID: "net-1",
		PortAttributes: PortAttributes{
			Name: "port", Description: testOwner.Marker(), AdminStateUp: true, MAC: "fa:16:3e:00:00:01",
			Addresses: []PortAddress{
				{SubnetID: "sub-6", Address: addr("fd00::9")}, {SubnetID: "sub-4", Address: addr("10.0.0.5")},
			},
			SecurityGroups: []string{"sg-1", "sg-2"},
		},
	}
}

func portWith(change func(*ObservedPort)) ObservedPort {
	p := portAsDeclared()
	change(&p)
	return p
}

func observedPort(change func(*ObservedPort)) Observed {
	return Observed{Ports: []ObservedPort{portWith(change)}}
}

// anotherPort is a second port of ours.
func anotherPort(id string, created time.Time) ObservedPort {
	return portWith(func(p *ObservedPort) { p.ID, p.Created = id, created })
}

// The lines are what a person reads of a plan, so the wording is held as well.
func TestPlanPort(t *testing.T) {
	const (
		differs = " (it differs from the spec)"
		update  = "update port port-1: "
	)
	earlier, later := plantest.Epoch.Add(-time.Second), plantest.Epoch.Add(time.Second)
	for want, drift := range map[string]func(*ObservedPort){
		`name "a\nb" → "port"`:                      func(p *ObservedPort) { p.Name = "a\nb" },
		`description "x" → ""`:                      func(p *ObservedPort) { p.Description = testOwner.Describe("x") },
		`name "x" → "port", adminState down → up`:   func(p *ObservedPort) { p.Name, p.AdminStateUp = "x", false },
		"mac fa:16:3e:00:00:02 → fa:16:3e:00:00:01": func(p *ObservedPort) { p.MAC = "fa:16:3e:00:00:02" },
		"securityGroups sg-1, sg-3 → sg-1, sg-2":    func(p *ObservedPort) { p.SecurityGroups = []string{"sg-3", "sg-1"} },
		"securityGroups none → sg-1, sg-2":          func(p *ObservedPort) { p.SecurityGroups = nil },
	} {
		t.Run(want, func(t *testing.T) {
			change, err := Port(declaredPort(), observedPort(drift))
			wantChange(t, change, err, []string{update + want + differs})
		})
	}
	four, six := PortAddress{SubnetID: "sub-4"}, PortAddress{SubnetID: "sub-6"}
	at := func(of PortAddress, text string) PortAddress { return PortAddress{of.SubnetID, addr(text)} }
	type list = []PortAddress
	for sentence, tc := range map[string]struct {
		declared, has list
		// makes are the subnets in which the port makes its addresses itself.
		makes []string
		// want is the difference; empty for none.
		want string
	}{
		"what the port makes itself is no difference": {
			list{four}, list{at(four, "10.0.0.7"), at(six, "fd00::7")}, []string{"sub-6", "sub-7"}, "",
		},
		"and it is all that a port needs": {nil, list{at(six, "fd00::7")}, []string{"sub-6"}, ""},
		"beside it the port loses what is not declared, and keeps it unasked": {
			nil, list{at(four, "10.0.0.7"), at(six, "fd00::7")}, []string{"sub-6"}, "10.0.0.7 → none",
		},
		"another address is put back": {
			list{at(four, "10.0.0.5"), six}, list{at(four, "10.0.0.6"), at(six, "fd00::9")}, nil,
			"10.0.0.6, fd00::9 → 10.0.0.5, fd00::9",
		},
		"an address that is left to Neutron and was taken away is chosen anew": {
			list{at(four, "10.0.0.5"), six}, list{at(four, "10.0.0.5")}, nil, "10.0.0.5 → one of subnet sub-6, 10.0.0.5",
		},
		"two of one subnet that are left to Neutron are any two": {
			list{four, four}, list{at(four, "10.0.0.77"), at(four, "10.0.0.7")}, nil, "",
		},
		"one address is not two": {
			list{four, four}, list{at(four, "10.0.0.77")}, nil, "10.0.0.77 → one of subnet sub-4, 10.0.0.77",
		},
		"where one of two is wanted, the lower stays": {
			list{four}, list{at(four, "10.0.0.77"), at(four, "10.0.0.7")}, nil, "10.0.0.7, 10.0.0.77 → 10.0.0.7",
		},
		"one that is left to Neutron does not take the address that is named": {
			list{four, at(four, "10.0.0.5")}, list{at(four, "10.0.0.5"), at(four, "10.0.0.9")}, nil, "",
		},
		"an address of another subnet does not serve for one of the declared": {
			list{six}, list{at(four, "10.0.0.7")}, nil, "10.0.0.7 → one of subnet sub-6",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			change, err := Port(portSpecWith(func(s *PortSpec) { s.Addresses, s.SelfAddressed = tc.declared, tc.makes }),
				observedPort(func(p *ObservedPort) { p.Addresses = tc.has }))
			var want []string
			if tc.want != "" {
				want = []string{update + "addresses " + tc.want + differs}
			}
			wantChange(t, change, err, want)
		})
	}
	for sentence, tc := range map[string]struct {
		spec     PortSpec
		observed Observed
		want     []string
	}{
		"where nothing exists, a port is created": {
			declaredPort(), Observed{},
			[]string{`create port "port" on network net-1 (no port of the network bears the owner's marker)`},
		},
		"a mac that is left to Neutron is right, whichever it is": {
			portSpecWith(func(s *PortSpec) { s.MAC = "" }),
			observedPort(func(p *ObservedPort) { p.MAC = "fa:16:3e:00:00:02" }), nil,
		},
		"security groups have no order, and a network of ours beside the port is let be": {
			portSpecWith(func(s *PortSpec) { s.SecurityGroups = []string{"sg-1", "sg-2"} }), Observed{
				Networks: []ObservedNetwork{asDeclared()},
				Ports:    []ObservedPort{portWith(func(p *ObservedPort) { p.SecurityGroups = []string{"sg-2", "sg-1"} })},
			}, nil,
		},
		"a port that should have no security group loses them": {
			portSpecWith(func(s *PortSpec) { s.SecurityGroups = []string{} }), observedPort(func(*ObservedPort) {}),
			[]string{update + "securityGroups sg-1, sg-2 → none" + differs},
		},

		"of two ports the used one stays": {
			declaredPort(), Observed{Ports: []ObservedPort{
				portAsDeclared(), portWith(func(p *ObservedPort) { p.ID, p.Created, p.Device = "port-2", later, "compute:nova" }),
			}},
			[]string{"delete port port-1 (it is a duplicate of port port-2, which is in use)"},
		},
		"of two ports of one age the lower id stays": {
			declaredPort(), Observed{Ports: []ObservedPort{
				anotherPort("port-2", plantest.Epoch.In(time.FixedZone("east", 3600))), portAsDeclared(),
			}},
			[]string{"delete port port-2 (it is a duplicate of the older port port-1)"},
		},
		"duplicates go first, as they may hold what is declared": {
			declaredPort(), Observed{Ports: []ObservedPort{
				anotherPort("port-3", later), anotherPort("port-0", later),
				portWith(func(p *ObservedPort) { p.MAC = "fa:16:3e:00:00:02" }),
			}},
			[]string{
				"delete port port-0 (it is a duplicate of the older port port-1)",
				"delete port port-3 (it is a duplicate of the older port port-1)",
				update + "mac fa:16:3e:00:00:02 → fa:16:3e:00:00:01" + differs,
			},
		},
		"an older port on another network does not stand for the younger on the declared one": {
			declaredPort(), Observed{Ports: []ObservedPort{
				portWith(func(p *ObservedPort) { p.ID, p.Created, p.NetworkID = "port-0", earlier, "net-2" }),
				portAsDeclared(),
			}},
			[]string{"delete port port-0 (it is on another network than the declared one)"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			change, err := Port(tc.spec, tc.observed)
			wantChange(t, change, err, tc.want)
		})
	}
}

// The lines are read by people, as those of TestPlanPort.
func TestPlanFloatingIPOfAPort(t *testing.T) {
	const (
		differs = " (it differs from the spec)"
		port    = "update port port-1: addresses "
		lead    = "update floating IP fip-1: port 10.0.0.5 → of another address of port port-1" + differs
	)
	any4, any5 := PortAddress{SubnetID: "sub-4"}, PortAddress{SubnetID: "sub-5"}
	four, five := any4, any5
	four.Address, five.Address = addr("10.0.0.5"), addr("10.1.0.5")
	for sentence, tc := range map[string]struct {
		declared, has []PortAddress
		want          []string
	}{
		"an address that stays keeps it": {[]PortAddress{any4}, []PortAddress{four, five},
			[]string{port + "10.0.0.5, 10.1.0.5 → 10.0.0.5" + differs}},
		"it is led to an address that stays before its own goes": {[]PortAddress{any5}, []PortAddress{four, five},
			[]string{lead, port + "10.0.0.5, 10.1.0.5 → 10.1.0.5" + differs}},
		"before its own goes, the port gets the next one": {[]PortAddress{five}, []PortAddress{four},
			[]string{port + "10.0.0.5 → 10.1.0.5" + differs}},
		"an address that the port does not have is none": {[]PortAddress{any5}, []PortAddress{five}, []string{lead}},
	} {
		t.Run(sentence, func(t *testing.T) {
			spec := portSpecWith(func(s *PortSpec) {
				s.Addresses, s.FloatingNetwork = tc.declared, "outside"
			})
			observed := observedPort(func(p *ObservedPort) { p.Addresses = tc.has })
			observed.FloatingIPs = []ObservedFloatingIP{{ID: "fip-1", PortID: "port-1", FloatingIPAttributes: FloatingIPAttributes{
				Description: testOwner.Marker(), NetworkID: "outside", Fixed: four.Address,
			}}}
			change, err := Port(spec, observed)
			wantChange(t, change, err, tc.want)
			for _, step := range change {
				asked := slices.Contains(step.Port.Addresses, four)
				if step.Action == UpdatePort && asked != (len(change) == 1) {
					t.Errorf("%s asks for %v", step, step.Port.Addresses)
				}
			}
		})
	}
}

func TestPlanPortCarriesWhatARequestNeeds(t *testing.T) {
	spec := declaredPort()
	created := Step{
		Action: CreatePort, NetworkRef: Ref{ID: "net-1"}, Reason: "no port of the network bears the owner's marker",
		Port: PortAttributes{
			Name: "port", Description: testOwner.Marker(), AdminStateUp: true, Addresses: spec.Addresses,
			MAC: spec.MAC, SecurityGroups: spec.SecurityGroups,
		},
		Differences: []Difference{{PortResource, FieldExists, "port", None}},
	}
	updated := Step{
		Action: UpdatePort, Ref: Ref{ID: "port-1"}, Revision: 7, NetworkRef: Ref{ID: "net-1"}, Reason: ReasonDiffers,
		// An update of addresses sends all of them: what the port has and may keep is named, not left to Neutron anew.
		Port: PortAttributes{
			Name: "port", Description: testOwner.Marker(), AdminStateUp: true,
			Addresses: []PortAddress{
				{SubnetID: "sub-4", Address: addr("10.0.0.5")}, {SubnetID: "sub-6", Address: addr("fd00::9")},
			},
			MAC: spec.MAC, SecurityGroups: spec.SecurityGroups,
		},
		Differences: []Difference{{PortResource, FieldAddresses, "10.0.0.5, fd00::9", "10.0.0.6, fd00::9"}},
	}
	moved := portWith(func(p *ObservedPort) { p.Addresses[1].Address = addr("10.0.0.6") })
	// A delete carries the port as it was, its lists in their order.
	elsewhere := portWith(func(p *ObservedPort) { p.ID, p.NetworkID = "port-2", "net-2" })
	was := elsewhere.PortAttributes
	was.Addresses = []PortAddress{was.Addresses[1], was.Addresses[0]}
	deleted := Step{
		Action: DeletePort, Ref: Ref{ID: "port-2"}, Revision: 7, NetworkRef: Ref{ID: "net-2"}, Port: was,
		Reason:      "it is on another network than the declared one",
		Differences: []Difference{{PortResource, FieldExists, None, "port-2"}},
		Keeper:      Keeper{Resource: Resource{KindPort, "port-1"}, Owner: testOwner},
	}
	for sentence, tc := range map[string]struct {
		observed Observed
		want     Change
	}{
		"a create": {Observed{}, Change{created}},
		"a delete and an update": {
			Observed{Ports: []ObservedPort{elsewhere, moved}}, Change{deleted, updated},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			got, err := Port(spec, tc.observed)
			expect.NoError(t, err)
			wantEqual(t, tc.want, got, "the change")
		})
	}
}

func TestPlanPortRefuses(t *testing.T) {
	for sentence, tc := range map[string]struct {
		spec     PortSpec
		observed Observed
		text     string
	}{
		"a port of somebody else's beside ours": {
			declaredPort(), Observed{Ports: []ObservedPort{
				portAsDeclared(), portWith(func(p *ObservedPort) { p.ID, p.Description = "port-9", "theirs" }),
			}},
			"port port-9 does not bear the marker",
		},
		"a network of somebody else's": {
			declaredPort(), observedWith(func(n *ObservedNetwork) { n.Description = "theirs" }), "net-1 does not bear the marker",
		},
		"a spec that is not valid": {portSpecWith(func(s *PortSpec) { s.Addresses = nil }), Observed{}, "addresses"},
	} {
		t.Run(sentence, func(t *testing.T) {
			change, err := Port(tc.spec, tc.observed)
			if err == nil || len(change) > 0 || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("got %d steps and the error %v, want none and one that says %q", len(change), err, tc.text)
			}
		})
	}
}

func TestPortSpecValidate(t *testing.T) {
	for sentence, tc := range map[string]struct {
		change func(*PortSpec)
		// text is of the refusal, and field too where the user can mend it; without both the spec is good.
		field, text string
	}{
		"everything declared":              {func(*PortSpec) {}, "", ""},
		"what is left to Neutron":          {func(s *PortSpec) { s.MAC, s.SecurityGroups, s.Addresses = "", nil, s.Addresses[1:] }, "", ""},
		"two of a subnet":                  {func(s *PortSpec) { s.Addresses[0].SubnetID = "sub-6" }, "", ""},
		"no owner":                         {func(s *PortSpec) { s.Owner = Owner{} }, "", "the owner is not known yet"},
		"an owner that no marker can name": {func(s *PortSpec) { s.Owner.Object = "a]" }, "", "no pair of UIDs"},
		"no network":                       {func(s *PortSpec) { s.NetworkID = "" }, "", "the port's network is not known yet"},
		"no addresses":                     {func(s *PortSpec) { s.Addresses = nil }, FieldAddresses, "the network has no subnet"},
		"no addresses but those that the port makes itself": {
			func(s *PortSpec) { s.Addresses, s.SelfAddressed = nil, []string{"sub-7"} }, "", "",
		},
		"an address without a subnet": {
			func(s *PortSpec) { s.Addresses[0].SubnetID = "" }, "", "the subnet of address 10.0.0.5 is not known",
		},
		"an address twice, in two subnets": {
			func(s *PortSpec) { s.Addresses[1].Address = s.Addresses[0].Address },
			FieldAddresses, "10.0.0.5 is listed twice: list it once",
		},
		"a mac in capitals, which Neutron answers in small letters": {
			func(s *PortSpec) { s.MAC = "FA:16:3E:00:00:01" }, FieldMAC, "write one such as fa:16:3e:00:00:01",
		},
		"a mac of eight groups": {func(s *PortSpec) { s.MAC = "fa:16:3e:00:00:01:00:00" }, FieldMAC, "write one such as"},
		"a mac of words":        {func(s *PortSpec) { s.MAC = "any" }, FieldMAC, `"any"`},
	} {
		t.Run(sentence, func(t *testing.T) {
			err := portSpecWith(tc.change).Validate()
			switch {
			case tc.text == "":
				expect.NoError(t, err)
			case tc.field != "":
				requireFieldError(t, err, tc.field, tc.text)
			default:
				expect.ErrorSays(t, err, tc.text)
			}
		})
	}
}

// TestAFloatingIPIsDeletedAfterItsPort: the deletion of the port may be refused, and the address would not come back.
func TestAFloatingIPIsDeletedAfterItsPort(t *testing.T) {
	observed := observedPort(func(*ObservedPort) {})
	observed.FloatingIPs = []ObservedFloatingIP{{ID: "fip-1", PortID: "port-1", FloatingIPAttributes: FloatingIPAttributes{
		Description: testOwner.Marker(), NetworkID: "outside", Fixed: addr("10.0.0.5"),
	}}}
	change, err := Delete(testOwner, observed)
	if err != nil || len(change) != 2 || change[0].Action != DeletePort || change[1].Action != DeleteFloatingIP {
		t.Errorf("got %v, %v, want the port to go, and then the floating IP", change, err)
	}
}

func TestPortInUseIsNotDeleted(t *testing.T) {
	used := portWith(func(p *ObservedPort) { p.Device = "compute:nova, device vm-1" })
	onRouter := portWith(func(p *ObservedPort) { p.Router = "router-1" })
	elsewhere := portWith(func(p *ObservedPort) { p.Device, p.NetworkID = "compute:nova", "net-2" })
	port := func(o Observed) (Change, error) { return Port(declaredPort(), o) }
	remove := func(o Observed) (Change, error) { return Delete(testOwner, o) }
	for sentence, tc := range map[string]struct {
		plan  func(Observed) (Change, error)
		ports []ObservedPort
	}{
		"with its object":         {remove, []ObservedPort{used}},
		"after its object":        {func(o Observed) (Change, error) { return Orphan(testOwner, o) }, []ObservedPort{used}},
		"as a router's interface": {remove, []ObservedPort{onRouter}},
		"on another network":      {port, []ObservedPort{elsewhere}},
		"beside another one in use": {port, []ObservedPort{
			used, portWith(func(p *ObservedPort) { p.ID, p.Device = "port-2", "device x" }),
		}},
	} {
		t.Run(sentence, func(t *testing.T) {
			change, err := tc.plan(Observed{Ports: tc.ports})
			if _, inUse := errors.AsType[*InUseError](err); !inUse || len(change) > 0 {
				t.Errorf("got %v, %v, want an InUseError", change, err)
			}
		})
	}
}

// TestAPortInItsFirstSubnetStaysThere has somebody add an address of another subnet that would serve as well.
func TestAPortInItsFirstSubnetStaysThere(t *testing.T) {
	first := PortAddress{"first", netip.MustParseAddr("192.168.1.5")}
	spec := PortSpec{
		Owner: testOwner, Name: "web", NetworkID: "net", Addresses: []PortAddress{{SubnetID: "first"}},
		Overflow: map[string][]string{"first": {"next"}},
	}
	is := ObservedPort{ID: "port", NetworkID: "net", PortAttributes: spec.Attributes()}
	is.Overflow = nil
	is.Addresses = []PortAddress{first, {"next", netip.MustParseAddr("10.0.0.5")}}
	change, err := Port(spec, Observed{Ports: []ObservedPort{is}})
	if err != nil || len(change) != 1 || !slices.Equal(change[0].Port.Addresses, []PortAddress{first}) {
		t.Errorf("planned %v, %v", change, err)
	}
}
