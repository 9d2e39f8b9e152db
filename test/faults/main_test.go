// Package faults breaks what the network-controller stands on, one thing at a time, and holds what its users rely on:
// it never makes two networks of one, leaks none, touches nothing of anybody else's, and never gives up.
//
// The binary runs as a user would run it. Between it and Neutron, Keystone and kube-apiserver stand proxies (package
// proxy) that count, log and break calls. After each fault, Neutron and Kubernetes have to come to the state in which the
// same work ends that nothing disturbed, and then nothing is written any more.
//
// The cloud is the emulator, or with FAULTS_OPENSTACK=1 the Keystone and Neutron whose clouds "admin" and "tenant" are in
// the file that OS_CLIENT_CONFIG_FILE names. FAULTS_TABLE names a file to which the results are written, as Markdown.
package faults

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

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
		return 3
	}
	return 8
}

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", strconv.Itoa(worldsAtATime())); err != nil {
		panic(err) // package testing has the flag
	}
	options := harness.Options{Components: harness.APIComponents(), OpenStack: openStack()}
	code, err := harness.Run(options, func(s *harness.Surroundings) (int, error) {
		surroundings = s
		code := m.Run()
		return code, results.write(os.Getenv("FAULTS_TABLE"))
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		code = 1
	}
	os.Exit(code)
}

// TestFaults lives a life that nothing disturbs, and then many that something does.
func TestFaults(t *testing.T) {
	want := live(t)
	testCrashes(t, want)
	testScenarios(t, want)
}

// results are how the scenarios ended.
var results table

// table is one row per scenario.
type table struct {
	mu   sync.Mutex
	rows []*row
}

type row struct {
	sentence string
	points   int
	// lacking is what the controller lacks to stand the fault.
	lacking string
	result  string
}

// begin adds a row, which is filled in when the test ends. points is at how many places the fault was tried.
func (x *table) begin(t *testing.T, sentence string) *row {
	x.mu.Lock()
	defer x.mu.Unlock()
	r := &row{sentence: sentence, points: 1}
	x.rows = append(x.rows, r)
	t.Cleanup(func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		switch {
		case t.Failed():
			r.result = "does not hold"
		case r.lacking != "":
			r.result = "does not hold yet: " + r.lacking
		case t.Skipped():
			r.result = "not tried on this cloud"
		default:
			r.result = "holds"
		}
	})
	return r
}

// reached counts a place at which the row's fault was tried.
func (x *table) reached(r *row) {
	x.mu.Lock()
	defer x.mu.Unlock()
	r.points++
}

// write writes the table to a file; nowhere if path is empty.
func (x *table) write(path string) error {
	if path == "" {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	var b strings.Builder
	slices.SortFunc(x.rows, func(a, b *row) int { return strings.Compare(a.sentence, b.sentence) })
	b.WriteString("| fault | tried at | result |\n| --- | --- | --- |\n")
	for _, r := range x.rows {
		places := fmt.Sprintf("%d points", r.points)
		if r.points == 1 {
			places = "1 point"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", r.sentence, places, r.result)
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}
