package batch

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestLoadSaysWhatRunsAndWaits sends more creates than may run, and asks what the Queue does meanwhile.
func TestLoadSaysWhatRunsAndWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		waits := map[time.Duration]int{}
		q := New(Options{MaxCalls: 1, Post: s.Post, Waited: func(op string, wait time.Duration) {
			if op != "create network" {
				t.Errorf("a wait of %q", op)
			}
			waits[wait]++
		}})
		for n := range 2 * maxBatch {
			go func() {
				name := fmt.Sprint(n)
				_, err := q.Create(t.Context(), Item{
					Op: "create network", Collection: networkTests, Key: name, Body: map[string]any{"name": name},
				})
				if err != nil {
					t.Error(err)
				}
			}()
		}
		synctest.Wait()
		if got, want := q.Load(), (Load{Limit: 1, Calls: 1, Waiting: maxBatch}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		<-time.After(time.Minute)
		if got, want := q.Load(), (Load{Limit: 1}); got != want {
			t.Errorf("at rest: %+v, want %+v", got, want)
		}
		// The second half waited for the end of the first call.
		if waits[0] != maxBatch || waits[time.Second] != maxBatch {
			t.Errorf("waits: %v", waits)
		}
	})
}
