// Package osc has the commands of OpenStackClient that messages name. A test runs each of them (test/contract), because
// the client of Debian 12, version 6.0, takes fewer options than later ones. There is no command for quotas: 6.0 shows
// them only where there is a compute service, and later ones by other options. "kubectl network doctor" shows them.
package osc

import (
	"regexp"
	"strings"
)

// What exists, and needs no argument.
const (
	// Networks lists the project's networks, with their ids.
	Networks = "openstack network list"
	// LongNetworks lists them with all that the client shows.
	LongNetworks = "openstack network list --long"
	// ExternalNetworks lists those that give floating IPs.
	ExternalNetworks = "openstack network list --external"
	// Ports lists the project's ports.
	Ports = "openstack port list"
	// Routers lists the project's routers, with their gateways.
	Routers = "openstack router list --long"
	// QoSPolicies lists those that the project may use.
	QoSPolicies = "openstack network qos policy list"
	// SecurityGroups lists the project's security groups.
	SecurityGroups = "openstack security group list"
	// SubnetPools lists those that the project may use.
	SubnetPools = "openstack subnet pool list"
	// FloatingIPs lists the project's floating IPs.
	FloatingIPs = "openstack floating ip list"
	// LongFloatingIPs lists them with their routers and descriptions.
	LongFloatingIPs = "openstack floating ip list --long"
	// Agents lists Neutron's agents, and whether they are alive. It needs an administrator.
	Agents = "openstack network agent list"
)

// What makes something.
const (
	// CreateExample makes a network.
	CreateExample = "openstack network create example"
	// CreateProbe makes a network, and shows whether Neutron keeps its description.
	CreateProbe = "openstack network create probe --description '[probe]' -c description"
	// DeleteProbe removes it.
	DeleteProbe = "openstack network delete probe"
	// CreateCredential makes an application credential.
	CreateCredential = "openstack application credential create NAME"
)

// ShowNetwork shows a network, by its id or name.
func ShowNetwork(id string) string { return "openstack network show " + word(id) }

// ShowSubnet shows a subnet.
func ShowSubnet(id string) string { return "openstack subnet show " + word(id) }

// ShowRouter shows a router: whether it is up, and its gateway.
func ShowRouter(id string) string { return "openstack router show " + word(id) }

// SubnetsOf lists the subnets of a network.
func SubnetsOf(network string) string { return "openstack subnet list --network " + network }

// PortsOf lists the ports of a network, with the columns that the demo shows.
func PortsOf(network string) string {
	return "openstack port list -c ID -c Name -c 'MAC Address' -c 'Fixed IP Addresses' --network " + network
}

// PortsAt lists the ports that have an address.
func PortsAt(address string) string { return "openstack port list --fixed-ip ip-address=" + address }

// PortsIn lists the ports that are in a security group. Debian's client has --security-group, and its SDK refuses that.
func PortsIn(group string) string {
	return "openstack port list --long -f value -c ID -c Name -c 'Security Groups' | grep " + group
}

// FloatingIPsOf lists the floating IPs that are associated with a port.
func FloatingIPsOf(port string) string { return "openstack floating ip list --port " + port }

// Disassociate takes a floating IP from its port.
func Disassociate(floatingIP string) string {
	return "openstack floating ip unset --port " + word(floatingIP)
}

// LeaveTrunk takes a port out of a trunk.
func LeaveTrunk(port, trunk string) string {
	return "openstack network trunk unset --subport " + word(port) + " " + word(trunk)
}

// DescribeNetwork writes a network's description.
func DescribeNetwork(id, text string) string { return describe("network", id, text) }

// DescribeSubnet writes a subnet's description.
func DescribeSubnet(id, text string) string { return describe("subnet", id, text) }

// DescribeRouter writes a router's description.
func DescribeRouter(id, text string) string { return describe("router", id, text) }

func describe(kind, id, text string) string {
	return "openstack " + kind + " set --description " + quoted(text) + " " + word(id)
}

// plain are texts that a shell reads as they are.
var plain = regexp.MustCompile(`^[A-Za-z0-9._:/-]+$`)

// word makes an id one word for a shell. A tenant's own cloud may answer with any id, and people copy these commands.
func word(id string) string {
	if plain.MatchString(id) {
		return id
	}
	return quoted(id)
}

func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// NameNetwork gives a network, by its id or name, another name.
func NameNetwork(id, name string) string { return "openstack network set --name " + name + " " + id }

// NoGateway leaves a subnet without a gateway.
func NoGateway(subnet string) string { return "openstack subnet set --gateway none " + subnet }

// DeleteNetwork removes a network.
func DeleteNetwork(id string) string { return "openstack network delete " + word(id) }

// DeleteSubnet removes a subnet.
func DeleteSubnet(id string) string { return "openstack subnet delete " + word(id) }

// DeletePort removes a port.
func DeletePort(id string) string { return "openstack port delete " + word(id) }
