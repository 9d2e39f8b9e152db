package integration

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/specs"
)

// floatingIPs is the resource that the FloatingIP CRD serves.
var floatingIPs = cloudteamv1.SchemeGroupVersion.WithResource("floatingips")

// floatingIPWith returns a FloatingIP whose spec is the YAML text given.
var floatingIPWith = objectWith(cloudteamv1.SchemeGroupVersion.WithKind("FloatingIP"), "web")

// anID is an id as Neutron gives them.
const anID = "9d1f0f0a-6f3c-4b0e-8a55-0c6d3f1f2a11"

func TestFloatingIPMistakesAreRefusedWithOneSentenceEach(t *testing.T) {
	namespace := newNamespace(t)
	const (
		noNetwork = "write the id or the name of an external network"
		noPort    = "not the name of a NetworkPort"
		noClass   = "not the name of a NetworkClass"
	)
	refused(t, floatingIPs, namespace, floatingIPWith, "", []mistake{
		{`portName: web-0`, "externalNetwork", "Required value"},
		{`externalNetwork: ""`, "externalNetwork", noNetwork},
		{`externalNetwork: "public\n"`, "externalNetwork", noNetwork},
		{`externalNetwork: ` + strings.Repeat("w", 256), "externalNetwork", "may not be more than 255"},
	})
	refused(t, floatingIPs, namespace, floatingIPWith, `externalNetwork: a, `, []mistake{
		{`portName: ""`, "portName", noPort},
		{`portName: other/web-0`, "portName", noPort},
		{`portName: Web-0`, "portName", noPort},
		{`portName: "web-0\n"`, "portName", noPort},
		{`portName: ` + strings.Repeat("w", 254), "portName", "may not be more than 253"},
		{`portName: 7`, "portName", "must be of type string"},
		{`managementPolicy: Observe`, "managementPolicy", "must exist already: write its id in import.id"},
		{`managementPolicy: Plan`, "managementPolicy", `supported values: "Manage", "Observe"`},
		{`managementPolicy: Observe, portName: p, import: {id: ` + anID + `}`, "portName", "an observed floating IP stays where it is"},
		{`import: {}`, "import.id", "write the id of the floating IP, or a filter"},
		{`import: {id: ` + anID + `, filter: {tags: [a]}}`, "import.id", "and not both"},
		{`import: {filter: {}}`, "import.filter.tags", "Required value"},
		{`import: {filter: {tags: ["a,b"]}}`, "import.filter.tags[0]", "without a comma"},
		{`import: {id: web}`, "import.id", "not the id of a floating IP"},
		{`address: ""`, "address", "not an address of IPv4"},
		{`address: fd00::7`, "address", "not an address of IPv4"},
		{`address: 203.0.113.07`, "address", "not an address of IPv4"},
		{`address: 203.0.113.0/24`, "address", "not an address of IPv4"},
		{`deletionPolicy: Keep`, "deletionPolicy", `supported values: "Delete", "Retain"`},
		{`className: b, cloud: {secretName: c}`, "className", "leave cloud or className out"},
		{`className: Gold`, "className", noClass},
		{`cloud: {}`, "cloud.secretName", "Required value"},
	})
	refusedWithoutSpec(t, floatingIPs, namespace, floatingIPWith, "write spec.externalNetwork")
}

func TestFloatingIPsThatAreAccepted(t *testing.T) {
	namespace := newNamespace(t)
	accepted(t, floatingIPs, namespace, floatingIPWith, "", []string{
		`externalNetwork: public`,
		`externalNetwork: 9d1f0f0a-6f3c-4b0e-8a55-0c6d3f1f2a11`,
		`externalNetwork: "the world, outside"`,
		`externalNetwork: ` + strings.Repeat("数", 255),
	})
	accepted(t, floatingIPs, namespace, floatingIPWith, `externalNetwork: a, `, []string{
		`portName: ` + strings.Repeat("w", 63) + `.` + strings.Repeat("w", 63) + `.` + strings.Repeat("w", 63) + `.` +
			strings.Repeat("w", 61),
		`portName: web-7d9c-net-0.example`,
		`portName: web-0, deletionPolicy: Retain, managementPolicy: Manage, className: gold`,
		`cloud: {secretName: openstack, name: entry}`,
		`address: 203.0.113.7, import: {id: ` + anID + `}, portName: web-0`,
		`managementPolicy: Observe, import: {id: ` + anID + `}`,
	})
}

func TestFloatingIPUpdates(t *testing.T) {
	namespace := newNamespace(t)
	const address, imports = "the address of a floating IP cannot change", "the import cannot change"
	const moves = "a floating IP cannot move to another external network: create another FloatingIP"
	updated(t, floatingIPs, namespace, floatingIPWith, "", []update{
		{`externalNetwork: a`, `externalNetwork: b`, "externalNetwork", moves},
		{`externalNetwork: a, portName: p`, `externalNetwork: b, portName: q`, "externalNetwork", moves},
		{`externalNetwork: a`, `portName: p`, "externalNetwork", "Required value"},
		{`externalNetwork: a`, `externalNetwork: a, portName: p`, "", ""},
		{`externalNetwork: a, portName: p`, `externalNetwork: a`, "", ""},
		{`externalNetwork: a, portName: p`, `externalNetwork: a, portName: q`, "", ""},
		{`externalNetwork: a, className: c, managementPolicy: Manage`,
			`externalNetwork: a, cloud: {secretName: s}, deletionPolicy: Retain`,
			"", ""},
		{`externalNetwork: a`, `externalNetwork: a, address: 203.0.113.7`, "address", address},
		{`externalNetwork: a, address: 203.0.113.7`, `externalNetwork: a, address: 203.0.113.8`, "address", address},
		{`externalNetwork: a, address: 203.0.113.7`, `externalNetwork: a`, "address", address},
		{`externalNetwork: a`, `externalNetwork: a, import: {id: ` + anID + `}`, "import", imports + ": leave import out"},
		{`externalNetwork: a, import: {id: ` + anID + `}`, `externalNetwork: a`, "import", imports + ": write the id " + anID + " again"},
		{`externalNetwork: a, import: {id: ` + anID + `}`, `externalNetwork: a, managementPolicy: Observe, import: {id: ` + anID + `}`,
			"managementPolicy", "a managed floating IP cannot become an observed one"},
		{`externalNetwork: a, import: {filter: {tags: [a]}}`, `externalNetwork: a, import: {filter: {tags: [b]}}`, "import",
			imports + ": write the filter as it was"},
		{`externalNetwork: a, import: {filter: {tags: [a]}}`, `externalNetwork: a, import: {id: ` + anID + `}`, "import",
			imports + ": write the filter as it was"},
		{`externalNetwork: a, import: {filter: {tags: [a]}}`, `externalNetwork: a, import: {filter: {tags: [a]}}, portName: q`, "", ""},
		{`externalNetwork: a, managementPolicy: Observe, import: {id: ` + anID + `}`,
			`externalNetwork: a, portName: p, import: {id: ` + anID + `}`, "", ""},
	})
}

// TestDrawnFloatingIPsAreAccepted: other tests draw what the API server takes, and know what it does not take.
func TestDrawnFloatingIPsAreAccepted(t *testing.T) {
	client := networkAPI.CloudteamV1().FloatingIPs(newNamespace(t))
	limits := specs.Limits{
		FloatingNetworks: []string{"public", "partners"}, FloatingPorts: []string{"web-0", "web-1"},
		FloatingAddresses: []string{"203.0.113.7", "203.0.113.8"}, FloatingImports: []string{strings.Repeat("0", 32)},
		FloatingTags: []string{"web", "eu"},
		Clouds:       []*cloudteamv1.CloudReference{nil, {SecretName: "openstack"}}, Classes: []string{"", "gold"},
	}
	rapid.Check(t, func(rt *rapid.T) {
		obj := &cloudteamv1.FloatingIP{ObjectMeta: metav1.ObjectMeta{GenerateName: "drawn-"}}
		obj.Spec = limits.FloatingIP().Draw(rt, "spec")
		created, err := client.Create(t.Context(), obj, metav1.CreateOptions{})
		expect.NoError(rt, err)
		edited := created.DeepCopy()
		edited.Spec = limits.FloatingIPEdit(created.Spec).Draw(rt, "edited")
		_, err = client.Update(t.Context(), edited, metav1.UpdateOptions{})
		if may := specs.FloatingIPMayBecome(created.Spec, edited.Spec); may != (len(refusals(t, err)) == 0) {
			rt.Errorf("it may become that: %t; the API server says %v", may, err)
		}
	})
}

func TestFloatingIPsShowWhatAPersonAsksFirst(t *testing.T) {
	namespace := newNamespace(t)
	client := networkAPI.CloudteamV1().FloatingIPs(namespace)
	create := func(name, port string, status cloudteamv1.FloatingIPStatus) {
		obj := harness.Create(t, client, &cloudteamv1.FloatingIP{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       cloudteamv1.FloatingIPSpec{ExternalNetwork: "public", PortName: port},
		})
		obj.Status = status
		if _, err := client.UpdateStatus(t.Context(), obj, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	create("fresh", "", cloudteamv1.FloatingIPStatus{})
	create("one", "web-0", cloudteamv1.FloatingIPStatus{
		ResourceStatus: cloudteamv1.ResourceStatus{Conditions: []metav1.Condition{{
			Type: cloudteamv1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Available",
			LastTransitionTime: metav1.Now(),
		}}},
		FloatingIPID: "f1", Address: "203.0.113.7", ExternalNetworkID: "e", PortID: "p", PortAddress: "10.0.0.7",
		Class: &cloudteamv1.AppliedClass{Name: "gold"},
	})
	const name, address, port, ready, reason = "Name", "Address", "Port", "Ready", "Reason"
	want := []map[string]any{
		{name: "fresh", address: nil, port: nil, ready: nil, reason: nil},
		{name: "one", address: "203.0.113.7", port: "web-0", ready: "True", reason: "Available"},
	}
	expect.Equal(t, want, printed(t.Context(), t, floatingIPs, namespace, 0), "kubectl get floatingips")
	const outside, id, class = "External Network", "Floating IP ID", "Class"
	want[0][outside], want[0][id], want[0][class] = "public", nil, nil
	want[1][outside], want[1][id], want[1][class] = "public", "f1", "gold"
	expect.Equal(t, want, printed(t.Context(), t, floatingIPs, namespace, 1), "kubectl get floatingips -o wide")
}
