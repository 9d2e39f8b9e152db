package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// networkPorts is the resource that the NetworkPort CRD serves.
var networkPorts = cloudteamv1.SchemeGroupVersion.WithResource("networkports")

// networkPortWith returns a NetworkPort whose spec is the YAML text given.
var networkPortWith = objectWith(cloudteamv1.SchemeGroupVersion.WithKind("NetworkPort"), "example")

func TestNetworkPortMistakesAreRefusedWithOneSentenceEach(t *testing.T) {
	namespace := newNamespace(t)
	const (
		noNetwork   = `a port needs a network: write the name of a Network, such as "example-network"`
		noName      = `write lower-case letters, digits, "-" and "."`
		noNamespace = `write lower-case letters, digits and "-"`
		noAddress   = `not an address: write one without a prefix length, such as "192.168.0.10"`
		twice       = "an address is listed twice"
		noMAC       = `write six groups of two hexadecimal digits`
		noGroup     = "not a security group: write its id or its name"
	)
	refused(t, networkPorts, namespace, networkPortWith, "", []mistake{
		{``, "networkName", noNetwork},
		{`addresses: [192.168.0.10], mac: "fa:16:3e:00:00:01", networkNamespace: a`, "networkName", noNetwork},
		{`networkName: ""`, "networkName", noNetwork},
		{`networkName: Example`, "networkName", noName},
		{`networkName: a_b`, "networkName", noName},
		{`networkName: -a`, "networkName", noName},
		{`networkName: a-`, "networkName", noName},
		{`networkName: a..b`, "networkName", noName},
		{`networkName: "a\n"`, "networkName", noName},
		{`networkName: other/example-network`, "networkName", noName},
		{`networkName: ` + strings.Repeat("a", 254), "networkName", "Too long"},
	})
	refused(t, networkPorts, namespace, networkPortWith, `networkName: a, `, []mistake{
		{`networkNamespace: ""`, "networkNamespace", "or leave it out"},
		{`floatingIP: {externalNetwork: b, address: fd00::1}`, "floatingIP.address", "not an address of IPv4"},
		{`networkNamespace: b.c`, "networkNamespace", noNamespace},
		{`networkNamespace: B`, "networkNamespace", noNamespace},
		{`networkNamespace: "*"`, "networkNamespace", noNamespace},
		{`networkNamespace: b-`, "networkNamespace", noNamespace},
		{`networkNamespace: ` + strings.Repeat("b", 64), "networkNamespace", "Too long"},
		{`addresses: []`, "addresses", "write one, or leave addresses out and Neutron chooses"},
		{`addresses: [""]`, "addresses[0]", noAddress},
		{`addresses: [first]`, "addresses[0]", noAddress},
		{`addresses: [192.168.0.10/16]`, "addresses[0]", noAddress},
		{`addresses: [192.168.0.010]`, "addresses[0]", noAddress},
		{`addresses: ["::ffff:1.2.3.4"]`, "addresses[0]", noAddress},
		{`addresses: ["fe80::1%eth0"]`, "addresses[0]", noAddress},
		{`addresses: [192.168.0.1, b]`, "addresses[1]", noAddress},
		{`addresses: [10.0.0.1, 10.0.0.1]`, "addresses", twice},
		{`addresses: ["FD00::1", "fd00:0::1"]`, "addresses", twice},
		{`addresses: [` + nameServers(9) + `]`, "addresses", "must have at most 8 items"},
		{`securityGroups: [` + list(9, tagOf255) + `]`, "securityGroups", "write at most 4096 bytes in all, or ids"},
		{`mac: ""`, "mac", "or leave it out and Neutron chooses"},
		{`mac: "fa:16:3e:00:00"`, "mac", noMAC},
		{`mac: "fa:16:3e:00:00:01:00:00"`, "mac", noMAC},
		{`mac: fa-16-3e-00-00-01`, "mac", noMAC},
		{`mac: fa163e000001`, "mac", noMAC},
		{`mac: "fa:16:3g:00:00:01"`, "mac", noMAC},
		{`mac: "01:00:5e:00:00:01"`, "mac", "the second digit even"},
		{`mac: "ff:ff:ff:ff:ff:ff"`, "mac", "the second digit even"},
		{`mac: "00:00:00:00:00:00"`, "mac", "not all zero"},
		{`mac: "fa:16:3e:00:00:01\n"`, "mac", noMAC},
		{`securityGroups: ["web\n"]`, "securityGroups[0]", noGroup},
		{`securityGroups: [` + strings.Repeat("w", 256) + `]`, "securityGroups[0]", "255"},
		{`securityGroups: [` + groupID(1) + `, ""]`, "securityGroups[1]", noGroup},
		{`securityGroups: [` + groupID(1) + `, ` + groupID(1) + `]`, "securityGroups", "a security group is listed twice"},
		{`securityGroupRefs: ["other/web"]`, "securityGroupRefs[0]", "not the name of a SecurityGroup"},
		{`securityGroupRefs: [web, web]`, "securityGroupRefs", "a SecurityGroup is listed twice"},
		{`securityGroupRefs: [` + list(17, func(i int) string { return fmt.Sprintf("g%d", i) }) + `]`,
			"securityGroupRefs", "must have at most 16 items"},
		{`portSecurity: false, securityGroupRefs: [web]`, "portSecurity", "has no security groups"},
		{`deletionPolicy: Never`, "deletionPolicy", `supported values: "Delete", "Retain"`},
		{`ignoreDrift: [addresses]`, "ignoreDrift[0]", `supported values: "name", "description"`},
		{`driftPolicy: report`, "driftPolicy", `supported values: "Correct", "Report"`},
		{`securityGroups: [` + list(17, groupID) + `]`, "securityGroups", "must have at most 16 items"},
	})
}

func TestNetworkPortWithoutSpecIsToldToWriteOne(t *testing.T) {
	refusedWithoutSpec(t, networkPorts, newNamespace(t), networkPortWith,
		"Required value: a NetworkPort needs a spec: write spec.networkName, the name of a Network")
}

func TestNetworkPortsThatAreAccepted(t *testing.T) {
	namespace := newNamespace(t)
	for name, spec := range map[string]string{
		"a network alone":                      `{networkName: example-network}`,
		"a name of digits":                     `{networkName: "1"}`,
		"a name with dots":                     `{networkName: a.b-c.d}`,
		"the longest name":                     `{networkName: ` + strings.Repeat("a", 253) + `}`,
		"a network of another namespace":       `{networkName: a, networkNamespace: other}`,
		"the longest namespace":                `{networkName: a, networkNamespace: ` + strings.Repeat("b", 63) + `}`,
		"an address":                           `{networkName: a, addresses: [192.168.0.10]}`,
		"an IPv6 address in capitals":          `{networkName: a, addresses: ["FD00:1::A"]}`,
		"an IPv6 address with a dotted end":    `{networkName: a, addresses: ["64:ff9b::192.0.2.1"]}`,
		"an address of both families":          `{networkName: a, addresses: [192.168.0.10, "fd00::10"]}`,
		"eight addresses":                      `{networkName: a, addresses: [` + nameServers(8) + `]}`,
		"a mac":                                `{networkName: a, mac: "fa:16:3e:00:00:01"}`,
		"a mac in capitals":                    `{networkName: a, mac: "FA:16:3E:00:00:01"}`,
		"a mac of a maker that begins with 00": `{networkName: a, mac: "00:00:00:00:00:01"}`,
		"a security group":                     `{networkName: a, securityGroups: [` + groupID(1) + `]}`,
		"a security group by its name":         `{networkName: a, securityGroups: ["the web servers", default]}`,
		"an id without hyphens": `{networkName: a, securityGroups: [` +
			strconv.Quote(strings.ReplaceAll(groupID(1), "-", "")) + `]}`,
		"SecurityGroups beside groups in Neutron": `{networkName: a, securityGroupRefs: [web, db], securityGroups: [x]}`,
		"no SecurityGroups without port security": `{networkName: a, portSecurity: false, securityGroupRefs: []}`,
		"sixteen SecurityGroups": `{networkName: a, securityGroupRefs: [` +
			list(16, func(i int) string { return fmt.Sprintf("g%d", i) }) + `]}`,
		"sixteen security groups": `{networkName: a, securityGroups: [` + list(16, groupID) + `]}`,
		"the most of everything": `{networkName: ` + strings.Repeat("a", 253) + `, networkNamespace: ` +
			strings.Repeat("b", 63) + `, mac: "fa:16:3e:00:00:01", securityGroups: [` + list(16, groupID) + `],
			addresses: [` + list(8, func(i int) string { return strconv.Quote(longIPv6(0, i)) }) + `]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := tryCreate(t.Context(), networkPorts, namespace, networkPortWith(t, spec))
			if err != nil {
				t.Fatalf("want it accepted, got %v", err)
			}
			// The schema has no defaults: what is unset is Neutron's or the controller's to choose.
			expect.Equal(t, parseYAML(t, spec).Object, got.Object["spec"], "spec as stored")
		})
	}
}

func TestNetworkPortUpdates(t *testing.T) {
	namespace := newNamespace(t)
	const (
		moved = "a port cannot move: "
		fixed = "of a port cannot change: "
		other = ", or delete this NetworkPort and create another"
	)
	updated(t, networkPorts, namespace, networkPortWith, "", []update{
		{`networkName: a`, `networkName: b`, "networkName", moved + `write "a" again` + other},
		{`networkName: a`, ``, "networkName", "once written, it cannot be removed"},
		{`networkName: a`, `networkName: ""`, "networkName", "once written, it cannot be removed"},
		{`networkName: a`, `networkName: B`, "networkName", "not the name of an object"},
		{`networkName: a`, `networkName: a, networkNamespace: c`,
			"networkNamespace", moved + "leave networkNamespace out" + other},
		{`networkName: a, networkNamespace: b`, `networkName: a`, "networkNamespace", moved + `write "b" again` + other},
		{`networkName: a`, `networkName: a, addresses: [10.0.0.1]`,
			"addresses", "the addresses " + fixed + "leave addresses out" + other},
		{`networkName: a, addresses: [10.0.0.1]`, `networkName: a`, "addresses", `write ["10.0.0.1"] again`},
		{`networkName: a`, `networkName: a, mac: "fa:16:3e:00:00:02"`, "mac", "the mac " + fixed + "leave mac out" + other},
		{`networkName: a, mac: "fa:16:3e:00:00:01"`, `networkName: a`,
			"mac", "the mac " + fixed + `write "fa:16:3e:00:00:01" again` + other},
		{`networkName: a`, `networkName: a, securityGroups: [` + groupID(1) + `]`, "", ""},
		{`networkName: a, securityGroups: [` + groupID(1) + `]`, `networkName: a`, "", ""},
		{`` + fullPort(1), `` + fullPort(2) + ``, "", ""},
	})
	updated(t, networkPorts, namespace, networkPortWith, `networkName: a, `, []update{
		{`networkNamespace: b`, `networkNamespace: c`, "networkNamespace", moved + `write "b" again` + other},
		{`floatingIP: {externalNetwork: b, address: 203.0.113.7}`, `floatingIP: {externalNetwork: b, address: 203.0.113.8}`,
			"floatingIP.address", "the address of a floating IP cannot change"},
		{`floatingIP: {externalNetwork: b}`, `floatingIP: {externalNetwork: b, address: 203.0.113.8}`,
			"floatingIP.address", "the address of a floating IP cannot change"},
		{`floatingIP: {externalNetwork: b, address: 203.0.113.7}`, `floatingIP: {externalNetwork: c, address: 203.0.113.7}`,
			"floatingIP.externalNetwork", "the external network of an address of choice cannot change"},
		{`floatingIP: {externalNetwork: b}`, `floatingIP: {externalNetwork: c}`, "", ""},
		{`floatingIP: {externalNetwork: b, address: 203.0.113.7}`, ``, "", ""},
		{`networkNamespace: b`, `networkNamespace: ""`, "networkNamespace", "not the name of a namespace"},
		{`addresses: [10.0.0.1, "fd00::1"]`, `addresses: [10.0.0.1, "fd00::2"]`,
			"addresses", "the addresses " + fixed + `write ["10.0.0.1", "fd00::1"] again` + other},
		{`addresses: [10.0.0.1]`, `addresses: [10.0.0.1, 10.0.0.2]`, "addresses", `write ["10.0.0.1"] again`},
		{`addresses: [10.0.0.1, 10.0.0.2]`, `addresses: [10.0.0.2]`, "addresses", `write ["10.0.0.1", "10.0.0.2"] again`},
		{`addresses: [10.0.0.1]`, `addresses: []`, "addresses", "a port needs an address"},
		{`addresses: [10.0.0.1]`, `addresses: [x]`, "addresses[0]", "not an address"},
		{`addresses: [10.0.0.1]`, `addresses: [10.0.0.1, 10.0.0.1]`, "addresses", "an address is listed twice"},
		{`addresses: [10.0.0.1, "FD00::1"]`, `addresses: ["fd00:0::1", 10.0.0.1]`, "", ""},
		{`mac: "fa:16:3e:00:00:01"`, `mac: "fa:16:3e:00:00:02"`,
			"mac", "the mac " + fixed + `write "fa:16:3e:00:00:01" again` + other},
		{`mac: "fa:16:3e:00:00:01"`, `mac: "00:00:00:00:00:00"`, "mac", "not the hardware address of one host"},
		{`mac: "FA:16:3E:00:00:01"`, `mac: "fa:16:3e:00:00:01"`, "", ""},
		{`securityGroups: [` + groupID(1) + `]`, `securityGroups: [` + groupID(2) + `, ` + groupID(3) + `]`, "", ""},
	})
}

func TestNetworkPortsShowWhatAPersonAsksFirst(t *testing.T) {
	namespace := newNamespace(t)
	client := networkAPI.CloudteamV1().NetworkPorts(namespace)
	create := func(name string, status cloudteamv1.NetworkPortStatus) {
		port := harness.Create(t, client, &cloudteamv1.NetworkPort{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: cloudteamv1.NetworkPortSpec{NetworkName: "office"},
		})
		port.Status = status
		if _, err := client.UpdateStatus(t.Context(), port, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	create("fresh", cloudteamv1.NetworkPortStatus{})
	create("one", cloudteamv1.NetworkPortStatus{
		ResourceStatus: cloudteamv1.ResourceStatus{Conditions: []metav1.Condition{{
			Type: cloudteamv1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Available",
			LastTransitionTime: metav1.Now(),
		}}},
		PortID: "5a1b", MAC: "fa:16:3e:00:00:01",
		Addresses: []cloudteamv1.PortAddress{{Address: "192.168.0.7/16", SubnetID: "s"}},
	})
	create("two", cloudteamv1.NetworkPortStatus{
		PortID: "5a1c", MAC: "fa:16:3e:00:00:02",
		Addresses: []cloudteamv1.PortAddress{{Address: "192.168.0.8/16", SubnetID: "s"}, {Address: "fd00::8/64", SubnetID: "t"}},
		BoundTo:   &cloudteamv1.PortBinding{Kind: "Pod", Name: "web-0", UID: "u"},
		Attachment: &cloudteamv1.PortAttachment{
			Node: "node1", Host: "node1", Mode: cloudteamv1.AttachmentOVN, PortID: "5a1c", PodUID: "u",
		},
		Standby:    &cloudteamv1.PortStandby{Node: "node2", PodUID: "v"},
		FloatingIP: &cloudteamv1.PortFloatingIPStatus{ID: "f", Address: "203.0.113.7", ExternalNetworkID: "e"},
	})
	attached, err := client.List(t.Context(), metav1.ListOptions{FieldSelector: "status.attachment.node=node1"})
	if err != nil || len(attached.Items) != 1 || attached.Items[0].Name != "two" {
		t.Errorf("an agent that asks for the ports of its node gets %v, %v", attached, err)
	}
	next, err := client.List(t.Context(), metav1.ListOptions{FieldSelector: "status.standby.node=node2"})
	if err != nil || len(next.Items) != 1 || next.Items[0].Name != "two" {
		t.Errorf("an agent that asks for the ports that its Pods get next gets %v, %v", next, err)
	}

	const name, ready, reason, network, address, bound = "Name", "Ready", "Reason", "Network", "Address", "Bound To"
	const node, mode = "Node", "Dataplane"
	want := []map[string]any{
		{name: "fresh", ready: nil, reason: nil, network: "office", address: nil, bound: nil},
		{name: "one", ready: "True", reason: "Available", network: "office", address: "192.168.0.7/16", bound: nil},
		{name: "two", ready: nil, reason: nil, network: "office", address: "192.168.0.8/16", bound: "web-0"},
	}
	for _, row := range want {
		row[node], row[mode] = nil, nil
	}
	want[2][node], want[2][mode] = "node1", "ovn"
	expect.Equal(t, want, printed(t.Context(), t, networkPorts, namespace, 0), "kubectl get networkports")

	const second, mac, id, plugged, floating = "Second Address", "MAC", "Port ID", "Attached", "Floating IP"
	for _, row := range want {
		row[plugged], row[floating] = nil, nil
	}
	want[2][floating] = "203.0.113.7"
	want[0][second], want[0][mac], want[0][id] = nil, nil, nil
	want[1][second], want[1][mac], want[1][id] = nil, "fa:16:3e:00:00:01", "5a1b"
	want[2][second], want[2][mac], want[2][id] = "fd00::8/64", "fa:16:3e:00:00:02", "5a1c"
	expect.Equal(t, want, printed(t.Context(), t, networkPorts, namespace, 1), "kubectl get networkports -o wide")
}

func TestABindingNamesItsUser(t *testing.T) {
	client := networkAPI.CloudteamV1().NetworkPorts(newNamespace(t))
	port, err := client.Create(t.Context(), &cloudteamv1.NetworkPort{
		ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: cloudteamv1.NetworkPortSpec{NetworkName: "office"},
	}, metav1.CreateOptions{})
	expect.NoError(t, err)
	port.Status.BoundTo = &cloudteamv1.PortBinding{Kind: "Pod", UID: "u"}
	_, err = client.UpdateStatus(t.Context(), port, metav1.UpdateOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "status.boundTo.name") {
		t.Errorf("want a refusal of an empty status.boundTo.name, got %v", err)
	}
}

// printed returns the rows that kubectl prints of a namespace's objects of a kind of ours, in the order of their names,
// each by the names of its columns without the age. Priority is 1 with -o wide, else 0.
func printed(
	ctx context.Context, t *testing.T, of schema.GroupVersionResource, namespace string, priority int32,
) []map[string]any {
	t.Helper()
	text, err := networkAPI.CloudteamV1().RESTClient().Get().Namespace(namespace).Resource(of.Resource).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(ctx)
	expect.NoError(t, err)
	var table metav1.Table
	expect.NoError(t, json.Unmarshal(text, &table))
	var rows []map[string]any
	for _, row := range table.Rows {
		cells := map[string]any{}
		for i, column := range table.ColumnDefinitions {
			if column.Priority <= priority && column.Name != "Age" {
				cells[column.Name] = row.Cells[i]
			}
		}
		rows = append(rows, cells)
	}
	return rows
}

func TestAllowedNamespaces(t *testing.T) {
	namespace := newNamespace(t)
	const noNamespace = `not a namespace: write its name, such as "team-a", or "*" for all namespaces`
	names := func(count int) string { return list(count, func(i int) string { return fmt.Sprintf("team-%d", i) }) }
	const all = `cidr: 192.168.0.0/16, allowedNamespaces: `
	accepted(t, networks, namespace, networkWith, all, []string{
		`[]`, `[team-a]`, `["1"]`, `[` + strings.Repeat("a", 63) + `]`, `["*"]`, `["*", team-a]`, `[` + names(64) + `]`,
	})
	refused(t, networks, namespace, networkWith, all, []mistake{
		{`[` + names(65) + `]`, "allowedNamespaces", "must have at most 64 items"},
		{`[""]`, "allowedNamespaces[0]", noNamespace},
		{`[team-a, Team]`, "allowedNamespaces[1]", noNamespace},
		{`[team.a]`, "allowedNamespaces[0]", noNamespace},
		{`[team-*]`, "allowedNamespaces[0]", noNamespace},
		{`[-a]`, "allowedNamespaces[0]", noNamespace},
		{`["a\n"]`, "allowedNamespaces[0]", noNamespace},
		{`[` + strings.Repeat("a", 64) + `]`, "allowedNamespaces[0]", "Too long"},
		{`[team-a, team-b, team-a]`, "allowedNamespaces[2]", "Duplicate value"},
		{`[team-a, "team b", "*"]`, "allowedNamespaces[1]", noNamespace},
	})
}

// groupID is an id as Neutron gives it to a security group, one for each number.
func groupID(number int) string {
	return fmt.Sprintf("5c0fa3d1-1d4b-4f0e-9c55-%012x", number)
}

// fullPort is a spec, as YAML, with every field set. Those that cannot change are always the same; the number is of the
// security group.
func fullPort(group int) string {
	return `networkName: a, networkNamespace: b, addresses: [10.0.0.1, "fd00::1"], mac: "fa:16:3e:00:00:01",
		securityGroups: [` + groupID(group) + `]`
}
