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
	asIs := func(*ObservedPort) {}
	earlier, later := plantest.Epoch.Add(-time.Second), plantest.Epoch.Add(time.Second)
	v4 := func(text string) PortAddress { return PortAddress{SubnetID: "sub-4", Address: addr(text)} }
	v6 := func(text string) PortAddress { return PortAddress{SubnetID: "sub-6", Address: addr(text)} }
	any4, any6 := PortAddress{SubnetID: "sub-4"}, PortAddress{SubnetID: "sub-6"}
	declare := func(addresses ...PortAddress) PortSpec {
		return portSpecWith(func(s *PortSpec) { s.Addresses = addresses })
	}
	have := func(addresses ...PortAddress) Observed {
		return observedPort(func(p *ObservedPort) { p.Addresses = addresses })
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
		"where all is as declared, there is nothing to do": {declaredPort(), observedPort(asIs), nil},
		"addresses that the port makes itself are no difference": {
			portSpecWith(func(s *PortSpec) { s.Addresses, s.SelfAddressed = []PortAddress{any4}, []string{"sub-6", "sub-7"} }),
			have(v4("10.0.0.7"), v6("fd00::7")), nil,
		},
		"and they are all that a port needs": {
			portSpecWith(func(s *PortSpec) { s.Addresses, s.SelfAddressed = nil, []string{"sub-6"} }), have(v6("fd00::7")), nil,
		},
		"beside them it loses what is not declared, and keeps them unasked": {
			portSpecWith(func(s *PortSpec) { s.Addresses, s.SelfAddressed = nil, []string{"sub-6"} }),
			have(v4("10.0.0.7"), v6("fd00::7")), []string{update + "addresses 10.0.0.7 → none" + differs},
		},
		"revisions are no difference": {
			declaredPort(), observedPort(func(p *ObservedPort) { p.Revision = 99 }), nil,
		},
		"a network of ours beside the port is let be": {
			declaredPort(),
			Observed{Networks: []ObservedNetwork{asDeclared()}, Ports: []ObservedPort{portAsDeclared()}}, nil,
		},

		"another name is put back": {
			declaredPort(), observedPort(func(p *ObservedPort) { p.Name = "a\nb" }),
			[]string{update + `name "a\nb" → "port"` + differs},
		},
		"a text in front of the marker goes": {
			declaredPort(), observedPort(func(p *ObservedPort) { p.Description = testOwner.Describe("x") }),
			[]string{update + `description "x" → ""` + differs},
		},
		"a port that was switched off is switched on": {
			declaredPort(), observedPort(func(p *ObservedPort) { p.AdminStateUp = false }),
			[]string{update + "adminState down → up" + differs},
		},
		"another mac is put back": {
			declaredPort(), observedPort(func(p *ObservedPort) { p.MAC = "fa:16:3e:00:00:02" }),
			[]string{update + "mac fa:16:3e:00:00:02 → fa:16:3e:00:00:01" + differs},
		},
		"a mac that is left to Neutron is right, whichever it is": {
			portSpecWith(func(s *PortSpec) { s.MAC = "" }),
			observedPort(func(p *ObservedPort) { p.MAC = "fa:16:3e:00:00:02" }), nil,
		},
		"several differences are one step": {
			declaredPort(), observedPort(func(p *ObservedPort) { p.Name, p.AdminStateUp = "x", false }),
			[]string{update + `name "x" → "port", adminState down → up` + differs},
		},

		"another address is put back": {
			declaredPort(), have(v4("10.0.0.6"), v6("fd00::9")),
			[]string{update + "addresses 10.0.0.6, fd00::9 → 10.0.0.5, fd00::9" + differs},
		},
		"an address that was added by hand goes": {
			declaredPort(), have(v4("10.0.0.5"), v4("10.0.0.6"), v6("fd00::9")),
			[]string{update + "addresses 10.0.0.5, 10.0.0.6, fd00::9 → 10.0.0.5, fd00::9" + differs},
		},
		"an address that was taken away comes back": {
			declaredPort(), have(v6("fd00::9")),
			[]string{update + "addresses fd00::9 → 10.0.0.5, fd00::9" + differs},
		},
		"an address that is left to Neutron and was taken away is chosen anew": {
			declaredPort(), have(v4("10.0.0.5")),
			[]string{update + "addresses 10.0.0.5 → one of subnet sub-6, 10.0.0.5" + differs},
		},
		"without any address, all are asked for": {
			declaredPort(), have(),
			[]string{update + "addresses none → one of subnet sub-6, 10.0.0.5" + differs},
		},
		"an address that is left to Neutron is right, whichever it is": {declare(any4), have(v4("10.0.0.77")), nil},
		"two of one subnet that are left to Neutron are any two": {
			declare(any4, any4), have(v4("10.0.0.77"), v4("10.0.0.7")), nil,
		},
		"one address is not two": {
			declare(any4, any4), have(v4("10.0.0.77")),
			[]string{update + "addresses 10.0.0.77 → one of subnet sub-4, 10.0.0.77" + differs},
		},
		"where one of two is wanted, the lower stays": {
			declare(any4), have(v4("10.0.0.77"), v4("10.0.0.7")),
			[]string{update + "addresses 10.0.0.7, 10.0.0.77 → 10.0.0.7" + differs},
		},
		"an address that is named does not serve for one that is left to Neutron as well": {
			declare(any4, v4("10.0.0.5")), have(v4("10.0.0.5")),
			[]string{update + "addresses 10.0.0.5 → one of subnet sub-4, 10.0.0.5" + differs},
		},
		"one that is left to Neutron does not take the address that is named": {
			declare(any4, v4("10.0.0.5")), have(v4("10.0.0.5"), v4("10.0.0.9")), nil,
		},
		"an address of another subnet goes": {
			declare(any4), have(v4("10.0.0.7"), v6("fd00::9")),
			[]string{update + "addresses 10.0.0.7, fd00::9 → 10.0.0.7" + differs},
		},
		"an address of another subnet does not serve for one of the declared": {
			declare(any6), have(v4("10.0.0.7")),
			[]string{update + "addresses 10.0.0.7 → one of subnet sub-6" + differs},
		},

		"security groups that are left to the cloud are right, whichever they are": {
			portSpecWith(func(s *PortSpec) { s.SecurityGroups = nil }), observedPort(asIs), nil,
		},
		"security groups have no order": {
			portSpecWith(func(s *PortSpec) { s.SecurityGroups = []string{"sg-1", "sg-2"} }),
			observedPort(func(p *ObservedPort) { p.SecurityGroups = []string{"sg-2", "sg-1"} }), nil,
		},
		"other security groups are put back": {
			declaredPort(), observedPort(func(p *ObservedPort) { p.SecurityGroups = []string{"sg-3", "sg-1"} }),
			[]string{update + "securityGroups sg-1, sg-3 → sg-1, sg-2" + differs},
		},
		"a security group that was added goes": {
			declaredPort(), observedPort(func(p *ObservedPort) { p.SecurityGroups = []string{"sg-1", "sg-3", "sg-2"} }),
			[]string{update + "securityGroups sg-1, sg-2, sg-3 → sg-1, sg-2" + differs},
		},
		"security groups that were taken off come back": {
			declaredPort(), observedPort(func(p *ObservedPort) { p.SecurityGroups = nil }),
			[]string{update + "securityGroups none → sg-1, sg-2" + differs},
		},
		"a port that should have no security group loses them": {
			portSpecWith(func(s *PortSpec) { s.SecurityGroups = []string{} }), observedPort(asIs),
			[]string{update + "securityGroups sg-1, sg-2 → none" + differs},
		},

		"of two ports the older stays": {
			declaredPort(), Observed{Ports: []ObservedPort{anotherPort("port-0", later), portAsDeclared()}},
			[]string{"delete port port-0 (it is a duplicate of the older port port-1)"},
		},
		"of two ports the older stays, whichever comes first": {
			declaredPort(), Observed{Ports: []ObservedPort{portAsDeclared(), anotherPort("port-2", earlier)}},
			[]string{"delete port port-1 (it is a duplicate of the older port port-2)"},
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
				anotherPort("port-3", later), anotherPort("port-2", later),
				portWith(func(p *ObservedPort) { p.MAC = "fa:16:3e:00:00:02" }),
			}},
			[]string{
				"delete port port-2 (it is a duplicate of the older port port-1)",
				"delete port port-3 (it is a duplicate of the older port port-1)",
				update + "mac fa:16:3e:00:00:02 → fa:16:3e:00:00:01" + differs,
			},
		},
		"a port on another network goes, and one comes on the declared one": {
			declaredPort(), observedPort(func(p *ObservedPort) { p.NetworkID = "net-2" }),
			[]string{
				"delete port port-1 (it is on another network than the declared one)",
				`create port "port" on network net-1 (no port of the network bears the owner's marker)`,
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
		"a port without a marker": {
			declaredPort(), observedPort(func(p *ObservedPort) { p.Description = "" }), "port port-1 does not bear the marker",
		},
		"a port with another object's marker": {
			declaredPort(), observedPort(func(p *ObservedPort) { p.Description = otherOwner.Marker() }),
			"port port-1 does not bear the marker",
		},
		"a port whose marker does not stand at the end": {
			declaredPort(), observedPort(func(p *ObservedPort) { p.Description = testOwner.Marker() + "." }),
			"port port-1 does not bear the marker",
		},
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
		spec PortSpec
		// text is of the refusal, and field too where the user can mend it; without both the spec is good.
		field, text string
	}{
		"everything declared":              {declaredPort(), "", ""},
		"a mac that is left to Neutron":    {portSpecWith(func(s *PortSpec) { s.MAC = "" }), "", ""},
		"groups that are left to Neutron":  {portSpecWith(func(s *PortSpec) { s.SecurityGroups = nil }), "", ""},
		"one address, left to Neutron":     {portSpecWith(func(s *PortSpec) { s.Addresses = s.Addresses[1:] }), "", ""},
		"two of a subnet, left to Neutron": {portSpecWith(func(s *PortSpec) { s.Addresses[0].Address = addr("10.0.0.6") }), "", ""},
		"no owner": {
			portSpecWith(func(s *PortSpec) { s.Owner = Owner{} }), "", "the owner is not known yet",
		},
		"an owner that no marker can name": {
			portSpecWith(func(s *PortSpec) { s.Owner.Object = "a]" }), "", "no pair of UIDs",
		},
		"no network": {
			portSpecWith(func(s *PortSpec) { s.NetworkID = "" }), "", "the port's network is not known yet",
		},
		"no addresses": {
			portSpecWith(func(s *PortSpec) { s.Addresses = nil }), FieldAddresses, "the network has no subnet",
		},
		"no addresses but those that the port makes itself": {
			portSpecWith(func(s *PortSpec) { s.Addresses, s.SelfAddressed = nil, []string{"sub-7"} }), "", "",
		},
		"an address without a subnet": {
			portSpecWith(func(s *PortSpec) { s.Addresses[0].SubnetID = "" }), "", "the subnet of address 10.0.0.5 is not known",
		},
		"an address twice": {
			portSpecWith(func(s *PortSpec) { s.Addresses = append(s.Addresses, s.Addresses[0]) }),
			FieldAddresses, "10.0.0.5 is listed twice: list it once",
		},
		"an address in two subnets": {
			portSpecWith(func(s *PortSpec) { s.Addresses[1].Address = s.Addresses[0].Address }),
			FieldAddresses, "10.0.0.5 is listed twice: list it once",
		},
		"a mac in capitals, which Neutron answers in small letters": {
			portSpecWith(func(s *PortSpec) { s.MAC = "FA:16:3E:00:00:01" }), FieldMAC, "write one such as fa:16:3e:00:00:01",
		},
		"a mac with hyphens": {
			portSpecWith(func(s *PortSpec) { s.MAC = "fa-16-3e-00-00-01" }), FieldMAC, "write one such as",
		},
		"a mac of eight groups": {
			portSpecWith(func(s *PortSpec) { s.MAC = "fa:16:3e:00:00:01:00:00" }), FieldMAC, "write one such as",
		},
		"a mac of words": {
			portSpecWith(func(s *PortSpec) { s.MAC = "any" }), FieldMAC, `"any"`,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			err := tc.spec.Validate()
			switch {
			case tc.text == "":
				if err != nil {
					t.Errorf("refused: %v", err)
				}
			case tc.field != "":
				requireFieldError(t, err, tc.field, tc.text)
			case err == nil || !strings.Contains(err.Error(), tc.text):
				t.Errorf("got %v, want an error that says %q", err, tc.text)
			}
		})
	}
}

func TestObservedPortIsTheOldestOnTheNetwork(t *testing.T) {
	elsewhere := func(p *ObservedPort) { p.ID, p.Created, p.NetworkID = "port-0", plantest.Epoch.Add(-1), "net-2" }
	observed := Observed{Ports: []ObservedPort{
		anotherPort("port-2", plantest.Epoch), portWith(elsewhere), anotherPort("port-3", plantest.Epoch.Add(-1)),
		anotherPort("port-4", plantest.Epoch.Add(-1)),
	}}
	for network, want := range map[string]string{"net-1": "port-3", "net-2": "port-0", "net-3": "", "": ""} {
		if got, ok := observed.Port(network); got.ID != want || ok != (want != "") {
			t.Errorf("Port(%q) = %q, %v, want %q", network, got.ID, ok, want)
		}
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
	orphan := func(o Observed) (Change, error) { return Orphan(testOwner, o) }
	for sentence, tc := range map[string]struct {
		plan  func(Observed) (Change, error)
		ports []ObservedPort
	}{
		"with its object":               {remove, []ObservedPort{used}},
		"after its object":              {orphan, []ObservedPort{used}},
		"as a router's interface":       {remove, []ObservedPort{onRouter}},
		"after its object, of a router": {orphan, []ObservedPort{onRouter}},
		"on another network":            {port, []ObservedPort{elsewhere}},
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
