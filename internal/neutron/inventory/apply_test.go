package inventory

import (
	"errors"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// emulated is an Inventory of a cloud that answers as the real one does.
type emulated struct {
	*Inventory
	t      *testing.T
	owner  plan.Owner
	server *neutrontest.Server
	habits *neutrontest.Habits
}

func newEmulated(t *testing.T, options Options) emulated {
	t.Helper()
	return newEmulatedAs(t, "tenant", options)
}

// newEmulatedAs is newEmulated with the credentials of a cloud of the emulator's clouds.yaml.
func newEmulatedAs(t *testing.T, cloud string, options Options) emulated {
	t.Helper()
	return newEmulatedOf(t, neutrontest.Neutron29, cloud, options)
}

// newEmulatedOf is newEmulatedAs for a release of Neutron.
func newEmulatedOf(t *testing.T, release neutrontest.Release, cloud string, options Options) emulated {
	t.Helper()
	server := neutrontest.New(neutrontest.Options{Release: release})
	habits := &neutrontest.Habits{}
	listener, err := server.Listen("127.0.0.1:0", habits.Wrap)
	expect.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	expect.NoError(t, os.WriteFile(file, []byte(listener.CloudsYAML()), 0o600))
	t.Setenv("OS_CLIENT_CONFIG_FILE", file)
	credentials, err := client.LoadCredentials(cloud)
	expect.NoError(t, err)
	owner := plan.Owner{Cluster: "c", Object: "o"}
	return emulated{New(client.NewCloud(credentials, client.Options{}), owner.Cluster, options), t, owner, server, habits}
}

func (e emulated) observed() plan.Observed {
	e.t.Helper()
	o, err := e.Observed(e.t.Context(), e.owner, time.Time{})
	expect.NoError(e.t, err)
	return o
}

func (e emulated) apply(change plan.Change, err error) plan.Change {
	e.t.Helper()
	done := change
	if err == nil {
		done, err = e.Apply(e.t.Context(), change)
	}
	if err != nil {
		e.t.Fatalf("%v\n%s", err, change)
	}
	return done
}

// byHand sends a request as somebody else would, behind the Inventory's back, and returns the id of what it is about.
func byHand(t *testing.T, as *client.Cloud, method, path, one string, fields map[string]any) string {
	t.Helper()
	r := client.Request{Op: "by hand", Method: method, Path: path}
	var answer map[string]struct{ ID string }
	if method != http.MethodDelete {
		r.Body, r.Answer = map[string]any{one: fields}, &answer
	}
	expect.NoError(t, as.Do(t.Context(), r))
	return answer[one].ID
}

func (e emulated) byHand(method, path, one string, fields map[string]any) string {
	e.t.Helper()
	return byHand(e.t, e.cloud, method, path, one, fields)
}

// network makes the owner's network with subnets, in the order of their CIDRs, and returns it. What is planned next is
// of the object "port".
func (e *emulated) network(texts ...string) plan.ObservedNetwork {
	e.t.Helper()
	spec := plan.Spec{Owner: e.owner, Name: "n"}
	for _, text := range texts {
		cidr := netip.MustParsePrefix(text)
		spec.Subnets = append(spec.Subnets, plan.Subnet{CIDR: cidr, Pools: plan.DefaultPools(cidr, netip.Addr{}), DHCP: true})
	}
	e.apply(plan.Network(spec, e.observed()))
	n, _ := e.observed().Network()
	slices.SortFunc(n.Subnets, func(a, b plan.ObservedSubnet) int { return a.CIDR.Compare(b.CIDR) })
	e.owner.Object = "port"
	return n
}

// port declares a port of the owner's with an address of a network's first subnet.
func (e *emulated) port(n plan.ObservedNetwork) plan.PortSpec {
	return plan.PortSpec{
		Owner: e.owner, Name: "p", NetworkID: n.ID, Addresses: []plan.PortAddress{{SubnetID: n.Subnets[0].ID}},
	}
}

// TestPortsAreAsPlannedAfterTheirSteps takes a port through all that its spec can ask for, and what others do to it. What
// was applied is never planned again, neither from what the writes left in the Inventory nor from what a list finds, and
// the revision that is held is the one that Neutron has.
func TestPortsAreAsPlannedAfterTheirSteps(t *testing.T) {
	e := newEmulated(t, Options{Ports: true})
	n := e.network("10.0.0.0/24", "fd00::/64")
	v4, v6 := n.Subnets[0], n.Subnets[1]
	address := func(s plan.ObservedSubnet, text string) plan.PortAddress {
		return plan.PortAddress{SubnetID: s.ID, Address: netip.MustParseAddr(text)}
	}
	spec := e.port(n)
	planOf := func(o plan.Observed) (plan.Change, error) { return plan.Port(spec, o) }
	drift := func(field string, to plan.PortAttributes) {
		held, _ := e.observed().Port(n.ID)
		e.apply(plan.Change{{
			Action: plan.UpdatePort, Ref: plan.Ref{ID: held.ID}, Revision: held.Revision, Port: to,
			Differences: []plan.Difference{{Field: field}},
		}}, nil)
		expect.NoError(t, e.Audit(t.Context()))
	}
	for _, do := range []func(){
		func() {},
		func() { spec.Name = "renamed" },
		func() { drift(plan.FieldName, plan.PortAttributes{Name: "other"}) },
		func() { drift(plan.FieldDescription, plan.PortAttributes{Description: e.owner.Describe("words")}) },
		func() { drift(plan.FieldAdminState, plan.PortAttributes{AdminStateUp: false}) },
		func() { spec.Addresses = append(spec.Addresses, address(v6, "fd00::9")) },
		func() { spec.Addresses[0] = address(v4, "10.0.0.77") },
		func() {
			drift(plan.FieldAddresses, plan.PortAttributes{Addresses: []plan.PortAddress{address(v4, "10.0.0.6")}})
		},
		func() { spec.Addresses[0] = plan.PortAddress{SubnetID: v4.ID} },
		func() { spec.SecurityGroups = []string{} },
		func() {
			e.apply(plan.Delete(e.owner, e.observed()))
			spec.MAC = "fa:16:3e:00:00:01"
		},
		func() {
			spec.Name, spec.SecurityGroups = "again", nil
			spec.Addresses = []plan.PortAddress{address(v4, "10.0.0.78")}
		},
	} {
		do()
		e.apply(planOf(e.observed()))
		e.requireNothing(planOf)
	}
	e.apply(plan.Release(e.owner, e.observed()), nil)
	e.requireGone()
}

// A description of a subnet, and a router's interface, moved more revisions before Neutron 26. That costs a conflict, and
// no more.
func TestRevisionsThatOlderReleasesMoveAreReadAgain(t *testing.T) {
	e := newEmulatedOf(t, neutrontest.Neutron21, "tenant", Options{Ports: true})
	e.planned(e.routedSpec())
	for attempt := range 10 {
		release := plan.Release(e.owner, e.observed())
		_, err := e.Apply(t.Context(), release)
		if err == nil {
			break
		}
		if !client.IsConflict(err) || attempt == 9 {
			t.Fatalf("got %v, want a conflict, and later none\n%s", err, release)
		}
		for _, r := range e.observed().Resources() {
			if _, err := e.Reread(t.Context(), r); err != nil && !errors.Is(err, ErrUnmarked) {
				t.Fatal(err)
			}
		}
	}
}

// Neutron 21 tells a revision of the past to who changes but a port's description. The steps planned here send the name
// with it; should another revision be told too early, it costs a conflict, and no more.
func TestRevisionThatNeutronTellsTooEarlyIsReadAgain(t *testing.T) {
	e := newEmulatedOf(t, neutrontest.Neutron21, "tenant", Options{Ports: true})
	spec := e.port(e.network("10.0.0.0/24"))
	id := e.apply(plan.Port(spec, e.observed()))[0].ID
	e.apply(plan.Change{{
		Action: plan.UpdatePort, Ref: plan.Ref{ID: id}, Revision: 1,
		Port:        plan.PortAttributes{Description: e.owner.Describe("words")},
		Differences: []plan.Difference{{Field: plan.FieldDescription}},
	}}, nil)
	change, err := plan.Port(spec, e.observed())
	if err != nil || change.Empty() {
		t.Fatalf("the plan is %v, %v", change, err)
	}
	if _, err := e.Apply(t.Context(), change); !client.IsConflict(err) {
		t.Errorf("got %v, want a conflict", err)
	}
	if found, err := e.Reread(t.Context(), plan.Resource{Kind: plan.KindPort, ID: id}); !found || err != nil {
		t.Fatalf("read again: %t, %v", found, err)
	}
	e.apply(plan.Port(spec, e.observed()))
	if again, err := plan.Port(spec, e.observed()); err != nil || !again.Empty() {
		t.Errorf("planned again: %v, %s", err, again)
	}
}
