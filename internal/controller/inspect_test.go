package controller

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/inspect"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// TestTheWayOfAKeyIsRecorded follows a key whose first sync fails, and holds each event against the code that it names.
func TestTheWayOfAKeyIsRecorded(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		recorder, off := inspect.Start()
		defer off()
		fail := true
		b.does = func(ctx context.Context, key cache.ObjectName) (Result, error) {
			if want := []inspect.Object{"test/team/a"}; !slices.Equal(inspect.Of(ctx), want) {
				t.Errorf("the sync's context is of %v, want %v", inspect.Of(ctx), want)
			}
			if fail {
				fail = false
				b.loop.Enqueue() // nothing
				return Result{}, errors.New("no")
			}
			return Result{RequeueAfter: time.Hour}, nil
		}
		b.run(1)
		network := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "a", ResourceVersion: "5"}}
		handler := b.loop.Handler()
		handler.OnAdd(network, false)
		<-time.After(time.Second)
		handler.OnUpdate(network, network)
		handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "team/a", Obj: network})
		synctest.Wait()

		events, _ := recorder.Since(0)
		var got []string
		for _, e := range events {
			got = append(got, string(e.Stage)+" "+e.What)
			if e.Until != nil && !e.Until.After(e.Time) {
				t.Errorf("%s %s lasts until %s, and it is %s", e.Stage, e.What, e.Until, e.Time)
			}
			content, err := os.ReadFile(filepath.Join("../..", e.Code.File))
			if err != nil {
				t.Errorf("%s %s: %v", e.Stage, e.What, err)
				continue
			}
			line := strings.Split(string(content), "\n")[e.Code.Line-1]
			if !strings.Contains(line, "ecord") {
				t.Errorf("%s %s happened at %s:%d, which is %q", e.Stage, e.What, e.Code.File, e.Code.Line, line)
			}
		}
		want := []string{
			"handlers Add", "queue waits", "worker starts", "worker ends", "queue backs off",
			"queue waits", "worker starts", "worker ends", "queue later",
			"handlers Resync", "handlers tombstone", "queue waits", "worker starts", "worker ends", "queue later",
		}
		if !slices.Equal(got, want) {
			t.Errorf("the events are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// TestRecordingCostsNothingWhileOff covers the hooks that have arguments.
func TestRecordingCostsNothingWhileOff(t *testing.T) {
	l := &Loop{name: "test"}
	network, failed := &cloudteamv1.Network{}, errors.New("no")
	if n := testing.AllocsPerRun(1000, func() {
		l.recordHandler("Add", network, KeyOf)
		l.recordPause(keyA, inspect.BacksOff, time.Second, "")
		l.recordEnd(keyA, Result{}, failed)
	}); n != 0 {
		t.Errorf("the hooks allocate %v times", n)
	}
}
