package contract

import (
	"net/http"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

func TestZonesOfNetworks(t *testing.T) {
	for name, test := range map[string]struct {
		ask  []string
		want []any
	}{
		"both are given back in the order of their names": {[]string{"west", "east"}, []any{"east", "west"}},
		"one is":                           {[]string{"west"}, []any{"west"}},
		"none leave the choice to Neutron": {[]string{}, []any{}},
	} {
		t.Run(name, func(t *testing.T) {
			onEveryCloud(t, func(t *testing.T, c *cloud) {
				made := c.tenant.newNetwork(t, object{"availability_zone_hints": test.ask})
				for what, n := range map[string]object{
					"the answer to POST": made,
					"a list":             c.tenant.get(t, "/v2.0/networks?id="+id(made)).list(t, "networks")[0],
				} {
					if diff := gocmp.Diff(test.want, n["availability_zone_hints"]); diff != "" {
						t.Errorf("%s: hints (-want +got):\n%s", what, diff)
					}
					if diff := gocmp.Diff([]any{}, n["availability_zones"]); diff != "" {
						t.Errorf("%s: zones that no agent serves it in (-want +got):\n%s", what, diff)
					}
				}
			})
		})
	}
}

func TestRefusedZones(t *testing.T) {
	absent := func(zone string) refusal {
		return refusal{404, "AvailabilityZoneNotFound", "AvailabilityZone " + zone + " could not be found."}
	}
	bad := func(reason string) refusal {
		return refusal{400, "HTTPBadRequest", "Invalid input for availability_zone_hints. Reason: " + reason + "."}
	}
	tooLong := refusal{400, "InvalidInput", "Invalid input for operation: Too many availability_zone_hints specified."}
	z251, z243, é41 := strings.Repeat("z", 251), strings.Repeat("z", 243), strings.Repeat("é", 41)
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
		t.Run(name, func(t *testing.T) {
			onEveryCloud(t, func(t *testing.T, c *cloud) {
				ask := object{"network": object{"name": unique(), "availability_zone_hints": test.ask}}
				c.tenant.do(t, "POST", "/v2.0/networks", ask).refuses(t, test.want)
			})
		})
	}
}

func TestZonesAreImmutable(t *testing.T) {
	asEveryone(t, func(t *testing.T, s *session) {
		n := s.newNetwork(t, object{"availability_zone_hints": []string{"east"}})
		path := "/v2.0/networks/" + id(n)
		for _, hints := range [][]string{{"west"}, {"east"}, {}} {
			s.do(t, "PUT", path, object{"network": object{"availability_zone_hints": hints}}).
				refuses(t, refusal{400, "HTTPBadRequest", "Cannot update read-only attribute availability_zone_hints"})
		}
		renamed := s.do(t, "PUT", path, object{"network": object{"description": "another"}}).
			must(t, http.StatusOK).part(t, "network")
		if diff := gocmp.Diff([]any{"east"}, renamed["availability_zone_hints"]); diff != "" {
			t.Errorf("hints after a change of something else (-want +got):\n%s", diff)
		}
	})
}
