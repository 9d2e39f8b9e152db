package why

import (
	"testing"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// The status is written after a twentieth of the addresses has changed. The ports are newer.
func TestAddressesInUseAreThoseOfThePorts(t *testing.T) {
	network, port := &cloudteamv1.Network{}, cloudteamv1.NetworkPort{}
	network.Spec.CIDR = "10.0.0.0/29"
	network.Status.Subnets = []cloudteamv1.SubnetStatus{{
		ID: "s", CIDR: "10.0.0.0/29", UsedAddresses: new(int64(0)), TotalAddresses: new(int64(1)),
	}}
	waits := port
	port.Status.Addresses = []cloudteamv1.PortAddress{{SubnetID: "s"}}
	expect.Equal(t, "10.0.0.0/29: 1 of 1 addresses are in use.",
		fullSubnets(network, &waits, []*cloudteamv1.NetworkPort{&port, &waits})[0].Message, "message")
}
