package lanes

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Tally counts by name what sequences came across, for who wonders (-v) whether they still come across everything after
// a change. Nothing is asserted of it: some of it is rare, and another seed draws others. It is safe for concurrent
// use.
type Tally struct {
	mu     sync.Mutex
	counts map[string]int
}

// Count adds one to a name's count.
func (c *Tally) Count(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = map[string]int{}
	}
	c.counts[what]++
}

// String is a line for each name.
func (c *Tally) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	b.WriteString("met:\n")
	for _, what := range slices.Sorted(maps.Keys(c.counts)) {
		fmt.Fprintf(&b, "%5d %s\n", c.counts[what], what)
	}
	return b.String()
}
