package inventory

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// identifying matches what identifies a resource in Neutron's sentences: ids of resources and projects, MACs, addresses
// and ranges of either family.
var identifying = regexp.MustCompile(`(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b` +
	`|\b[0-9a-f]{32}\b` +
	`|\b(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}\b` +
	`|\b[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?:/[0-9]{1,2})?\b` +
	`|(?:[0-9a-f]{1,4}:){2,7}[0-9a-f]{0,4}(?:/[0-9]{1,3})?` +
	`|[0-9a-f]{1,4}(?::[0-9a-f]{1,4})*::(?:[0-9a-f]{1,4}(?::[0-9a-f]{1,4})*)?(?:/[0-9]{1,3})?`)

// notShown takes the place of what is not the object's own.
const notShown = "(not shown)"

// discreet removes from Neutron's refusal of a step what identifies resources that the step does not name. They may be
// another namespace's: of another item of the same call, or of the same project.
func discreet(err error, step plan.Step) error {
	refusal, ok := errors.AsType[*client.Error](err)
	if !ok || refusal.Status == 0 {
		return err
	}
	content, _ := json.Marshal(step) // without it, nothing is the step's own
	own := map[string]bool{}
	for _, word := range identifying.FindAllString(string(content), -1) {
		own[strings.ToLower(word)] = true
	}
	reason := identifying.ReplaceAllStringFunc(refusal.Reason, func(word string) string {
		if own[strings.ToLower(word)] {
			return word
		}
		return notShown
	})
	if reason == refusal.Reason {
		return err
	}
	return client.Amended(err, func(e *client.Error) { e.Reason = reason })
}
