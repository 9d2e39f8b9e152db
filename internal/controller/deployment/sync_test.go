package deployment

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"cloudteam.ztgame.com/network-controller/internal/controller"
)

var (
	portsResource = schema.GroupResource{Group: "cloudteam.ztgame.com", Resource: "networkports"}
	errExists     = apierrors.NewAlreadyExists(portsResource, "web-blue-0")
	errQuota      = apierrors.NewForbidden(portsResource, "web-blue-0", errors.New("exceeded quota: few"))
)

func TestSlowStart(t *testing.T) {
	for name, c := range map[string]struct {
		n       int
		answer  func(i int) error
		batches []int
	}{
		"nothing to do is nothing done": {0, nil, nil},
		"batches are doubled up to the most at once": {
			29, func(int) error { return nil }, []int{1, 2, 4, 8, 8, 6},
		},
		"a first refusal is the last": {500, func(int) error { return errQuota }, []int{1}},
		"a refusal ends it with its batch": {
			500, func(i int) error {
				if i == 4 {
					return errQuota
				}
				return nil
			}, []int{1, 2, 4},
		},
		"a cache that is behind ends nothing": {7, func(int) error { return controller.ErrStale }, []int{1, 2, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				began := map[time.Time]int{}
				start := time.Now()
				errs := slowStart(c.n, 8, func(i int) error {
					mu.Lock()
					began[time.Now()]++
					mu.Unlock()
					<-time.After(time.Second)
					return c.answer(i)
				})
				var batches []int
				tried := 0
				for i := range len(began) {
					n := began[start.Add(time.Duration(i)*time.Second)]
					batches = append(batches, n)
					tried += n
				}
				if diff := cmp.Diff(c.batches, batches); diff != "" {
					t.Errorf("batches (-want +got):\n%s", diff)
				}
				if len(errs) != tried {
					t.Fatalf("%d answers of %d calls", len(errs), tried)
				}
				for i, err := range errs {
					if !errors.Is(err, c.answer(i)) {
						t.Errorf("answer %d is %v, want %v", i, err, c.answer(i))
					}
				}
			})
		})
	}
}

func TestAnswersToCreates(t *testing.T) {
	timeout := apierrors.NewTimeoutError("slow", 1)
	for name, c := range map[string]struct {
		errs   []error
		want   writes
		failed error
	}{
		"all are created":                   {[]error{nil, nil, nil, nil}, writes{}, nil},
		"a name that is taken unexpectedly": {[]error{controller.ErrStale, nil, nil, nil}, writes{stale: true}, nil},
		"a quota counts what was not tried because of it": {
			[]error{nil, controller.ErrStale, errQuota}, writes{stale: true, refused: errQuota, uncreated: 2}, errQuota,
		},
		"the first of many errors is given": {
			[]error{errQuota, timeout}, writes{refused: errQuota, uncreated: 4}, errQuota,
		},
		"an API server that fails refuses nothing": {[]error{timeout}, writes{}, timeout},
		"a namespace that is being deleted":        {[]error{controller.ErrTerminating}, writes{terminating: true}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var w writes
			failed := w.created(4, c.errs)
			if !errors.Is(failed, c.failed) || !errors.Is(w.refused, c.want.refused) || w.stale != c.want.stale ||
				w.terminating != c.want.terminating || w.uncreated != c.want.uncreated {
				t.Errorf("writes %+v and error %v, want %+v and %v", w, failed, c.want, c.failed)
			}
		})
	}
}

func TestBackoffOfResizes(t *testing.T) {
	now := time.Unix(1000, 0)
	var b backoff
	if !b.ready(1, now) {
		t.Error("a first attempt is held back")
	}
	var last time.Duration
	for range 20 {
		pause := b.fail(1, nil, 1, now)
		if pause < last*5/6 || pause > controller.BackoffLast*6/5 {
			t.Errorf("after %s it pauses for %s", last, pause)
		}
		if b.ready(1, now.Add(pause-1)) || !b.ready(1, now.Add(pause)) {
			t.Errorf("it is not ready after %s, or before", pause)
		}
		last = pause
	}
	if last < controller.BackoffLast {
		t.Errorf("at last it pauses for %s", last)
	}
	if !b.ready(2, now) {
		t.Error("a Deployment that was edited is held back")
	}
	if pause := b.fail(2, nil, 1, now); pause > 2*controller.BackoffFirst {
		t.Errorf("after an edit it pauses for %s", pause)
	}
	if b.reset(); !b.ready(2, now) || !b.due.IsZero() {
		t.Errorf("after a success it is %+v", b)
	}
}
