package planning

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"

	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/fake"
)

// specs draws what users declare. The cidrs stay the same, as they identify the subnets.
func specs() *rapid.Generator[cloudteamv1.NetworkSpec] {
	return rapid.Custom(func(t *rapid.T) cloudteamv1.NetworkSpec {
		has := func(what string) bool { return rapid.Bool().Draw(t, what) }
		s := cloudteamv1.NetworkSpec{SubnetSpec: cloudteamv1.SubnetSpec{CIDR: "10.1.0.0/24"}}
		if has("gateway") {
			s.Gateway = rapid.SampledFrom([]string{"none", "10.1.0.1", "10.1.0.254"}).Draw(t, "the gateway")
		}
		if has("servers") {
			s.DNSServers = []string{"10.1.0.53", "10.1.0.54"}[:rapid.IntRange(1, 2).Draw(t, "servers")]
		}
		if has("pools") {
			s.AllocationPools = []cloudteamv1.AllocationPool{{Start: "10.1.0.10", End: "10.1.0.99"}}
		}
		if has("tags") {
			s.Tags = []string{"a", "b"}[:rapid.IntRange(1, 2).Draw(t, "number of tags")]
		}
		if has("description") {
			s.Description = "text"
		}
		if has("mtu") {
			s.MTU = new(int32(1400))
		}
		if has("another") {
			s.AdditionalSubnets = []cloudteamv1.SubnetSpec{{CIDR: "10.2.0.0/24"}, {CIDR: "fd00:2::/64"}}
		}
		if has("router") {
			s.Router = &cloudteamv1.RouterSpec{}
		}
		return s
	})
}

// TestWhatIsPlannedIsWhatIsDone applies what was planned, over the edits of an object, on an emulated cloud. Exactly
// these steps are taken, and afterwards there is nothing to plan.
func TestWhatIsPlannedIsWhatIsDone(t *testing.T) {
	in := emulated(t)
	c := &ask.Cluster{Kubernetes: kubefake.NewClientset(), Networks: fake.NewSimpleClientset()}
	planner, err := New(t.Context(), c, in, "c1")
	if err != nil {
		t.Fatal(err)
	}
	checks := 0
	rapid.Check(t, func(t *rapid.T) {
		checks++
		n := &cloudteamv1.Network{}
		n.Namespace, n.Name, n.UID = "shop", "backend", types.UID(fmt.Sprintf("uid-%d", checks))
		for i := range rapid.IntRange(1, 3).Draw(t, "edits") {
			n.Generation = int64(i + 1)
			n.Spec = specs().Draw(t, "spec")
			planned, err := planner.Network(context.Background(), n)
			if err != nil || planned.Problem != "" {
				t.Fatalf("planning: %v %s", err, planned.Problem)
			}
			var change plan.Change
			for _, s := range planned.Steps {
				change = append(change, s.step)
			}
			done, err := in.Apply(context.Background(), change)
			if err != nil {
				t.Fatalf("applying\n%s\nfails: %v", change, err)
			}
			if got, want := told(done), told(change); !slices.Equal(got, want) {
				t.Fatalf("planned\n%q\ndone\n%q", want, got)
			}
			if again, err := planner.Network(context.Background(), n); err != nil || len(again.Steps) > 0 {
				t.Fatalf("after it was done, the plan is %+v, %v", again, err)
			}
		}
	})
}

func told(change plan.Change) (steps []string) {
	for _, s := range change {
		steps = append(steps, fmt.Sprintf("%s %v %s", s.Action, s.Differences, s.Reason))
	}
	return steps
}

// emulated is the Inventory of a new emulated cloud.
func emulated(t *testing.T) *inventory.Inventory {
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	if err := os.WriteFile(file, []byte(neutrontest.New(neutrontest.Options{}).Start(t).CloudsYAML()), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("OS_CLIENT_CONFIG_FILE", file)
	credentials, err := client.LoadCredentials("tenant")
	if err != nil {
		t.Fatal(err)
	}
	return inventory.New(client.NewCloud(credentials, client.Options{}), "c1", inventory.Options{Ports: true})
}
