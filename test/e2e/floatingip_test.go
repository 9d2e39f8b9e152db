package e2e

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// floatsWith is what is wrong with the floating IPs whose descriptions end with a marker: there should be the one of the
// status, which leads to a port.
func (c *cloud) floatsWith(port *cloudteamv1.NetworkPort, marker string) error {
	c.t.Helper()
	found := c.list("floatingips", "description="+marker)
	shown := port.Status.FloatingIP
	if len(found) != 1 || shown == nil {
		return fmt.Errorf("there are %d floating IPs of %s, want 1, and the status shows %v", len(found), marker, shown)
	}
	f := found[0]
	if f.id() != shown.ID || f["floating_ip_address"] != shown.Address || f["port_id"] != port.Status.PortID {
		return fmt.Errorf("the floating IP is %v, and the status shows %+v of port %s", f, shown, port.Status.PortID)
	}
	return nil
}

// TestFloatingIPs gives a NetworkPort and the Pods of a Deployment floating IPs, with processes that die while they
// work.
func TestFloatingIPs(t *testing.T) {
	p := startController(t, "tenant")
	namespace, c := newNamespace(t), open(t, "tenant")
	administrator := open(t, "admin")
	outside := administrator.create("networks", resource{"name": namespace + "-outside", "router:external": true})
	administrator.create("subnets", resource{
		"network_id": outside.id(), "cidr": "203.0.113.0/24", "ip_version": 4, "enable_dhcp": false,
	})
	network := unique(t, namespace)
	apply(t, namespace, network, cloudteamv1.NetworkSpec{SubnetSpec: cloudteamv1.SubnetSpec{CIDR: "10.71.0.0/24"}})
	awaitReady(t, namespace, network)

	floats := on(network)
	floats.FloatingIP = &cloudteamv1.PortFloatingIP{ExternalNetwork: namespace + "-nowhere"}
	created := applyPort(t, namespace, "vm", floats)
	awaitPort(t, namespace, "vm", metav1.ConditionFalse, cloudteamv1.ReasonRejected, "spec.floatingIP.externalNetwork")
	editPort(t, namespace, "vm", `{"floatingIP":{"externalNetwork":"`+outside["name"].(string)+`"}}`)
	awaitPort(t, namespace, "vm", metav1.ConditionFalse, cloudteamv1.ReasonRejected, "needs spec.router")
	edit(t, namespace, network, `{"router":{"externalNetwork":"`+outside.id()+`"}}`)
	p.kill(t) // at whatever it is
	p = startController(t, "tenant")
	marker := markerOf(t, created)
	has := func() *cloudteamv1.NetworkPort {
		t.Helper()
		port := awaitPortReady(t, namespace, "vm")
		eventually(t, func() error {
			port = awaitPortReady(t, namespace, "vm")
			return c.floatsWith(port, marker)
		})
		return port
	}
	awaitNone := func(query string) {
		t.Helper()
		eventually(t, func() error {
			if left := c.list("floatingips", query); len(left) > 0 {
				return fmt.Errorf("floating IPs are left: %v", left)
			}
			return nil
		})
	}
	address := has().Status.FloatingIP.Address

	// Somebody takes it away from the port, and somebody deletes the port.
	c.update("floatingips", has().Status.FloatingIP.ID, resource{"port_id": nil})
	if got := has().Status.FloatingIP.Address; got != address {
		t.Errorf("it came back as %s, was %s", got, address)
	}
	c.remove("ports", has().Status.PortID)
	if got := has().Status.FloatingIP.Address; got != address {
		t.Errorf("the port was made anew, and has %s instead of %s", got, address)
	}

	// The router stays while somebody needs it.
	edit(t, namespace, network, `{"router":null}`)
	awaitReason(t, namespace, network, cloudteamv1.ReasonInUse, address)
	editPort(t, namespace, "vm", `{"floatingIP":null}`)
	p.kill(t)
	p = startController(t, "tenant")
	awaitNone("description=" + marker)
	awaitReady(t, namespace, network)
	edit(t, namespace, network, `{"router":{"externalNetwork":"`+outside.id()+`"}}`)
	awaitReady(t, namespace, network)
	editPort(t, namespace, "vm", `{"floatingIP":{"externalNetwork":"`+outside.id()+`"}}`)
	has()

	holdApart(t, namespace)
	awaitGate(t, namespace)
	deploymentOn(t, namespace, "shop", network, 0)
	editDeployment(t, namespace, "shop", `{"spec":{"replicas":2,"template":{"metadata":{"annotations":{"`+
		cloudteamv1.AnnotationFloatingIP+`":"`+outside["name"].(string)+`"}}}}}`)
	names := portNames(t, awaitPods(t, namespace, "app=shop", 2))
	for _, name := range names {
		port := awaitPortReady(t, namespace, name)
		if err := c.floatsWith(port, markerOf(t, port)); err != nil {
			t.Error(err)
		}
	}
	editDeployment(t, namespace, "shop", `{"spec":{"template":{"metadata":{"annotations":{"`+
		cloudteamv1.AnnotationFloatingIP+`":"web=a,web=b"}}}}}`)
	awaitDeploymentSays(t, namespace, "shop", corev1.ConditionFalse, cloudteamv1.ReasonInvalidNetworks, "listed twice")

	p.kill(t)
	removeDeployment(t, namespace, "shop")
	startController(t, "tenant")
	removePort(t, namespace, "vm")
	remove(t, namespace, network)
	awaitNone("floating_network_id=" + outside.id()) // those of the Deployment's ports go after the ports, which keep no Network
}
