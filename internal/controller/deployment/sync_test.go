package deployment

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
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
		"a cache that is behind ends nothing": {7, func(int) error { return errExists }, []int{1, 2, 4}},
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

func TestCreated(t *testing.T) {
	terminating := apierrors.NewForbidden(portsResource, "web-blue-0", errors.New("it is going"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	timeout := apierrors.NewTimeoutError("slow", 1)
	for name, c := range map[string]struct {
		errs []error
		want outcome
		told []string
	}{
		"all is well":                      {[]error{nil, nil, nil, nil}, outcome{}, nil},
		"a name that is taken by surprise": {[]error{errExists, nil, nil, nil}, outcome{behind: true}, nil},
		"a quota, and what was not tried for it": {
			[]error{nil, errExists, errQuota}, outcome{behind: true, refused: errQuota, uncreated: 2},
			[]string{fmt.Sprintf("creating NetworkPort %q: %v", "web-blue-2", errQuota)},
		},
		"one error is told of many": {
			[]error{errQuota, errQuota}, outcome{refused: errQuota, uncreated: 4},
			[]string{fmt.Sprintf("creating NetworkPort %q: %v", "web-blue-0", errQuota)},
		},
		"an API server that fails refuses nothing": {
			[]error{timeout}, outcome{}, []string{fmt.Sprintf("creating NetworkPort %q: %v", "web-blue-0", timeout)},
		},
		"a namespace that goes": {[]error{terminating}, outcome{over: true}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var ports []*cloudteamv1.NetworkPort
			for i := range 4 {
				ports = append(ports, &cloudteamv1.NetworkPort{
					ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("web-blue-%d", i)},
				})
			}
			var o outcome
			o.created(ports, c.errs)
			var told []string
			for _, err := range o.errs {
				told = append(told, err.Error())
			}
			if diff := cmp.Diff(c.told, told); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
			if o.behind != c.want.behind || o.over != c.want.over || o.uncreated != c.want.uncreated ||
				!errors.Is(o.refused, c.want.refused) {
				t.Errorf("outcome %+v, want %+v", o, c.want)
			}
		})
	}
}
