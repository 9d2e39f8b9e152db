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
	// ErrStale reports that a cache is behind the API server, so that the sync acted on an older state. Nobody is to
	// blame: requeue the key.
	ErrStale = errors.New("the cache is behind the API server")
	// ErrTerminating reports that the namespace is being deleted, and the owner with it: there is nothing left to do.
	ErrTerminating = errors.New("the namespace is being deleted")
)

// StalePause is how long a sync waits for a cache that is behind the API server. Usually an event ends the wait
// earlier. There is no event for an object that was created and deleted between two lists.
const StalePause = time.Second

// Getter reads objects of type T in one namespace at the API server.
type Getter[T metav1.Object] interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
}

// Creator creates objects of type T in one namespace. Generated clients are Creators.
type Creator[T metav1.Object] interface {
	Getter[T]
	Create(ctx context.Context, obj T, opts metav1.CreateOptions) (T, error)
}

// CheckOwner reads an owner at the API server before something is created for it. It returns ErrStale where the owner
// is gone, is another object of the name, or is being deleted. Foreground deletion removes what an owner controls
// before the owner itself, and the cache of owners may be the last to know: without this read it would be created
// again.
func CheckOwner[T metav1.Object](ctx context.Context, client Getter[T], kind string, owner metav1.Object) error {
	live, err := client.Get(ctx, owner.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return ErrStale
	case err != nil:
		return fmt.Errorf("reading %s %q before creating what it owns: %w", kind, owner.GetName(), err)
	case live.GetUID() != owner.GetUID() || live.GetDeletionTimestamp() != nil:
		return ErrStale
	}
	return nil
}

// CreateOwned creates an object that the object of the key owns, and notes the write in expected.
//
// Where an object of the name exists already, it returns ErrStale: the object is somebody else's, or an earlier create
// of ours lost its answer. CreateOwned notes the version of that object, so that the next sync waits until the cache
// shows whose it is. It returns ErrTerminating where the namespace is being deleted.
func CreateOwned[T metav1.Object](
	ctx context.Context, client Creator[T], kind string, key cache.ObjectName, obj T, expected *Expectations,
) (created T, err error) {
	name := obj.GetName()
	created, err = client.Create(ctx, obj, metav1.CreateOptions{FieldManager: FieldManager})
	switch {
	case err == nil:
		expected.Written(key, created.GetUID(), created.GetResourceVersion())
		return created, nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return created, ErrTerminating
	case !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err):
		return created, fmt.Errorf("creating %s %q: %w", kind, name, err)
	}
	existing, err := client.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return created, ErrStale
	case err != nil:
		return created, fmt.Errorf("reading %s %q: %w", kind, name, err)
	}
	expected.Written(key, existing.GetUID(), existing.GetResourceVersion())
	return created, ErrStale
}
