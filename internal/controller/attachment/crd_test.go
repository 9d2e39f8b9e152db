package attachment

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

// discovery answers what it is told to, and counts.
type discovery struct {
	asked  atomic.Int64
	answer atomic.Pointer[func(groupVersion string) (*metav1.APIResourceList, error)]
}

func (d *discovery) ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error) {
	d.asked.Add(1)
	return (*d.answer.Load())(groupVersion)
}

func (d *discovery) says(resource string, err error) {
	d.answer.Store(new(func(groupVersion string) (*metav1.APIResourceList, error) {
		if groupVersion != "k8s.cni.cncf.io/v1" {
			return nil, apierrors.NewNotFound(Resource.GroupResource(), "")
		}
		return &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: resource}}}, err
	}))
}

func TestAwaitCRD(t *testing.T) {
	for name, c := range map[string]struct {
		resource string
		err      error
	}{
		"the group is not served":             {"", apierrors.NewNotFound(Resource.GroupResource(), "")},
		"the API server does not answer":      {"", errors.New("connection refused")},
		"the group is served for another CRD": {"multi-networkpolicies", nil},
	} {
		t.Run("it waits while "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &discovery{}
				d.says(c.resource, c.err)
				done := make(chan error, 1)
				logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
				ctx := klog.NewContext(t.Context(), logger)
				go func() { done <- AwaitCRD(ctx, d, 30*time.Second) }()
				<-time.After(95 * time.Second)
				synctest.Wait()
				if n := d.asked.Load(); n != 4 || len(done) > 0 {
					t.Fatalf("asked %d times in 95 s, done %t; want 4, at the start and then each 30 s", n, len(done) > 0)
				}
				lines := logger.GetSink().(ktesting.Underlier).GetBuffer().Data()
				if len(lines) != 1 {
					t.Errorf("%d lines are logged, want one: %v", len(lines), lines)
				}
				d.says(Resource.Resource, nil)
				<-time.After(30 * time.Second)
				synctest.Wait()
				if len(done) == 0 {
					t.Fatal("it still waits")
				}
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestAwaitCRDEndsWithItsContext(t *testing.T) {
	d := &discovery{}
	d.says("", apierrors.NewNotFound(Resource.GroupResource(), ""))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := AwaitCRD(ctx, d, time.Second); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
}
