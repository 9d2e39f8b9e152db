// Package batchtest plays what a batch.Queue sends creates to, in virtual time.
package batchtest

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing/synctest"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
)

// Server takes creates of what has a name: bulk creates are all or none, and a call takes its time. Its fields may be
// read and changed while no call is under way, and by Set at any time.
type Server struct {
	// Takes is how long a call is under way of so many creates, with so many calls under way; nil for a second.
	Takes func(creates, underway int) time.Duration
	// Fails is why a call is not carried out, or (lost) carried out and not answered; nil for none.
	Fails func(names []string) *client.Error
	// Answer is what a create is answered with, from its body; nil for its name.
	Answer func(body map[string]any) json.RawMessage
	// Calls are the names of what was created, by call, in the order of the calls' beginnings.
	Calls [][]string
	// Made counts what was carried out, by name.
	Made map[string]int
	// Most is how many calls were under way at a time.
	Most int

	mu       sync.Mutex
	underway int
}

// Set changes the server while calls are under way.
func (s *Server) Set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// Post is batch.Options.Post.
func (s *Server) Post(
	ctx context.Context, op string, _ client.Collection, bodies []map[string]any,
) ([]json.RawMessage, error) {
	var names []string
	for _, body := range bodies {
		names = append(names, body["name"].(string))
	}
	s.mu.Lock()
	s.Calls = append(s.Calls, names)
	s.underway++
	s.Most = max(s.Most, s.underway)
	takes := time.Second
	if s.Takes != nil {
		takes = s.Takes(len(names), s.underway)
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.underway--
		s.mu.Unlock()
	}()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return nil, client.Interrupted(op, ctx.Err())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Fails != nil {
		if err := s.Fails(names); err != nil {
			if err.MaybeDone {
				s.carryOut(bodies)
			}
			return nil, err
		}
	}
	return s.carryOut(bodies), nil
}

func (s *Server) carryOut(bodies []map[string]any) (answers []json.RawMessage) {
	if s.Made == nil {
		s.Made = map[string]int{}
	}
	for _, body := range bodies {
		name := body["name"].(string)
		s.Made[name]++
		if s.Answer != nil {
			answers = append(answers, s.Answer(body))
			continue
		}
		answers = append(answers, json.RawMessage(`"`+name+`"`))
	}
	return answers
}

// Sizes are how many creates there were in each call.
func (s *Server) Sizes() (sizes []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, call := range s.Calls {
		sizes = append(sizes, len(call))
	}
	return sizes
}

// AtOnce creates at once what is named, and returns the errors by name when all have ended.
func AtOnce(names []string, create func(name string) error) map[string]error {
	var mu sync.Mutex
	var wg sync.WaitGroup
	failed := map[string]error{}
	for _, name := range names {
		wg.Go(func() {
			if err := create(name); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed[name] = err
			}
		})
	}
	wg.Wait()
	synctest.Wait()
	return failed
}

// Numbered are so many names that begin with the same text.
func Numbered(prefix string, count int) (names []string) {
	for i := range count {
		names = append(names, fmt.Sprint(prefix, i))
	}
	return names
}
