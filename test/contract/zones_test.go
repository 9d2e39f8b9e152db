package contract

import (
	"strings"
	"testing"
)

func TestRefusedZones(t *testing.T) {
	absent := func(zone string) refusal {
		return refusal{404, "AvailabilityZoneNotFound", "AvailabilityZone " + zone + " could not be found."}
	}
	bad := func(reason string) refusal {
		return refusal{400, "HTTPBadRequest", "Invalid input for availability_zone_hints. Reason: " + reason + "."}
	}
	tooLong := refusal{400, "InvalidInput", "Invalid input for operation: Too many availability_zone_hints specified."}
	z251, z243, é41 := strings.Repeat("z", 251), strings.Repeat("z", 243), strings.Repeat("é", 41)
	cases := map[string]asked{}
	for name, test := range map[string]struct {
		ask  any
		want refusal
	}{
		"one that is not there":                  {[]string{"nowhere"}, absent("nowhere")},
		"one that is not there, beside one that": {[]string{"east", "nowhere"}, absent("nowhere")},
		"one twice":                              {[]string{"east", "east"}, bad("Duplicate items in the list: 'east'")},
		"no list":                                {"east", bad("'east' is not a list")},
		"null":                                   {nil, bad("'None' is not a list")},
		"a number":                               {[]any{5}, bad("'5' is not a valid string")},
		// They are kept as JSON in 255 characters: with brackets, quotes and commas that are followed by a space.
		"251 characters in one, which fit":           {[]string{z251}, absent(z251)},
		"252 characters in one":                      {[]string{z251 + "z"}, tooLong},
		"247 characters in two, which fit":           {[]string{"east", z243}, absent(z243)},
		"248 characters in two":                      {[]string{"east", z243 + "z"}, tooLong},
		"41 that are six in ASCII, which fit":        {[]string{é41}, absent(é41)},
		"42 that are six in ASCII":                   {[]string{é41 + "é"}, tooLong},
		"one twice, and more characters than fit in": {[]string{z251, "a", "a"}, bad("Duplicate items in the list: 'a'")},
	} {
		cases[name] = asked{object{"availability_zone_hints": test.ask}, test.want}
	}
	inDepth(t, func(t *testing.T, c *cloud) {
		c.tenant.refusesEach(t, "networks", object{"name": unique()}, cases)
	})
}
