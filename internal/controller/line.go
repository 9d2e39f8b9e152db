package controller

import (
	"cmp"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// Line keeps the objects of a kind that wait, by what they wait for, the oldest first. When that comes, an event
// requeues as many as there is something for, so it costs the same however many wait. The zero value is empty.
// It is safe for concurrent use.
type Line struct {
	mu    sync.Mutex
	lines map[string][]Waiting
	known map[cache.ObjectName]entry
}

// Waiting is an object in a Line.
type Waiting struct {
	Name  cache.ObjectName
	Since metav1.Time
}

type entry struct {
	Waiting
	what string
}

// WaitingOf is an object that waits since it was created.
func WaitingOf(obj metav1.Object) Waiting {
	return Waiting{cache.MetaObjectToName(obj), obj.GetCreationTimestamp()}
}

// Older compares two objects, as for slices.SortFunc. Of objects of one second, the order is that of the names.
func (w Waiting) Older(than Waiting) int {
	return cmp.Or(w.Since.Compare(than.Since.Time), cmp.Compare(w.Name.Namespace, than.Name.Namespace),
		cmp.Compare(w.Name.Name, than.Name.Name))
}

// Put has an object wait for something from now on, and for nothing else. It waits for nothing if what is empty.
func (l *Line) Put(w Waiting, what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if was, ok := l.known[w.Name]; ok {
		if was.what == what && was.Since.Equal(&w.Since) {
			return
		}
		line := l.lines[was.what]
		at, _ := slices.BinarySearchFunc(line, was.Waiting, Waiting.Older)
		if line = slices.Delete(line, at, at+1); len(line) == 0 {
			delete(l.lines, was.what)
		} else {
			l.lines[was.what] = line
		}
		delete(l.known, w.Name)
	}
	if what == "" {
		return
	}
	if l.known == nil {
		l.lines, l.known = map[string][]Waiting{}, map[cache.ObjectName]entry{}
	}
	at, _ := slices.BinarySearchFunc(l.lines[what], w, Waiting.Older)
	l.lines[what] = slices.Insert(l.lines[what], at, w)
	l.known[w.Name] = entry{w, what}
}

// Has reports whether an object waits for anything.
func (l *Line) Has(name cache.ObjectName) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, has := l.known[name]
	return has
}

// Len is how many wait for something.
func (l *Line) Len(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.lines[what])
}

// Ahead is how many that wait for something are older than an object.
func (l *Line) Ahead(w Waiting, what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, _ := slices.BinarySearchFunc(l.lines[what], w, Waiting.Older)
	return at
}

// First gives those that wait for something, the oldest first, at most the given number.
func (l *Line) First(what string, most int) []Waiting {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := l.lines[what]
	return slices.Clone(line[:max(0, min(most, len(line)))])
}

// Names gives the keys of First.
func (l *Line) Names(what string, most int) []cache.ObjectName {
	first := l.First(what, most)
	names := make([]cache.ObjectName, len(first))
	for i, w := range first {
		names[i] = w.Name
	}
	return names
}

// FollowLine gives the handler with which an informer keeps a Line. what tells what an object waits for, by its status;
// empty for nothing.
func FollowLine[T metav1.Object](l *Line, what func(T) string) cache.ResourceEventHandler {
	return Following(func(is T) { l.Put(WaitingOf(is), what(is)) },
		func(name cache.ObjectName) { l.Put(Waiting{Name: name}, "") })
}

// Following gives the handler that calls see with each state of an object, and gone when it is deleted.
func Following[T any](see func(is T), gone func(cache.ObjectName)) cache.ResourceEventHandler {
	look := func(obj any) {
		if is, ok := obj.(T); ok {
			see(is)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: look, UpdateFunc: func(_, is any) { look(is) },
		DeleteFunc: func(obj any) {
			if name, err := cache.DeletionHandlingObjectToName(obj); err == nil {
				gone(name)
			}
		},
	}
}
