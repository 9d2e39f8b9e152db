package e2e

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	clientv1 "cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/typed/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// newer is what TestVersionSkew has of objects and fields that the earlier binary does not know.
type newer struct {
	*site
	t             *testing.T
	tenant, admin *cloud
	set           *appsv1.StatefulSet
}

// create applies one of everything and waits until all is Ready.
func (n *newer) create() {
	n.t.Helper()
	n.makeOutside()
	class := &cloudteamv1.NetworkClass{ObjectMeta: metav1.ObjectMeta{
		Name: "open", Annotations: map[string]string{cloudteamv1.AnnotationDefaultClass: "true"},
	}}
	class.Spec.AllowedFields = []cloudteamv1.PrivilegedField{
		cloudteamv1.FieldAddressPairs, cloudteamv1.FieldPortSecurity, cloudteamv1.FieldFloatingIP,
	}
	harness.Create(n.t, n.Networks.CloudteamV1().NetworkClasses(), class)
	n.edit("frontend", `{"spec":{"router":{"externalNetwork":"outside"}}}`)
	n.await("frontend", cloudteamv1.ReasonAvailable)

	https := int32(443)
	for name, rules := range map[string][]cloudteamv1.SecurityGroupRule{
		"web": {
			{Direction: cloudteamv1.RuleIngress, Protocol: "tcp", PortRangeMin: &https},
			{Direction: cloudteamv1.RuleIngress, RemoteGroup: "web"},
		},
		"goes": nil,
	} {
		g := &cloudteamv1.SecurityGroup{ObjectMeta: metav1.ObjectMeta{Name: name}}
		g.Spec.Rules = rules
		harness.Create(n.t, n.groups(), g)
	}
	byDefault := n.tenant.One("security-groups", "name=default&project_id="+n.tenant.Project).ID()
	floats := &cloudteamv1.PortFloatingIP{ExternalNetwork: "outside"}
	grouped := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{Name: "grouped"}}
	grouped.Spec.CIDR, grouped.Spec.SecurityGroupRefs = "10.3.0.0/24", []string{"web"}
	harness.Create(n.t, n.networks(), grouped)
	for name, spec := range map[string]cloudteamv1.NetworkPortSpec{
		"refs":      {NetworkName: "frontend", SecurityGroupRefs: []string{"web"}},
		"both":      {NetworkName: "frontend", SecurityGroupRefs: []string{"web"}, SecurityGroups: []string{byDefault}},
		"named":     {NetworkName: "frontend", SecurityGroups: []string{"default"}},
		"inherits":  {NetworkName: "grouped"},
		"floats":    {NetworkName: "frontend", FloatingIP: floats},
		"goes":      {NetworkName: "frontend", FloatingIP: floats},
		"pairs":     {NetworkName: "frontend", AllowedAddressPairs: []cloudteamv1.AddressPair{{Address: "10.1.0.250"}}},
		"unguarded": {NetworkName: "frontend", PortSecurity: new(false)},
	} {
		harness.Create(n.t, n.ports(), &cloudteamv1.NetworkPort{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec})
	}

	for name, port := range map[string]string{"leads": "refs", "goes": "pairs", "waits": ""} {
		f := &cloudteamv1.FloatingIP{ObjectMeta: metav1.ObjectMeta{Name: name}}
		f.Spec.ExternalNetwork, f.Spec.PortName = "outside", port
		harness.Create(n.t, n.floatings(), f)
	}

	shop := harness.DeploymentOn("shop", "frontend", 1)
	shop.Spec.Template.Annotations[cloudteamv1.AnnotationSecurityGroups] = "web"
	harness.Create(n.t, n.Kube.AppsV1().Deployments(metav1.NamespaceDefault), shop)
	n.set = harness.Create(n.t, n.Kube.AppsV1().StatefulSets(metav1.NamespaceDefault),
		harness.StatefulSetOn("db", "frontend", 2, appsv1.ParallelPodManagement))
	n.createPod("db-0")
	n.createPod("db-1")
	n.createPod("lone")
	n.allocations("db-0", "db-1", "lone")
	n.ready()
}

// createPod does what the StatefulSet's controller and the policy of the gate do elsewhere. The Pod lone has no
// StatefulSet, and declares a group and a floating IP.
func (n *newer) createPod(name string) {
	n.t.Helper()
	pod := harness.PodOn(name, "frontend")
	if name == "lone" {
		pod.Annotations[cloudteamv1.AnnotationSecurityGroups] = "web"
		pod.Annotations[cloudteamv1.AnnotationFloatingIP] = "outside"
	} else {
		pod.OwnerReferences = []metav1.OwnerReference{
			*metav1.NewControllerRef(n.set, appsv1.SchemeGroupVersion.WithKind("StatefulSet")),
		}
	}
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: cloudteamv1.SchedulingGate}}
	harness.Create(n.t, n.pods(), pod)
}

// replacePod has another Pod of the same name get its allocation.
func (n *newer) replacePod(name string) {
	n.t.Helper()
	harness.Delete(n.t, n.pods(), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	n.createPod(name)
	n.allocations(name)
}

// allocations waits for the allocations of Pods, and gives them by the Pods' names.
func (n *newer) allocations(names ...string) map[string]string {
	n.t.Helper()
	all := map[string]string{}
	n.Eventually(n.t, func() error {
		for _, name := range names {
			pod, err := n.pods().Get(n.t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if all[name] = pod.Annotations[cloudteamv1.AnnotationAllocations]; all[name] == "" {
				return fmt.Errorf("pod %s has no allocation: %v", name, pod.Status.Conditions)
			}
		}
		return nil
	})
	return all
}

func (n *newer) allocated(want map[string]string, names ...string) {
	n.t.Helper()
	expect.Equal(n.t, want, n.allocations(names...), "the Pods' allocations differ")
}

// ready waits until all objects are Ready with their newest specs.
func (n *newer) ready() {
	n.t.Helper()
	n.Eventually(n.t, func() error {
		is, err := n.list()
		for _, o := range is {
			c := meta.FindStatusCondition(o.status.Conditions, cloudteamv1.ConditionReady)
			if c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != o.Generation {
				return fmt.Errorf("%s %s is not Ready: %v", o.kind, o.Name, o.status.Conditions)
			}
		}
		return err
	})
}

// objects gives what users and the controllers declare: specs, finalizers and annotations, by kind and name. It leaves
// out the note of what to take back.
func (n *newer) objects() map[string]string {
	n.t.Helper()
	is, err := n.list()
	expect.NoError(n.t, err)
	all := map[string]string{}
	for _, o := range is {
		delete(o.Annotations, cloudteamv1.AnnotationTakeBack)
		all[o.kind+" "+o.Name] = asJSON(map[string]any{
			"uid": o.UID, "spec": o.spec, "finalizers": o.Finalizers, "annotations": o.Annotations, "owners": o.OwnerReferences,
			"generation": o.Generation, "deleted": o.DeletionTimestamp,
		})
	}
	return all
}

type declaredObject struct {
	kind string
	metav1.ObjectMeta
	spec   any
	status cloudteamv1.ResourceStatus
}

func (n *newer) list() (all []declaredObject, err error) {
	ctx, options := n.t.Context(), metav1.ListOptions{}
	networks, err1 := n.networks().List(ctx, options)
	ports, err2 := n.ports().List(ctx, options)
	groups, err3 := n.groups().List(ctx, options)
	floating, err4 := n.floatings().List(ctx, options)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, err
	}
	for _, o := range networks.Items {
		if o.Name != "backend" { // which the test edits
			all = append(all, declaredObject{"Network", o.ObjectMeta, o.Spec, o.Status.ResourceStatus})
		}
	}
	for _, o := range ports.Items {
		all = append(all, declaredObject{"NetworkPort", o.ObjectMeta, o.Spec, o.Status.ResourceStatus})
	}
	for _, o := range groups.Items {
		all = append(all, declaredObject{"SecurityGroup", o.ObjectMeta, o.Spec, o.Status.ResourceStatus})
	}
	for _, o := range floating.Items {
		all = append(all, declaredObject{"FloatingIP", o.ObjectMeta, o.Spec, o.Status.ResourceStatus})
	}
	return all, nil
}

func (n *newer) ports() clientv1.NetworkPortInterface {
	return n.Networks.CloudteamV1().NetworkPorts(metav1.NamespaceDefault)
}

func (n *newer) groups() clientv1.SecurityGroupInterface {
	return n.Networks.CloudteamV1().SecurityGroups(metav1.NamespaceDefault)
}

func (n *newer) floatings() clientv1.FloatingIPInterface {
	return n.Networks.CloudteamV1().FloatingIPs(metav1.NamespaceDefault)
}

func (n *newer) pods() corev1client.PodInterface {
	return n.Kube.CoreV1().Pods(metav1.NamespaceDefault)
}

// awaitGroups waits until a port is in the groups of these names in Neutron, and in no others.
func (n *newer) awaitGroups(name string, want ...string) {
	n.t.Helper()
	id := harness.Get(n.t, n.ports(), name).Status.PortID
	n.Eventually(n.t, func() error {
		var in []string
		for _, group := range n.tenant.One("ports", "id="+id)["security_groups"].([]any) {
			in = append(in, n.tenant.One("security-groups", "id="+group.(string))["name"].(string))
		}
		slices.Sort(in)
		if !slices.Equal(in, want) {
			return fmt.Errorf("the port %s is in the groups %v, want %v", name, in, want)
		}
		return nil
	})
}

// remove deletes the NetworkPort, the SecurityGroup and the FloatingIP of a name.
func (n *newer) remove(name string) {
	n.t.Helper()
	harness.Delete(n.t, n.ports(), name)
	harness.Delete(n.t, n.groups(), name)
	harness.Delete(n.t, n.floatings(), name)
}

// makeOutside makes what stays as long as the emulator: networks of the controller are connected to it at the end.
func (n *newer) makeOutside() {
	n.t.Helper()
	outside, err := n.admin.Neutron.Create(n.t.Context(), "networks", resource{"name": "outside", "router:external": true})
	expect.NoError(n.t, err)
	_, err = n.admin.Neutron.Create(n.t.Context(), "subnets", resource{
		"network_id": outside.ID(), "cidr": "203.0.113.0/24", "ip_version": 4, "enable_dhcp": false,
	})
	expect.NoError(n.t, err)
}

// byID gives resources by their ids.
func byID(all []resource) map[string]resource {
	of := map[string]resource{}
	for _, r := range all {
		of[r.ID()] = r
	}
	return of
}

// without is a map without some ids.
func without(all map[string]resource, ids ...string) map[string]resource {
	left := maps.Clone(all)
	maps.DeleteFunc(left, func(id string, _ resource) bool { return slices.Contains(ids, id) })
	return left
}
