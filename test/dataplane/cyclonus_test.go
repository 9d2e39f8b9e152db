//go:build linux

package dataplane

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/controller/netpolicy"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/cyclonus"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/nightly"
)

// envSeed has a seed that cases are drawn with. By day they are the same each time, so that a failure does not come and
// go.
const envSeed = "DATAPLANE_SEED"

// seedAndRounds say which cases are drawn.
func seedAndRounds(t *testing.T) (seed uint64, rounds int) {
	t.Helper()
	seed, rounds = 1, 4
	if !testing.Short() {
		seed, rounds = uint64(time.Now().Unix()), 20
	}
	if text := os.Getenv(envSeed); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		expect.NoError(t, err)
	}
	return seed, rounds
}

// suite is the Pods of cyclonus on one Network.
type suite struct {
	*world
	// of has the worlds with the namespaces, by their names in the suite.
	of     map[string]*world
	pods   []cyclonus.Pod
	guests []*guest
	// network is the namespace and name of the Network.
	network string
	seed    uint64
}

// drawnPoliciesAllowWhatTheySay draws some of the policies of cyclonus, all of which TestConformance of internal/policy
// has, and sends packets between its Pods. In each round there is one policy in each of three namespaces.
func (w *world) drawnPoliciesAllowWhatTheySay() {
	seed, rounds := seedAndRounds(w.T)
	again := fmt.Sprintf("%s=%d draws these cases again", envSeed, seed)
	fmt.Printf("  %d cases are drawn: %s\n", rounds*len(cyclonus.Namespaces), again)
	s := w.newSuite(seed)
	var sweeps *sweeper
	pass, all := 0, 0
	for i, cases := range cyclonus.Draw(seed, rounds) {
		began := time.Now()
		s.put(i, cases)
		if i == 0 {
			s.start() // Pods that start after a policy are in its groups when they do
			sweeps = s.newSweeper(s.guests)
		}
		s.eventually(func() error { return s.inNeutron(i, cases) })
		took := nightly.Since(began)
		want := s.meant(cases)
		n := s.agree(sweeps, i, cases, want)
		fmt.Printf("  round %d: Neutron has its policies after %s, and packets agree after %s, in %d sweeps\n", i, took,
			nightly.Since(began), n)
		for _, is := range want {
			if all++; is != lost {
				pass++
			}
		}
	}
	fmt.Printf("  of %d questions, %d pass and %d do not, as the policies say\n", all, pass, all-pass)
	sweeps.stop()
	s.remove()
}

// newSuite makes the namespaces and the Network. Pods that no policy selects are open there.
func (w *world) newSuite(seed uint64) *suite {
	w.Helper()
	s := &suite{world: w, of: map[string]*world{}, pods: cyclonus.Pods(), seed: seed}
	for _, name := range cyclonus.Namespaces {
		own := *w
		own.makeNamespace()
		labels := fmt.Sprintf(`{"metadata":{"labels":{"ns":%q}}}`, cyclonus.LabelsOf(name)["ns"])
		harness.Patch(w, surroundings.Kube.CoreV1().Namespaces(), own.namespace, labels)
		s.of[name] = &own
	}
	first := s.of[cyclonus.Namespaces[0]]
	open := &cloudteamv1.SecurityGroup{ObjectMeta: metav1.ObjectMeta{Name: "open"}}
	for _, direction := range []cloudteamv1.RuleDirection{cloudteamv1.RuleIngress, cloudteamv1.RuleEgress} {
		for _, family := range []cloudteamv1.EtherType{cloudteamv1.EtherTypeIPv4, cloudteamv1.EtherTypeIPv6} {
			open.Spec.Rules = append(open.Spec.Rules, cloudteamv1.SecurityGroupRule{Direction: direction, EtherType: family})
		}
	}
	groups := surroundings.Networks.CloudteamV1().SecurityGroups(first.namespace)
	harness.Create(w, groups, open)
	network := first.network([]byte(fmt.Sprintf(`
metadata:
  name: cyclonus
spec:
  cidr: %s
  gateway: 10.0.0.254
  allocationPools: # without the Pods' addresses
    - start: 10.0.0.100
      end: 10.0.0.199
  additionalSubnets:
    - cidr: %s
      gateway: fd00:10::fffe
      allocationPools:
        - start: fd00:10::100
          end: fd00:10::1ff
  securityGroupRefs: [open]
  allowedNamespaces: ["*"]
`, cyclonus.IPv4, cyclonus.IPv6)))
	s.network = first.namespace + "/" + network.Name
	return s
}

// start starts the Pods.
func (s *suite) start() {
	s.Helper()
	namespace, name, _ := strings.Cut(s.network, "/")
	for i, p := range s.pods {
		networks := fmt.Sprintf(`[{"name": %q, "namespace": %q, "ips": [%q, %q]}]`, name, namespace, p.Addresses[0],
			p.Addresses[1])
		pod := podFor(p.Name, s.nodes.All[i%len(s.nodes.All)].Name, networks)
		pod.Labels = p.Labels()
		for _, protocol := range cyclonus.Protocols {
			for _, number := range cyclonus.Numbers {
				pod.Spec.Containers[0].Ports = append(pod.Spec.Containers[0].Ports, corev1.ContainerPort{
					Name: cyclonus.PortName(protocol, number), ContainerPort: number,
					Protocol: corev1.Protocol(strings.ToUpper(protocol)),
				})
			}
		}
		s.of[p.Namespace].create(pod)
	}
	began := time.Now()
	for _, p := range s.pods {
		g := s.of[p.Namespace].guest(p.Name)
		if is := g.addresses(0); !slices.Equal(is, p.Addresses) {
			s.Fatalf("Pod %s/%s has the addresses %v, want %v", p.Namespace, p.Name, is, p.Addresses)
		}
		s.guests = append(s.guests, g)
	}
	fmt.Printf("  %d Pods run after %s\n", len(s.guests), nightly.Since(began))
}

// remove removes the Pods. What else there is goes with the namespaces.
func (s *suite) remove() {
	s.Helper()
	for _, p := range s.pods {
		harness.Delete(s, surroundings.Kube.CoreV1().Pods(s.of[p.Namespace].namespace), p.Name)
	}
	for _, p := range s.pods {
		s.of[p.Namespace].removePods(p.Name)
	}
}

// policyName is the name of the policy that a namespace has in a round: the number of its case.
func policyName(round int, namespace string) string {
	return fmt.Sprint("case-", round*len(cyclonus.Namespaces)+slices.Index(cyclonus.Namespaces, namespace))
}

// put puts the policies of a round in the place of those of the last one.
func (s *suite) put(round int, cases []cyclonus.Case) {
	s.Helper()
	for i, name := range cyclonus.Namespaces {
		surroundings.PutPolicy(s, s.of[name].namespace, policyName(round, name), s.network, cases[i].Text)
		if round > 0 {
			surroundings.RemovePolicy(s, s.of[name].namespace, policyName(round-1, name))
		}
	}
}

// inNeutron is nil when Neutron has the policies of a round, and no others: their groups are Ready, and the ports of
// Pods that they select are in them.
func (s *suite) inNeutron(round int, cases []cyclonus.Case) error {
	var errs []error
	for i, name := range cyclonus.Namespaces {
		group, err := s.groupOf(s.of[name].namespace, policyName(round, name))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for j, p := range s.pods {
			if p.Namespace != name || !cases[i].Selects(p) {
				continue
			}
			port, err := surroundings.Networks.CloudteamV1().NetworkPorts(s.of[name].namespace).
				Get(s.Context(), s.guests[j].on[0].Port, metav1.GetOptions{})
			if err == nil && !slices.Contains(port.Status.SecurityGroupIDs, group) {
				err = fmt.Errorf("Pod %s/%s is not in the group of %s", name, p.Name, policyName(round, name))
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// groupOf gives the id of a policy's group, if it is the only policy that has one, and all that it needs are Ready.
func (s *suite) groupOf(namespace, policy string) (id string, err error) {
	groups, err := surroundings.Networks.CloudteamV1().SecurityGroups(namespace).List(s.Context(), metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	for i := range groups.Items {
		group := &groups.Items[i]
		if group.Annotations[consumer.AnnotationMadeFor] != netpolicy.MadeFor {
			continue
		}
		own := strings.HasPrefix(group.Name, "policy-"+policy+"-")
		if own {
			id = group.Status.SecurityGroupID
		}
		if !own && strings.HasPrefix(group.Name, "policy-case-") || group.DeletionTimestamp != nil {
			return "", fmt.Errorf("SecurityGroup %s is still there", group.Name)
		}
		if err := harness.Ready(group); err != nil {
			return "", err
		}
	}
	if id == "" {
		err = fmt.Errorf("MultiNetworkPolicy %s has no group", policy)
	}
	return id, err
}

// meant is what becomes of each question, as the policies say.
func (s *suite) meant(cases []cyclonus.Case) map[question]string {
	want := map[question]string{}
	for from := range s.pods {
		for to := range s.pods {
			for _, x := range cyclonus.Packets() {
				is := answered
				if x.Protocol == "sctp" {
					is = arrived
				}
				for i, name := range cyclonus.Namespaces {
					if !cases[i].Passes(name, s.pods[from], s.pods[to], x) {
						is = lost
					}
				}
				if from != to {
					want[question{from, to, x}] = is
				}
			}
		}
	}
	return want
}

// agree sweeps until packets do what the policies mean, in two sweeps one after the other, and returns the number of
// sweeps. What the first of these shows to be closed may not be open in the second.
func (s *suite) agree(sweeps *sweeper, round int, cases []cyclonus.Case, want map[question]string) (n int) {
	s.Helper()
	agreed := 0
	var rows [][]string
	err := harness.Poll(s.Context().Done(), patience, 100*time.Millisecond, func() error {
		n++
		opened := false
		rows = nil
		for q, is := range sweeps.sweep(want) {
			if is != want[q] {
				rows = append(rows, s.row(round, cases, q, want[q], is))
				opened = opened || want[q] == lost
			}
		}
		switch {
		case len(rows) == 0:
			agreed++
		case opened && agreed > 0:
			s.Fatalf("packets do what the policies say, and then no longer:\n%s", s.table(round, cases, rows))
		default:
			agreed = 0
		}
		if agreed < 2 {
			return fmt.Errorf("in sweep %d, packets do not do what the policies say", n)
		}
		return nil
	})
	if err != nil {
		s.Fatalf("%v:\n%s", err, s.table(round, cases, rows))
	}
	return n
}

// row is a difference, for table.
func (s *suite) row(round int, cases []cyclonus.Case, q question, want, is string) []string {
	name := func(i int) string {
		return fmt.Sprintf("%s/%s on %s", s.pods[i].Namespace, s.pods[i].Name, s.guests[i].node.Name)
	}
	about := s.pods[q.from]
	if cases[0].Ingress {
		about = s.pods[q.to]
	}
	return []string{
		policyName(round, about.Namespace), name(q.from), name(q.to), s.pods[q.to].Addresses[q.Family].String(), q.Protocol,
		fmt.Sprint(q.Number), want, is,
	}
}

// table has the policies of a round, and the differences.
func (s *suite) table(round int, cases []cyclonus.Case, rows [][]string) string {
	const most = 60
	var text strings.Builder
	for i, name := range cyclonus.Namespaces {
		fmt.Fprintf(&text, "%s, in %s, of seed %d: %s\n", policyName(round, name), name, s.seed, cases[i].Text)
	}
	slices.SortFunc(rows, slices.Compare)
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "CASE\tFROM\tTO\tADDRESS\tPROTOCOL\tPORT\tTHE POLICIES SAY\tIT")
	for _, row := range rows[:min(most, len(rows))] {
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	if err := table.Flush(); err != nil {
		return err.Error()
	}
	if len(rows) > most {
		fmt.Fprintf(&text, "and %d more\n", len(rows)-most)
	}
	return text.String()
}
