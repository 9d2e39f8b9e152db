package neutrontest

import (
	"maps"
	"sync"
	"time"
)

// Call is one request to the cloud, as far as its cost and its statistics are concerned.
type Call struct {
	// Method is the HTTP method.
	Method string
	// Path is the pattern of the request's path, without the mount point: "/v2.0/networks", "/v2.0/networks/{id}",
	// "/v2.0/networks/{id}/tags", "/v3/auth/tokens".
	Path string
	// Items is the number of resources that the call created or listed; one for a call about a single resource.
	Items int
	// Bulk is whether it was a create of several resources in one request, {"networks": [...]}.
	Bulk bool
	// Status is the HTTP status of the answer.
	Status int
	// Project is the id of the project of the caller's token, if there was a valid one.
	Project string
}

// FixedDelay makes every call take the same time.
func FixedDelay(d time.Duration) func(Call) time.Duration {
	return func(Call) time.Duration { return d }
}

// cost is what a call takes: something for itself and something for each of its items.
type cost struct{ call, item time.Duration }

// MeasuredDelay makes calls take what they took on a real Neutron 21 (one API process, SQLite, 2 cores) whose tokens a
// real Keystone validated, each call alone. Creates, lists and reads of networks and subnets, tags and the deletion of
// a network were measured, and creates, lists and deletions of ports, these while the machine had other work, too; what
// other calls take is an estimate by their likeness to these. Together with one worker ([Options.Workers]) it shows
// what is to be gained by fewer and larger calls, and that more calls at a time gain nothing.
func MeasuredDelay(c Call) time.Duration {
	const ms = time.Millisecond
	costs := map[string]cost{
		"POST /v3/auth/tokens":         {call: 200 * ms},
		"POST /v2.0/networks":          {item: 92 * ms},
		"POST /v2.0/subnets":           {item: 78 * ms},
		"POST /v2.0/ports":             {item: 220 * ms},
		"GET /v2.0/networks":           {call: 26 * ms, item: 800 * time.Microsecond},
		"GET /v2.0/subnets":            {call: 26 * ms, item: 500 * time.Microsecond},
		"PUT /v2.0/networks/{id}/tags": {call: 29 * ms},
		"GET /v2.0/ports":              {call: 26 * ms, item: time.Millisecond},
		"DELETE /v2.0/networks/{id}":   {call: 108 * ms},
		"DELETE /v2.0/ports/{id}":      {call: 150 * ms},
	}
	bulk := map[string]cost{
		"POST /v2.0/networks": {item: 38 * ms},
		"POST /v2.0/subnets":  {item: 71 * ms},
		"POST /v2.0/ports":    {item: 165 * ms},
	}
	key := c.Method + " " + c.Path
	if c.Bulk {
		if k, ok := bulk[key]; ok {
			return k.call + time.Duration(c.Items)*k.item
		}
	}
	if k, ok := costs[key]; ok {
		return k.call + time.Duration(c.Items)*k.item
	}
	switch c.Method {
	case "GET":
		return 27 * ms
	default:
		return 80 * ms
	}
}

// callLog counts calls.
type callLog struct {
	mu     sync.Mutex
	counts map[string]int
}

func (l *callLog) add(c Call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.counts == nil {
		l.counts = make(map[string]int)
	}
	l.counts[c.Method+" "+c.Path]++
}

// Calls counts the calls of one method to one path pattern (see [Call.Path]) since the server was made or the counts
// were last reset, refused ones included.
func (s *Server) Calls(method, path string) int {
	s.calls.mu.Lock()
	defer s.calls.mu.Unlock()
	return s.calls.counts[method+" "+path]
}

// CallCounts gives the number of calls by "METHOD /path/pattern".
func (s *Server) CallCounts() map[string]int {
	s.calls.mu.Lock()
	defer s.calls.mu.Unlock()
	return maps.Clone(s.calls.counts)
}

// ResetCalls sets all counts back to zero.
func (s *Server) ResetCalls() {
	s.calls.mu.Lock()
	defer s.calls.mu.Unlock()
	clear(s.calls.counts)
}
