package consumer

import (
	"math/rand/v2"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// portOf reads a port from its name and "going" or "mac". The last but one part of the name is the network's:
// web-net-0.
func portOf(text string) *cloudteamv1.NetworkPort {
	words := strings.Fields(text)
	parts := strings.Split(words[0], "-")
	port := &cloudteamv1.NetworkPort{}
	port.Namespace, port.Name, port.UID = "team", words[0], types.UID(words[0])
	port.Spec.NetworkName = parts[len(parts)-2]
	port.Status.PortID, port.Status.MAC = words[0], "fa:16:3e:00:00:01"
	port.Status.Addresses = []cloudteamv1.PortAddress{{Address: "192.168.0.7/16"}}
	for _, word := range words[1:] {
		switch word {
		case "going":
			port.DeletionTimestamp = &metav1.Time{}
		case "mac":
			port.Spec.MAC = "fa:16:3e:00:00:01"
		}
	}
	return port
}

func TestServed(t *testing.T) {
	for name, test := range map[string]struct {
		requests, held, want []string
	}{
		"a port serves a request for any":       {[]string{"net"}, []string{"web-net-5"}, []string{"web-net-5"}},
		"of several the lowest serves":          {[]string{"net"}, []string{"web-net-10", "web-net-3"}, []string{"web-net-3"}},
		"two requests need two ports":           {[]string{"net", "blue", "net"}, []string{"web-net-1", "web-blue-0"}, []string{"web-net-1", "web-blue-0", ""}},
		"one that is being deleted serves none": {[]string{"net"}, []string{"web-net-4 going"}, []string{""}},
		"a port for any does not serve a request for a MAC": {
			[]string{"net mac"}, []string{"web-net-0", "web-net-2 mac"}, []string{"web-net-2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var requests []Request
			for _, text := range test.requests {
				network, mac, _ := strings.Cut(text, " ")
				request := Request{Network: cache.NewObjectName("team", network)}
				if mac != "" {
					request.MAC = "fa:16:3e:00:00:01"
				}
				requests = append(requests, request)
			}
			var held []*cloudteamv1.NetworkPort
			for _, text := range test.held {
				held = append(held, portOf(text))
			}
			for range 5 {
				var got []string
				for _, port := range Served(requests, held) {
					if port == nil {
						got = append(got, "")
						continue
					}
					got = append(got, port.Name)
				}
				expect.Equal(t, test.want, got, "ports")
				// Caches return their objects in any order.
				rand.Shuffle(len(held), func(i, j int) { held[i], held[j] = held[j], held[i] })
			}
		})
	}
}

func TestStateOf(t *testing.T) {
	ready := func(status metav1.ConditionStatus, reason string) []metav1.Condition {
		return []metav1.Condition{{Type: cloudteamv1.ConditionReady, Status: status, Reason: reason}}
	}
	for name, test := range map[string]struct {
		conditions []metav1.Condition
		edit       func(*cloudteamv1.NetworkPortStatus)
		want       PortState
	}{
		"a port without a condition is being made":      {want: PortPending},
		"one that is Ready is usable":                   {conditions: ready("True", "Available"), want: PortUsable},
		"one with drift that is left is usable":         {conditions: ready("True", "DriftDetected"), want: PortUsable},
		"one that waits for its Network is being made":  {conditions: ready("False", "NetworkNotReady"), want: PortPending},
		"one that somebody else changes is being made":  {conditions: ready("False", "Conflict"), want: PortPending},
		"one whose cloud asks to wait is being made":    {conditions: ready("False", "RateLimited"), want: PortPending},
		"one on a network without free addresses fails": {conditions: ready("False", "AddressesExhausted"), want: PortFailing},
		"one whose cloud does not answer fails":         {conditions: ready("False", "CloudUnavailable"), want: PortFailing},
		"one that is not known to be Ready fails":       {conditions: ready("Unknown", "ReconcileFailed"), want: PortFailing},
		"one that is Ready without an id is not yet told": {
			ready("True", "Available"), func(s *cloudteamv1.NetworkPortStatus) { s.PortID = "" }, PortPending},
		"one that is Ready without a MAC is not yet told": {
			ready("True", "Available"), func(s *cloudteamv1.NetworkPortStatus) { s.MAC = "" }, PortPending},
		"one that is Ready without addresses is not yet told": {
			ready("True", "Available"), func(s *cloudteamv1.NetworkPortStatus) { s.Addresses = nil }, PortPending},
	} {
		t.Run(name, func(t *testing.T) {
			port := portOf("web-net-0")
			port.Status.Conditions = test.conditions
			if test.edit != nil {
				test.edit(&port.Status)
			}
			expect.Equal(t, test.want, StateOf(port), "the state")
		})
	}
}
