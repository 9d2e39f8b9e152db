package harness

import (
	"errors"
	"strings"
	"testing"
	"time"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestFailedWaitsAreReportedByTest(t *testing.T) {
	var w waits
	w.note("TestA/b", "after 1m0s: no port")
	w.note("TestA", "after 1m0s: no network")
	w.note("TestAB", "after 1m0s: another's")
	want := "TestA: after 1m0s: no network\nTestA/b: after 1m0s: no port\n"
	expect.Equal(t, want, w.of("TestA"), "what is said of TestA")
	expect.Equal(t, "", w.of("TestC"), "what is said of a test without a failed wait")
}

func TestPollReturnsTheLastError(t *testing.T) {
	tries := 0
	check := func() error {
		if tries++; tries < 3 {
			return errors.New("not yet")
		}
		return nil
	}
	if err := Poll(nil, time.Minute, time.Millisecond, check); err != nil || tries != 3 {
		t.Errorf("%d tries, %v", tries, err)
	}
	never := errors.New("never")
	err := Poll(nil, 5*time.Millisecond, time.Millisecond, func() error { return never })
	if !errors.Is(err, never) || !strings.HasPrefix(err.Error(), "after 5ms") {
		t.Errorf("the error is %v", err)
	}
	canceled := make(chan struct{})
	close(canceled)
	if err := Poll(canceled, time.Minute, time.Hour, func() error { return never }); !errors.Is(err, never) {
		t.Errorf("the error is %v", err)
	}
}
