package selection

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
)

// element has the keys that Format writes, in this order. The unknown keys follow.
type element struct {
	Name      string         `json:"name"`
	Namespace string         `json:"namespace"`
	Interface string         `json:"interface,omitempty"`
	IPs       []netip.Prefix `json:"ips,omitempty"`
	MAC       string         `json:"mac,omitempty"`
}

// Format writes selections in the JSON list format. Parse reads them back as equal selections for any namespace,
// because each element names its own. Format writes keys that Parse did not know unchanged, but without space between
// JSON's tokens. It writes "ips" with their prefix lengths. The same selections always give the same bytes. No
// selections give an empty list.
//
// Format refuses what Parse would refuse or read differently, with the same errors. It refuses a selection from Parse
// only if the output, which may be longer than the input, exceeds MaxSize.
func Format(selections []Selection) (string, error) {
	var found findings
	found.add(whole, "", countRule(len(selections)))
	for i, s := range selections {
		s.check(i, &found)
		for n, address := range s.Addresses {
			found.add(i, fmt.Sprintf("%s[%d]", keyIPs, n), addressRule(address, address.String()))
		}
		if s.MAC != "" {
			found.add(i, keyMAC, macRule(s.MAC))
		}
	}
	interfaceTwice(selections, &found)
	if err := found.err(); err != nil {
		return "", err
	}

	var text bytes.Buffer
	text.WriteByte('[')
	for i, s := range selections {
		if i > 0 {
			text.WriteByte(',')
		}
		if err := s.write(&text); err != nil {
			return "", fmt.Errorf("networks[%d]: write it as JSON: %w", i, err)
		}
	}
	text.WriteByte(']')

	found.add(whole, "", sizeRule(text.String()))
	if err := found.err(); err != nil {
		return "", err
	}
	return text.String(), nil
}

func (s Selection) write(text *bytes.Buffer) error {
	if err := appendJSON(text, element{s.Name, s.Namespace, s.Interface, s.Addresses, s.MAC}); err != nil {
		return err
	}
	text.Truncate(text.Len() - len("}"))
	for _, f := range s.rest {
		text.WriteByte(',')
		if err := appendJSON(text, f.key); err != nil {
			return err
		}
		text.WriteByte(':')
		text.WriteString(f.value)
	}
	text.WriteByte('}')
	return nil
}

// appendJSON appends a value without HTML escapes, so that people can read it.
func appendJSON(text *bytes.Buffer, value any) error {
	encoder := json.NewEncoder(text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return err
	}
	text.Truncate(text.Len() - len("\n"))
	return nil
}
