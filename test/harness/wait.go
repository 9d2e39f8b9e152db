package harness

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Patience is how long a test waits for something that a healthy system does in a second or two, and one that has other
// work in a minute. It only ends what hangs.
const Patience = 5 * time.Minute

// Poll calls check until it gives nil. It returns check's last error when patience or cancel ends; a nil cancel never
// does.
func Poll(cancel <-chan struct{}, patience, pause time.Duration, check func() error) error {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-cancel:
			return fmt.Errorf("canceled: %w", err)
		case <-deadline.C:
			return fmt.Errorf("after %s: %w", patience, err)
		}
	}
}

// Eventually polls until check gives nil, and fails the test with its last error when Patience or the control plane
// ends.
func (c *ControlPlane) Eventually(t testing.TB, check func() error) {
	t.Helper()
	c.eventually(t, Patience, 20*time.Millisecond, check)
}

func (c *ControlPlane) eventually(t testing.TB, patience, pause time.Duration, check func() error) {
	t.Helper()
	var ended <-chan struct{}
	if c.process != nil {
		ended = c.process.Done()
	}
	err := Poll(ended, patience, pause, check)
	switch {
	case err == nil:
	case c.process != nil && c.process.Ended():
		t.Fatal(c.process.Died())
	default:
		c.waits.note(t.Name(), err.Error())
		t.Fatal(err)
	}
}

// waits are what tests waited for in vain.
type waits struct {
	mu sync.Mutex
	// byTest are the sentences that say so, by the name of the test.
	byTest map[string]string
}

func (w *waits) note(test, sentence string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byTest == nil {
		w.byTest = map[string]string{}
	}
	w.byTest[test] = sentence
}

// of gives the sentences of a test and of its subtests, a line each.
func (w *waits) of(test string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var lines strings.Builder
	for _, name := range slices.Sorted(maps.Keys(w.byTest)) {
		if name == test || strings.HasPrefix(name, test+"/") {
			fmt.Fprintf(&lines, "%s: %s\n", name, w.byTest[name])
		}
	}
	return lines.String()
}
