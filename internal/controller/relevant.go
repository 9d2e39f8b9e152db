package controller

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// HandlerOfPart gives the event handlers to register with the informer of objects of which the synced ones depend on a
// part. same reports whether that part is the same in both states of one object; such an update is dropped, as resyncs
// are. It is called from the informer's goroutine with objects that it MUST NOT change. keysOf is as with HandlerOf.
//
// Unlike with HandlerOf, an update of the status alone ends the pauses of keys that failed, where it is of that part:
// it is what they may have failed for. The part therefore MUST NOT hold what their own syncs write.
func HandlerOfPart[T metav1.Object](
	l *Loop, keysOf func(metav1.Object) []cache.ObjectName, same func(was, is T) bool,
) cache.ResourceEventHandler {
	all := l.HandlerOf(keysOf)
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { all.OnAdd(obj, false) },
		UpdateFunc: func(was, is any) {
			old, oldOK := was.(T)
			updated, ok := is.(T)
			if oldOK && ok && old.GetUID() == updated.GetUID() && same(old, updated) {
				return
			}
			all.OnDelete(was)
			all.OnAdd(is, false)
		},
		DeleteFunc: all.OnDelete,
	}
}
