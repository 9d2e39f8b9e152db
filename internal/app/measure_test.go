package app

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/kinds"
	"cloudteam.ztgame.com/network-controller/internal/metric"
	_ "cloudteam.ztgame.com/network-controller/internal/node/agent" // its metrics are in docs/metrics.md, too
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// sample collects computed metrics, by their labels.
type sample map[*metric.Computed]map[string]float64

func (s sample) set(of *metric.Computed, value float64, labels ...string) {
	if s[of] == nil {
		s[of] = map[string]float64{}
	}
	s[of][strings.Join(labels, " ")] = value
}

func networkWith(namespace, name string, ready *metav1.Condition, used, total int64) *cloudteamv1.Network {
	n := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if ready != nil {
		ready.Type = cloudteamv1.ConditionReady
		n.Status.Conditions = []metav1.Condition{*ready}
	}
	n.Status.Subnets = []cloudteamv1.SubnetStatus{
		{CIDR: "10.0.0.0/24", UsedAddresses: &used, TotalAddresses: &total}, {CIDR: "10.0.1.0/24"},
	}
	return n
}

// indexerOf is a cache with objects.
func indexerOf(t *testing.T, objects ...any) cache.Indexer {
	t.Helper()
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, obj := range objects {
		expect.NoError(t, indexer.Add(obj))
	}
	return indexer
}

func TestPortsThatAreNotAttachedAreCountedByReason(t *testing.T) {
	attached := func(name string, status metav1.ConditionStatus, reason string) *cloudteamv1.NetworkPort {
		port := &cloudteamv1.NetworkPort{ObjectMeta: metav1.ObjectMeta{Name: name}}
		port.Status.Conditions = []metav1.Condition{{Type: cloudteamv1.ConditionAttached, Status: status, Reason: reason}}
		return port
	}
	p, got := &process{election: alone()}, sample{}
	p.measured.of = map[string]cache.Indexer{kinds.NetworkPort: indexerOf(t,
		attached("a", metav1.ConditionFalse, cloudteamv1.ReasonPlugFailed),
		attached("b", metav1.ConditionFalse, cloudteamv1.ReasonPlugFailed), attached("c", metav1.ConditionFalse, "Odd"),
		attached("d", metav1.ConditionTrue, cloudteamv1.ReasonPlugged), &cloudteamv1.NetworkPort{})}
	p.measure(got.set)
	expect.Equal(t, map[string]float64{cloudteamv1.ReasonPlugFailed: 2, otherReason: 1}, got[portsUnattached], "unattached")
}

func TestObjectsAreCountedByStateInTheLeaderOnly(t *testing.T) {
	p := &process{election: alone()}
	ready := metav1.Condition{Status: metav1.ConditionTrue, Reason: cloudteamv1.ReasonAvailable}
	p.measured.of = map[string]cache.Indexer{}
	p.measured.of[kinds.Network] = indexerOf(t,
		networkWith("a", "one", ready.DeepCopy(), 3, 10), networkWith("a", "two", ready.DeepCopy(), 10, 10),
		networkWith("b", "new", nil, 0, 10),
		networkWith("b", "forged", &metav1.Condition{Status: "Perhaps", Reason: "Whatever"}, 0, 0),
	)
	p.measured.of[kinds.NetworkPort] = indexerOf(t, &cloudteamv1.NetworkPort{ObjectMeta: metav1.ObjectMeta{Name: "p"}})
	got := sample{}
	p.measure(got.set)
	want := map[string]float64{
		"Network True Available": 2, "Network Unknown ": 1, "Network Unknown Other": 1, "NetworkPort Unknown ": 1,
	}
	expect.Equal(t, fmt.Sprint(want), fmt.Sprint(got[objects]), "objects")
	if got[subnetAddressesUsed]["a one 10.0.0.0/24"] != 3 || got[subnetAddresses]["a two 10.0.0.0/24"] != 10 ||
		len(got[subnetAddresses]) != 4 || got[subnetsUnlisted][""] != 0 {
		t.Errorf("subnets: %v of %v", got[subnetAddressesUsed], got[subnetAddresses])
	}

	p.election = &election{leading: make(chan struct{})}
	standby := sample{}
	p.measure(standby.set)
	expect.Empty(t, standby, "metrics that a standby serves")
}

// TestTenantsCannotMakeSeriesWithoutBound has one namespace with thousands of full subnets. It gets its share, and the
// others keep theirs.
func TestTenantsCannotMakeSeriesWithoutBound(t *testing.T) {
	var networks []any
	for n := range 5000 {
		networks = append(networks, networkWith("hostile", fmt.Sprint("n", n), nil, 10, 10))
	}
	for n := range 300 {
		networks = append(networks, networkWith(fmt.Sprint("team", n%3), fmt.Sprint("n", n), nil, int64(n), 1000))
	}
	got := sample{}
	measureSubnets(got.set, networks)
	if n := len(got[subnetAddresses]); n != 400 || got[subnetsUnlisted][""] != 4900 {
		t.Errorf("%d subnets, and %v unlisted", n, got[subnetsUnlisted])
	}
	for n := range 5000 {
		networks = append(networks, networkWith(fmt.Sprint("many", n), "n", nil, 1, 10))
	}
	got = sample{}
	measureSubnets(got.set, networks)
	if n := len(got[subnetAddresses]); n != maxSubnets || got[subnetsUnlisted][""] != 10300-maxSubnets {
		t.Errorf("%d subnets, and %v unlisted", n, got[subnetsUnlisted])
	}
	if _, ok := got[subnetAddresses]["team2 n299 10.0.0.0/24"]; !ok {
		t.Error("the fullest are not among them")
	}
}

func TestWaitingPodsAreCountedByReason(t *testing.T) {
	now := time.Now()
	pod := func(age time.Duration, reason string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now.Add(-age))}}
		if reason != "" {
			p.Status.Conditions = []corev1.PodCondition{{
				Type: cloudteamv1.ConditionNetworksReady, Status: corev1.ConditionFalse, Reason: reason,
			}}
		}
		return p
	}
	got := sample{}
	measurePods(got.set, []*corev1.Pod{
		pod(time.Second, ""), pod(time.Minute, cloudteamv1.ReasonPortsNotReady), pod(time.Hour, cloudteamv1.ReasonPortsFailed),
		pod(time.Hour, "Anything"), pod(time.Hour, "AnythingElse"),
	}, now)
	want := map[string]float64{"PortsNotReady": 2, "PortsFailed": 1, "Other": 2}
	if fmt.Sprint(got[podsWaiting]) != fmt.Sprint(want) || got[podsWaitingOldest]["PortsNotReady"] != 60 {
		t.Errorf("%v, the oldest %v", got[podsWaiting], got[podsWaitingOldest])
	}
	got = sample{}
	measurePods(got.set, nil, now)
	if n, ok := got[podsWaiting]["PortsNotReady"]; !ok || n != 0 {
		t.Errorf("without Pods: %v", got[podsWaiting])
	}
}

// TestAllReasonsAreKnown holds reasons against the constants of the API.
func TestAllReasonsAreKnown(t *testing.T) {
	packages, err := parser.ParseDir(token.NewFileSet(), "../../pkg/apis/cloudteam/v1", nil, 0) //nolint:staticcheck // no types needed
	expect.NoError(t, err)
	count := 0
	ast.Inspect(packages["v1"], func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Reason") {
			return true
		}
		reason, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		expect.NoError(t, err)
		count++
		expect.Equal(t, reason, knownReason(reason), "the reason %s in measure.go", spec.Names[0].Name)
		return true
	})
	expect.Equal(t, reasons.Len(), count, "reasons of the API, and those in measure.go")
}

// TestEachMetricIsDocumented holds what docs/metrics.md is written from.
func TestEachMetricIsDocumented(t *testing.T) {
	used := map[string]bool{}
	for _, d := range metric.All() {
		if d.Help == "" || !strings.HasSuffix(d.Help, ".") {
			t.Errorf("%s: the help is no sentence: %q", d.Name, d.Help)
		}
		if (d.Type == "counter") != strings.HasSuffix(d.Name, "_total") {
			t.Errorf("%s: the names of counters, and no others, end with _total", d.Name)
		}
		for _, label := range d.Labels {
			used[label] = true
			if metric.Labels[label] == "" {
				t.Errorf("%s: nothing says how many values the label %s may have: add it to metric.Labels", d.Name, label)
			}
		}
	}
	if len(used) != len(metric.Labels) {
		t.Errorf("metric.Labels has labels that no metric has; used are %v", slices.Sorted(func(yield func(string) bool) {
			for label := range used {
				if !yield(label) {
					return
				}
			}
		}))
	}
}
