package harness

import "testing"

func TestWhatWasWaitedForIsToldWithItsTest(t *testing.T) {
	var w waits
	w.note("TestA/b", "after 1m0s: no port")
	w.note("TestA", "after 1m0s: no network")
	w.note("TestAB", "after 1m0s: another's")
	want := "TestA: after 1m0s: no network\nTestA/b: after 1m0s: no port\n"
	if got := w.of("TestA"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := w.of("TestC"); got != "" {
		t.Errorf("got %q of a test that waited for nothing in vain", got)
	}
}
