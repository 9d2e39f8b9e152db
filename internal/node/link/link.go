// Package link makes and reads the interfaces of Pods: veth pairs, whose host's end has a mark as its alias.
package link

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
	"go4.org/netipx"
	"golang.org/x/sys/unix"

	"cloudteam.ztgame.com/network-controller/internal/node/mark"
)

// Device is the host's end of a Pod's interface.
type Device struct {
	Name string
	// Index orders devices by their age: a younger one has a higher index.
	Index int
	Mark  mark.Mark
}

// List returns the marked interfaces of the network namespace that the caller is in. It needs no privilege.
func List() ([]Device, error) {
	links, err := All()
	if err != nil {
		return nil, err
	}
	var devices []Device
	for _, l := range links {
		if m, ok := mark.Parse(l.Attrs().Alias); ok && l.Type() == "veth" {
			devices = append(devices, Device{Name: l.Attrs().Name, Index: l.Attrs().Index, Mark: m})
		}
	}
	return devices, nil
}

// All lists all interfaces of the network namespace that the caller is in. The kernel interrupts a list while
// interfaces come and go.
func All() ([]netlink.Link, error) {
	var links []netlink.Link
	var err error
	for range 10 {
		if links, err = netlink.LinkList(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("listing the interfaces: %w", err)
	}
	return links, nil
}

// Pair is a veth pair that does not exist yet.
type Pair struct {
	// Device is the name of the host's end, and Alias its alias.
	Device, Alias string
	// IfName is the name in the Pod.
	IfName string
	MAC    net.HardwareAddr
	// MTU of both ends; 0 means the kernel's default.
	MTU int
	// TxChecksumOff has the Pod's kernel compute all checksums.
	TxChecksumOff bool
}

// Create makes a pair with one end in a Pod's network namespace. It first deletes what an earlier attempt left under
// the same name. It returns the hardware address of the host's end.
func Create(p Pair, netns ns.NetNS) (net.HardwareAddr, error) {
	if err := Delete(p.Device); err != nil {
		return nil, err
	}
	attributes := netlink.NewLinkAttrs()
	attributes.Name = p.Device
	attributes.MTU = p.MTU
	if err := netlink.LinkAdd(&netlink.Veth{
		LinkAttrs: attributes, PeerName: p.IfName, PeerHardwareAddr: p.MAC, PeerMTU: uint32(p.MTU), //nolint:gosec // checked
		PeerNamespace: netlink.NsFd(int(netns.Fd())),
	}); err != nil {
		return nil, fmt.Errorf("creating the interface %s, with %s in the Pod: %w", p.Device, p.IfName, err)
	}
	host, err := netlink.LinkByName(p.Device)
	if err != nil {
		return nil, fmt.Errorf("interface %s: %w", p.Device, err)
	}
	if err := netlink.LinkSetAlias(host, p.Alias); err != nil {
		return nil, fmt.Errorf("marking the interface %s: %w", p.Device, err)
	}
	if err := detach(p.Device); err != nil {
		return nil, err
	}
	if err := netlink.LinkSetUp(host); err != nil {
		return nil, fmt.Errorf("setting the interface %s up: %w", p.Device, err)
	}
	if p.TxChecksumOff {
		if err := netns.Do(func(ns.NetNS) error { return TxChecksumOff(p.IfName) }); err != nil {
			return nil, err
		}
	}
	return host.Attrs().HardwareAddr, nil
}

// detach makes the node's own network stack ignore what a Pod sends on its interface. Open vSwitch in the kernel takes
// the packets before the stack sees them. Open vSwitch in user space gets a copy, and so would the stack: without this,
// a Pod could reach the node past its security groups.
func detach(device string) error {
	return set(device, []setting{
		{"ipv6", "disable_ipv6", "1"},
		{"ipv4", "arp_ignore", "8"}, // answer no ARP request
		{"ipv4", "rp_filter", "1"},  // no route leads to this interface, so drop all
		{"ipv4", "forwarding", "0"},
	})
}

// setting is one of an interface, by its sysctl.
type setting struct{ family, name, value string }

// set writes settings of an interface of the calling thread's network namespace. A kernel without a family has nothing
// to set of it.
func set(device string, all []setting) error {
	for _, s := range all {
		folder := filepath.Join("/proc/sys/net", s.family, "conf", device)
		if _, err := os.Stat(folder); s.family == "ipv6" && errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err := os.WriteFile(filepath.Join(folder, s.name), []byte(s.value), 0); err != nil {
			return fmt.Errorf("setting %s of the interface %s: %w", s.name, device, err)
		}
	}
	return nil
}

// TxChecksumOff has the kernel compute the checksums of what it sends by an interface of the calling thread's network
// namespace. Open vSwitch in user space forwards and translates packets whose checksums are still missing.
func TxChecksumOff(ifName string) error {
	handle, err := ethtool.NewEthtool()
	if err != nil {
		return fmt.Errorf("ethtool: %w", err)
	}
	defer handle.Close()
	if err := handle.Change(ifName, map[string]bool{
		"tx-checksum-ip-generic": false, "tx-checksum-sctp": false,
	}); err != nil {
		return fmt.Errorf("turning off transmit checksums of %s: %w", ifName, err)
	}
	return nil
}

// Delete deletes a pair by the name of the host's end. It is no error if there is none. It refuses what is no veth
// pair, such as the interface of a virtual machine.
func Delete(device string) error {
	found, err := netlink.LinkByName(device)
	if missing := (netlink.LinkNotFoundError{}); errors.As(err, &missing) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking for the interface %s: %w", device, err)
	}
	if found.Type() != "veth" {
		return fmt.Errorf("the interface %s exists and is a %s, not a veth pair of ours; the Pod's interface cannot have "+
			"its name; delete it if nothing uses it", device, found.Type())
	}
	if err := netlink.LinkDel(found); err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("deleting the interface %s: %w", device, err)
	}
	return nil
}

// DeleteMarked deletes the pairs of an interface of a sandbox.
func DeleteMarked(sandbox, ifName string) error {
	devices, err := List()
	if err != nil {
		return err
	}
	var failed []error
	for _, d := range devices {
		if d.Mark.Of(sandbox, ifName) {
			failed = append(failed, Delete(d.Name))
		}
	}
	return errors.Join(failed...)
}

// Address is an address of an interface, with its subnet's prefix length.
type Address = netip.Prefix

// Route is a route through an interface.
type Route struct {
	Destination netip.Prefix
	Gateway     netip.Addr
}

// settleLimit is how long IPv6 addresses may take until they can be used.
const settleLimit = 3 * time.Second

// Configure gives a Pod's interface its addresses, sets it up and adds routes. The kernel announces the addresses with
// gratuitous ARP and unsolicited neighbor advertisements. It runs in the Pod's network namespace.
func Configure(ifName string, addresses []Address, routes []Route) error {
	found, err := netlink.LinkByName(ifName)
	if err != nil {
		return fmt.Errorf("interface %s in the Pod: %w", ifName, err)
	}
	if err := set(ifName, settings(addresses)); err != nil {
		return err
	}
	for _, a := range addresses {
		address := &netlink.Addr{IPNet: netipx.PrefixIPNet(a)}
		if a.Addr().Is6() {
			// Neutron gave the address to nobody else.
			address.Flags = unix.IFA_F_NODAD
		}
		if err := netlink.AddrAdd(found, address); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("adding the address %s to %s: %w", a, ifName, err)
		}
	}
	if err := netlink.LinkSetUp(found); err != nil {
		return fmt.Errorf("setting the interface %s up: %w", ifName, err)
	}
	if err := settle(found); err != nil {
		return err
	}
	for _, r := range routes {
		prefix := r.Destination.Masked()
		route := &netlink.Route{LinkIndex: found.Attrs().Index, Gw: r.Gateway.AsSlice(), Dst: netipx.PrefixIPNet(prefix)}
		if err := netlink.RouteAddEcmp(route); err != nil {
			return fmt.Errorf("adding the route to %s by %s through %s: %w; the gateway has to be in a subnet of the port",
				prefix, r.Gateway, ifName, err)
		}
	}
	return nil
}

// settings are those of a Pod's interface. A router's advertisements are ignored: the port says which addresses there
// are, and Multus which default route.
func settings(addresses []Address) []setting {
	all := []setting{{"ipv4", "arp_notify", "1"}, {"ipv6", "ndisc_notify", "1"}, {"ipv6", "accept_ra", "0"}}
	if slices.ContainsFunc(addresses, func(a Address) bool { return a.Addr().Is6() }) {
		all = append(all, setting{"ipv6", "disable_ipv6", "0"})
	}
	return all
}

// settle waits until the interface's addresses can be used. A link-local address is not waited for: the kernel checks
// it for a second or two, and uses the others meanwhile.
func settle(l netlink.Link) error {
	deadline := time.Now().Add(settleLimit)
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		addresses, err := netlink.AddrList(l, netlink.FAMILY_V6)
		if err != nil {
			return fmt.Errorf("listing the addresses of %s: %w", l.Attrs().Name, err)
		}
		var tentative []string
		for _, a := range addresses {
			if a.Flags&unix.IFA_F_TENTATIVE != 0 && !a.IP.IsLinkLocalUnicast() {
				tentative = append(tentative, a.IP.String())
			}
		}
		if len(tentative) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the addresses %s of %s cannot be used after %s; the interface has no carrier",
				strings.Join(tentative, ", "), l.Attrs().Name, settleLimit)
		}
		<-ticker.C
	}
}

// Check reports how a Pod's interface differs from what it has to be. It runs in the Pod's network namespace.
func Check(ifName string, mac net.HardwareAddr, addresses []Address) error {
	found, err := netlink.LinkByName(ifName)
	if err != nil {
		return fmt.Errorf("interface %s in the Pod: %w", ifName, err)
	}
	if found.Attrs().Flags&net.FlagUp == 0 {
		return fmt.Errorf("the interface %s in the Pod is down", ifName)
	}
	if have := found.Attrs().HardwareAddr; have.String() != mac.String() {
		return fmt.Errorf("the interface %s in the Pod has the hardware address %s, and its port %s", ifName, have, mac)
	}
	have, err := netlink.AddrList(found, netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("listing the addresses of %s: %w", ifName, err)
	}
	present := map[netip.Prefix]bool{}
	for _, a := range have {
		if address, ok := netipx.FromStdIPNet(a.IPNet); ok {
			present[address] = true
		}
	}
	for _, a := range addresses {
		if !present[a] {
			return fmt.Errorf("the interface %s in the Pod does not have the address %s of its port", ifName, a)
		}
	}
	return nil
}
