package e2e

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// awaitFloating waits until a FloatingIP's condition Ready has a reason and its floating IP leads to a port, or nowhere
// for "". There is exactly one, as the status shows it.
func (c *cloud) awaitFloating(namespace, name, reason, port string) *cloudteamv1.FloatingIP {
	c.t.Helper()
	api := networks.CloudteamV1().FloatingIPs(namespace)
	return harness.Await(c.t, surroundings, api, name, func(obj *cloudteamv1.FloatingIP) error {
		if err := harness.Says(obj, cloudteamv1.ConditionReady, reason, ""); err != nil {
			return err
		}
		if obj.Status.ObservedGeneration != obj.Generation {
			return fmt.Errorf("want the status of generation %d, have %s", obj.Generation, asJSON(obj.Status))
		}
		found := c.List("floatingips", "description="+markerOf(c.t, obj))
		if len(found) != 1 {
			return fmt.Errorf("there are %d floating IPs, want 1: %v", len(found), found)
		}
		leads, _ := found[0]["port_id"].(string)
		if found[0].ID() != obj.Status.FloatingIPID || found[0]["floating_ip_address"] != obj.Status.Address ||
			leads != port || obj.Status.PortID != port {
			return fmt.Errorf("the floating IP is %v, and the status shows %s, want it to lead to %q", found[0],
				asJSON(obj.Status), port)
		}
		return nil
	})
}

// lifeOfFloatingIPs leads a FloatingIP to one NetworkPort after another, and a Service's to the Pods of a
// Deployment. The addresses stay.
func lifeOfFloatingIPs(t *testing.T) {
	namespace, c := newNamespace(t), open(t, "tenant")
	outside := open(t, "admin").CreateOutside(namespace + "-outside")
	api := networks.CloudteamV1().FloatingIPs(namespace)
	network := unique(t, namespace)
	apply(t, namespace, network, cloudteamv1.NetworkSpec{
		SubnetSpec: cloudteamv1.SubnetSpec{CIDR: "10.73.0.0/24"},
		Router:     &cloudteamv1.RouterSpec{ExternalNetwork: outside.ID()},
	})

	// The address comes first, by the name of its external network, and then the port.
	harness.Create(t, api, &cloudteamv1.FloatingIP{
		ObjectMeta: metav1.ObjectMeta{Name: "vm"},
		Spec:       cloudteamv1.FloatingIPSpec{ExternalNetwork: outside["name"].(string), PortName: "first"},
	})
	address := c.awaitFloating(namespace, "vm", cloudteamv1.ReasonPortNotReady, "").Status.Address
	applyPort(t, namespace, "first", on(network))
	first := awaitPortReady(t, namespace, "first")
	keeps := func(port string) *cloudteamv1.FloatingIP {
		t.Helper()
		f := c.awaitFloating(namespace, "vm", cloudteamv1.ReasonAvailable, port)
		expect.Equal(t, address, f.Status.Address, "the address, which it had")
		return f
	}
	f := keeps(first.Status.PortID)
	c.Update("floatingips", f.Status.FloatingIPID, resource{"port_id": nil})
	keeps(first.Status.PortID)
	applyPort(t, namespace, "second", on(network))
	second := awaitPortReady(t, namespace, "second")
	harness.Patch(t, api, "vm", `{"spec":{"portName":"second"}}`)
	keeps(second.Status.PortID)

	// The router stays while the floating IP needs it.
	edit(t, namespace, network, `{"router":null}`)
	awaitReason(t, namespace, network, cloudteamv1.ReasonInUse, "floating IP")
	edit(t, namespace, network, `{"router":{"externalNetwork":"`+outside.ID()+`"}}`)
	awaitReady(t, namespace, network)
	removePort(t, namespace, "second")
	c.awaitFloating(namespace, "vm", cloudteamv1.ReasonPortNotReady, "")

	// A Service's address stays through a rollout of its Deployment.
	holdApart(t, namespace)
	awaitGate(t, namespace)
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Name: "shop", Annotations: map[string]string{cloudteamv1.AnnotationFloatingIP: outside["name"].(string)},
	}}
	service.Spec.Selector, service.Spec.Ports = map[string]string{"app": "shop"}, []corev1.ServicePort{{Port: 80}}
	harness.Create(t, kube.CoreV1().Services(namespace), service)
	deploymentOn(t, namespace, "shop", network, 1)
	leads := func() (address, port string) {
		t.Helper()
		pods := awaitPods(t, namespace, "app=shop", 1)
		port = allocationsOf(t, &pods[0])[0].PortID
		return c.awaitFloating(namespace, "shop", cloudteamv1.ReasonAvailable, port).Status.Address, port
	}
	was, before := leads()
	awaitEvent(t, namespace, "shop", cloudteamv1.EventFloatingIPAssociated, was)
	editDeployment(t, namespace, "shop", `{"spec":{"template":{"metadata":{"annotations":{"example.com/version":"2"}}}}}`)
	harness.Await(t, surroundings, api, "shop", func(f *cloudteamv1.FloatingIP) error {
		if is := f.Status.PortID; is == "" || is == before {
			return fmt.Errorf("the Service has port %q, and had %s", is, before)
		}
		return nil
	})
	if is, after := leads(); is != was || after == before {
		t.Errorf("the Service has %s at port %s, and had %s at %s", is, after, was, before)
	}
	harness.Delete(t, kube.CoreV1().Services(namespace), "shop")
	removeDeployment(t, namespace, "shop")
	harness.Delete(t, api, "vm")
	harness.AwaitGone(t, surroundings, api, "shop")
	harness.AwaitGone(t, surroundings, api, "vm")
	expect.Empty(t, c.List("floatingips", "floating_network_id="+outside.ID()), "floating IPs are left")
	removePort(t, namespace, "first")
	remove(t, namespace, network)
}

// lifeOfAnImportedFloatingIP takes one over that was made by hand, has it lead to a port, and leaves it as it was.
func lifeOfAnImportedFloatingIP(t *testing.T) {
	namespace, c := newNamespace(t), open(t, "tenant")
	outside := open(t, "admin").CreateOutside(namespace + "-outside")
	api := networks.CloudteamV1().FloatingIPs(namespace)
	theirs := c.Create("floatingips", resource{"floating_network_id": outside.ID(), "description": "theirs"})
	network := unique(t, namespace)
	apply(t, namespace, network, cloudteamv1.NetworkSpec{
		SubnetSpec: cloudteamv1.SubnetSpec{CIDR: "10.74.0.0/24"},
		Router:     &cloudteamv1.RouterSpec{ExternalNetwork: outside.ID()},
	})
	applyPort(t, namespace, "web", on(network))
	port := awaitPortReady(t, namespace, "web")
	obj := &cloudteamv1.FloatingIP{
		ObjectMeta: metav1.ObjectMeta{Name: "old"},
		Spec: cloudteamv1.FloatingIPSpec{
			ExternalNetwork: outside.ID(), ManagementPolicy: cloudteamv1.ManagementPolicyObserve,
			Import: &cloudteamv1.FloatingIPImport{ID: theirs.ID()},
		},
	}
	harness.Create(t, api, obj)
	address, _ := theirs["floating_ip_address"].(string)
	harness.Await(t, surroundings, api, "old", func(obj *cloudteamv1.FloatingIP) error {
		if obj.Status.Address != address {
			return fmt.Errorf("the status shows %s, want %s", asJSON(obj.Status), address)
		}
		return harness.Says(obj, cloudteamv1.ConditionReady, cloudteamv1.ReasonObserved, "")
	})
	expect.Equal(t, any("theirs"), c.One("floatingips", "id="+theirs.ID())["description"], "what was only observed")

	harness.Patch(t, api, "old", `{"spec":{"managementPolicy":null,"portName":"web"}}`)
	leads := func(name, port string) *cloudteamv1.FloatingIP {
		t.Helper()
		return harness.Await(t, surroundings, api, name, func(obj *cloudteamv1.FloatingIP) error {
			if obj.Status.PortID != port || obj.Status.Address != address {
				return fmt.Errorf("the status shows %s, want %s at port %s", asJSON(obj.Status), address, port)
			}
			return harness.Says(obj, cloudteamv1.ConditionReady, cloudteamv1.ReasonAvailable, "")
		})
	}
	is := leads("old", port.Status.PortID)
	second := obj.DeepCopy()
	second.Name, second.ResourceVersion, second.Spec.ManagementPolicy = "second", "", ""
	harness.Create(t, api, second)
	harness.Await(t, surroundings, api, "second", func(obj *cloudteamv1.FloatingIP) error {
		return harness.Says(obj, cloudteamv1.ConditionReady, cloudteamv1.ReasonAlreadyOwned, markerOf(t, is))
	})
	for _, name := range []string{"second", "old"} {
		harness.Delete(t, api, name)
		harness.AwaitGone(t, surroundings, api, name)
	}
	left := c.One("floatingips", "id="+theirs.ID())
	if left["description"] != "theirs" || left["port_id"] != port.Status.PortID {
		t.Errorf("after the deletion it is %v", left)
	}

	// A Service takes it, once it is free.
	c.Update("floatingips", theirs.ID(), resource{"port_id": nil})
	holdApart(t, namespace)
	awaitGate(t, namespace)
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "shop", Annotations: map[string]string{
		cloudteamv1.AnnotationFloatingIP: outside.ID(), cloudteamv1.AnnotationFloatingIPImport: theirs.ID(),
	}}}
	service.Spec.Selector, service.Spec.Ports = map[string]string{"app": "shop"}, []corev1.ServicePort{{Port: 80}}
	harness.Create(t, kube.CoreV1().Services(namespace), service)
	deploymentOn(t, namespace, "shop", network, 1)
	leads("shop", allocationsOf(t, &awaitPods(t, namespace, "app=shop", 1)[0])[0].PortID)
	harness.Delete(t, kube.CoreV1().Services(namespace), "shop")
	removeDeployment(t, namespace, "shop")
	harness.Delete(t, api, "shop") // as garbage collection does
	harness.AwaitGone(t, surroundings, api, "shop")
	expect.Equal(t, any("theirs"), c.One("floatingips", "id="+theirs.ID())["description"], "what the Service leaves")
	c.Remove("floatingips", theirs.ID())
	removePort(t, namespace, "web")
	remove(t, namespace, network)
}
