//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// attachment is a Pod that runs, and what its annotation says that it has of its Network.
type attachment struct {
	pod, phase string
	cloudteamv1.Allocation
}

// addresses are the attachment's, without prefix lengths, sorted and with commas between.
func (a attachment) addresses() string {
	var bare []string
	for _, ip := range a.IPs {
		address, _, _ := strings.Cut(ip, "/")
		bare = append(bare, address)
	}
	return sortedList(bare)
}

// attachments are those of all Pods of a Deployment, by the Pods' UIDs.
type attachments map[types.UID]attachment

// sorted gives the attachments in the order of their Pods' names.
func (as attachments) sorted() []attachment {
	return slices.SortedFunc(maps.Values(as), func(a, b attachment) int { return strings.Compare(a.pod, b.pod) })
}

// table shows the attachments.
func (as attachments) table() *metav1.Table {
	t := &metav1.Table{ColumnDefinitions: []metav1.TableColumnDefinition{
		{Name: "Pod"}, {Name: "Phase"}, {Name: "Address"}, {Name: "MAC"}, {Name: "Port ID"},
	}}
	for _, a := range as.sorted() {
		t.Rows = append(t.Rows, metav1.TableRow{
			Cells: []any{a.pod, a.phase, strings.Join(a.IPs, ", "), a.MAC, a.PortID},
		})
	}
	return t
}

// addressPlan is what the addresses of a Network are held against.
type addressPlan struct {
	// network is the Network's namespace and name, with a slash between.
	network string
	within  netip.Prefix
}

// attached holds what Kubernetes has of a Deployment against what it should have: as many Pods as wanted, all of them
// running, each with one NetworkPort that is Ready and bound to it, with addresses that are the plan's and no other
// Pod's; and no other NetworkPort. The error says what is otherwise.
func attached(
	pods []corev1.Pod, ports []cloudteamv1.NetworkPort, wanted int, plan addressPlan,
) (attachments, error) {
	if len(pods) != wanted || len(ports) != wanted {
		return nil, fmt.Errorf("there are %d Pods and %d NetworkPorts, not %d", len(pods), len(ports), wanted)
	}
	byID := map[string]*cloudteamv1.NetworkPort{}
	for i := range ports {
		byID[ports[i].Status.PortID] = &ports[i]
	}
	result, holders := attachments{}, map[string]string{}
	for _, pod := range pods {
		if pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning {
			return nil, fmt.Errorf("the Pod %s does not run: its phase is %s, its conditions are %v",
				pod.Name, pod.Status.Phase, pod.Status.Conditions)
		}
		text := pod.Annotations[cloudteamv1.AnnotationAllocations]
		var allocations []cloudteamv1.Allocation
		if json.Unmarshal([]byte(text), &allocations) != nil || len(allocations) != 1 {
			return nil, fmt.Errorf("the Pod %s has not one allocation, but %q", pod.Name, text)
		}
		a := attachment{pod.Name, string(pod.Status.Phase), allocations[0]}
		port := byID[a.PortID]
		if port == nil || port.Name != a.Port {
			return nil, fmt.Errorf("the Pod %s has port %s (%s), of which there is no NetworkPort",
				a.pod, a.Port, a.PortID)
		}
		if bound := port.Status.BoundTo; bound == nil || bound.UID != pod.UID {
			return nil, fmt.Errorf("the NetworkPort %s is not bound to Pod %s", port.Name, a.pod)
		}
		if !meta.IsStatusConditionTrue(port.Status.Conditions, cloudteamv1.ConditionReady) {
			return nil, fmt.Errorf("the NetworkPort %s is not Ready: %v", port.Name, port.Status.Conditions)
		}
		if err := plan.check(a, holders); err != nil {
			return nil, err
		}
		result[pod.UID] = a
	}
	return result, nil
}

// check holds an attachment's addresses against the plan, and enters them into the holders, who are Pods by address.
func (p addressPlan) check(a attachment, holders map[string]string) error {
	if a.Name != p.network || len(a.IPs) == 0 {
		return fmt.Errorf("the Pod %s has addresses %v of Network %s, not of %s", a.pod, a.IPs, a.Name, p.network)
	}
	for _, ip := range a.IPs {
		address, err := netip.ParsePrefix(ip)
		if err != nil || address.Bits() != p.within.Bits() || !p.within.Contains(address.Addr()) {
			return fmt.Errorf("the Pod %s has the address %s, which is none of %s", a.pod, ip, p.within)
		}
		if other := holders[ip]; other != "" {
			return fmt.Errorf("the Pods %s and %s both have the address %s", other, a.pod, ip)
		}
		holders[ip] = a.pod
	}
	return nil
}

// sameAs holds Neutron's ports against the attachments: the same ids, with the same addresses and MACs, and no other
// port.
func (as attachments) sameAs(ports []resource) error {
	if len(ports) != len(as) {
		return fmt.Errorf("there are %d ports in Neutron, not %d", len(ports), len(as))
	}
	byID := map[string]resource{}
	for _, port := range ports {
		byID[port.id()] = port
	}
	for _, a := range as.sorted() {
		port, exists := byID[a.PortID]
		if !exists {
			return fmt.Errorf("there is no port %s in Neutron, which is Pod %s's", a.PortID, a.pod)
		}
		addresses := sortedList(strings.Split(port.text("fixed_ips"), ", "))
		if addresses != a.addresses() || port.text("mac_address") != a.MAC {
			return fmt.Errorf("port %s has %s and %s in Neutron; Pod %s was told %s and %s",
				a.PortID, addresses, port.text("mac_address"), a.pod, a.addresses(), a.MAC)
		}
	}
	return nil
}

// keptBy gives an error unless every Pod of the attachments that is also in later has there what it had.
func (as attachments) keptBy(later attachments) error {
	for uid, is := range later {
		if was, had := as[uid]; had && (was.PortID != is.PortID || was.addresses() != is.addresses()) {
			return fmt.Errorf("the Pod %s had %s by port %s and now has %s by port %s",
				is.pod, was.addresses(), was.PortID, is.addresses(), is.PortID)
		}
	}
	return nil
}

// neutronPortTable shows ports as openstack port list does.
func neutronPortTable(ports []resource) *metav1.Table {
	t := &metav1.Table{ColumnDefinitions: []metav1.TableColumnDefinition{
		{Name: "ID"}, {Name: "Name"}, {Name: "MAC Address"}, {Name: "Fixed IP Addresses"},
	}}
	for _, port := range ports {
		t.Rows = append(t.Rows, metav1.TableRow{Cells: []any{
			port.id(), port.text("name"), port.text("mac_address"), port.text("fixed_ips"),
		}})
	}
	slices.SortFunc(t.Rows, func(a, b metav1.TableRow) int {
		return strings.Compare(fmt.Sprint(a.Cells[1]), fmt.Sprint(b.Cells[1]))
	})
	return t
}

func sortedList(items []string) string {
	return strings.Join(slices.Sorted(slices.Values(items)), ", ")
}
