package app

import (
	"context"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// terminationsKept is how long the answer about a namespace is used again. Many objects ask about one namespace.
const terminationsKept = 30 * time.Second

// terminationsTimeout limits one question.
const terminationsTimeout = 10 * time.Second

// terminations tells which namespaces are being deleted. Only few objects ever ask, so nothing watches namespaces for
// it. It is safe for concurrent use.
type terminations struct {
	// asking has one question at a time for each namespace.
	asking singleflight.Group
	mu     sync.Mutex
	known  map[string]termination
}

type termination struct {
	ends  bool
	asked time.Time
}

// terminating reports whether a namespace is being deleted, or is gone. It is false if the API server does not tell.
func (p *process) terminating(ctx context.Context, namespace string) bool {
	return p.terminations.of(ctx, p.kube, namespace)
}

func (t *terminations) of(ctx context.Context, kube kubernetes.Interface, namespace string) bool {
	if ends, known := t.recall(namespace); known {
		return ends
	}
	// Others wait for the same answer: it does not end with one caller.
	answer := t.asking.DoChan(namespace, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), terminationsTimeout)
		defer cancel()
		found, err := kube.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		ends := apierrors.IsNotFound(err) || err == nil && found.DeletionTimestamp != nil
		t.keep(namespace, ends)
		return ends, nil
	})
	select {
	case a := <-answer:
		return a.Val.(bool)
	case <-ctx.Done():
		return false
	}
}

// recall gives the last answer about a namespace, if it is recent.
func (t *terminations) recall(namespace string) (ends, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last, ok := t.known[namespace]
	return last.ends, ok && time.Since(last.asked) < terminationsKept
}

// keep notes an answer, and forgets those that are no longer used.
func (t *terminations) keep(namespace string, ends bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.known, func(_ string, old termination) bool { return time.Since(old.asked) >= terminationsKept })
	if t.known == nil {
		t.known = map[string]termination{}
	}
	t.known[namespace] = termination{ends, time.Now()}
}
