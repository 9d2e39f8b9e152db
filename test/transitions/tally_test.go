package transitions

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// met counts what sequences came across, for who wonders (-v) whether they still come across everything after a change.
// Nothing is asserted of it: some of it is rare, and another seed draws others.
var met tally

// tally counts by name. It is safe for concurrent use.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func (c *tally) count(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = map[string]int{}
	}
	c.counts[what]++
}

// state counts how an object ended.
func (c *tally) state(kind string, status cloudteamv1.ResourceStatus, in resource) {
	reason := ""
	if ready := meta.FindStatusCondition(status.Conditions, cloudteamv1.ConditionReady); ready != nil {
		reason = ready.Reason
	}
	if in == nil {
		reason += ", not in Neutron"
	}
	c.count(kind + " " + reason)
}

// String is a line for each name.
func (c *tally) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	b.WriteString("met:\n")
	for _, what := range slices.Sorted(maps.Keys(c.counts)) {
		fmt.Fprintf(&b, "%5d %s\n", c.counts[what], what)
	}
	return b.String()
}
