package selection

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// The known keys of an element (the standard, sections 4.1.2.1.1 to 4.1.2.1.5).
const (
	keyName      = "name"
	keyNamespace = "namespace"
	keyInterface = "interface"
	keyIPs       = "ips"
	keyMAC       = "mac"
)

var knownKeys = []string{keyName, keyNamespace, keyInterface, keyIPs, keyMAC}

const listRemedy = `write a JSON list such as [{"name":"net-a"}], or names with commas between such as net-a,net-b`

// Parse reads an annotation's value for a Pod in the given namespace. That is also the namespace of each network for
// which the value names none. It reads both formats: net-a,ns/net-b@eth1 and a JSON list. An empty value, white space,
// and an empty JSON list give no selections and no error.
//
// The selections are in the order of the value. The error is an *Error, or several joined, one for each problem. It
// lists 16 problems and counts the rest. With an error there are no selections: by the standard, one invalid element
// makes the whole value invalid.
func Parse(value, namespace string) ([]Selection, error) {
	text := strings.TrimSpace(value)
	if text == "" {
		return nil, nil
	}
	var found findings
	found.add(whole, "", sizeRule(value))
	if !utf8.ValidString(text) {
		found.add(whole, "", quote(text)+" is not UTF-8: write it again")
	}
	if problem := namespaceRule(namespace); problem != "" {
		found.add(whole, keyNamespace, "the Pod's own namespace is wrong, "+problem)
	}
	if err := found.err(); err != nil {
		return nil, err
	}
	var selections []Selection
	switch text[0] {
	case '[':
		selections = parseJSON(text, namespace, &found)
	case '{':
		found.add(whole, "", "it is a JSON object, not a list: "+quote(text)+": put it into brackets, as in [{...}]")
	default:
		selections = parseNames(text, namespace, &found)
	}
	interfaceTwice(selections, &found)
	if err := found.err(); err != nil {
		return nil, err
	}
	return selections, nil
}

// parseNames reads the comma-delimited format. It removes space around each part, as Multus does.
func parseNames(text, namespace string, found *findings) []Selection {
	if at := strings.IndexAny(text, `[{"`); at >= 0 {
		found.add(whole, "", fmt.Sprintf("%s has the character %q, which only JSON has: %s", quote(text), text[at],
			listRemedy))
		return nil
	}
	if problem := countRule(strings.Count(text, ",") + 1); problem != "" {
		found.add(whole, "", problem)
		return nil
	}
	var selections []Selection
	for element := range strings.SplitSeq(text, ",") {
		i := len(selections)
		s, problem := splitElement(strings.TrimSpace(element))
		if problem != "" {
			found.add(i, "", problem)
			selections = append(selections, Selection{})
			continue
		}
		if s.Namespace == "" {
			s.Namespace = namespace
		}
		s.check(i, found)
		selections = append(selections, s)
	}
	return selections
}

// splitElement splits [namespace/]name[@interface]. It checks that the parts exist, but not their content.
func splitElement(element string) (s Selection, problem string) {
	if element == "" {
		return s, "it is empty: write a name there, or take out the comma"
	}
	name, device, hasDevice := strings.Cut(element, "@")
	space, rest, hasSpace := strings.Cut(name, "/")
	if hasSpace {
		name = rest
		s.Namespace = strings.TrimSpace(space)
	}
	s.Name, s.Interface = strings.TrimSpace(name), strings.TrimSpace(device)
	switch {
	case strings.Count(element, "@") > 1:
		problem = "more than one '@'"
	case strings.Count(element, "/") > 1:
		problem = "more than one '/'"
	case strings.Contains(device, "/"):
		problem = "its '@' before its '/'"
	case hasSpace && s.Namespace == "":
		problem = "no namespace before its '/'"
	case s.Name == "":
		problem = "no name"
	case hasDevice && s.Interface == "":
		problem = "no interface behind its '@'"
	default:
		return s, ""
	}
	return s, quote(element) + " has " + problem + ": write name, namespace/name or namespace/name@interface"
}

func parseJSON(text, namespace string, found *findings) []Selection {
	decoder := json.NewDecoder(strings.NewReader(text))
	var elements []json.RawMessage
	if err := decoder.Decode(&elements); err != nil {
		found.add(whole, "", syntaxProblem(text, err)+": "+listRemedy)
		return nil
	}
	if rest := strings.TrimSpace(text[decoder.InputOffset():]); rest != "" {
		found.add(whole, "", quote(rest)+" follows the end of the list: remove it")
		return nil
	}
	if problem := countRule(len(elements)); problem != "" {
		found.add(whole, "", problem)
		return nil
	}
	var selections []Selection
	for i, element := range elements {
		selections = append(selections, parseElement(i, element, namespace, found))
	}
	return selections
}

// syntaxProblem says where the JSON becomes invalid, in bytes from 0.
func syntaxProblem(text string, err error) string {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		// The offset includes the invalid byte.
		at := min(max(int(syntax.Offset)-1, 0), len(text))
		return fmt.Sprintf("it is no JSON from byte %d on, %s", at, quote(text[at:]))
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return "it is JSON that ends before its list does, " + quote(text)
	}
	return fmt.Sprintf("it is no JSON list, %s: %v", quote(text), err)
}

// parseElement reads one element of the JSON list format. It records problems in found. The selection has only the
// valid values.
func parseElement(i int, element json.RawMessage, namespace string, found *findings) Selection {
	s := Selection{Namespace: namespace}
	if element[0] != '{' {
		found.add(i, "", fmt.Sprintf(`it is %s, %s: write an object such as {"name":"net-a"}`, kindOf(element),
			quote(string(element))))
		return s
	}
	fields, err := fieldsOf(element)
	if err != nil {
		found.add(i, "", fmt.Sprintf("%s cannot be read, %v: %s", quote(string(element)), err, listRemedy))
		return s
	}
	seen := map[string]bool{}
	for _, f := range fields {
		if seen[f.key] {
			found.add(i, "", "the key "+quote(f.key)+" occurs twice: write it once")
			continue
		}
		seen[f.key] = true
		switch f.key {
		case keyName:
			s.Name = stringOf(i, f, nameRule, nameRemedy, found)
		case keyNamespace:
			if f.value == `""` {
				break
			}
			s.Namespace = stringOf(i, f, namespaceRule, namespaceRemedy, found)
		case keyInterface:
			s.Interface = stringOf(i, f, interfaceRule, interfaceRemedy, found)
		case keyIPs:
			s.parseIPs(i, f.value, found)
		case keyMAC:
			rule := func(text string) (problem string) {
				s.MAC, problem = parseMAC(text)
				return problem
			}
			_ = stringOf(i, f, rule, macRemedy, found)
		default:
			// encoding/json confuses keys that differ only in case.
			like := func(known string) bool { return strings.EqualFold(f.key, known) }
			if at := slices.IndexFunc(knownKeys, like); at >= 0 {
				found.add(i, "", fmt.Sprintf("the key %s is not in lower case: write %q", quote(f.key), knownKeys[at]))
			}
			s.rest = append(s.rest, f)
		}
	}
	if !seen[keyName] {
		found.add(i, keyName, "it is missing in "+quote(string(element))+": "+nameRemedy)
	}
	return s
}

func (s *Selection) parseIPs(i int, value string, found *findings) {
	const remedy = `write a list such as ["192.0.2.10","2001:db8::10/64"], or leave it out`
	if value[0] != '[' {
		found.add(i, keyIPs, fmt.Sprintf("it is %s, %s: %s", kindOf([]byte(value)), quote(value), remedy))
		return
	}
	var items []json.RawMessage
	if err := json.Unmarshal([]byte(value), &items); err != nil {
		found.add(i, keyIPs, fmt.Sprintf("%s cannot be read, %v: %s", quote(value), err, remedy))
		return
	}
	if len(items) == 0 {
		found.add(i, keyIPs, "the list is empty: "+remedy)
		return
	}
	for n, item := range items {
		at := field{fmt.Sprintf("%s[%d]", keyIPs, n), string(item)}
		rule := func(text string) string {
			address, problem := parseAddress(text)
			if problem == "" {
				s.Addresses = append(s.Addresses, address)
			}
			return problem
		}
		_ = stringOf(i, at, rule, addressRemedy, found)
	}
}

// stringOf reads a string that has to follow the rule. It returns an empty text for any other value.
func stringOf(i int, f field, rule rule, remedy string, found *findings) string {
	var text string
	var problem string
	if f.value[0] != '"' {
		problem = fmt.Sprintf("it is %s, %s, not a string: %s", kindOf([]byte(f.value)), quote(f.value), remedy)
	} else if err := json.Unmarshal([]byte(f.value), &text); err != nil {
		problem = fmt.Sprintf("%s cannot be read, %v: %s", quote(f.value), err, remedy)
	} else {
		problem = rule(text)
	}
	if problem != "" {
		found.add(i, f.key, problem)
		return ""
	}
	return text
}

// fieldsOf returns an object's keys and values in their order, with duplicates. A map would lose both.
func fieldsOf(object json.RawMessage) ([]field, error) {
	decoder := json.NewDecoder(bytes.NewReader(object))
	if _, err := decoder.Token(); err != nil {
		return nil, err
	}
	var fields []field
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return nil, err
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, value); err != nil {
			return nil, err
		}
		fields = append(fields, field{fmt.Sprint(key), compact.String()})
	}
	return fields, nil
}

// kindOf names the type of a JSON value by its first byte.
func kindOf(value []byte) string {
	switch value[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	default:
		return "a number"
	}
}

func (s Selection) check(i int, found *findings) {
	found.add(i, keyName, nameRule(s.Name))
	found.add(i, keyNamespace, namespaceRule(s.Namespace))
	if s.Interface != "" {
		found.add(i, keyInterface, interfaceRule(s.Interface))
	}
}
