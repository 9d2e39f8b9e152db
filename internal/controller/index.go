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

// Cached returns the object that a cache has under a key. It belongs to the cache and MUST NOT be changed.
func Cached[T any](from cache.Store, key cache.ObjectName) (obj T, exists bool) {
	found, _, _ := from.GetByKey(key.String()) // a cache gives no error
	obj, exists = found.(T)
	return obj, exists
}

// All returns the objects in a cache. They belong to it and MUST NOT be changed.
func All[T any](from cache.Store) (all []T) {
	for _, found := range from.List() {
		if obj, ok := found.(T); ok {
			all = append(all, obj)
		}
	}
	return all
}

// Controls reports whether owner, an object of the given kind, controls obj: both are in one namespace, and the owner
// reference of obj names that kind, name and UID. Users can write any owner reference: one with the UID of an object in
// another namespace, or of another kind, controls nothing.
func Controls(owner metav1.Object, kind schema.GroupKind, obj metav1.Object) bool {
	reference := OwnerOf(obj, kind)
	return reference != nil && owner.GetNamespace() == obj.GetNamespace() &&
		reference.Name == owner.GetName() && reference.UID == owner.GetUID()
}

// OwnerOf returns the owner reference to the controller of an object if that is of the given kind, in any version.
// It compares the group too: other groups may have kinds of the same name. The reference proves nothing: see Controls.
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
