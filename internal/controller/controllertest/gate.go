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

type watched struct {
	watch.Interface
	out chan watch.Event
}

// ResultChan is watch.Interface's.
func (w watched) ResultChan() <-chan watch.Event { return w.out }
