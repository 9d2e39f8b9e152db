package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

var (
	// ErrStale reports that a cache is older than the API server, so that a sync acted on an old state. Nothing failed. A
	// sync returns it to run again: the Loop requeues the key after StalePause, without backoff.
	ErrStale = errors.New("the cache is behind the API server")
	// ErrTerminating reports that the namespace is being deleted, and the owner with it. There is nothing left to do. A
	// sync may return it, and the Loop does not requeue the key.
	ErrTerminating = errors.New("the namespace is being deleted")
)

// StalePause is the delay before a sync that returned ErrStale runs again. Usually an event requeues the key earlier.
// No event follows if an object was created and deleted between two lists.
const StalePause = time.Second

// Worst returns the first error that is a failure. If there is none, it returns ErrStale if one of errs is that, or
// nil.
func Worst(errs ...error) error {
	var worst error
	for _, err := range errs {
		if err != nil && !errors.Is(err, ErrStale) {
			return err
		}
		if err != nil {
			worst = err
		}
	}
	return worst
}

// Object is an object of the Kubernetes API, by a pointer.
type Object interface {
	comparable
	metav1.Object
}

// Getter reads objects of type T in one namespace from the API server. Generated clients are Getters.
type Getter[T Object] interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
}

// Creator creates objects of type T in one namespace. Generated clients are Creators.
type Creator[T Object] interface {
	Getter[T]
	Create(ctx context.Context, obj T, opts metav1.CreateOptions) (T, error)
}

// Live reads an object from the API server. It returns nil if there is none.
func Live[T Object](ctx context.Context, client Getter[T], kind, name string) (T, error) {
	var none T
	live, err := client.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return none, nil
	case err != nil:
		return none, fmt.Errorf("reading %s %q: %w", kind, name, err)
	}
	return live, nil
}

// CheckOwner reads an owner from the API server before a sync creates something for it. It returns ErrStale if the
// owner is gone, was replaced or is being deleted. A foreground deletion removes the dependents before the owner. The
// cache of owners may show that last. Without this read, the sync would create the dependent again.
func CheckOwner[T Object](ctx context.Context, client Getter[T], kind string, owner metav1.Object) error {
	var none T
	live, err := Live(ctx, client, kind, owner.GetName())
	if err == nil && (live == none || live.GetUID() != owner.GetUID() || live.GetDeletionTimestamp() != nil) {
		return ErrStale
	}
	return err
}

// CreateOwned creates an object for the owner with the given key, and records the write in expected.
//
// If an object of that name exists, it returns ErrStale. The object may be another owner's. Or it is from an earlier
// create whose answer was lost. CreateOwned records the version of that object, so that the next sync waits until the
// cache shows it. CreateOwned returns ErrTerminating if the namespace is being deleted.
func CreateOwned[T Object](
	ctx context.Context, client Creator[T], kind string, key cache.ObjectName, obj T, expected *Expectations,
) (T, error) {
	var none T
	created, err := client.Create(ctx, obj, metav1.CreateOptions{FieldManager: FieldManager})
	switch {
	case err == nil:
		expected.Written(key, created.GetUID(), created.GetResourceVersion())
		return created, nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return none, ErrTerminating
	case !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err):
		return none, fmt.Errorf("creating %s %q: %w", kind, obj.GetName(), err)
	}
	existing, err := Live(ctx, client, kind, obj.GetName())
	if err != nil {
		return none, err
	}
	if existing != none {
		expected.Written(key, existing.GetUID(), existing.GetResourceVersion())
	}
	return none, ErrStale
}

// DeleteAsRead deletes an object, if it is still the one that was read: it has obj's UID and resourceVersion. Otherwise
// it returns ErrStale. An empty resourceVersion allows other changes. An object that is gone counts as deleted.
func DeleteAsRead(
	ctx context.Context, remove func(context.Context, string, metav1.DeleteOptions) error, kind string, obj metav1.Object,
) error {
	preconditions := &metav1.Preconditions{UID: new(obj.GetUID())}
	if version := obj.GetResourceVersion(); version != "" {
		preconditions.ResourceVersion = &version
	}
	err := remove(ctx, obj.GetName(), metav1.DeleteOptions{Preconditions: preconditions})
	switch {
	case err == nil || apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err):
		return ErrStale
	}
	return fmt.Errorf("deleting %s %q: %w", kind, obj.GetName(), err)
}
