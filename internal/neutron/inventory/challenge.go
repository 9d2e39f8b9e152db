package inventory

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"strings"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
)

// Challenge finds out whether a controller of a cluster still acts in a project. It takes part in the protocol of the
// term records: it writes its own word into each of the cluster's records, as the leader of a restored copy would.
// A living leader sees that with its next audit, changes nothing more, and writes its own word back.
type Challenge struct {
	cloud   *client.Cloud
	cluster string
	// holder is in this challenge's word. records are the revisions of the records that have it, by id.
	holder  string
	records map[string]wireTerm
}

// NewChallenge prepares a challenge of the cluster of a UID in the cloud's project. It writes nothing yet.
func NewChallenge(cloud *client.Cloud, cluster string) *Challenge {
	return &Challenge{cloud: cloud, cluster: cluster, holder: "adopt-" + rand.Text()[:8]}
}

// namedTerm is a term record with its name.
type namedTerm struct {
	wireTerm
	Name string `json:"name"`
}

func (c *Challenge) list(ctx context.Context) (records map[string]wireTerm, err error) {
	of, err := c.cloud.Identity(ctx)
	if err != nil {
		return nil, err
	}
	all, err := client.List[namedTerm](ctx, c.cloud, "read term", termCollection, url.Values{
		"project_id": {of.ProjectID}, "fields": fieldsOf[namedTerm](),
	})
	records = map[string]wireTerm{}
	for _, r := range all {
		if strings.HasPrefix(r.Name, termNames(c.cluster)) {
			records[r.ID] = r.wireTerm
		}
	}
	return records, err
}

// Write writes the challenge. It reports whether the cluster has a record at all: without one, no controller of it
// would answer, and nothing can be known.
func (c *Challenge) Write(ctx context.Context) (possible bool, err error) {
	records, err := c.list(ctx)
	if err != nil {
		return false, err
	}
	c.records = map[string]wireTerm{}
	for id, r := range records {
		// The number of the leader that it replaces: a leader takes a lower one for its predecessor's.
		says := word{number: readWord(r.Description).number, holder: c.holder}
		if _, err := rewriteTerm(ctx, c.cloud, r, says); err != nil {
			return false, err
		}
		c.records[id] = r
	}
	return len(records) > 0, nil
}

// Answered waits for an answer, and looks for it after each pause. It returns true as soon as a controller of the
// cluster has answered. It returns false if none has within the time. That MUST be longer than the interval of their
// audits.
func (c *Challenge) Answered(ctx context.Context, within, pause time.Duration) (bool, error) {
	deadline := time.Now().Add(within)
	for {
		left := time.Until(deadline)
		client.Pause(ctx, min(pause, max(left, 0)), nil)
		if ctx.Err() != nil {
			return false, fmt.Errorf("waiting for an answer to the challenge: %w", ctx.Err())
		}
		records, err := c.list(ctx)
		if err != nil {
			return false, err
		}
		for id := range c.records {
			if r, there := records[id]; !there || readWord(r.Description).holder != c.holder {
				return true, nil
			}
		}
		if left <= 0 {
			return false, nil
		}
	}
}

// Forget removes the cluster's records: nothing of it is left in the project.
func (c *Challenge) Forget(ctx context.Context) error {
	records, err := c.list(ctx)
	if err != nil {
		return err
	}
	for _, r := range records {
		if err := removeTerm(ctx, c.cloud, r); err != nil {
			return err
		}
	}
	return nil
}
