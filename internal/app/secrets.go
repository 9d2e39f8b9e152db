package app

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

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

// state returns the current state of the Secret, and the session; nil if there is none.
func (c *secretCloud) state() (secretState, *cloudSession) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known, c.session
}

// set changes the state, and acts on it when that makes a difference.
func (c *secretCloud) set(change func(*secretState)) {
	c.mu.Lock()
	was := c.known
	change(&c.known)
	c.known.read = true
	switch {
	case c.known.problem == nil:
		c.known.since = time.Time{}
	case was.problem == nil:
		c.known.since = time.Now()
	}
	same := c.known.same(was)
	begins := false // its first audit wakes the objects: before that, they would only see managed.ErrNotYet
	if !same && c.known.problem == nil {
		c.renew()
		begins = c.session == nil || !c.session.inventory.audits.begun()
	}
	c.mu.Unlock()
	if !same && !begins {
		c.p.audience.wake(c.ref)
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

// watch watches the Secret until the cloud is closed. The secretCloud is the store of the Reflector, and keeps only the
// credentials. Listing one Secret by name needs no permission for other Secrets.
func (c *secretCloud) watch() {
	kube := c.p.kube
	secrets := kube.CoreV1().Secrets(c.ref.Namespace)
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, c.ref.Secret).String()
	reflector := cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = selector
			list, err := secrets.List(unlogged(ctx), o)
			c.heard(err) //nolint:contextcheck // the session outlives the request
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = selector
			events, err := secrets.Watch(unlogged(ctx), o)
			c.heard(err) //nolint:contextcheck // the session outlives the request
			return events, err
		},
	}, kube), &corev1.Secret{}, c, cache.ReflectorOptions{Logger: &c.logger, Name: "credentials " + c.ref.String()})
	reflector.RunWithContext(c.ctx)
}

// unlogged keeps client-go from logging a request: at a high verbosity it logs response bodies.
func unlogged(ctx context.Context) context.Context { return klog.NewContext(ctx, klog.Logger{}) }

// heard notes that the API server forbids reading the Secret.
func (c *secretCloud) heard(err error) {
	if !apierrors.IsForbidden(err) {
		return
	}
	c.set(func(s *secretState) {
		s.problem = unusable("the controller may not read Secret %q: allow its ServiceAccount to list and watch it, "+
			"with a Role and a RoleBinding in this namespace", c.ref.Secret)
		s.problem.Gone = true
	})
}

// unusable makes the problem of credentials that cannot be used.
func unusable(format string, args ...any) *managed.Problem {
	message := "spec.cloud: " + fmt.Sprintf(format, args...)
	return managed.Waits(controller.Stalled(cloudteamv1.ReasonCredentialsUnavailable, message))
}

// take stores the Secret.
func (c *secretCloud) take(obj any) error {
	secret, ok := obj.(*corev1.Secret)
	if !ok || secret.Name != c.ref.Secret {
		return nil
	}
	credentials, err := client.SecretCredentials(c.ref.String(), secret.Data, c.ref.Entry, c.to)
	c.set(func(s *secretState) {
		if err != nil {
			s.problem = unusable("Secret %q cannot be used: %s", c.ref.Secret, err)
			return
		}
		s.problem, s.uid, s.credentials = nil, secret.UID, credentials
	})
	return nil
}

// gone notes that the Secret does not exist.
func (c *secretCloud) gone() {
	c.set(func(s *secretState) {
		s.problem = unusable("there is no Secret %q in this namespace: create it, with the key clouds.yaml", c.ref.Secret)
		s.problem.Gone = true
	})
}

// Add implements cache.ReflectorStore.
func (c *secretCloud) Add(obj any) error { return c.take(obj) }

// Update implements cache.ReflectorStore.
func (c *secretCloud) Update(obj any) error { return c.take(obj) }

// Delete implements cache.ReflectorStore.
func (c *secretCloud) Delete(obj any) error {
	if secret, ok := obj.(*corev1.Secret); ok && secret.Name == c.ref.Secret {
		c.gone()
	}
	return nil
}

// Replace implements cache.ReflectorStore.
func (c *secretCloud) Replace(objects []any, _ string) error {
	for _, obj := range objects {
		if secret, ok := obj.(*corev1.Secret); ok && secret.Name == c.ref.Secret {
			return c.take(secret)
		}
	}
	c.gone()
	return nil
}

// Resync implements cache.ReflectorStore. It does nothing.
func (c *secretCloud) Resync() error { return nil }
