package pod

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// mentions reports whether what a Pod declares speaks of a port with all that it has got. So does only a Pod that was
// given the port, or a copy of one: of a Pod that is not gated it MUST be taken that its containers use the port,
// whatever else of its annotations somebody took off.
func mentions(pod *corev1.Pod, port *cloudteamv1.NetworkPort) bool {
	selections, err := consumer.DeclaredByPod(pod)
	given, ok := consumer.Given(port)
	return err == nil && ok && slices.ContainsFunc(selections, func(s selection.Selection) bool {
		return consumer.RequestOf(s) == given
	})
}

// allocationsOf reads what a Pod has got.
func allocationsOf(pod *corev1.Pod) ([]cloudteamv1.Allocation, error) {
	var allocations []cloudteamv1.Allocation
	err := json.Unmarshal([]byte(pod.Annotations[cloudteamv1.AnnotationAllocations]), &allocations)
	return allocations, err
}

// annotationsFor gives the annotations of a Pod whose selections have the ports given; those of others have none (nil).
// The first is what it declares, with the addresses that it has got; the second is what it has got.
func annotationsFor(
	selections []selection.Selection, ports []*cloudteamv1.NetworkPort,
) (declared, allocations string, err error) {
	resolved := make([]selection.Selection, len(selections))
	var got []cloudteamv1.Allocation
	for i, s := range selections {
		if port := ports[i]; port != nil {
			if s, err = resolve(s, port); err != nil {
				return "", "", err
			}
			got = append(got, allocationOf(s, port))
		}
		resolved[i] = s
	}
	if declared, err = selection.Format(resolved); err != nil {
		return "", "", err
	}
	text, err := json.Marshal(got)
	return declared, string(text), err
}

// resolve fills in what a network plugin has to set: the port's addresses and MAC.
func resolve(s selection.Selection, port *cloudteamv1.NetworkPort) (selection.Selection, error) {
	s.MAC = strings.ToLower(port.Status.MAC)
	s.Addresses = nil
	for _, a := range port.Status.Addresses {
		address, err := netip.ParsePrefix(a.Address)
		if err != nil {
			return s, fmt.Errorf("reading the status of NetworkPort %q: %w", port.Name, err)
		}
		s.Addresses = append(s.Addresses, address)
	}
	return s, nil
}

// allocationOf is what a Pod has by a port that serves a selection.
func allocationOf(s selection.Selection, port *cloudteamv1.NetworkPort) cloudteamv1.Allocation {
	allocation := cloudteamv1.Allocation{
		Name:      consumer.NetworkOf(port).String(),
		Interface: s.Interface,
		MAC:       strings.ToLower(port.Status.MAC),
		MTU:       port.Status.MTU,
		PortID:    port.Status.PortID,
		Port:      port.Name,
	}
	var four, six bool
	for _, a := range port.Status.Addresses {
		allocation.IPs = append(allocation.IPs, a.Address)
		gateway, err := netip.ParseAddr(a.Gateway)
		if err != nil {
			continue // it has none
		}
		// A port may have addresses of several subnets of a family, and a Pod one default route of each.
		has := &four
		if gateway.Is6() {
			has = &six
		}
		if !*has {
			allocation.Gateway = append(allocation.Gateway, a.Gateway)
			*has = true
		}
	}
	return allocation
}
