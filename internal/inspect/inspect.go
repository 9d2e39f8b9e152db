// Package inspect records what happens to objects inside the process, for a page that shows their way from the watch to
// Neutron and back to the status. It is for those who learn or debug. It is off until Start. Off, a hook compares one
// pointer and allocates nothing.
//
// An Event MUST have only names of objects, numbers and words of this project's own: nothing of a request's body or
// headers.
package inspect

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Stage is a part of the pipeline that docs/how-it-works.md describes.
type Stage string

// The stages, in their order.
const (
	Reflector Stage = "reflector"
	DeltaFIFO Stage = "deltafifo"
	Indexer   Stage = "indexer"
	Handlers  Stage = "handlers"
	Queue     Stage = "queue"
	Worker    Stage = "worker"
	Plan      Stage = "plan"
	Batch     Stage = "batch"
	Neutron   Stage = "neutron"
	Inventory Stage = "inventory"
	Status    Stage = "status"
)

// What an Event of the queue or of a worker says of a key. By these the page knows what the stage holds.
const (
	// Waits: the key is in the queue. Starts: a worker has taken it. Ends: the worker has put it back.
	Waits  = "waits"
	Starts = "starts"
	Ends   = "ends"
	// BacksOff and Later: the key returns at Event.Until, after a failure or because the sync asked for it.
	BacksOff = "backs off"
	Later    = "later"
	// Sends and Answers are those of a call to Neutron.
	Sends   = "sends"
	Answers = "answers"
)

// Object names an object by its kind in lower case, namespace and name, as in network/default/example-network.
type Object string

// ObjectOf names an object.
func ObjectOf(kind, namespace, name string) Object {
	return Object(strings.ToLower(kind) + "/" + namespace + "/" + name)
}

// Event is what happened at a stage.
type Event struct {
	// Seq counts the events of a process from 1.
	Seq   uint64    `json:"seq"`
	Time  time.Time `json:"time"`
	Stage Stage     `json:"stage"`
	// What is one word or two: the type of a watch event, or one of the constants above.
	What string `json:"what,omitempty"`
	// Objects are those that it concerns; none means all.
	Objects []Object `json:"objects,omitempty"`
	// Version is the resourceVersion of the first object.
	Version string `json:"resourceVersion,omitempty"`
	// Why tells apart events of one stage and What; empty for the usual one. The page has a sentence for each, in both
	// languages (dev/inside/assets/events.js).
	Why string `json:"why,omitempty"`
	// Facts are what that sentence names, in its order.
	Facts []any `json:"facts,omitempty"`
	// Until is when the key returns, for BacksOff and Later.
	Until *time.Time `json:"until,omitempty"`
	// Code is the line that recorded it, or the line of client-go that caused it.
	Code Code `json:"code"`
}

// Code is a line of code of the running binary.
type Code struct {
	// File is the path in the repository, or below the import path of another module. It is no path of a machine.
	File string `json:"file"`
	Line int    `json:"line"`
	// Func is the function or method, as in Loop.process.
	Func string `json:"func"`
}

// Recorder keeps the last events. Its methods are safe for concurrent use.
type Recorder struct {
	mu      sync.Mutex
	ring    []Event
	last    uint64 // the Seq of the newest event
	changed chan struct{}
	held    map[Object]string // the resourceVersions in the Indexers
	// replaced is the line at which an Indexer takes a Reflector's whole list.
	replaced Code
}

// size is how many events are kept: some minutes of a small cluster. Each takes about half a kilobyte.
const size = 4096

var active atomic.Pointer[Recorder]

// On returns the Recorder, or nil while nothing is recorded. Hooks MUST build their Events only if it is not nil.
func On() *Recorder { return active.Load() }

// Start begins to record, until stop.
func Start() (r *Recorder, stop func()) {
	r = &Recorder{changed: make(chan struct{}), held: map[Object]string{}}
	active.Store(r)
	return r, func() { active.CompareAndSwap(r, nil) }
}

// Record adds an Event. It sets Seq, Time and, if it is empty, Code.
func (r *Recorder) Record(e Event) {
	if e.Code == (Code{}) {
		e.Code = caller(nil)
	}
	e.Time = time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	e.Seq = r.last
	if len(r.ring) < size {
		r.ring = append(r.ring, e)
	} else {
		r.ring[(r.last-1)%size] = e
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// RecordOf records what happens to the objects of a context. It does nothing if r is nil. With facts, hooks MUST ask
// before whether it is: they cost an allocation.
func (r *Recorder) RecordOf(ctx context.Context, stage Stage, what string, facts ...any) {
	if r != nil {
		r.Record(Event{Stage: stage, What: what, Objects: Of(ctx), Facts: facts})
	}
}

// Since returns the events after one, and a channel that is closed when there are more.
func (r *Recorder) Since(seq uint64) ([]Event, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := r.last + 1 - uint64(len(r.ring))
	var events []Event
	for n := max(seq+1, first); n <= r.last; n++ {
		events = append(events, r.ring[(n-1)%size])
	}
	return events, r.changed
}

// Milliseconds is a duration as a fact.
func Milliseconds(d time.Duration) string { return fmt.Sprintf("%.1f ms", d.Seconds()*1e3) }

// key is that of the objects in a context.
type key struct{}

// With returns a context for work on objects. Hooks that know no object take those of their context.
func With(ctx context.Context, objects ...Object) context.Context {
	return context.WithValue(ctx, key{}, objects)
}

// Of returns the objects of a context.
func Of(ctx context.Context) []Object {
	objects, _ := ctx.Value(key{}).([]Object)
	return objects
}

// Join returns a context for work that serves several callers. base gives its other values.
func Join(base context.Context, callers []context.Context) context.Context {
	if On() == nil {
		return base
	}
	var all []Object
	for _, caller := range callers {
		all = append(all, Of(caller)...)
	}
	slices.Sort(all)
	return With(base, slices.Compact(all)...)
}

// module is the path of this project's module.
const module = "cloudteam.ztgame.com/network-controller/"

// caller is the innermost frame outside of this package that fits, or the innermost one if none does.
func caller(fits func(function string) bool) (code Code) {
	found := frames()
	for _, f := range found {
		if fits == nil || fits(f.Function) {
			return codeOf(f)
		}
	}
	if len(found) > 0 {
		code = codeOf(found[0])
	}
	return code
}

// Here is the line that called the caller: a helper that records names the place where it happened.
func Here() (code Code) {
	if found := frames(); len(found) > 1 {
		code = codeOf(found[1])
	}
	return code
}

// frames are the callers outside of this package, the innermost first.
func frames() (found []runtime.Frame) {
	counters := make([]uintptr, 32)
	all := runtime.CallersFrames(counters[:runtime.Callers(2, counters)])
	for {
		f, more := all.Next()
		if !strings.HasPrefix(f.Function, module+"internal/inspect.") || strings.HasSuffix(f.File, "_test.go") {
			found = append(found, f)
		}
		if !more {
			return found
		}
	}
}

// codeOf names a frame's line without the path of the machine that built it: a function's name has its package's path.
func codeOf(f runtime.Frame) Code {
	name := strings.ReplaceAll(f.Function, "[...]", "")
	slash := strings.LastIndex(name, "/")
	pkg, function, _ := strings.Cut(name[slash+1:], ".")
	path := strings.TrimPrefix(name[:slash+1]+pkg, module)
	function = strings.NewReplacer("(*", "", ")", "").Replace(function)
	return Code{File: path + f.File[strings.LastIndex(f.File, "/"):], Line: f.Line, Func: function}
}
