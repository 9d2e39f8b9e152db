//go:build unix

package main

import (
	"fmt"
	"slices"
	"strings"

	"cloudteam.ztgame.com/network-controller/internal/osc"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// What the samples have, by which the steps are written.
const (
	networkName   = "example-network"
	networkRange  = "192.168.0.0/16"
	webName       = "web"
	secondName    = "second-network"
	lostName      = "lost-network"
	otherGateway  = "192.168.255.254"
	mistakenRange = "192.168.0.1/16"
	// nameByHand is what the demo renames the network to in Neutron.
	nameByHand = "renamed-by-hand"
)

// renameNetwork is the command that renames a network by hand.
func renameNetwork(id string) string { return osc.NameNetwork(id, nameByHand) }

// step is a step of the story: commands, and what is expected of them.
type step struct {
	// name is what --skip calls it; empty where the story needs it.
	name string
	// needs is the name of the step without which this one cannot be played.
	needs string
	// extra steps are left out by --short, and steps of the emulator in a real cloud.
	extra, emulator bool
	// title is what happens, and why why it matters. A step prints them on its own where it may not be possible.
	title, why string
	own        bool
	beats      []beat
}

// steps are in the order of --help. Beside needs, each needs only steps without a name.
var steps = []step{
	{title: "Surroundings", why: standing, beats: []beat{surround}},
	{
		title: "The controller", why: installing, beats: []beat{install},
	},
	{
		title: "Apply " + networkName,
		why:   "The controller creates a network with a subnet in Neutron from two lines of spec.",
		beats: []beat{
			cat("network"), apply("network"), ready,
			say("In Neutron, the description names the owner. The controller touches nothing without it:"), neutron(nil),
		},
	},
	{
		name: "change", title: "Change the spec",
		why: "The controller updates the gateway of the existing subnet in Neutron.",
		beats: []beat{
			patch(fmt.Sprintf(`{"spec":{"gateway":%q}}`, otherGateway)), ready,
			neutron(func(_ *story, is picture) error {
				return same("the gateway in Neutron", is.subnet.text("gateway_ip"), otherGateway)
			}),
		},
	},
	{
		name: "drift", title: "Change the network by hand in Neutron",
		why: "The controller audits Neutron every %s here. It finds the drift and corrects it.",
		beats: []beat{
			byHand("subnet", osc.NoGateway, resource{"gateway_ip": nil}),
			byHand("network", renameNetwork, resource{"name": nameByHand}),
			say("Neutron after the change:"), showChanged,
			neutron((*story).undrifted),
			good(func(s *story) string { return "drift corrected within " + s.since() }),
			events(cloudteamv1.EventDriftCorrected, nameByHand, "gateway none"), showEvents,
		},
	},
	{
		name: "mistake", extra: true, title: "Apply a mistake",
		why:   "The API server refuses what cannot be built, and says what to write.",
		beats: []beat{mistake, good(text("nothing has changed"))},
	},
	{
		name: "quota", extra: true, emulator: true, title: "Fill the quota",
		why: "A Network that Neutron refuses says what to do. It recovers by itself when there is room.",
		beats: []beat{
			quota(1), applyCopy(secondName), reason(secondName, cloudteamv1.ReasonQuotaExceeded), showReason,
			quota(-1), reason(secondName, cloudteamv1.ReasonAvailable),
			good(func(s *story) string { return secondName + " is Ready " + s.since() + " later, without a command" }),
			remove("network", secondName), gone("network", secondName),
		},
	},
	{
		name: "lost-answer", extra: true, emulator: true, title: "Lose an answer, and kill the controller",
		why: "The create request itself has the owner's marker. So the next process finds what the last one made.",
		beats: []beat{
			loseAnswer, applyCopy(lostName), onlyOne, killController, reason(lostName, cloudteamv1.ReasonAvailable), onlyOne,
			good(text(lostName + " is Ready, and Neutron has one network with its marker")),
			remove("network", lostName), gone("network", lostName),
		},
	},
	{
		name: "pods", title: "Run Pods on it",
		why: "Pods name the Network in an annotation. Each gets a port in Neutron with its own address.",
		beats: []beat{
			complete, cat("deployment"), apply("deployment"), command("kubectl rollout status deployment " + webName),
			attached(3, nil), showPorts,
			say("Each Pod's annotation shows its port (the Node runs no containers, so no interface is attached):"),
			showAllocations,
			good(func(s *story) string {
				return fmt.Sprintf("%d Pods run, each with its own port and address", len(s.pods))
			}),
			showNeutronPorts,
			good(func(s *story) string {
				return fmt.Sprintf("Neutron has exactly these %d ports with these addresses", len(s.pods))
			}),
		},
	},
	{name: "packets", needs: "pods", title: "Send packets", own: true, beats: []beat{sendPackets}},
	{
		name: "replace", needs: "pods", title: "Delete a Pod",
		why: "Its replacement gets a port with its own address. The other Pods keep theirs.",
		beats: []beat{
			deleteAPod, attached(3, (*story).victimIsGone), showPorts, good((*story).replacement),
			good(text("the other 2 Pods keep their ports, and Neutron still has 3 ports")),
		},
	},
	{
		name: "scale", needs: "pods", title: "Scale it to 1", why: "The controller deletes the ports that no Pod uses.",
		beats: []beat{
			scale(1), attached(1, nil), showPorts,
			good(func(s *story) string { return s.sorted()[0].pod + " keeps its port, and Neutron has 1 port" }),
		},
	},
	{
		needs: "pods", title: "Delete the Deployment", why: "The controller deletes its ports. The Network stays.",
		beats: []beat{
			remove("deployment", webName), attached(0, nil), good(text("Kubernetes has no Pod or NetworkPort of " + webName)),
			neutronHas(true),
			good(func(s *story) string {
				return "Neutron still has network " + s.seen.network.id() + ", without their ports"
			}),
		},
	},
	{
		title: "Delete the Network", why: "The finalizer keeps the object until the network has left Neutron.",
		beats: []beat{
			remove("network", networkName), gone("network", networkName), good(text("Kubernetes has no Network " + networkName)),
			neutronHas(false),
			good(func(s *story) string { return "Neutron has neither network " + s.seen.network.id() + " nor its subnet" }),
			events(cloudteamv1.EventDeleted), say("All Events of the Network:"), showAllEvents,
		},
	},
}

// plays says whether a step is part of the story that the options ask for, in a real cloud or the emulator.
func (o options) plays(s step, real bool) bool {
	skipped := func(name string) bool { return name != "" && slices.Contains(o.skip, name) }
	tooMuch := o.short && s.extra || real && s.emulator
	return !tooMuch && !skipped(s.name) && !skipped(s.needs)
}

// checkSkip refuses names that no step has.
func checkSkip(skip []string) error {
	var names []string
	for _, s := range steps {
		if s.name != "" {
			names = append(names, s.name)
		}
	}
	for _, name := range skip {
		if !slices.Contains(names, name) {
			return fmt.Errorf("--skip=%s: no step that can be left out has this name; write %s",
				name, strings.Join(names, ", "))
		}
	}
	return nil
}
