// Package faults breaks what the network-controller stands on, one thing at a time, and holds what its users rely on:
// it never makes two networks of one, leaks none, touches nothing of anybody else's, and never gives up.
//
// Everything runs in this process and in virtual time, in bubbles of testing/synctest (package simulation): the controller
// as its command line starts it, an API server, an emulated cloud, and between them proxies (package proxy) that count,
// log and break calls. After each fault, Neutron and Kubernetes have to come to the state in which the same work ends
// that nothing disturbed, and then nothing is written any more.
//
// With FAULTS_PROCESSES=1, the same runs with the binary as a user would run it, at a real kube-apiserver, and so it does
// with FAULTS_OPENSTACK=1 at the Keystone and Neutron whose clouds "admin" and "tenant" are in the file that
// OS_CLIENT_CONFIG_FILE names. There, -short runs sentinels: the first scenario of each group, and one kill at each kind of
// write; at a real Neutron, where a life takes a minute, the first scenario of each heading, and one kill in each course.
//
// FAULTS_RESULTS names a file to which the results are written, as package results has them; with FAULTS_AGAIN=1, in the
// place of those that it has of the same scenarios. FAULTS_CLOUD and FAULTS_VERSION say what it calls the cloud and the
// controller.
package faults

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cloudteam.ztgame.com/network-controller/test/faults/results"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/simulation"
)

// surroundings are what all tests of this package share. TestMain sets them, and nothing changes them afterwards.
var surroundings *harness.Surroundings

// openStack reports whether the cloud is a real one.
func openStack() bool { return os.Getenv("FAULTS_OPENSTACK") != "" }

// virtualTime is whether worlds have no processes and no sockets, and each a bubble of testing/synctest.
var virtualTime = os.Getenv("FAULTS_PROCESSES") == "" && !openStack()

// inTime runs a test in its bubble, where there are bubbles.
func inTime(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	if virtualTime {
		synctest.Test(t, test)
		return
	}
	test(t)
}

// worldsAtATime is how many scenarios run at a time unless -parallel says otherwise. They wait far more than they work,
// but a real Neutron is at work all the time.
func worldsAtATime() int {
	if openStack() {
		return 8
	}
	return 12
}

// sentinels reports whether a few scenarios and kills stand for all, and fewest whether fewer still do.
func sentinels() bool { return !virtualTime && testing.Short() }
func fewest() bool    { return openStack() && testing.Short() }

func TestMain(m *testing.M) {
	flag.Parse()
	if virtualTime {
		simulation.Install()
		code := m.Run()
		if err := table.write(os.Getenv("FAULTS_RESULTS")); err != nil {
			fmt.Fprintln(os.Stderr, "faults:", err)
			code = 1
		}
		os.Exit(code)
	}
	harness.RunInParallel(worldsAtATime())
	options := harness.Options{
		Components: harness.AllComponents(), OpenStack: openStack(), OpenClass: true, Policies: true,
		Machines: true,
	}
	harness.Exit(harness.Run(options, func(s *harness.Surroundings) (int, error) {
		surroundings = s
		code := m.Run()
		return code, table.write(os.Getenv("FAULTS_RESULTS"))
	}))
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
