package neutron

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/network"
	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
)

// A subnet's write moves its network's revision. A change that writes both must not trip over its own steps.
func TestApplyFollowsTheRevisionsThatItMovesItself(t *testing.T) {
	emulator := neutrontest.New(neutrontest.Options{})
	listener, err := emulator.Listen("127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	if err := os.WriteFile(file, []byte(listener.CloudsYAML()), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("OS_CLIENT_CONFIG_FILE", file)
	credentials, err := LoadCredentials("tenant")
	if err != nil {
		t.Fatal(err)
	}
	owner := network.Owner{Cluster: "c", Object: "o"}
	inventory := NewInventory(NewCloud(credentials, Options{}), owner.Cluster, InventoryOptions{})
	observed := func() network.Observed {
		t.Helper()
		o, err := inventory.Observed(t.Context(), owner, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	apply := func(change network.Change, err error) {
		t.Helper()
		if err == nil {
			_, err = inventory.Apply(t.Context(), change)
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, change)
		}
	}

	cidr := netip.MustParsePrefix("10.0.0.0/24")
	spec := network.Spec{Owner: owner, Name: "n", Subnets: []network.Subnet{{
		CIDR: cidr, Pools: network.DefaultPools(cidr, netip.Addr{}), DHCP: true,
	}}}
	apply(network.Plan(spec, observed()))
	spec.Name = "renamed" // of the network and of its subnet
	apply(network.Plan(spec, observed()))
	apply(network.PlanRelease(owner, observed()), nil)
	if left := observed(); len(left.Networks) > 0 {
		t.Errorf("still held after the release: %v", left)
	}
}
