package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// TestStoredNetworkThatBreaksNewRule takes a Network through its life that was stored when the CRD did not have a rule
// yet by which it is refused today. The API server takes all that does not change its spec, so that the object says
// what Neutron refuses, and the rest of it is kept; and it can be put right.
func TestStoredNetworkThatBreaksNewRule(t *testing.T) {
	withProcesses(t)
	namespace := newNamespace(t)
	name := unique(t, namespace)
	spec := cloudteamv1.NetworkSpec{
		SubnetSpec: cloudteamv1.SubnetSpec{CIDR: "10.48.0.0/24"}, Router: &cloudteamv1.RouterSpec{},
		AdditionalSubnets: []cloudteamv1.SubnetSpec{{
			CIDR: "fd00:0:b::/64", IPv6AddressMode: cloudteamv1.IPv6ModeSLAAC,
		}},
	}
	storeBeforeRules(t, namespace, name, spec)
	startController(t, "tenant")
	c := open(t, "tenant")

	const why = "subnet fd00:0:b::/64 has ipv6AddressMode slaac and no ipv6RAMode"
	stalled := awaitSays(t, namespace, name, cloudteamv1.ConditionStalled, cloudteamv1.ReasonRejected, why)
	network := stalled.Status.NetworkID
	interfaces := func() (ids []string) {
		t.Helper()
		for _, p := range c.List("ports", "network_id="+network+"&device_owner=network:router_interface") {
			ids = append(ids, p.ID())
		}
		slices.Sort(ids)
		return ids
	}
	before := interfaces()
	expect.Len(t, 2, before, "ports for the router are")
	// What the next attempts make right is made right, and they make nothing else.
	c.Update("networks", network, resource{"name": "renamed"})
	eventually(t, func() error {
		if is := c.One("networks", "id="+network)["name"]; is != name {
			return fmt.Errorf("the network's name is %v, want %s", is, name)
		}
		return nil
	})
	expect.Equal(t, before, interfaces(), "ports for the router after another attempt")

	_, err := networks.CloudteamV1().Networks(namespace).Patch(t.Context(), name, types.MergePatchType,
		[]byte(`{"spec":{"description":"edited"}}`), metav1.PatchOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), `in ["fd00:0:b::/64"]`) {
		t.Errorf("an edit that leaves the mistake gives %v", err)
	}
	edit(t, namespace, name,
		`{"additionalSubnets":[{"cidr":"fd00:0:b::/64","ipv6AddressMode":"slaac","gateway":"none"}]}`)
	awaitReady(t, namespace, name)
	if left := interfaces(); len(left) != 1 || !slices.Contains(before, left[0]) {
		t.Errorf("ports for the router are %v, want the one of %v that is on it", left, before)
	}
	remove(t, namespace, name)
}

// storeBeforeRules stores a Network that the CRD's rules refuse, in a moment in which it has none.
func storeBeforeRules(t *testing.T, namespace, name string, spec cloudteamv1.NetworkSpec) {
	t.Helper()
	create := func(options metav1.CreateOptions) error {
		object := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: spec}
		_, err := networks.CloudteamV1().Networks(namespace).Create(t.Context(), object, options)
		return err
	}
	rules := replaceRules(t, []any{})
	func() {
		defer replaceRules(t, rules)
		// The API server takes a while to go by what it was given.
		eventually(t, func() error { return create(metav1.CreateOptions{}) })
	}()
	name += "-another"
	eventually(t, func() error {
		switch err := create(metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); {
		case err == nil:
			return errors.New("the rules are in place, and one more is taken")
		case apierrors.IsInvalid(err):
			return nil
		default:
			return err
		}
	})
}

// replaceRules gives the spec of Networks other CEL rules, and returns those that it had.
func replaceRules(t *testing.T, rules []any) (before []any) {
	t.Helper()
	crds := dynamic.NewForConfigOrDie(admin).Resource(harness.CRDResource)
	path := []string{"schema", "openAPIV3Schema", "properties", "spec", "x-kubernetes-validations"}
	// The API server writes to it, too.
	eventually(t, func() error {
		crd, err := crds.Get(contextOf(t), "networks."+cloudteamv1.SchemeGroupVersion.Group, metav1.GetOptions{})
		if err != nil {
			return err
		}
		versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
		if err != nil {
			return err
		}
		version := versions[0].(map[string]any)
		if before, _, err = unstructured.NestedSlice(version, path...); err != nil {
			return err
		}
		if err := unstructured.SetNestedSlice(version, rules, path...); err != nil {
			return err
		}
		if err := unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"); err != nil {
			return err
		}
		_, err = crds.Update(contextOf(t), crd, metav1.UpdateOptions{})
		return err
	})
	return before
}
