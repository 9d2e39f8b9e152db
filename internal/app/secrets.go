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

	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// secretWatch follows the one Secret that holds the credentials of a cloud. It is the store of a Reflector, and keeps
// of the Secret no more than the credentials. A list by name needs no right to other Secrets.
type secretWatch struct {
	ref managed.CloudRef
	to  *client.Confinement
	// changed is called when what is known has changed, without a lock held.
	changed func()

	mu    sync.Mutex
	known secretState
}

// secretState is what is known of a Secret.
type secretState struct {
	// read is false before the API server has said anything of it.
	read bool
	// problem, where not nil, is why its credentials cannot be used, and since is since when.
	problem *managed.Waiting
	since   time.Time
	// uid is that of the Secret that credentials were last read from, and stays when that is gone; empty before the
	// first.
	uid         types.UID
	credentials client.Credentials
}

// state is what is known now.
func (w *secretWatch) state() secretState {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.known
}

// set changes what is known, and tells it where that makes a difference.
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

// same reports whether two states differ in nothing that anybody acts on.
func (s secretState) same(other secretState) bool {
	if s.read != other.read || s.uid != other.uid || (s.problem == nil) != (other.problem == nil) {
		return false
	}
	if s.problem != nil && *s.problem != *other.problem {
		return false
	}
	return s.uid == "" || s.credentials.SameAs(other.credentials)
}

// run follows the Secret until ctx is done.
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

// unlogged has client-go log nothing of a request: at a high verbosity it logs the bodies of answers.
func unlogged(ctx context.Context) context.Context { return klog.NewContext(ctx, klog.Logger{}) }

// heard notes that the API server refuses to tell of the Secret.
func (w *secretWatch) heard(err error) {
	if !apierrors.IsForbidden(err) {
		return
	}
	w.set(func(s *secretState) {
		s.problem = unusable("the controller may not read Secret %q: give its ServiceAccount the right to get, list and "+
			"watch it, by a Role and a RoleBinding in this namespace", w.ref.Secret)
	})
}

// unusable says why credentials cannot be used.
func unusable(format string, args ...any) *managed.Waiting {
	return &managed.Waiting{
		Reason: cloudteamv1.ReasonCredentialsUnusable, Stalled: true, Message: "spec.cloud: " + fmt.Sprintf(format, args...),
	}
}

// take takes in the Secret as it is.
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

// gone notes that there is no such Secret.
func (w *secretWatch) gone() {
	w.set(func(s *secretState) {
		s.problem = unusable("there is no Secret %q in this namespace: create it, with the key clouds.yaml", w.ref.Secret)
	})
}

// Add is cache.ReflectorStore's.
func (w *secretWatch) Add(obj any) error { return w.take(obj) }

// Update is cache.ReflectorStore's.
func (w *secretWatch) Update(obj any) error { return w.take(obj) }

// Delete is cache.ReflectorStore's.
func (w *secretWatch) Delete(obj any) error {
	if secret, ok := obj.(*corev1.Secret); ok && secret.Name == w.ref.Secret {
		w.gone()
	}
	return nil
}

// Replace is cache.ReflectorStore's: what was listed is all there is.
func (w *secretWatch) Replace(objects []any, _ string) error {
	for _, obj := range objects {
		if secret, ok := obj.(*corev1.Secret); ok && secret.Name == w.ref.Secret {
			return w.take(secret)
		}
	}
	w.gone()
	return nil
}

// Resync is cache.ReflectorStore's. There is nothing to hand out once more.
func (w *secretWatch) Resync() error { return nil }
