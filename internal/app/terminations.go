package app

import (
	"context"
	"sync"
	"time"

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
	mu    sync.Mutex
	known map[string]termination
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
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, ok := t.known[namespace]; ok && time.Since(known.asked) < terminationsKept {
		return known.ends
	}
	ctx, cancel := context.WithTimeout(ctx, terminationsTimeout)
	defer cancel()
	found, err := kube.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	ends := apierrors.IsNotFound(err) || err == nil && found.DeletionTimestamp != nil
	for name, known := range t.known {
		if time.Since(known.asked) >= terminationsKept {
			delete(t.known, name)
		}
	}
	if t.known == nil {
		t.known = map[string]termination{}
	}
	t.known[namespace] = termination{ends, time.Now()}
	return ends
}
