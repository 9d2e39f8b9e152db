package neutrontest

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"
)

// appendJSON writes the values that resources are made of without reflection; lists of thousands of resources are the
// common case. The separators are those of Python's json module.
func appendJSON(buf []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(buf, "null"...)
	case string:
		return appendString(buf, v)
	case bool:
		return strconv.AppendBool(buf, v)
	case int:
		return strconv.AppendInt(buf, int64(v), 10)
	case []string:
		buf = append(buf, '[')
		for i, s := range v {
			if i > 0 {
				buf = append(buf, ',', ' ')
			}
			buf = appendString(buf, s)
		}
		return append(buf, ']')
	default:
		data, err := json.Marshal(v)
		if err != nil {
			// Every type that an attribute can have is one that JSON can hold.
			panic("neutrontest: " + err.Error())
		}
		return append(buf, data...)
	}
}

func appendString(buf []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			// A string always has a JSON form.
			data, _ := json.Marshal(s)
			return append(buf, data...)
		}
	}
	buf = append(buf, '"')
	buf = append(buf, s...)
	return append(buf, '"')
}

// timestamp is how Neutron writes a time: UTC, to the second.
func timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
