package conntest

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/kubectl/why"
	"cloudteam.ztgame.com/network-controller/internal/node/probe"
	"cloudteam.ztgame.com/network-controller/internal/osc"
)

// checks gives the outcome of each check, Pod by Pod. It is called while the Pods exist: their objects tell causes.
func (t *test) checks(ctx context.Context) []Check {
	all := []Check{}
	portProblem := t.portProblems(ctx)
	for _, m := range t.pods {
		if m.trouble != "" {
			all = append(all, Check{State: Failed, From: m.Name, What: "start", Says: m.trouble, Remedy: m.remedy})
			continue
		}
		for i, check := range m.plan.Checks {
			if t.unneeded(m, i) {
				continue
			}
			c := Check{State: Passed, From: m.Name, To: m.targets[i], Address: Target{check.To, check.Port}.String(),
				What: string(check.Kind)}
			result := m.results[i]
			switch {
			case result.OK:
				c.Milliseconds = float64(result.Took.Round(10*time.Microsecond)) / float64(time.Millisecond)
			case result.Cause == probe.CauseNotAllowed:
				c.State, c.Says = Skipped, "The Pod may not send this: "+result.Error+"."
				c.Remedy = "The container runtime sets net.ipv4.ping_group_range otherwise. Test with TCP, too."
			default:
				c.State, c.Says = Failed, says(result)
				if c.Remedy = portProblem(m); c.Remedy == "" {
					c.Remedy = portProblem(t.member(c.To))
				}
				if c.Remedy == "" {
					c.Remedy = t.remedy(m, i)
				}
			}
			if all = append(all, c); result.OK && m.plan.Loads(i) {
				all = append(all, t.throughput(m, i))
			}
		}
	}
	return all
}

// Throughput is the Check.What of a transfer.
const Throughput = "throughput"

// throughput is the transfer that follows a check, to its Pod.
func (t *test) throughput(m *member, i int) Check {
	other, got := t.member(m.targets[i]), m.results[i].Got
	c := Check{State: Passed, From: other.Name, To: m.Name, Address: m.Addresses[0], What: Throughput}
	switch {
	case got == nil:
		c.State, c.Says = Skipped, "The probe has reported no figure."
		c.Remedy = "Test again. If it stays, the image is older than this command: name one of its version with --image, " +
			"or upgrade the data plane (docs/install.md)."
	case got.Error != "":
		c.State, c.Says = Failed, "The checks passed, and the transfer failed ("+got.Error+")."
		c.Remedy = "Test again. If it stays, see the counters of errors and drops of the nodes' interfaces (ip -s link)."
	default:
		c.MegabitsPerSecond = math.Round(float64(got.Bytes)*80/max(got.Took, 1).Seconds()/1e6) / 10
		if m.Node == other.Node {
			c.Says = "Both Pods are on one node: the packets did not leave it."
		}
	}
	return c
}

// bounds says what the figures of throughput are, and what bounds them; empty if the user did not ask for throughput.
func (t *test) bounds() string {
	if t.Throughput == 0 {
		return ""
	}
	return fmt.Sprintf("Throughput is the payload of one TCP connection, for at most %s and %d GiB. The CPU of the "+
		"probes, the MTU (%d), QoS policies and Open vSwitch bound it. In user space, Open vSwitch forwards much less "+
		"than a link could carry.", t.Throughput, mostBytes>>30, t.network.Status.MTU)
}

// says is what an attempt found, for people.
func says(result probe.Result) string {
	words := map[probe.Cause]string{
		probe.CauseNoAnswer:  "No answer came.",
		probe.CauseRefused:   "The host refuses it.",
		probe.CauseNoRoute:   "There is no route.",
		probe.CauseNoAddress: "The Pod lacks the address.",
		probe.CauseStalled:   "Small packets pass, and large ones do not.",
		probe.CauseStranger:  "Another program has this address.",
	}[result.Cause]
	switch {
	case words == "":
		return "The probe has reported nothing."
	case result.Cause == probe.CauseNoAnswer:
		return words
	}
	return fmt.Sprintf("%s (%s)", words, result.Error)
}

// portProblems gives a function that says what is wrong with the port of a Pod that runs, and what to do; empty if
// nothing is. It asks once for each Pod.
func (t *test) portProblems(ctx context.Context) func(*member) string {
	known := map[*member]string{}
	return func(m *member) string {
		if m == nil || m.trouble != "" {
			return ""
		}
		problem, asked := known[m]
		if !asked {
			answer, err := t.why(ctx, why.KindPod, t.Namespace, m.Name)
			if err == nil && !answer.Healthy {
				cause := answer.Cause()
				problem = strings.TrimSpace(fmt.Sprintf("%s says %s: %s %s", cause.Object, cause.Reason, cause.Message,
					answer.Remedy))
			}
			known[m] = problem
		}
		return problem
	}
}

// passes reports whether a Pod's check of a kind passed to the same address.
func (m *member) passes(kind probe.Kind, i int) bool {
	for other, check := range m.plan.Checks {
		if check.Kind == kind && check.To == m.plan.Checks[i].To && m.results[other].OK {
			return true
		}
	}
	return false
}

// remedy says what to do about a check that failed, where no object tells the cause.
func (t *test) remedy(m *member, i int) string {
	check, result := m.plan.Checks[i], m.results[i]
	switch {
	case check.Kind == probe.KindInterface:
		return "The Pod runs, and nothing gave it its interface. See that Multus is installed on the node, and that " +
			"kubectl get network-attachment-definitions lists the Network (docs/dataplane.md)."
	case result.Cause == probe.CauseNoAddress:
		return "" // the check of the interface has it
	case result.Cause == "":
		return "Test again. If it stays, see kubectl logs of the Pod, while the test runs."
	}
	switch target := t.member(m.targets[i]); {
	case target != nil:
		return t.remedyOfPod(m, target, i)
	case m.targets[i] == toGateway:
		return "The router has the address, and does not answer. See that it is up (" +
			osc.ShowRouter(t.network.Status.Router.ID) + "), and that the agent or gateway chassis that has it is alive (" +
			osc.Agents + ")."
	}
	return t.remedyOfAddress(m, i)
}

func (t *test) remedyOfPod(m, other *member, i int) string {
	check, result := m.plan.Checks[i], m.results[i]
	switch {
	case result.Cause == probe.CauseStalled:
		return "A tunnel or a provider network takes smaller packets than the Network's MTU. Lower spec.mtu, or raise the " +
			"MTU of the nodes' network (kubectl network doctor)."
	case result.Cause == probe.CauseStranger:
		return "Two hosts have one address. Find the other one: " + osc.PortsAt(check.To.String())
	case check.Kind == probe.KindICMP && m.passes(probe.KindTCP, i):
		return "TCP passes: a security group of the ports lets no ICMP in. Add a rule, if applications need ping."
	case check.Kind == probe.KindTCP && m.passes(probe.KindICMP, i):
		return fmt.Sprintf("ICMP passes: a security group of the ports lets no TCP to port %d in. Add a rule, or test a "+
			"port that it allows (--port).", t.Port)
	case m.Node == other.Node:
		return "Both Pods are on one node. See that the ports' security groups let packets in, and that Open vSwitch and " +
			"ovn-controller, or Neutron's agent, run there."
	}
	return fmt.Sprintf("See that the ports' security groups let packets in, and that the nodes' tunnels pass between %s "+
		"and %s: UDP 6081 (Geneve) or 4789 (VXLAN), in firewalls and in the cloud.", m.Node, other.Node)
}

func (t *test) remedyOfAddress(m *member, i int) string {
	check, result := m.plan.Checks[i], m.results[i]
	switch {
	case result.Cause == probe.CauseRefused:
		return "The packets arrive there. See that something listens on the port, and that no firewall refuses it."
	case t.reaches(check.To):
		return "See that the host is up, and that its firewall or security group lets the packets in."
	case t.network.Status.Router == nil:
		return "No router serves the Network: give it one (docs/router.md)."
	case t.network.Status.Router.ExternalNetworkID == "" && !t.network.Status.Router.Existing:
		return "The Network's router has no external network: set spec.router.externalNetwork (docs/router.md)."
	case check.Kind == probe.KindICMP:
		return "See the routes of the router, and the firewall of the host. Many hosts do not answer ICMP: name a TCP " +
			"port, too (--to ADDRESS:PORT)."
	}
	return "See the routes of the router, and the firewall of the host. The line of the gateway shows whether packets " +
		"reach it."
}
