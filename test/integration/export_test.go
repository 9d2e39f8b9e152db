package integration

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/exporting"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/exporting/exportingtest"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/planning"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// foreign is an emulated cloud with networks that somebody made.
type foreign struct{ cloud *client.Cloud }

func newForeign(t *testing.T) foreign {
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	expect.NoError(t, os.WriteFile(file, []byte(neutrontest.New(neutrontest.Options{}).Start(t).CloudsYAML()), 0o600))
	t.Setenv("OS_CLIENT_CONFIG_FILE", file)
	credentials, err := client.LoadCredentials("tenant")
	expect.NoError(t, err)
	return foreign{client.NewCloud(credentials, client.Options{})}
}

// make creates a resource, and gives its id.
func (f foreign) make(t rapid.TB, one string, body map[string]any) string {
	t.Helper()
	var answer map[string]struct{ ID string }
	if err := f.cloud.Do(context.Background(), client.Request{Op: "create " + one, Method: http.MethodPost, Path: one + "s",
		Body: map[string]any{one: body}, Answer: &answer}); err != nil {
		t.Fatalf("%v: %v", body, err)
	}
	return answer[one].ID
}

// export makes a network, exports it, and deletes it. What is written is what the API server accepts.
func (f foreign) export(t rapid.TB, namespace string, drawn exportingtest.Foreign) exporting.Exported {
	t.Helper()
	ctx := context.Background()
	id := f.make(t, "network", drawn.Network)
	for _, subnet := range drawn.Subnets {
		subnet["network_id"] = id
		f.make(t, "subnet", subnet)
	}
	if len(drawn.Tags) > 0 {
		if err := f.cloud.Do(ctx, client.Request{Op: "tag", Method: http.MethodPut, Path: "networks/" + id + "/tags",
			Body: map[string]any{"tags": drawn.Tags}}); err != nil {
			t.Fatal(err)
		}
	}
	cluster := &ask.Cluster{Kubernetes: kubeClient, Networks: networkAPI}
	all, _, err := exporting.Export(ctx, f.cloud, exporting.Request{
		Cluster: "c1a0b7d2-0000-4000-8000-000000000000", Namespace: namespace,
		Refusals: func(n *cloudteamv1.Network) []metav1.StatusCause {
			refused, err := planning.Refusals(ctx, cluster, n)
			expect.NoError(t, err)
			return refused
		},
	}, func() (map[string]bool, error) { return nil, nil })
	if err != nil || len(all) != 1 {
		t.Fatalf("exported %d, %v", len(all), err)
	}
	expect.NoError(t, f.cloud.Do(ctx, client.Request{Op: "delete", Method: http.MethodDelete, Path: "networks/" + id}))
	e := all[0]
	if e.Network == nil {
		if !e.Incomplete || !strings.HasPrefix(e.Notes[len(e.Notes)-1], "No Network can import it: ") {
			t.Fatalf("no Network, and the notes are %q", e.Notes)
		}
		return e
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(new(e.Manifest()))
	expect.NoError(t, err)
	if _, err := tryCreate(ctx, networks, namespace, &unstructured.Unstructured{Object: content}); err != nil {
		t.Fatalf("the API server refuses what export wrote: %v\n%+v", err, content)
	}
	left := slices.ContainsFunc(e.Notes, func(note string) bool { return strings.Contains(note, "declared, and stay") })
	if whole := len(e.Network.Spec.Subnets()) == len(drawn.Subnets); e.Incomplete != left || !whole && !left {
		t.Fatalf("Incomplete is %t, %d of %d subnets are declared, and the notes are %q", e.Incomplete,
			len(e.Network.Spec.Subnets()), len(drawn.Subnets), e.Notes)
	}
	return e
}

// TestPropertyTheAPIServerAcceptsWhatExportWrites exports networks of which many have what no Network can say.
func TestPropertyTheAPIServerAcceptsWhatExportWrites(t *testing.T) {
	f, namespace := newForeign(t), newNamespace(t)
	rapid.Check(t, func(rt *rapid.T) {
		f.export(rt, namespace, exportingtest.Network(true).Draw(rt, "network"))
	})
}

func TestWhatANetworkCannotSayIsAComment(t *testing.T) {
	f := newForeign(t)
	subnet := func(version int, cidr string, more ...any) map[string]any {
		body := map[string]any{"ip_version": version, "cidr": cidr}
		for i := 0; i < len(more); i += 2 {
			body[more[i].(string)] = more[i+1]
		}
		return body
	}
	pools := make([]any, 40)
	for i := range pools {
		pools[i] = map[string]any{"start": fmt.Sprintf("10.62.%d.10", i), "end": fmt.Sprintf("10.62.%d.20", i)}
	}
	for sentence, c := range map[string]struct {
		subnet map[string]any
		// gateway is what the Network says, and note what the comment says that takes its place.
		gateway, note string
	}{
		"Neutron's own gateway of IPv6": {subnet: subnet(6, "2001:db8:1::/64"), gateway: "2001:db8:1::"},
		"the same with SLAAC": {gateway: "fd00:62::",
			subnet: subnet(6, "fd00:62::/64", "ipv6_ra_mode", "slaac", "ipv6_address_mode", "slaac")},
		"a link-local gateway": {subnet: subnet(6, "fd00:60::/64", "gateway_ip", "fe80::1"), note: "not inside fd00:60::/64"},
		"a gateway outside":    {subnet: subnet(4, "10.60.9.0/24", "gateway_ip", "10.60.10.1"), note: "not inside 10.60.9.0/24"},
		"many pools": {subnet: subnet(4, "10.62.0.0/16", "allocation_pools", pools),
			note: "Subnet 10.62.0.0/16 is not declared, and stays: allocationPools: Too many: 40: must have at most 32 items"},
	} {
		t.Run(sentence, func(t *testing.T) {
			namespace := "not-yet" // what a Network can say is the same everywhere
			if c.note == "" {
				namespace = newNamespace(t)
			}
			e := f.export(t, namespace, exportingtest.Foreign{
				Network: map[string]any{"name": "net"}, Subnets: []map[string]any{c.subnet},
			})
			switch {
			case c.note == "" && (e.Network == nil || e.Incomplete || e.Network.Spec.Gateway != c.gateway):
				t.Errorf("exported %+v, %q", e.Network, e.Notes)
			case c.note != "" && (e.Network != nil || !strings.Contains(strings.Join(e.Notes, "\n"), c.note)):
				t.Errorf("exported %+v, %q, want a note that has %q", e.Network, e.Notes, c.note)
			}
		})
	}
}
