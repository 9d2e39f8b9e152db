package controllertest

import (
	"sync"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/watch"
)

// Gate is what the events of a kind's watches go through. While it is held they wait, so that a cache falls behind.
type Gate struct {
	mu   sync.Mutex
	held bool
	wait []func()
	// gone are the versions at which objects were deleted, by UID.
	gone sync.Map
}

// Hold has events wait from now on.
func (g *Gate) Hold() {
	synctest.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = true
}

// Drop loses the events that wait, as a watch that is begun again does.
func (g *Gate) Drop() {
	synctest.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wait = nil
}

// Release lets the events pass that wait, and those to come.
func (g *Gate) Release() {
	synctest.Wait()
	g.mu.Lock()
	g.held = false
	for _, pass := range g.wait {
		pass()
	}
	g.wait = nil
	g.mu.Unlock()
	synctest.Wait()
}

func (g *Gate) watch(inner watch.Interface) watch.Interface {
	out := make(chan watch.Event, 100)
	go func() {
		for e := range inner.ResultChan() {
			e = g.versioned(e)
			g.mu.Lock()
			if g.held {
				g.wait = append(g.wait, func() { out <- e })
			} else {
				out <- e
			}
			g.mu.Unlock()
		}
		close(out)
	}()
	return watched{inner, out}
}

// versioned gives the Event of a deletion the version of the deletion, as an API server does. The tracker's has that of
// the last state, and a cache would seem older than what it has seen before.
func (g *Gate) versioned(e watch.Event) watch.Event {
	object, ok := e.Object.(Object)
	if e.Type != watch.Deleted || !ok {
		return e
	}
	if version, known := g.gone.Load(object.GetUID()); known {
		object = object.DeepCopyObject().(Object)
		object.SetResourceVersion(version.(string))
		e.Object = object
	}
	return e
}

type watched struct {
	watch.Interface
	out chan watch.Event
}

// ResultChan is watch.Interface's.
func (w watched) ResultChan() <-chan watch.Event { return w.out }
