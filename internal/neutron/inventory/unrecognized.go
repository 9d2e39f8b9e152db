package inventory

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
)

// unrecognized matches Neutron's refusal of attributes that it does not know, in any order (verify_attributes in
// neutron_lib/api/attributes.py). Normally the cloud lacks an extension.
var unrecognized = regexp.MustCompile(`^Unrecognized attribute\(s\) '([^']*)'$`)

// namingFields adds to a refusal the spec's names of attributes that Neutron does not know. extensions has the names of
// attributes that extensions add.
func namingFields(err error, extensions map[string]string) error {
	refusal, ok := errors.AsType[*client.Error](err)
	if !ok {
		return err
	}
	found := unrecognized.FindStringSubmatch(refusal.Reason)
	if found == nil {
		return err
	}
	attributes := strings.Split(found[1], ", ")
	slices.Sort(attributes)
	var fields []string
	for _, attribute := range attributes {
		if field, ok := extensions[attribute]; ok {
			fields = append(fields, field)
		}
	}
	return client.Amended(err, func(e *client.Error) {
		e.Reason = fmt.Sprintf("Unrecognized attribute(s) '%s'", strings.Join(attributes, ", "))
		if len(fields) > 0 {
			e.Reason += fmt.Sprintf(": this cloud does not have what %s takes, so leave that out", strings.Join(fields, ", "))
		}
	})
}
