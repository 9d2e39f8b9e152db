package controller

import (
	"context"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

const (
	// spreadStep is how many keys are enqueued before others who compute have their turn.
	spreadStep = 256
	// A source rests after its keys were enqueued: restPerKey for each, twice as long each time that it changes while it
	// rests or in as long a time after, up to mostRestPerKey for each and longestRest in all. So one with few keys, or
	// one that seldom changes, is followed at once. Anyone who changes it again and again has about 125 keys in a second
	// synced for it, or all of them every five seconds. Keys that were only looked at count as one for looksPerKey.
	restPerKey, mostRestPerKey = time.Millisecond, 8 * time.Millisecond
	longestRest                = 5 * time.Second
	looksPerKey                = 32
)

// spreads enqueue the keys of sources on which many objects may depend, such as a Network with its ports. A handler
// says only that the source has changed, whatever depends on it. A source that changes meanwhile is spread once more.
// Namespaces are served beside each other, the sources of each one after the other, with a share of the processors.
type spreads struct {
	mu sync.Mutex
	// lines are the sources that wait, by namespace. One that has a line is being served.
	lines map[string][]*source
	known map[any]*source
}

// source is what some objects depend on.
type source struct {
	id   any
	keys func() []cache.ObjectName
	// only gives the function that selects keys; nil if all are enqueued.
	only func() func(cache.ObjectName) bool
	// within is the namespace whose share it takes.
	within string
	state  sourceState
	// restPerKey is how long it rests after it was spread.
	restPerKey time.Duration
	forget     *time.Timer
	// looks is whether the keys' delays after failures end.
	looks bool
}

type sourceState int

const (
	waits sourceState = iota
	// rests is that of a source that is being spread, or was a moment ago.
	rests
	// returns is that of one that has changed meanwhile.
	returns
	// calms is that of one whose rest is over and that may change again: it is followed at once, and rests for longer.
	calms
)

// HandlerOfMany is HandlerOfPart for objects of another kind on each of which any number of synced objects may depend.
// Its handlers cost the same however many do, and however often the object changes: sourcesOf names what they depend
// on, few for each object, and keysOf the keys for one of these. keysOf is called some time after the events, and once
// for many of them, from another goroutine. It MUST NOT depend on the object's state.
//
// Updates of which same is true cause nothing; others end the keys' delays after failures. Objects that exist when the
// handler is registered cause nothing: all synced objects are enqueued then.
func HandlerOfMany[T metav1.Object, S comparable](
	l *Loop, sourcesOf func(metav1.Object) []S, keysOf func(S) []cache.ObjectName, same func(was, is T) bool,
) cache.ResourceEventHandler {
	return handlerOfMany(l, sourcesOf, keysOf, nil, same, false)
}

// HandlerOfSome is HandlerOfMany for what concerns only some of the keys, and is soon looked up for each. only gives,
// for a source, the function that selects them. It is called as keysOf is, and the function by the same goroutine.
func HandlerOfSome[T metav1.Object, S comparable](
	l *Loop, sourcesOf func(metav1.Object) []S, keysOf func(S) []cache.ObjectName,
	only func(S) func(cache.ObjectName) bool, same func(was, is T) bool,
) cache.ResourceEventHandler {
	return handlerOfMany(l, sourcesOf, keysOf, only, same, false)
}

// HandlerOfManyByStatus is HandlerOfMany for objects whose status is written often and matters to others. An update of
// the status alone ends no delay, as with HandlerOf.
func HandlerOfManyByStatus[T metav1.Object, S comparable](
	l *Loop, sourcesOf func(metav1.Object) []S, keysOf func(S) []cache.ObjectName, same func(was, is T) bool,
) cache.ResourceEventHandler {
	return handlerOfMany(l, sourcesOf, keysOf, nil, same, true)
}

func handlerOfMany[T metav1.Object, S comparable](
	l *Loop, sourcesOf func(metav1.Object) []S, keysOf func(S) []cache.ObjectName,
	only func(S) func(cache.ObjectName) bool, same func(was, is T) bool, byStatus bool,
) cache.ResourceEventHandler {
	type id struct {
		relation *S // tells apart those of two handlers
		source   S
	}
	relation := new(S)
	follow := func(what string, looks bool, states ...any) {
		var seen []S
		for _, state := range states {
			object, err := objectOf(state)
			if err != nil {
				continue // HandlerOf tells of it where it is its own kind
			}
			for _, s := range sourcesOf(object) {
				if slices.Contains(seen, s) {
					continue
				}
				seen = append(seen, s)
				keys := func() []cache.ObjectName { return keysOf(s) }
				l.recordHandler(what, state, func(metav1.Object) []cache.ObjectName { return keys() })
				from := &source{id: id{relation, s}, keys: keys, within: object.GetNamespace(), looks: looks}
				if only != nil {
					from.only = func() func(cache.ObjectName) bool { return only(s) }
				}
				l.spread(from)
			}
		}
	}
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			if !initial {
				follow("Add", true, obj)
			}
		},
		UpdateFunc: func(was, is any) {
			old, oldOK := was.(T)
			updated, ok := is.(T)
			looks := true
			if oldOK && ok && old.GetUID() == updated.GetUID() {
				if old.GetResourceVersion() == updated.GetResourceVersion() || same(old, updated) {
					return
				}
				looks = !byStatus || !sameDeclaration(old, updated)
			}
			follow("Update", looks, was, is)
		},
		DeleteFunc: func(obj any) { follow("Delete", true, obj) },
	}
}

// spread has the keys of a source enqueued.
func (l *Loop) spread(s *source) {
	l.spreads.mu.Lock()
	defer l.spreads.mu.Unlock()
	if known := l.spreads.known[s.id]; known != nil {
		if known.state == rests || known.state == calms {
			known.looks = false // what it was spread with last
		}
		known.looks = known.looks || s.looks
		switch known.state {
		case rests:
			known.state = returns
		case calms:
			l.spreadAgain(known)
		}
		return
	}
	if l.spreads.known == nil {
		l.spreads.known, l.spreads.lines = map[any]*source{}, map[string][]*source{}
	}
	s.restPerKey = restPerKey
	l.spreads.known[s.id] = s
	l.line(s)
}

// spreadAgain has the keys of a source that has just rested enqueued once more. The caller holds mu.
func (l *Loop) spreadAgain(s *source) {
	if s.forget != nil {
		s.forget.Stop()
	}
	s.restPerKey = min(2*s.restPerKey, mostRestPerKey)
	l.line(s)
}

// line puts a source into its namespace's line. The caller holds mu.
func (l *Loop) line(s *source) {
	s.state = waits
	line, served := l.spreads.lines[s.within]
	l.spreads.lines[s.within] = append(line, s)
	if !served {
		go l.serve(s.within)
	}
}

// serve spreads the sources of a namespace until none waits.
func (l *Loop) serve(namespace string) {
	for {
		l.spreads.mu.Lock()
		line := l.spreads.lines[namespace]
		if len(line) == 0 {
			delete(l.spreads.lines, namespace)
			l.spreads.mu.Unlock()
			return
		}
		s := line[0]
		line[0], l.spreads.lines[namespace] = nil, line[1:]
		s.state = rests
		add := l.Enqueue
		if !s.looks {
			add = l.add
		}
		l.spreads.mu.Unlock()

		n := l.inSteps(s, add)
		l.rest(s, min(time.Duration(n)*s.restPerKey, longestRest))
	}
}

// rest has a source that was spread rest, and then forgets it, unless it changes.
func (l *Loop) rest(s *source, rest time.Duration) {
	time.AfterFunc(rest, func() {
		l.spreads.mu.Lock()
		defer l.spreads.mu.Unlock()
		if s.state == returns {
			l.spreadAgain(s)
			return
		}
		s.state = calms
		s.forget = time.AfterFunc(rest, func() {
			l.spreads.mu.Lock()
			defer l.spreads.mu.Unlock()
			if s.state == calms {
				delete(l.spreads.known, s.id)
			}
		})
	})
}

// inSteps adds the keys of a source, and returns for how many it rests.
func (l *Loop) inSteps(s *source, add func(...cache.ObjectName)) (n int) {
	_, leave := l.processors.Enter(context.Background(), s.within)
	keys := s.keys()
	n = len(keys)
	var only func(cache.ObjectName) bool
	if s.only != nil {
		n /= looksPerKey
		only = s.only()
	}
	for step := range slices.Chunk(keys, spreadStep) {
		if only != nil {
			step = slices.DeleteFunc(step, func(key cache.ObjectName) bool { return !only(key) })
			n += len(step)
		}
		add(step...)
		leave()
		_, leave = l.processors.Enter(context.Background(), s.within)
	}
	leave()
	return n
}
