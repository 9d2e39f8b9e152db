// Package transitions takes Networks and NetworkPorts through random sequences of what may happen to them: they are
// declared, edited, paused, deleted and declared again, waited for or not, with credentials of an administrator or not,
// of this project or of that, while others change and delete what is in Neutron, and make networks to import. However a
// state is reached, it has to be the one that the same specs lead to directly, but for what is documented
// (rules_test.go); nothing of what was deleted may be left, and then there has to be silence.
//
// All of it runs in virtual time, in a bubble of testing/synctest for each lane of sequences: the API server is that of
// package simulation, the controllers are the real ones, and the cloud is the emulator. Which edits the API server refuses,
// package specs says there, and test/integration holds that the real one refuses the same. Each sequence has namespaces,
// controllers and a cluster's UID of its own, so that one that failed does not disturb the shorter ones that rapid tries
// after it.
package transitions

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/lanes"
	"cloudteam.ztgame.com/network-controller/test/simulation"
	"cloudteam.ztgame.com/network-controller/test/specs"
)

// scenery is what the sequences of a lane share. newScenery makes it, and nothing changes it afterwards.
type scenery struct {
	*harness.Surroundings
	// people is an administrator's client, for those who look, and who change things behind the controllers' backs.
	people *cloud
	// pools are the ranges of the subnet pools, by their ids.
	pools map[string]netip.Prefix
	// projects are those that the controllers' credentials may be of, by the names below.
	projects map[string]project
	// limits are those of all specs: the security groups, QoS policies, external networks and subnet pools are the cloud's.
	// What is of a slot comes to them (world.limits).
	limits specs.Limits
}

// project is one of the cloud's, with the credentials of one of its members.
type project struct {
	cloud       *cloud
	credentials client.Credentials
}

// The projects. A world's own is one of the first two, and the administrator's has an administrator's credentials.
const (
	tenantProject, adminProject, otherProject = "tenant", "admin", "other"
)

func TestMain(m *testing.M) {
	// Shrinking takes virtual time.
	lanes.SetDefaults(map[string]string{"rapid.checks": "40", "rapid.steps": "12", "rapid.shrinktime": "2h"})
	simulation.Install()
	os.Exit(m.Run())
}

// newScenery makes the surroundings of a lane, and a cloud that ends with the test.
func newScenery(t *testing.T) *scenery {
	t.Helper()
	s := &scenery{
		Surroundings: harness.Virtual(t, harness.Options{Tenants: []string{otherProject}}),
		projects:     map[string]project{}, pools: map[string]netip.Prefix{},
		limits: specs.Limits{
			DNSNames:   true,
			Namespaces: []string{homes[0], homes[1]}, MaxMTU: neutrontest.DefaultMaxMTU, Ports: len(portSlots),
			PhysicalNetwork: "physnet1", Zones: []string{"east", "west"}, NoZones: []string{"nowhere"},
		},
	}
	ctx := t.Context()
	if err := errors.Join(s.openProjects(ctx), s.openOutside(ctx), s.openPools(ctx)); err != nil {
		t.Fatalf("making ready the cloud: %v", err)
	}
	return s
}

// openProjects logs in everywhere, finds a security group of each project, and makes QoS policies for all.
func (s *scenery) openProjects(ctx context.Context) error {
	for _, name := range []string{tenantProject, adminProject, otherProject} {
		credentials, err := client.LoadCredentialsFrom(s.CloudsFile, name)
		if err != nil {
			return err
		}
		neutron, err := harness.LogIn(ctx, s.CloudsFile, name)
		if err != nil {
			return err
		}
		c := &cloud{neutron}
		group, err := c.defaultGroup(ctx)
		if err != nil {
			return err
		}
		s.projects[name] = project{c, credentials}
		s.limits.SecurityGroups = append(s.limits.SecurityGroups, group)
	}
	s.people = s.projects[adminProject].cloud
	for _, name := range []string{"gold", "silver"} {
		policy, err := s.people.Create(ctx, "qos/policies", resource{"name": name, "shared": true})
		if err != nil {
			return err
		}
		s.limits.QoSPolicies = append(s.limits.QoSPolicies, policy.ID())
	}
	return nil
}

// openOutside makes the networks that routers lead to. No spec that is drawn has a subnet of /2 to /30 in their ranges.
func (s *scenery) openOutside(ctx context.Context) error {
	for i, text := range []string{"203.0.112.0/21", "203.0.120.0/21"} {
		cidr, name := netip.MustParsePrefix(text), fmt.Sprintf("outside-%d", i+1)
		made, err := s.people.Create(ctx, "networks", resource{"name": name, "router:external": true})
		if err != nil {
			return err
		}
		id := made.ID()
		_, err = s.people.Create(ctx, "subnets", resource{
			"network_id": id, "ip_version": 4, "cidr": text, "enable_dhcp": false, "allocation_pools": []resource{{
				"start": specs.Address(cidr, firstHost+hosts).String(), "end": specs.Address(cidr, -2).String(),
			}},
		})
		if err != nil {
			return err
		}
		s.limits.ExternalNetworks = append(s.limits.ExternalNetworks, specs.ExternalNetwork{
			Names: []string{id, name}, CIDR: cidr, NextHop: specs.Address(cidr, 1),
		})
	}
	return nil
}

// openPools makes the subnet pools, for all projects. No spec that is drawn names an address of theirs.
func (s *scenery) openPools(ctx context.Context) error {
	for _, pool := range []struct {
		name, cidr string
		drawn      specs.SubnetPool
	}{
		{"four", "100.64.0.0/10", specs.SubnetPool{IPVersion: 4, DefaultPrefixLength: 26, PrefixLengths: []int32{25, 27}}},
		{"six", "fd40::/24", specs.SubnetPool{IPVersion: 6, DefaultPrefixLength: 64, PrefixLengths: []int32{64, 112}}},
		{"six-more", "fd50::/24", specs.SubnetPool{IPVersion: 6, DefaultPrefixLength: 120}},
	} {
		made, err := s.people.Create(ctx, "subnetpools", resource{
			"name": pool.name, "shared": true, "prefixes": []string{pool.cidr},
			"default_prefixlen": pool.drawn.DefaultPrefixLength,
		})
		if err != nil {
			return err
		}
		pool.drawn.Names = []string{made.ID(), pool.name}
		s.pools[made.ID()] = netip.MustParsePrefix(pool.cidr)
		s.limits.SubnetPools = append(s.limits.SubnetPools, pool.drawn)
	}
	return nil
}
