package app

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// largest gives the JSON of the largest object that the schema of a CRD admits, or a larger one: of its rules, it knows
// those about one text or list. All fields are set.
type largest struct {
	t *testing.T
	// usual has texts of usual length.
	usual bool
	// status is true in the status, which only controllers write: what the schema does not bound there, they do.
	status bool
}

const (
	// ownText and ownItems bound what controllers write into a status where the schema has no bound: ids and addresses,
	// as many as a Network has subnets, and twice. An object has four conditions at most.
	ownText, ownItems, ownConditions = 64, 16, 4
	// usualText is the length of an address with its prefix length, or of a name of three words.
	usualText = 24
	widest    = "😀" // four bytes
)

var (
	// narrow are rules about a text that admit ASCII alone.
	narrow = regexp.MustCompile(`(^|\|\| |&& )(self\.matches\('\^[^']*\$'\)|isIP\(self\)|isCIDR\(self\))|dns1123`)
	// inAll are rules that bound the bytes of all texts of a list.
	inAll = regexp.MustCompile(`bytes\(\w\)\.size\(\)\)\.sum\(\) <= (\d+)`)
	// shorter are rules that bound the characters of a text more tightly than maxLength, which gives the message.
	shorter = regexp.MustCompile(`^self\.size\(\) <= (\d+)$`)
)

// of gives a value. n tells apart the items of a list.
func (l largest) of(path string, s *apiextensionsv1.JSONSchemaProps, n int) any {
	l.status = l.status || path == ".status"
	switch s.Type {
	case "object":
		all := map[string]any{}
		for name, property := range s.Properties {
			if path != "" || name != "metadata" && name != "kind" && name != "apiVersion" {
				all[name] = l.of(path+"."+name, &property, n)
			}
		}
		if s.AdditionalProperties != nil || len(all) == 0 {
			l.t.Errorf("%s: nothing bounds an object of any keys", path)
		}
		return all
	case "array":
		count := ownItems
		switch {
		case s.MaxItems != nil:
			count = int(*s.MaxItems)
		case path == ".status.conditions":
			count = ownConditions
		case !l.status:
			l.t.Errorf("%s: nothing bounds the list: give it maxItems", path)
		}
		items := s.Items.Schema
		if len(items.Enum) > 0 {
			count = min(count, len(items.Enum))
		}
		left := bound(s.XValidations, inAll, 1<<30)
		all := []any{}
		for i := range count {
			item := l.of(path+"[]", items, i)
			if text, isText := item.(string); isText {
				if len(text) > left {
					break
				}
				left -= len(text)
			}
			all = append(all, item)
		}
		return all
	case "string":
		return l.text(path, s, n)
	case "boolean":
		return true
	case "integer":
		if s.Maximum != nil {
			return int64(*s.Maximum)
		}
		return 1<<31 - 1
	}
	l.t.Fatalf("%s: a value of type %q is not known", path, s.Type)
	return nil
}

func (l largest) text(path string, s *apiextensionsv1.JSONSchemaProps, n int) string {
	if len(s.Enum) > 0 {
		return longestOf(s.Enum)
	}
	if s.Format == "date-time" {
		return "2026-01-01T00:00:00Z"
	}
	length := ownText
	switch {
	case s.MaxLength != nil && (!l.status || *s.MaxLength < 256):
		length = bound(s.XValidations, shorter, int(*s.MaxLength))
	case !l.status:
		l.t.Errorf("%s: nothing bounds the text: give it maxLength", path)
	case strings.HasSuffix(path, ".message"):
		length = controller.MaxMessage / len(widest)
	}
	fill := widest
	for _, rule := range s.XValidations {
		if narrow.MatchString(rule.Rule) {
			fill = "x"
		}
	}
	if s.Pattern != "" || l.status && s.MaxLength == nil {
		fill = "x"
	}
	if l.usual {
		length, fill = min(length, usualText), "x"
	}
	number := strconv.Itoa(n)
	return strings.Repeat(fill, length-len(number)) + number
}

func longestOf(enum []apiextensionsv1.JSON) (longest string) {
	for _, value := range enum {
		if text := strings.Trim(string(value.Raw), `"`); len(text) > len(longest) {
			longest = text
		}
	}
	return longest
}

// bound is the number in the rule of a form, or otherwise.
func bound(rules apiextensionsv1.ValidationRules, form *regexp.Regexp, otherwise int) int {
	for _, rule := range rules {
		if found := form.FindStringSubmatch(rule.Rule); found != nil {
			n, _ := strconv.Atoi(found[1])
			return n
		}
	}
	return otherwise
}

// largestOf gives the spec and the status of the largest object of each CRD, by kind, or with texts of usual length.
func largestOf(t *testing.T, usual bool) map[string]map[string]any {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "config", "crd", "*_*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("the CRDs: %v %v", files, err)
	}
	all := map[string]map[string]any{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		expect.NoError(t, err)
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(content, &crd); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if crd.Spec.Scope != apiextensionsv1.NamespaceScoped {
			continue // operators write it
		}
		for _, version := range crd.Spec.Versions {
			obj := largest{t: t, usual: usual}.of("", version.Schema.OpenAPIV3Schema, 0).(map[string]any)
			obj["apiVersion"], obj["kind"] = crd.Spec.Group+"/"+version.Name, crd.Spec.Names.Kind
			all[crd.Spec.Names.Kind] = obj
		}
	}
	return all
}
