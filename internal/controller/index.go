package controller

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// IndexBy makes an index of the objects of type T in a cache. valuesOf returns the values under which an object is
// found. It MUST NOT change the object.
func IndexBy[T any](valuesOf func(T) []string) cache.IndexFunc {
	return func(obj any) ([]string, error) {
		typed, ok := obj.(T)
		if !ok {
			return nil, fmt.Errorf("%T is no %T", obj, typed)
		}
		return valuesOf(typed), nil
	}
}

// Indexed returns the objects that an index has under a value. It returns none if the cache lacks the index. The
// objects belong to the cache and MUST NOT be changed.
func Indexed[T any](from cache.Indexer, index, value string) []T {
	objects, err := from.ByIndex(index, value)
	if err != nil {
		return nil
	}
	found := make([]T, 0, len(objects))
	for _, obj := range objects {
		if typed, ok := obj.(T); ok {
			found = append(found, typed)
		}
	}
	return found
}

// OwnerOf returns the owner reference to the controller of an object if that is of the given kind, in any version.
// It compares the group too: other groups may have kinds of the same name.
func OwnerOf(obj metav1.Object, kind schema.GroupKind) *metav1.OwnerReference {
	owner := metav1.GetControllerOfNoCopy(obj)
	if owner == nil || owner.Kind != kind.Kind {
		return nil
	}
	if version, err := schema.ParseGroupVersion(owner.APIVersion); err != nil || version.Group != kind.Group {
		return nil
	}
	return owner
}
