package integration

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/specs"
)

// floatingIPs is the resource that the FloatingIP CRD serves.
var floatingIPs = cloudteamv1.SchemeGroupVersion.WithResource("floatingips")

// floatingIPWith returns a FloatingIP whose spec is the YAML text given.
var floatingIPWith = objectWith(cloudteamv1.SchemeGroupVersion.WithKind("FloatingIP"), "web")

func TestFloatingIPMistakesAreRefusedWithOneSentenceEach(t *testing.T) {
	namespace := newNamespace(t)
	const (
		noNetwork = "write the id or the name of an external network"
		noPort    = "not the name of a NetworkPort"
		noClass   = "not the name of a NetworkClass"
	)
	refused(t, floatingIPs, namespace, floatingIPWith, map[string]mistake{
		"no external network": {`{portName: web-0}`, "spec.externalNetwork", "Required value"},
		"an empty one":        {`{externalNetwork: ""}`, "spec.externalNetwork", noNetwork},
		"one with a line break": {
			`{externalNetwork: "public\n"}`, "spec.externalNetwork", noNetwork,
		},
		"a long one": {
			`{externalNetwork: ` + strings.Repeat("w", 256) + `}`, "spec.externalNetwork", "may not be more than 255",
		},
		"an empty port":            {`{externalNetwork: a, portName: ""}`, "spec.portName", noPort},
		"a port of another":        {`{externalNetwork: a, portName: other/web-0}`, "spec.portName", noPort},
		"a port in capitals":       {`{externalNetwork: a, portName: Web-0}`, "spec.portName", noPort},
		"a port with a line break": {`{externalNetwork: a, portName: "web-0\n"}`, "spec.portName", noPort},
		"a long port": {
			`{externalNetwork: a, portName: ` + strings.Repeat("w", 254) + `}`, "spec.portName", "may not be more than 253",
		},
		"an id of a port that is a number": {
			`{externalNetwork: a, portName: 7}`, "spec.portName", "must be of type string",
		},
		"observing": {
			`{externalNetwork: a, managementPolicy: Observe}`, "spec.managementPolicy", `supported values: "Manage", "Plan"`,
		},
		"another deletion policy": {
			`{externalNetwork: a, deletionPolicy: Keep}`, "spec.deletionPolicy", `supported values: "Delete", "Retain"`,
		},
		"a class and a cloud": {
			`{externalNetwork: a, className: b, cloud: {secretName: c}}`, "spec.className", "leave cloud or className out",
		},
		"a class in capitals": {`{externalNetwork: a, className: Gold}`, "spec.className", noClass},
		"a cloud without a Secret": {
			`{externalNetwork: a, cloud: {}}`, "spec.cloud.secretName", "Required value",
		},
	})
	t.Run("no spec", func(t *testing.T) {
		floating := floatingIPWith(t, `{}`)
		delete(floating.Object, "spec")
		_, err := tryCreate(t.Context(), floatingIPs, namespace, floating)
		wantRefusal(t, err, "spec", "write spec.externalNetwork")
	})
}

func TestFloatingIPsThatAreAccepted(t *testing.T) {
	namespace := newNamespace(t)
	accepted(t, floatingIPs, namespace, floatingIPWith, map[string]string{
		"an external network alone": `{externalNetwork: public}`,
		"one by its id":             `{externalNetwork: 9d1f0f0a-6f3c-4b0e-8a55-0c6d3f1f2a11}`,
		"one with spaces":           `{externalNetwork: "the world, outside"}`,
		"the longest one":           `{externalNetwork: ` + strings.Repeat("数", 255) + `}`,
		"the longest port": `{externalNetwork: a, portName: ` + strings.Repeat("w", 63) + `.` +
			strings.Repeat("w", 63) + `.` + strings.Repeat("w", 63) + `.` + strings.Repeat("w", 61) + `}`,
		"a port of a Pod": `{externalNetwork: a, portName: web-7d9c-net-0.example}`,
		"everything": `{externalNetwork: a, portName: web-0, deletionPolicy: Retain, managementPolicy: Plan,
			className: gold}`,
		"a cloud of its own": `{externalNetwork: a, cloud: {secretName: openstack, name: entry}}`,
	})
}

func TestFloatingIPUpdates(t *testing.T) {
	namespace := newNamespace(t)
	const moves = "a floating IP cannot move to another external network: create another FloatingIP"
	updated(t, floatingIPs, namespace, floatingIPWith, map[string]update{
		"the external network cannot change": {
			`{externalNetwork: a}`, `{externalNetwork: b}`, "spec.externalNetwork", moves,
		},
		"not with the port": {
			`{externalNetwork: a, portName: p}`, `{externalNetwork: b, portName: q}`, "spec.externalNetwork", moves,
		},
		"it cannot go": {`{externalNetwork: a}`, `{portName: p}`, "spec.externalNetwork", "Required value"},
		"a port may come": {
			`{externalNetwork: a}`, `{externalNetwork: a, portName: p}`, "", "",
		},
		"a port may change": {
			`{externalNetwork: a, portName: p}`, `{externalNetwork: a, portName: q}`, "", "",
		},
		"a port may go": {
			`{externalNetwork: a, portName: p}`, `{externalNetwork: a}`, "", "",
		},
		"all else may change": {
			`{externalNetwork: a, className: c, managementPolicy: Plan}`,
			`{externalNetwork: a, cloud: {secretName: s}, deletionPolicy: Retain}`, "", "",
		},
	})
}

// TestDrawnFloatingIPsAreAccepted: other tests draw what the API server takes, and know what it does not take.
func TestDrawnFloatingIPsAreAccepted(t *testing.T) {
	client := networkAPI.CloudteamV1().FloatingIPs(newNamespace(t))
	limits := specs.Limits{
		FloatingNetworks: []string{"public", "partners"}, FloatingPorts: []string{"web-0", "web-1"},
		Clouds: []*cloudteamv1.CloudReference{nil, {SecretName: "openstack"}}, Classes: []string{"", "gold"},
	}
	rapid.Check(t, func(rt *rapid.T) {
		obj := &cloudteamv1.FloatingIP{ObjectMeta: metav1.ObjectMeta{GenerateName: "drawn-"}}
		obj.Spec = limits.FloatingIP().Draw(rt, "spec")
		created, err := client.Create(t.Context(), obj, metav1.CreateOptions{})
		if err != nil {
			rt.Fatal(err)
		}
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
		obj, err := client.Create(t.Context(), &cloudteamv1.FloatingIP{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       cloudteamv1.FloatingIPSpec{ExternalNetwork: "public", PortName: port},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
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
	if diff := cmp.Diff(want, printed(t.Context(), t, floatingIPs, namespace, 0)); diff != "" {
		t.Errorf("kubectl get floatingips (-want +got):\n%s", diff)
	}
	const outside, id, class = "External Network", "Floating IP ID", "Class"
	want[0][outside], want[0][id], want[0][class] = "public", nil, nil
	want[1][outside], want[1][id], want[1][class] = "public", "f1", "gold"
	if diff := cmp.Diff(want, printed(t.Context(), t, floatingIPs, namespace, 1)); diff != "" {
		t.Errorf("kubectl get floatingips -o wide (-want +got):\n%s", diff)
	}
}
