package controller

import (
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/inspect"
)

// event is what happens to a key, for package inspect.
func (l *Loop) event(key cache.ObjectName, stage inspect.Stage, what, text string) inspect.Event {
	return inspect.Event{
		Stage: stage, What: what, Text: text, Code: inspect.Here(),
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
	tombstone, missed := obj.(cache.DeletedFinalStateUnknown)
	switch {
	case keysOf == nil:
		e.Text = fmt.Sprintf("The handler of controller %s drops a resync: the resourceVersion is the same.", l.name)
		r.Record(e)
		return
	case missed:
		r.Missed(tombstone.Obj)
		e.What = "tombstone"
		e.Text = "The watch missed the deletion. The handler got a tombstone, DeletedFinalStateUnknown, with the last state."
	default:
		e.Text = fmt.Sprintf("The informer called the handler's %s.", what)
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
	e.Text += fmt.Sprintf(" It adds %s to the queue of controller %s, and nothing else: a key means compare again.",
		keysText(keys), l.name)
	r.Record(e)
}

func keysText(keys []cache.ObjectName) string {
	if len(keys) == 1 {
		return "the key " + keys[0].String()
	}
	return fmt.Sprintf("%d keys", len(keys))
}

// recordPause records that a key returns after a time.
func (l *Loop) recordPause(key cache.ObjectName, what string, pause time.Duration, text string) {
	r := inspect.On()
	if r == nil {
		return
	}
	e := l.event(key, inspect.Queue, what, text)
	e.Until, e.Code = new(time.Now().Add(pause)), inspect.Here()
	r.Record(e)
}

// recordStart records that a worker took a key.
func (l *Loop) recordStart(key cache.ObjectName) {
	r := inspect.On()
	if r == nil {
		return
	}
	e := l.event(key, inspect.Worker, inspect.Starts, fmt.Sprintf("A worker took the key and calls the sync. "+
		"Failures in a row before: %d.", l.queue.NumRequeues(key)))
	e.Code = inspect.Here()
	r.Record(e)
}

// recordEnd records how a sync ended.
func (l *Loop) recordEnd(key cache.ObjectName, result Result, err error) {
	r := inspect.On()
	if r == nil {
		return
	}
	text := "The sync succeeded. Done: the key's failures are forgotten."
	switch {
	case errors.Is(err, ErrTerminating):
		text = "The namespace is being deleted. The key does not return."
	case errors.Is(err, ErrStale):
		text = "The cache was too old to act on. That is no failure: the key returns soon."
	case err != nil:
		text = "The sync failed. The status says why."
	case result.RequeueAfter > 0:
		text = "The sync succeeded, and asked to be called again later."
	}
	e := l.event(key, inspect.Worker, inspect.Ends, text)
	e.Code = inspect.Here()
	r.Record(e)
}
