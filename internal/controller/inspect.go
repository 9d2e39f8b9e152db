package controller

import (
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/inspect"
)

// event is what happens to a key, for package inspect.
func (l *Loop) event(key cache.ObjectName, stage inspect.Stage, what, why string) inspect.Event {
	return inspect.Event{
		Stage: stage, What: what, Why: why,
		Objects: []inspect.Object{inspect.ObjectOf(l.name, key.Namespace, key.Name)},
	}
}

// maxRecorded limits the keys that are recorded of one event: a Network may have thousands of ports.
const maxRecorded = 20

// recordHandler records what a handler does with an event of an informer. Without keysOf, it drops the event.
func (l *Loop) recordHandler(what string, obj any, keysOf func(metav1.Object) []cache.ObjectName) {
	r := inspect.On()
	if r == nil {
		return
	}
	object, err := objectOf(obj)
	if err != nil {
		return
	}
	e := inspect.Event{
		Stage: inspect.Handlers, What: what, Version: object.GetResourceVersion(), Code: inspect.Here(),
		Objects: []inspect.Object{inspect.ObjectOf(inspect.KindOf(obj), object.GetNamespace(), object.GetName())},
	}
	if keysOf == nil {
		e.Facts = []any{l.name}
		r.Record(e)
		return
	}
	if tombstone, missed := obj.(cache.DeletedFinalStateUnknown); missed {
		r.Missed(tombstone.Obj)
		e.What = "tombstone"
	}
	keys := keysOf(object)
	if len(keys) == 0 {
		return // of no object of this controller
	}
	for _, key := range keys[:min(len(keys), maxRecorded)] {
		if of := inspect.ObjectOf(l.name, key.Namespace, key.Name); of != e.Objects[0] {
			e.Objects = append(e.Objects, of)
		}
	}
	e.Facts = []any{len(keys), l.name}
	if len(keys) == 1 {
		e.Why, e.Facts = "one", []any{keys[0].String(), l.name}
	}
	r.Record(e)
}

// recordPause records that a key returns after a time.
func (l *Loop) recordPause(key cache.ObjectName, what string, pause time.Duration, why string) {
	r := inspect.On()
	if r == nil {
		return
	}
	e := l.event(key, inspect.Queue, what, why)
	e.Until, e.Code = new(time.Now().Add(pause)), inspect.Here()
	r.Record(e)
}

// recordStart records that a worker took a key.
func (l *Loop) recordStart(key cache.ObjectName) {
	r := inspect.On()
	if r == nil {
		return
	}
	e := l.event(key, inspect.Worker, inspect.Starts, "")
	e.Facts, e.Code = []any{l.queue.NumRequeues(key)}, inspect.Here()
	r.Record(e)
}

// recordEnd records how a sync ended.
func (l *Loop) recordEnd(key cache.ObjectName, result Result, err error) {
	r := inspect.On()
	if r == nil {
		return
	}
	e := l.event(key, inspect.Worker, inspect.Ends, "")
	switch {
	case errors.Is(err, ErrTerminating):
		e.Why = "terminating"
	case errors.Is(err, ErrStale):
		e.Why = "stale"
	case err != nil:
		e.Why = "failed"
	case result.RequeueAfter > 0:
		e.Why = "asks for more"
	}
	e.Code = inspect.Here()
	r.Record(e)
}
