//go:build linux

package dataplane

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/node/agentapi"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// The stages of a Pod on its way to its first packet.
const (
	stageAllocated = "its port is created in Neutron and bound to it"
	stageScheduled = "the scheduler has chosen its node"
	stageBound     = "Neutron expects its port on the node"
	stageAsked     = "the runtime has called the plugin"
	stagePlugging  = "the plugin has made the interface"
	stagePlugged   = "OVN has installed the port's flows"
	stageStarted   = "its container runs"
	stageAnswered  = "its first packet is answered"
)

var stages = []string{
	stageAllocated, stageScheduled, stageAsked, stageBound, stagePlugging, stagePlugged, stageStarted, stageAnswered,
}

// trace notes when each of some Pods reached which stage. It is safe for concurrent use.
type trace struct {
	// prefix is that of the Pods' names.
	prefix string

	mu      sync.Mutex
	reached map[string]map[string]time.Time // by stage, by Pod
}

// note keeps the first time at which a Pod reached a stage.
func (tr *trace) note(stage, pod string, at time.Time) {
	if !strings.HasPrefix(pod, tr.prefix+"-") {
		return
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if tr.reached[stage] == nil {
		tr.reached[stage] = map[string]time.Time{}
	}
	if first, ok := tr.reached[stage][pod]; !ok || at.Before(first) {
		tr.reached[stage][pod] = at
	}
}

// count is how many Pods reached a stage.
func (tr *trace) count(stage string) int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return len(tr.reached[stage])
}

// after gives the seconds from a time until half of the Pods, and until all that did, had reached a stage.
func (tr *trace) after(began time.Time, stage string) (half, all float64) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	times := slices.SortedFunc(maps.Values(tr.reached[stage]), time.Time.Compare)
	if len(times) == 0 {
		return 0, 0
	}
	return times[(len(times)-1)/2].Sub(began).Seconds(), times[len(times)-1].Sub(began).Seconds()
}

// startTrace notes what the API server tells of the Pods whose names have a prefix, until stop is called.
func (w *world) startTrace(prefix string) (tr *trace, stop func()) {
	w.Helper()
	tr = &trace{prefix: prefix, reached: map[string]map[string]time.Time{}}
	pods, err := surroundings.Kube.CoreV1().Pods(w.namespace).Watch(w.Context(), metav1.ListOptions{})
	expect.NoError(w, err)
	ports, err := surroundings.Networks.CloudteamV1().NetworkPorts(w.namespace).Watch(w.Context(), metav1.ListOptions{})
	expect.NoError(w, err)
	var readers sync.WaitGroup
	read := func(events watch.Interface, see func(object any, at time.Time)) {
		readers.Go(func() {
			for event := range events.ResultChan() {
				see(event.Object, time.Now())
			}
		})
	}
	read(pods, func(object any, at time.Time) {
		pod, ok := object.(*corev1.Pod)
		if !ok {
			return
		}
		if consumer.Allocated(pod) {
			tr.note(stageAllocated, pod.Name, at)
		}
		if pod.Spec.NodeName != "" {
			tr.note(stageScheduled, pod.Name, at)
		}
	})
	read(ports, func(object any, at time.Time) {
		port, ok := object.(*cloudteamv1.NetworkPort)
		if ok && port.Status.BoundTo != nil && port.Status.Attachment != nil {
			tr.note(stageBound, port.Status.BoundTo.Name, at)
		}
	})
	return tr, func() {
		pods.Stop()
		ports.Stop()
		readers.Wait()
	}
}

// inAgentsLog finds what an agent says about a Pod, and when: klog writes the day without its year.
var inAgentsLog = regexp.MustCompile(`^I(\d{4} \d\d:\d\d:\d\d\.\d+) .*\] "(Asked|Plugged)" .*`)

// readAgents notes what the agents have logged.
func (w *world) readAgents(tr *trace) {
	w.Helper()
	named := func(line, key string) string {
		_, rest, _ := strings.Cut(line, " "+key+`="`)
		value, _, _ := strings.Cut(rest, `"`)
		return value
	}
	for _, node := range w.nodes.All {
		file, err := os.Open(filepath.Join(node.Dir, "logs", "agent.log"))
		expect.NoError(w, err)
		lines := bufio.NewScanner(file)
		for lines.Scan() {
			found := inAgentsLog.FindStringSubmatch(lines.Text())
			if found == nil || named(found[0], "namespace") != w.namespace {
				continue
			}
			at, err := time.ParseInLocation("2006 0102 15:04:05.000000", fmt.Sprint(time.Now().Year(), " ", found[1]), time.Local)
			expect.NoError(w, err)
			pod, path := named(found[0], "pod"), named(found[0], "path")
			switch {
			case found[2] == "Plugged":
				tr.note(stagePlugged, pod, at)
			case path == agentapi.PathPrepare:
				tr.note(stageAsked, pod, at)
			case path == agentapi.PathPlug:
				tr.note(stagePlugging, pod, at)
			}
		}
		expect.NoError(w, errors.Join(lines.Err(), file.Close()))
	}
}

// readPods notes what Pods have printed. The runtime writes the time before each line.
func (w *world) readPods(tr *trace) {
	w.Helper()
	for _, node := range w.nodes.All {
		logs, err := filepath.Glob(filepath.Join(node.Dir, "pod-logs", w.namespace+"_"+tr.prefix+"-*", "*", "*.log"))
		expect.NoError(w, err)
		for _, log := range logs {
			content, err := os.ReadFile(log)
			if err != nil {
				continue
			}
			pod := strings.Split(filepath.Base(filepath.Dir(filepath.Dir(log))), "_")[1]
			for line := range strings.Lines(string(content)) {
				stamp, said, _ := strings.Cut(strings.TrimSpace(line), " ")
				at, err := time.Parse(time.RFC3339Nano, stamp)
				switch {
				case err != nil:
				case strings.HasSuffix(said, " started"):
					tr.note(stageStarted, pod, at)
				case strings.HasSuffix(said, " answered"):
					tr.note(stageAnswered, pod, at)
				}
			}
		}
	}
}

// inNeutronsLog finds a write of a port, and how long it took: in milliseconds where uwsgi serves, or else in seconds.
var inNeutronsLog = regexp.MustCompile(`(POST|PUT) /v2\.0/ports.*(?: in (\d+) msecs \(HTTP\S+ 20|status: 20\d .*time: ([\d.]+))`)

// writes are the requests that change ports, in a log of Neutron.
type writes struct {
	n       int
	seconds float64
}

func writesIn(t *testing.T, log string) (posts, puts writes) {
	t.Helper()
	file, err := os.Open(log)
	expect.NoError(t, err)
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Buffer(nil, 1<<24); lines.Scan(); {
		found := inNeutronsLog.FindStringSubmatch(lines.Text())
		if found == nil {
			continue
		}
		took, err := time.ParseDuration(found[2] + "ms")
		if found[3] != "" {
			took, err = time.ParseDuration(found[3] + "s")
		}
		expect.NoError(t, err)
		of := &posts
		if found[1] == "PUT" {
			of = &puts
		}
		of.n++
		of.seconds += took.Seconds()
	}
	expect.NoError(t, lines.Err())
	return posts, puts
}

// traces has the seconds of each stage for the tables, by number of Pods.
type traces map[int]*traced

// traced is what all rounds of a number of Pods gave, by stage.
type traced struct{ half, all, bare map[string][]float64 }

// add adds a round: of Pods on a Network, or of bare ones with macvlan.
func (ts traces) add(n int, tr *trace, began time.Time, bare bool) {
	if ts[n] == nil {
		ts[n] = &traced{map[string][]float64{}, map[string][]float64{}, map[string][]float64{}}
	}
	for _, stage := range stages {
		half, all := tr.after(began, stage)
		switch {
		case all == 0:
		case bare:
			ts[n].bare[stage] = append(ts[n].bare[stage], all)
		default:
			ts[n].half[stage] = append(ts[n].half[stage], half)
			ts[n].all[stage] = append(ts[n].all[stage], all)
		}
	}
}

// print prints a table: medians of the seconds since the first Pod was created.
func (ts traces) print() {
	counts := slices.Sorted(maps.Keys(ts))
	head, rule := "| stage |", "| --- |"
	for _, n := range counts {
		head += fmt.Sprintf(" half of %d | all | macvlan |", n)
		rule += " --- | --- | --- |"
	}
	fmt.Printf("%s\n%s\n", head, rule)
	for _, stage := range stages {
		row := "| " + stage + " |"
		for _, n := range counts {
			row += median(ts[n].half[stage]) + median(ts[n].all[stage]) + median(ts[n].bare[stage])
		}
		fmt.Println(row)
	}
}

// median is a cell of a table.
func median(seconds []float64) string {
	if len(seconds) == 0 {
		return " |"
	}
	sorted := slices.Sorted(slices.Values(seconds))
	return fmt.Sprintf(" %.2f |", sorted[len(sorted)/2])
}
