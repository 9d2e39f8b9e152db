// Package faults breaks what the network-controller stands on, one thing at a time, and holds what its users rely on:
// it never makes two networks of one, leaks none, touches nothing of anybody else's, and never gives up.
//
// The binary runs as a user would run it. Between it and Neutron, Keystone and kube-apiserver stand proxies (package
// proxy) that count, log and break calls. After each fault, Neutron and Kubernetes have to come to the state in which the
// same work ends that nothing disturbed, and then nothing is written any more.
//
// With -short, a fixed sample runs: the first scenario of each group and of each sweep of kills, and every nth after it.
// FAULTS_PART=2/3 has the second of three parts run, into which the scenarios and kills are dealt in turn; with -short on
// a real cloud, the second of three parts of the sample.
//
// The cloud is the emulator, or with FAULTS_OPENSTACK=1 the Keystone and Neutron whose clouds "admin" and "tenant" are
// in the file that OS_CLIENT_CONFIG_FILE names. FAULTS_RESULTS names a file to which the results are written, as package
// results has them; with FAULTS_AGAIN=1, in the place of those that it has of the same scenarios. FAULTS_CLOUD and
// FAULTS_VERSION say what it calls the cloud and the controller.
package faults

import (
	"cmp"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"cloudteam.ztgame.com/network-controller/test/faults/results"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// surroundings are what all tests of this package share. TestMain sets them, and nothing changes them afterwards.
var surroundings *harness.Surroundings

// openStack reports whether the cloud is a real one.
func openStack() bool { return os.Getenv("FAULTS_OPENSTACK") != "" }

// worldsAtATime is how many scenarios run at a time unless -parallel says otherwise. They wait far more than they work,
// but a real Neutron is at work all the time: each of them lists everything each second.
func worldsAtATime() int {
	if openStack() {
		return 4
	}
	return 12
}

// sample says which scenarios of a group, and which kills of a sweep, run: the one at the place first, which begins at 0,
// and every nth after it; of these, one part of several, from 0. TestMain sets it.
var sample = struct{ first, every, part, parts int }{every: 1, parts: 1}

// dealt reports whether the part of the sample that runs has what a name stands for. The names decide, because the
// sample has hardly more than the first scenario of each group.
func dealt(name string) bool {
	hash := fnv.New32a()
	_, _ = io.WriteString(hash, name)
	return int(hash.Sum32()%uint32(sample.parts)) == sample.part
}

// setSample reads -short and FAULTS_PART.
func setSample() error {
	part, parts := 0, 1
	if text := os.Getenv("FAULTS_PART"); text != "" {
		n, err := fmt.Sscanf(text, "%d/%d", &part, &parts)
		if part--; n != 2 || err != nil || part < 0 || part >= parts {
			return fmt.Errorf("FAULTS_PART is %q, want a part as 2/3: the second of three", text)
		}
	}
	switch {
	case testing.Short() && openStack():
		sample.every, sample.part, sample.parts = 32, part, parts
	case testing.Short():
		sample.every = 6
	default:
		sample.first, sample.every = part, parts
	}
	return nil
}

func TestMain(m *testing.M) {
	flag.Parse()
	if err := setSample(); err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(2)
	}
	harness.RunInParallel(worldsAtATime())
	options := harness.Options{
		Components: harness.AllComponents(), OpenStack: openStack(), OpenClass: true, Policies: true,
		Machines: true,
	}
	code, err := harness.Run(options, func(s *harness.Surroundings) (int, error) {
		surroundings = s
		code := m.Run()
		return code, table.write(os.Getenv("FAULTS_RESULTS"))
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		code = 1
	}
	os.Exit(code)
}

// TestFaults lives a life that nothing disturbs, and then many that something does.
func TestFaults(t *testing.T) {
	t.Parallel()
	want := networks().undisturbed(t)
	testCrashes(t, networks(), want)
	testScenarios(t, want)
}

// Headings of the table.
const (
	headingSudden     = "Sudden death"
	headingAnswers    = "Neutron's and Keystone's answers"
	headingLists      = "Lists that do not show what there is"
	headingOthers     = "Other hands in the same project"
	headingKubernetes = "Kubernetes"
	headingProcess    = "The process"
	headingLeaders    = "Leaders and standbys"
	headingSecrets    = "Secrets"
	headingRollouts   = "Deployments and their Pods"
	headingFoos       = "Foos"
	headingRouters    = "Routers"
	headingGroups     = "Security groups"
	headingPolicies   = "Network policies"

	headingFloatingIPs = "Floating IPs"
)

// headings are in the order in which they are to be read.
var headings = []string{
	headingSudden, headingAnswers, headingLists, headingOthers, headingKubernetes, headingProcess, headingLeaders,
	headingSecrets, headingRollouts, headingFoos, headingRouters, headingGroups,
	headingPolicies, headingFloatingIPs,
}

// table is how the scenarios ended.
var table outcomes

// outcomes is one row per scenario.
type outcomes struct {
	mu   sync.Mutex
	rows []*row
}

type row struct {
	heading, sentence string
	// kills is at how many writes the process was killed, of a sweep.
	kills int
	// reason is why it is left out, or what the controller lacks to stand it.
	reason  string
	outcome results.Outcome
}

// begin adds a row, which is filled in when the test ends.
func (x *outcomes) begin(t *testing.T, heading, sentence string) *row {
	x.mu.Lock()
	defer x.mu.Unlock()
	r := &row{heading: heading, sentence: sentence}
	x.rows = append(x.rows, r)
	t.Cleanup(func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		switch {
		case t.Failed():
			r.outcome = results.Fails
		case t.Skipped():
			r.outcome = results.NotTried
		default:
			r.outcome = results.Holds
		}
	})
	return r
}

// killed counts writes at which the process was killed.
func (x *outcomes) killed(r *row, writes int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	r.kills += writes
}

// write writes the results to a file; nowhere if path is empty.
func (x *outcomes) write(path string) error {
	if path == "" {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	slices.SortFunc(x.rows, func(a, b *row) int {
		return cmp.Or(
			cmp.Compare(slices.Index(headings, a.heading), slices.Index(headings, b.heading)),
			cmp.Compare(a.sentence, b.sentence))
	})
	run := results.Run{Head: results.Head{
		Cloud: os.Getenv("FAULTS_CLOUD"), Version: os.Getenv("FAULTS_VERSION"), Date: time.Now().UTC().Format(time.DateOnly),
	}}
	for _, r := range x.rows {
		run.Rows = append(run.Rows, results.Row{
			Heading: r.heading, Scenario: r.sentence, Outcome: r.outcome, Reason: r.reason, Kills: r.kills,
		})
	}
	if os.Getenv("FAULTS_AGAIN") != "" {
		before, err := results.Read(path)
		if err != nil {
			return err
		}
		run = before.With(run)
	}
	return run.Write(path)
}
