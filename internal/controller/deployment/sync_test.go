package deployment

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/virtual"
)

var (
	portsResource = schema.GroupResource{Group: "cloudteam.ztgame.com", Resource: "networkports"}
	errExists     = apierrors.NewAlreadyExists(portsResource, "web-blue-0")
	errQuota      = apierrors.NewForbidden(portsResource, "web-blue-0", errors.New("exceeded quota: few"))
	errInvalid    = apierrors.NewInvalid(
		schema.GroupKind{Group: portsResource.Group, Kind: "NetworkPort"}, "web-blue-3", nil)
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
				expect.Equal(t, c.batches, batches, "batches")
				if len(errs) != c.n {
					t.Fatalf("%d answers for %d ports", len(errs), c.n)
				}
				for i, err := range errs {
					want := error(errQuota) // the answer to what was not tried
					if i < tried {
						want = c.answer(i)
					}
					if !errors.Is(err, want) {
						t.Errorf("answer %d is %v, want %v", i, err, want)
					}
				}
			})
		})
	}
}

func TestRefusals(t *testing.T) {
	timeout := apierrors.NewTimeoutError("slow", 1)
	var r refusal
	r.count([]error{nil, timeout, controller.ErrStale})
	if r.err != nil || r.ports != 0 {
		t.Errorf("an API server that fails refuses nothing, and it counts %+v", r)
	}
	r.count([]error{timeout, errQuota, errQuota})
	r.count([]error{nil, errInvalid})
	if !errors.Is(r.err, errQuota) || r.ports != 3 {
		t.Errorf("it counts %+v, want 3 ports and the first refusal", r)
	}
}

func TestBackoffOfResizes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b backoff
		tried := 0
		attempt := func(generation int64, writes int, answer error) (called bool, err error) {
			was := tried
			err = b.try(t.Context(), generation, writes, func() error { tried++; return answer })
			return tried > was, err
		}
		var last time.Duration
		for range 20 {
			if called, err := attempt(1, 1, errQuota); !called || err != nil {
				t.Fatalf("tried %t, error %v; a failure is retried without an error of the sync", called, err)
			}
			pause := virtual.Until(b.due)
			if pause < last*5/6 || pause > controller.BackoffLast*6/5 {
				t.Errorf("after %s it pauses for %s", last, pause)
			}
			<-time.After(pause - 1)
			if called, _ := attempt(1, 1, nil); called {
				t.Errorf("it is tried before %s are over", pause)
			}
			<-time.After(1)
			last = pause
		}
		if last < controller.BackoffLast {
			t.Errorf("at last it pauses for %s", last)
		}
		if called, _ := attempt(1, 1, errQuota); !called {
			t.Error("it is not tried again")
		}
		if called, _ := attempt(2, 1, errQuota); !called || virtual.Until(b.due) > 2*controller.BackoffFirst {
			t.Errorf("a Deployment that was edited is held back: %+v", b)
		}
		if _, err := attempt(2, 0, nil); err != nil || !b.due.IsZero() {
			t.Errorf("without writes it is %+v, error %v", b, err)
		}
		if called, _ := attempt(2, 1, errQuota); !called {
			t.Error("it is not tried after a reset")
		}
		<-time.After(controller.BackoffLast)
		for _, answer := range []error{controller.ErrStale, controller.ErrTerminating, nil} {
			if called, err := attempt(2, 1, answer); !called || !errors.Is(err, answer) || !b.due.IsZero() {
				t.Errorf("after %v: tried %t, error %v, %+v", answer, called, err, b)
			}
		}
	})
}
