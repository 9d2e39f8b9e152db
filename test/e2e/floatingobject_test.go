package e2e

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// awaitFloating waits until a FloatingIP's condition Ready has a reason and its floating IP leads to a port, or nowhere
// for "". There is exactly one, as the status shows it.
func (c *cloud) awaitFloating(namespace, name, reason, port string) *cloudteamv1.FloatingIP {
	c.t.Helper()
	var obj *cloudteamv1.FloatingIP
	eventually(c.t, func() (err error) {
		obj, err = networks.CloudteamV1().FloatingIPs(namespace).Get(c.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		ready := meta.FindStatusCondition(obj.Status.Conditions, cloudteamv1.ConditionReady)
		if ready == nil || ready.Reason != reason || obj.Status.ObservedGeneration != obj.Generation {
			return fmt.Errorf("want %s, have %s", reason, asJSON(obj.Status))
		}
		found := c.list("floatingips", "description="+markerOf(c.t, obj))
		if len(found) != 1 {
			return fmt.Errorf("there are %d floating IPs, want 1: %v", len(found), found)
		}
		leads, _ := found[0]["port_id"].(string)
		if found[0].id() != obj.Status.FloatingIPID || found[0]["floating_ip_address"] != obj.Status.Address ||
			leads != port || obj.Status.PortID != port {
			return fmt.Errorf("the floating IP is %v, and the status shows %s, want it to lead to %q", found[0],
				asJSON(obj.Status), port)
		}
		return nil
	})
	return obj
}

// TestFloatingIPObjects leads a FloatingIP to one NetworkPort after another, and a Service's to the Pods of a
// Deployment. The addresses stay.
func TestFloatingIPObjects(t *testing.T) {
	withProcesses(t)
	startController(t, "tenant")
	namespace, c := newNamespace(t), open(t, "tenant")
	administrator := open(t, "admin")
	outside := administrator.create("networks", resource{"name": namespace + "-outside", "router:external": true})
	administrator.create("subnets", resource{
		"network_id": outside.id(), "cidr": "203.0.113.0/24", "ip_version": 4, "enable_dhcp": false,
	})
	api := networks.CloudteamV1().FloatingIPs(namespace)
	network := unique(t, namespace)
	apply(t, namespace, network, cloudteamv1.NetworkSpec{
		SubnetSpec: cloudteamv1.SubnetSpec{CIDR: "10.73.0.0/24"},
		Router:     &cloudteamv1.RouterSpec{ExternalNetwork: outside.id()},
	})

	// The address comes first, by the name of its external network, and then the port.
	_, err := api.Create(t.Context(), &cloudteamv1.FloatingIP{
		ObjectMeta: metav1.ObjectMeta{Name: "vm"},
		Spec:       cloudteamv1.FloatingIPSpec{ExternalNetwork: outside["name"].(string), PortName: "first"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	address := c.awaitFloating(namespace, "vm", cloudteamv1.ReasonPortNotReady, "").Status.Address
	applyPort(t, namespace, "first", on(network))
	first := awaitPortReady(t, namespace, "first")
	keeps := func(port string) *cloudteamv1.FloatingIP {
		t.Helper()
		f := c.awaitFloating(namespace, "vm", cloudteamv1.ReasonAvailable, port)
		if f.Status.Address != address {
			t.Errorf("the address is %s, was %s", f.Status.Address, address)
		}
		return f
	}
	f := keeps(first.Status.PortID)
	c.update("floatingips", f.Status.FloatingIPID, resource{"port_id": nil})
	keeps(first.Status.PortID)
	applyPort(t, namespace, "second", on(network))
	second := awaitPortReady(t, namespace, "second")
	if _, err := api.Patch(t.Context(), "vm", types.MergePatchType, []byte(`{"spec":{"portName":"second"}}`),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	keeps(second.Status.PortID)

	// The router stays while the floating IP needs it.
	edit(t, namespace, network, `{"router":null}`)
	awaitReason(t, namespace, network, cloudteamv1.ReasonInUse, "floating IP")
	edit(t, namespace, network, `{"router":{"externalNetwork":"`+outside.id()+`"}}`)
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
	if _, err := kube.CoreV1().Services(namespace).Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	deploymentOn(t, namespace, "shop", network, 1)
	leads := func() (address, port string) {
		t.Helper()
		pods := awaitPods(t, namespace, "app=shop", 1)
		port = allocationsOf(t, &pods[0])[0].PortID
		return c.awaitFloating(namespace, "shop", cloudteamv1.ReasonAvailable, port).Status.Address, port
	}
	was, before := leads()
	awaitEvent(t, namespace, "shop", cloudteamv1.EventFloatingIPLeads, was)
	editDeployment(t, namespace, "shop", `{"spec":{"template":{"metadata":{"annotations":{"example.com/version":"2"}}}}}`)
	eventually(t, func() error {
		if is, after := leads(); is != was || after == before {
			return fmt.Errorf("the Service has %s at port %s, and had %s at %s", is, after, was, before)
		}
		return nil
	})
	if err := kube.CoreV1().Services(namespace).Delete(t.Context(), "shop", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	removeDeployment(t, namespace, "shop")
	if err := api.Delete(t.Context(), "vm", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"shop", "vm"} {
		eventually(t, func() error {
			if obj, err := api.Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return fmt.Errorf("FloatingIP %s is still there: %w, %s", name, err, asJSON(obj.Status))
			}
			return nil
		})
	}
	if left := c.list("floatingips", "floating_network_id="+outside.id()); len(left) > 0 {
		t.Errorf("floating IPs are left: %v", left)
	}
	removePort(t, namespace, "first")
	remove(t, namespace, network)
}
