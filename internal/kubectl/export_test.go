package kubectl

import (
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// others fills the cloud of an example with a network that somebody made.
func others(t *testing.T, server *neutrontest.Server) map[string]string {
	r := &rebuilt{t: t, server: server}
	r.connect()
	id := r.make("network", map[string]any{"name": "Office", "description": "printers and phones", "mtu": 1400})
	on := r.make("subnet", map[string]any{"network_id": id, "cidr": "10.20.0.0/24", "ip_version": 4,
		"dns_nameservers": []string{"10.20.0.53"}})
	r.make("subnet", map[string]any{"network_id": id, "cidr": "fd00:20::/64", "ip_version": 6, "gateway_ip": nil})
	router := r.make("router", map[string]any{"name": "edge"})
	if err := r.cloud.Do(t.Context(), client.Request{Op: "attach", Method: http.MethodPut,
		Path: "routers/" + router + "/add_router_interface", Body: map[string]any{"subnet_id": on}}); err != nil {
		t.Fatal(err)
	}
	return map[string]string{id: "068d42bb-96f5-48f9-849f-0d08dcfe7af6", router: "64d5e0f7-1f5b-4d38-9f4c-2f6f3b1a7c55"}
}

// unsayable fills the cloud of an example with what objects left that are gone: one network can be imported, one not.
func unsayable(t *testing.T, server *neutrontest.Server) map[string]string {
	r := &rebuilt{t: t, server: server}
	r.connect()
	in := r.inventory(newCluster, nil)
	id := r.network(in, left("frontend"), "frontend", "192.168.0.0/29")
	bare := r.make("network", map[string]any{"name": "lab", "description": left("lab").Marker()})
	ids := map[string]string{id: "068d42bb-96f5-48f9-849f-0d08dcfe7af6", bare: "2c7f6bb1-3e0d-4f53-a1c0-5a5f0e1d7c20"}
	for key := range r.described() {
		switch many, of, _ := strings.Cut(key, " "); many {
		case "subnets":
			ids[of] = "5b0e4c5a-2c1f-4f3b-8a57-0a3b5f4d6c11"
		case "routers":
			ids[of] = "64d5e0f7-1f5b-4d38-9f4c-2f6f3b1a7c55"
		}
	}
	return ids
}

// TestExportIsYAMLWhateverTheNames has names that would end a comment, or a word for a shell.
func TestExportIsYAMLWhateverTheNames(t *testing.T) {
	r := startRebuilt(t)
	const hostile = "a\u2028kind: Pod\nspec: {x: '$(id)'} # \u0085b"
	id := r.make("network", map[string]any{"name": hostile, "description": hostile + " " + left("gone").Marker()})
	r.make("subnet", map[string]any{"network_id": id, "cidr": "10.0.0.0/24", "ip_version": 4, "name": hostile,
		"description": hostile})
	out, _ := run(t, r.objects(), "export --cloud mycloud -n shop")
	var n cloudteamv1.Network
	if err := yaml.UnmarshalStrict([]byte(out), &n); err != nil {
		t.Fatalf("%v in\n%s", err, out)
	}
	if n.Kind != "Network" || n.Spec.Import == nil || n.Spec.Import.ID != id || n.Spec.Description != hostile ||
		n.Spec.CIDR != "10.0.0.0/24" || len(n.Spec.AdditionalSubnets) > 0 {
		t.Errorf("%+v in\n%s", n.Spec, out)
	}
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "#   openstack") && !strings.Contains(line, `'\''$(id)'\''`) {
			t.Errorf("a shell would act on the name: %s", line)
		}
	}
}

func TestExportLeavesOutWhatHasAnObject(t *testing.T) {
	r := startRebuilt(t)
	in := r.inventory(newCluster, nil)
	alive := r.applied("shop", "alive", "10.8.0.0/24")
	owner := left("alive")
	owner.Object = string(alive.UID)
	r.network(in, owner, "alive", "10.8.0.0/24")
	r.network(r.old, frontendOfOld, "frontend", "10.1.0.0/24")
	free := r.make("network", map[string]any{"name": "free"})
	r.make("subnet", map[string]any{"network_id": free, "cidr": "10.2.0.0/24", "ip_version": 4})
	for command, want := range map[string][]string{
		"export --cloud mycloud":                          {"name: free", "1 networks have an object here", "1 networks bear the marker of another"},
		"export --cloud mycloud --name free --class open": {"className: open", "id: " + free},
		"export --cloud mycloud --orphan-only":            {"There is no network to export."},
		"export":                                          {"name a cloud of your clouds.yaml"},
	} {
		out, _ := run(t, r.objects([]runtime.Object{alive}...), command)
		for _, says := range want {
			expect.Contains(t, out, says, "what %s prints", command)
		}
		if strings.Contains(out, "name: alive") || strings.Contains(out, "name: frontend") {
			t.Errorf("%s exports what has an owner:\n%s", command, out)
		}
	}
}
