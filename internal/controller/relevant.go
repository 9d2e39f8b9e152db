package controller

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// HandlerOfPart returns the event handlers for an informer of another kind, of which only a part matters. same reports
// whether that part is equal in both states of one object. Such an update is dropped, as resyncs are. same is called
// from the informer's goroutine and MUST NOT change the objects. keysOf is as with HandlerOf.
//
// Unlike with HandlerOf, an update of the status ends the delay of failed keys if it changes that part. The part may be
// what they failed for. So it MUST NOT include what the syncs of these keys write.
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
			l.enqueueOf(keysOf, was, is)
		},
		DeleteFunc: all.OnDelete,
	}
}
