package client

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// One rule says which attributes of a resource an answer must have. Those that identify it: its id, the network of a
// subnet or a port, the CIDR of a subnet, the address of a floating IP. Any other one may be absent, null, or a text
// instead of a number: older Neutrons, missing plugins and vendors' plugins differ there. But an address or a port that
// a plan compares has to be readable, if it is there.
//
// The types below never fail to decode. The decoder would stop at such a failure, and not see the owner's marker.

// Number is a whole number in an answer, also one that is written as a text.
type Number int64

// Unreadable is the Number of what is neither a number nor absent.
const Unreadable Number = math.MinInt64

// UnmarshalJSON implements json.Unmarshaler. It returns no error.
func (n *Number) UnmarshalJSON(data []byte) error {
	*n = 0
	if text := unquotedJSON(data); text != "" {
		value, err := strconv.ParseInt(text, 10, 64)
		if *n = Number(value); err != nil {
			*n = Unreadable
		}
	}
	return nil
}

// Or0 is the number; 0 if it is unreadable. It is for what no plan depends on.
func (n Number) Or0() int64 {
	if n == Unreadable {
		return 0
	}
	return int64(n)
}

// Time is a time in an answer. It is the zero time.Time if it is absent or unreadable. So what is older than Neutron's
// plugin timestamp is the oldest. Without the plugin, nothing is older than anything.
type Time struct{ time.Time }

// timeForms are those that Neutron has written. The one without a zone means UTC.
var timeForms = []string{time.RFC3339, "2006-01-02T15:04:05"}

// UnmarshalJSON implements json.Unmarshaler. It returns no error.
func (t *Time) UnmarshalJSON(data []byte) error {
	t.Time = time.Time{}
	for _, form := range timeForms {
		if read, err := time.Parse(form, unquotedJSON(data)); err == nil {
			t.Time = read
			break
		}
	}
	return nil
}

// unquotedJSON is what a JSON value says without quotation marks; empty for null. Lists have thousands of them, none of
// which needs a character that JSON escapes.
func unquotedJSON(data []byte) string {
	if string(data) == "null" {
		return ""
	}
	return strings.TrimSpace(strings.Trim(string(data), `"`))
}
