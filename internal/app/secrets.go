package app

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// secretWatch watches the Secret with the credentials of a cloud. It is the store of a Reflector, and keeps only the
// credentials. Listing one Secret by name needs no permission for other Secrets.
type secretWatch struct {
	ref managed.CloudRef
	to  *client.Confinement
	// changed is called, without a lock held, when the state has changed.
	changed func()

	mu    sync.Mutex
	known secretState
}

// secretState is the observed state of a Secret.
type secretState struct {
	// read is false before the first response of the API server.
	read bool
	// problem is why the credentials cannot be used, or nil; since is since when.
	problem *managed.Problem
	since   time.Time
	// uid identifies the Secret that the credentials were last read from, even after it is gone; empty before the first.
	uid         types.UID
	credentials client.Credentials
}

// state returns the current state.
func (w *secretWatch) state() secretState {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.known
}

// set changes the state, and calls changed when that makes a difference.
func (w *secretWatch) set(change func(*secretState)) {
	w.mu.Lock()
	was := w.known
	change(&w.known)
	w.known.read = true
	switch {
	case w.known.problem == nil:
		w.known.since = time.Time{}
	case was.problem == nil:
		w.known.since = time.Now()
	}
	same := w.known.same(was)
	w.mu.Unlock()
	if !same {
		w.changed()
	}
}

// same reports whether two states have the same effect.
func (s secretState) same(other secretState) bool {
	if s.read != other.read || s.uid != other.uid || (s.problem == nil) != (other.problem == nil) {
		return false
	}
	if s.problem != nil && s.problem.State != other.problem.State {
		return false
	}
	return s.uid == "" || s.credentials.SameAs(other.credentials)
}

// run watches the Secret until ctx is done.
func (w *secretWatch) run(ctx context.Context, kube kubernetes.Interface) {
	logger := klog.FromContext(ctx)
	secrets := kube.CoreV1().Secrets(w.ref.Namespace)
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, w.ref.Secret).String()
	reflector := cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = selector
			list, err := secrets.List(unlogged(ctx), o)
			w.heard(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = selector
			events, err := secrets.Watch(unlogged(ctx), o)
			w.heard(err)
			return events, err
		},
	}, kube), &corev1.Secret{}, w, cache.ReflectorOptions{Logger: &logger, Name: "credentials " + w.ref.String()})
	reflector.RunWithContext(ctx)
}

// unlogged keeps client-go from logging a request: at a high verbosity it logs response bodies.
func unlogged(ctx context.Context) context.Context { return klog.NewContext(ctx, klog.Logger{}) }

// heard notes that the API server forbids reading the Secret.
func (w *secretWatch) heard(err error) {
	if !apierrors.IsForbidden(err) {
		return
	}
	w.set(func(s *secretState) {
		s.problem = unusable("the controller may not read Secret %q: allow its ServiceAccount to get, list and watch it, "+
			"with a Role and a RoleBinding in this namespace", w.ref.Secret)
	})
}

// unusable makes the problem of credentials that cannot be used.
func unusable(format string, args ...any) *managed.Problem {
	message := "spec.cloud: " + fmt.Sprintf(format, args...)
	return managed.Waits(controller.Stalled(cloudteamv1.ReasonCredentialsUnusable, message))
}

// take stores the Secret.
func (w *secretWatch) take(obj any) error {
	secret, ok := obj.(*corev1.Secret)
	if !ok || secret.Name != w.ref.Secret {
		return nil
	}
	credentials, err := client.SecretCredentials(w.ref.String(), secret.Data, w.ref.Entry, w.to)
	w.set(func(s *secretState) {
		if err != nil {
			s.problem = unusable("Secret %q cannot be used: %s", w.ref.Secret, err)
			return
		}
		s.problem, s.uid, s.credentials = nil, secret.UID, credentials
	})
	return nil
}

// gone notes that the Secret does not exist.
func (w *secretWatch) gone() {
	w.set(func(s *secretState) {
		s.problem = unusable("there is no Secret %q in this namespace: create it, with the key clouds.yaml", w.ref.Secret)
	})
}

// Add implements cache.ReflectorStore.
func (w *secretWatch) Add(obj any) error { return w.take(obj) }

// Update implements cache.ReflectorStore.
func (w *secretWatch) Update(obj any) error { return w.take(obj) }

// Delete implements cache.ReflectorStore.
func (w *secretWatch) Delete(obj any) error {
	if secret, ok := obj.(*corev1.Secret); ok && secret.Name == w.ref.Secret {
		w.gone()
	}
	return nil
}

// Replace implements cache.ReflectorStore.
func (w *secretWatch) Replace(objects []any, _ string) error {
	for _, obj := range objects {
		if secret, ok := obj.(*corev1.Secret); ok && secret.Name == w.ref.Secret {
			return w.take(secret)
		}
	}
	w.gone()
	return nil
}

// Resync implements cache.ReflectorStore. It does nothing.
func (w *secretWatch) Resync() error { return nil }
