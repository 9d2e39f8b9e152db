package pod

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// portOf reads a port from its name and what else is to be said of it: "going", "bound:UID", or the states of
// conditionOf. The last but one part of the name is the network's: web-net-0.
func portOf(text string) *cloudteamv1.NetworkPort {
	words := strings.Fields(text)
	parts := strings.Split(words[0], "-")
	port := &cloudteamv1.NetworkPort{}
	port.Namespace, port.Name, port.UID, port.ResourceVersion = "team", words[0], types.UID(words[0]), "1"
	port.Spec.NetworkName = parts[len(parts)-2]
	port.Status.PortID, port.Status.MAC = words[0], "fa:16:3e:00:00:01"
	port.Status.Addresses = []cloudteamv1.PortAddress{{Address: "192.168.0.7/16"}}
	for _, word := range words[1:] {
		what, value, _ := strings.Cut(word, ":")
		switch what {
		case "going":
			port.DeletionTimestamp = &metav1.Time{}
		case "bound":
			port.Status.BoundTo = &cloudteamv1.PortBinding{Kind: "Pod", Name: value, UID: types.UID(value)}
		case "mac":
			port.Spec.MAC = "fa:16:3e:00:00:01"
		case "version":
			port.ResourceVersion = value
		}
	}
	return port
}

func portsOf(texts []string) []*cloudteamv1.NetworkPort {
	var ports []*cloudteamv1.NetworkPort
	for _, text := range texts {
		ports = append(ports, portOf(text))
	}
	return ports
}

// requestFor is that of a selection of a network, "net" or "net mac".
func requestFor(text string) consumer.Request {
	network, mac, _ := strings.Cut(text, " ")
	request := consumer.Request{Network: cache.NewObjectName("team", network)}
	if mac != "" {
		request.MAC = "fa:16:3e:00:00:01"
	}
	return request
}

// fits is of all ports but those that are taken by the name.
func fits(port *cloudteamv1.NetworkPort) bool { return !strings.Contains(port.Name, "unfit") }

func requestsFor(texts []string) []consumer.Request {
	var requests []consumer.Request
	for _, text := range texts {
		requests = append(requests, requestFor(text))
	}
	return requests
}

// serving gives those of the ports that serve a request.
func serving(ports []*cloudteamv1.NetworkPort) func(consumer.Request) []*cloudteamv1.NetworkPort {
	return func(request consumer.Request) []*cloudteamv1.NetworkPort {
		return slices.DeleteFunc(slices.Clone(ports), func(p *cloudteamv1.NetworkPort) bool {
			return consumer.ServedBy(p) != request
		})
	}
}

func names(ports []*cloudteamv1.NetworkPort) []string {
	var found []string
	for _, port := range ports {
		if port == nil {
			found = append(found, "")
			continue
		}
		found = append(found, port.Name)
	}
	return found
}

func TestAssign(t *testing.T) {
	for name, test := range map[string]struct {
		requests, held, free []string
		want, surplus        []string
	}{
		"the lowest free port is taken": {
			requests: []string{"net"}, free: []string{"web-net-10", "web-net-2", "web-net-3"},
			want: []string{"web-net-2"},
		},
		"what is held comes before what is free": {
			requests: []string{"net"}, held: []string{"web-net-5"}, free: []string{"web-net-0"},
			want: []string{"web-net-5"},
		},
		"what does not fit is passed over": {
			requests: []string{"net", "net"}, free: []string{"unfit-net-0", "unfit-net-3", "web-net-2", "web-net-4", "web-net-5"},
			want: []string{"web-net-2", "web-net-4"},
		},
		"two requests of one network are two ports": {
			requests: []string{"net", "blue", "net"}, free: []string{"web-net-0", "web-net-1", "web-blue-0"},
			want: []string{"web-net-0", "web-blue-0", "web-net-1"},
		},
		"one that is held and one that is free serve two requests": {
			requests: []string{"net", "net"}, held: []string{"web-net-4"}, free: []string{"web-net-1"},
			want: []string{"web-net-4", "web-net-1"},
		},
		"where one is lacking none is taken, and what is held is kept": {
			requests: []string{"net", "net", "blue"}, held: []string{"web-net-4"}, free: []string{"web-net-1"},
			want: []string{"web-net-4", "", ""},
		},
		"what serves no request is surplus, and one too many of those that do is not": {
			requests: []string{"net"}, held: []string{"web-net-4", "web-blue-0", "web-net-3"},
			want: []string{"web-net-3"}, surplus: []string{"web-blue-0"},
		},
		"one that is going is surplus, and another is taken": {
			requests: []string{"net"}, held: []string{"web-net-4 going"}, free: []string{"web-net-1"},
			want: []string{"web-net-1"}, surplus: []string{"web-net-4"},
		},
		"a port for any does not serve a request for a MAC": {
			requests: []string{"net mac"}, held: []string{"web-net-0"}, free: []string{"web-net-1", "web-net-2 mac"},
			want: []string{"web-net-2"}, surplus: []string{"web-net-0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			held, free := portsOf(test.held), portsOf(test.free)
			for range 5 {
				a := assign(requestsFor(test.requests), held, serving(free), fits)
				if diff := cmp.Diff(test.want, names(a.ports)); diff != "" {
					t.Errorf("ports (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(test.surplus, names(a.surplus)); diff != "" {
					t.Errorf("surplus (-want +got):\n%s", diff)
				}
				if a.complete() == slices.Contains(test.want, "") {
					t.Errorf("complete is %t", a.complete())
				}
				// The caches give their objects in any order.
				rand.Shuffle(len(held), func(i, j int) { held[i], held[j] = held[j], held[i] })
				rand.Shuffle(len(free), func(i, j int) { free[i], free[j] = free[j], free[i] })
			}
		})
	}
}

func TestConditionOf(t *testing.T) {
	ready := func(status metav1.ConditionStatus, reason string) []metav1.Condition {
		return []metav1.Condition{{Type: cloudteamv1.ConditionReady, Status: status, Reason: reason}}
	}
	for name, test := range map[string]struct {
		conditions []metav1.Condition
		edit       func(*cloudteamv1.NetworkPortStatus)
		want       condition
	}{
		"a port without a condition is being made":      {want: pending},
		"one that is Ready is usable":                   {conditions: ready("True", "Available"), want: usable},
		"one with drift that is left is usable":         {conditions: ready("True", "DriftReported"), want: usable},
		"one that waits for its Network is being made":  {conditions: ready("False", "WaitingForNetwork"), want: pending},
		"one that somebody else changes is being made":  {conditions: ready("False", "Changing"), want: pending},
		"one whose cloud asks to wait is being made":    {conditions: ready("False", "Throttled"), want: pending},
		"one on a network without free addresses fails": {conditions: ready("False", "NoAddresses"), want: failing},
		"one whose cloud does not answer fails":         {conditions: ready("False", "CloudUnavailable"), want: failing},
		"one that is not known to be Ready fails":       {conditions: ready("Unknown", "Failed"), want: failing},
		"one that is Ready without an id is not yet told": {
			ready("True", "Available"), func(s *cloudteamv1.NetworkPortStatus) { s.PortID = "" }, pending},
		"one that is Ready without a MAC is not yet told": {
			ready("True", "Available"), func(s *cloudteamv1.NetworkPortStatus) { s.MAC = "" }, pending},
		"one that is Ready without addresses is not yet told": {
			ready("True", "Available"), func(s *cloudteamv1.NetworkPortStatus) { s.Addresses = nil }, pending},
	} {
		t.Run(name, func(t *testing.T) {
			port := portOf("web-net-0")
			port.Status.Conditions = test.conditions
			if test.edit != nil {
				test.edit(&port.Status)
			}
			if got := conditionOf(port); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}
