package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

// read gives the fields of the type Spec in the source.
func read(t *testing.T, source string) ([]field, error) {
	t.Helper()
	dir := t.TempDir()
	expect.NoError(t, os.WriteFile(filepath.Join(dir, "types.go"), []byte("package v1\n"+source), 0o600))
	s, err := readTypes(dir)
	expect.NoError(t, err)
	return s.fieldsOf("Spec")
}

const marked = "// +neutron:attribute=network.mtu,mutable=true,removed=kept,privilege=tenant\n"

func TestFieldsAreReadFromTheTypes(t *testing.T) {
	got, err := read(t, `
type Spec struct {
	// Its fields stand here.
	Part `+"`json:\",inline\"`"+`

	// policy says what to do. It needs
	// thought. The default is Go. It can change later.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=tenant
	// +optional
	Policy Policy `+"`json:\"policy,omitempty\"`"+`

	// more are parts. An empty list means no part. The default is none. They can
	// change later; old ones stay.
	// +neutron:attribute=subnet.x+network.y,mutable=true,removed=back,privilege=admin
	More []Part `+"`json:\"more,omitempty\"`"+`

	// size is in bytes. The cloud chooses, as a rule 9, when it is unset.
	// +neutron:attribute=network.mtu,mutable=true,removed=kept,privilege=tenant
	Size *int32 `+"`json:\"size,omitempty\"`"+`

	Hidden string `+"`json:\"-\"`"+`
}

// Part is a part.
type Part struct {
	// end is where it ends.
	// +neutron:attribute=subnet.end,mutable=false,privilege=tenant
	// +required
	End string `+"`json:\"end\"`"+`

	// items are listed. It must be set, and cannot change later.
	// +neutron:attribute=none,mutable=false,privilege=tenant
	Items []Item `+"`json:\"items\"`"+`
}

type Item struct {
	// on says so. Neutron chooses one when they are unset.
	// +neutron:attribute=none,mutable=true,removed=refused,privilege=tenant
	On *bool `+"`json:\"on\"`"+`

	// whole is a list. The default is none.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=tenant
	Whole []string `+"`json:\"whole\"`"+`

	// within is an object. The default is none.
	// +neutron:attribute=none,mutable=true,removed=default,privilege=tenant
	Within *Part `+"`json:\"within\"`"+`
}

// Policy is one of few words.
// +kubebuilder:validation:Enum=Go;Stop
type Policy string
`)
	expect.NoError(t, err)
	want := []field{
		{path: "spec.end", typ: "string", attributes: []string{"subnet.end"}, byDefault: "must be set",
			removed: "refused", privilege: "tenant", text: "end is where it ends."},
		{path: "spec.items", typ: "list of objects", byDefault: "must be set", whenEmpty: "as unset",
			removed: "refused", privilege: "tenant", text: "items are listed."},
		{path: "spec.items[].on", typ: "boolean", byDefault: "Neutron's choice", removed: "refused", mutable: true,
			privilege: "tenant", text: "on says so."},
		{path: "spec.items[].whole", typ: "list of strings", byDefault: "none", whenEmpty: "as unset", removed: "as unset",
			mutable: true, privilege: "tenant", text: "whole is a list."},
		{path: "spec.items[].within", typ: "object", byDefault: "none", whenEmpty: "refused", removed: "as unset",
			mutable: true, privilege: "tenant", text: "within is an object. Its fields are those of `spec`, above."},
		{path: "spec.policy", typ: "`Go`, `Stop`", byDefault: "Go", removed: "as unset", mutable: true, privilege: "tenant",
			text: "policy says what to do. It needs thought."},
		{path: "spec.more", typ: "list of objects", attributes: []string{"subnet.x", "network.y"}, byDefault: "none",
			whenEmpty: "no part", removed: "taken back", mutable: true, privilege: "admin",
			text: "more are parts. They can change later; old ones stay. Its fields are those of `spec`, above."},
		{path: "spec.size", typ: "integer", attributes: []string{"network.mtu"}, byDefault: "the cloud's choice, as a rule 9",
			removed: "stays", mutable: true, privilege: "tenant", text: "size is in bytes."},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(field{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestAFieldThatDoesNotSayEnoughIsRefused(t *testing.T) {
	const text = "// f is one. The default is none.\n"
	for sentence, c := range map[string]struct{ comment, says string }{
		"no marker":                      {text, "what it is in Neutron"},
		"no comment":                     {marked, "write what it is"},
		"no default":                     {"// f is one.\n" + marked, "where the field is unset"},
		"half a marker":                  {text + "// +neutron:attribute=none,mutable=true\n", "privilege is missing"},
		"an unknown key":                 {text + "// +neutron:attribute=none,mutabel=true,privilege=admin\n", `"mutabel=true" is not`},
		"a key twice":                    {text + "// +neutron:attribute=none,attribute=none,mutable=true\n", "each once"},
		"an attribute of no resource":    {text + "// +neutron:attribute=mtu,mutable=true,privilege=admin\n", "such as network.mtu"},
		"an unknown removal":             {text + "// +neutron:attribute=none,mutable=true,removed=no,privilege=admin\n", "removed=no"},
		"no removal":                     {text + "// +neutron:attribute=none,mutable=true,privilege=admin\n", "sets the field no longer"},
		"a removal of what must be":      {"// f is one. It must be set.\n" + marked, "leave removed out"},
		"an unknown privilege":           {text + "// +neutron:attribute=none,mutable=true,privilege=root\n", "tenant, admin or operator"},
		"mutable is neither":             {text + "// +neutron:attribute=none,mutable=yes,privilege=admin\n", "true or false"},
		"the comment says it cannot":     {text + "// It cannot change later.\n" + marked, "the same in both"},
		"the comment says it can change": {text + "// It can change later.\n// +neutron:attribute=none,mutable=false,privilege=admin\n", "the same in both"},
	} {
		t.Run(sentence, func(t *testing.T) {
			_, err := read(t, "type Spec struct {\n"+c.comment+"F string `json:\"f\"`\n}\n")
			expect.ErrorSays(t, err, c.says)
			expect.ErrorSays(t, err, "spec.f")
		})
	}
}

func TestACellHoldsAnyText(t *testing.T) {
	got := page([]section{{"Kind", []field{{
		path: "spec.f", typ: "string", byDefault: "a|b", removed: "stays", privilege: "tenant", text: `"*"`,
	}}}})
	if want := "| `spec.f` | string | – | a\\|b | – | stays | no | tenant | \"\\*\" |\n"; !strings.HasSuffix(got, want) {
		t.Errorf("the page ends\n%s\nwant\n%s", got[strings.LastIndex(got, "| ---"):], want)
	}
}
