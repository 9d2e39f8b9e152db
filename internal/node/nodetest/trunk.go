package nodetest

import (
	"fmt"
	"strings"
	"testing"
)

// Trunk is the interface eth0 of a virtual machine, which is a network namespace. At the other end of its cable is the
// hypervisor: a bridge for one network, which the VLANs of ports join.
type Trunk struct {
	t testing.TB
	// MAC is eth0's hardware address.
	MAC string
	far Netns
}

// NewTrunk gives a virtual machine its interface, with the default route.
func NewTrunk(t testing.TB, machine Netns) *Trunk {
	t.Helper()
	k := &Trunk{t: t, far: NewNetns(t, "far")}
	for _, command := range []string{
		"link add eth0 mtu 1450 type veth peer name eth0 netns " + string(k.far),
		"addr add 10.1.0.2/24 dev eth0", "link set eth0 up",
		"route add default via 10.1.0.1",
	} {
		if _, err := machine.Run("ip", strings.Fields(command)...); err != nil {
			t.Fatal(err)
		}
	}
	k.must("link set eth0 up")
	k.must("link add net type bridge")
	k.must("link set net up")
	_, err := k.far.Run("ip", "link", "add", "link", "eth0", "name", "probe", "type", "vlan", "id", "4000")
	if err != nil {
		t.Skipf("needs a kernel with VLANs (8021q): %v", err)
	}
	k.must("link del probe")
	out, err := machine.Run("ip", "-o", "link", "show", "eth0")
	if err != nil {
		t.Fatal(err)
	}
	_, out, _ = strings.Cut(out, "link/ether ")
	k.MAC, _, _ = strings.Cut(out, " ")
	return k
}

func (k *Trunk) must(command string) {
	k.t.Helper()
	if _, err := k.far.Run("ip", strings.Fields(command)...); err != nil {
		k.t.Fatal(err)
	}
}

// Join makes a VLAN a port of the network, as Neutron does for a subport. It is no error if it is one.
func (k *Trunk) Join(vlan int) {
	k.t.Helper()
	name := fmt.Sprintf("eth0.%d", vlan)
	if _, err := k.far.Run("ip", "link", "show", name); err == nil {
		return
	}
	k.must(fmt.Sprintf("link add link eth0 name %s type vlan id %d", name, vlan))
	k.must("link set " + name + " master net up")
}

// Leave takes a VLAN off the network.
func (k *Trunk) Leave(vlan int) {
	k.t.Helper()
	k.must(fmt.Sprintf("link del eth0.%d", vlan))
}
