package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// markerPrefix begins the comment line that says what a field is in Neutron:
//
//	// +neutron:attribute=subnet.gateway_ip,mutable=true,removed=default,privilege=tenant
//
// attribute is the resource and its attribute in the Networking API, several joined by "+", or "none" for what is the
// controller's own. mutable says whether the field of an object that exists may change. removed says what happens when
// the spec sets the field no longer, by a key of removals; a field that must be set does not have it. privilege is who
// may set it: under Neutron's default policies "tenant", a member of the project, or "admin"; and "operator", who
// writes the cluster's NetworkClasses.
const markerPrefix = "+neutron:"

// markerExample is a marker for errors to show.
const markerExample = "// " + markerPrefix + "attribute=network.mtu,mutable=true,removed=kept,privilege=tenant"

// removals are what can happen when a spec that set a field sets it no longer, as the reference says it.
var removals = map[string]string{
	"default": "as unset",
	"back":    "taken back",
	"kept":    "stays",
	"refused": "refused",
}

// field is one row of the reference.
type field struct {
	// path leads to the field from the object.
	path string
	// typ is the type for a person.
	typ string
	// attributes are in Neutron; none for what is the controller's own.
	attributes []string
	// byDefault is what holds where the field is unset.
	byDefault string
	// whenEmpty is what an empty list or object means; empty where the field is neither.
	whenEmpty string
	// removed is what happens when the spec sets the field no longer: a value of removals.
	removed   string
	mutable   bool
	privilege string
	// text is the field's comment, without the sentences that the other columns tell.
	text string
}

// source is the types of one package, by name.
type source struct {
	positions *token.FileSet
	types     map[string]*ast.TypeSpec
	// enums are the values of the types of which only some are allowed.
	enums map[string][]string
}

func readTypes(dir string) (*source, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	s := &source{token.NewFileSet(), map[string]*ast.TypeSpec{}, map[string][]string{}}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(s.positions, name, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		s.add(file)
	}
	if len(s.types) == 0 {
		return nil, fmt.Errorf("%s: no Go types: name the folder of the API's types with --types", dir)
	}
	return s, nil
}

// enumPrefix begins the marker of controller-gen that lists the values of a type.
const enumPrefix = "+kubebuilder:validation:Enum="

func (s *source) add(file *ast.File) {
	for _, decl := range file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.TYPE {
			continue
		}
		for _, spec := range group.Specs {
			t := spec.(*ast.TypeSpec)
			s.types[t.Name.Name] = t
			for _, line := range lines(group.Doc, t.Doc) {
				if values, ok := strings.CutPrefix(line, enumPrefix); ok {
					s.enums[t.Name.Name] = strings.Split(values, ";")
				}
			}
		}
	}
}

// lines are those of comments, without what makes them comments.
func lines(groups ...*ast.CommentGroup) []string {
	var all []string
	for _, group := range groups {
		if group == nil {
			continue
		}
		for _, comment := range group.List {
			all = append(all, strings.TrimSpace(strings.TrimPrefix(comment.Text, "//")))
		}
	}
	return all
}

// fieldsOf gives the fields of a spec, those of nested types after the field that has them. The error, joined by
// errors.Join, has one for each field that lacks something.
func (s *source) fieldsOf(spec string) ([]field, error) {
	w := walk{source: s, shown: map[string]string{}}
	w.typeAt("spec", spec)
	return w.fields, errors.Join(w.errs...)
}

// walk goes through the fields of one spec.
type walk struct {
	*source
	fields []field
	errs   []error
	// shown is where the fields of a type stand already, by the type's name.
	shown map[string]string
}

func (w *walk) typeAt(path, name string) {
	declared, ok := w.types[name]
	if !ok {
		w.errs = append(w.errs, fmt.Errorf("type %s: not found in the package: declare it there", name))
		return
	}
	body, ok := declared.Type.(*ast.StructType)
	if !ok {
		return
	}
	w.shown[name] = path
	for _, f := range body.Fields.List {
		key, inline := jsonName(f)
		switch {
		case inline:
			if _, name, _ := w.describe(f.Type); name != "" {
				w.typeAt(path, name)
			}
		case key != "":
			w.fieldAt(path+"."+key, f)
		}
	}
}

// jsonName is a field's key in JSON, or inline where its own fields stand in its place.
func jsonName(f *ast.Field) (key string, inline bool) {
	if f.Tag == nil {
		return "", false
	}
	tag, err := strconv.Unquote(f.Tag.Value)
	if err != nil {
		return "", false
	}
	key, options, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
	if key == "-" {
		return "", false
	}
	return key, key == "" && slices.Contains(strings.Split(options, ","), "inline")
}

func (w *walk) fieldAt(path string, f *ast.Field) {
	typ, nested, list := w.describe(f.Type)
	read, err := readComment(lines(f.Doc))
	if err != nil {
		w.errs = append(w.errs, fmt.Errorf("%s: %s: %w", w.positions.Position(f.Pos()), path, err))
		return
	}
	read.path, read.typ = path, typ
	if list {
		path += "[]"
	}
	if read.whenEmpty == "" {
		read.whenEmpty = w.empty(nested, list || strings.HasPrefix(typ, "list of"))
	}
	above, again := w.shown[nested]
	if again {
		read.text += " Its fields are those of `" + above + "`, above."
	}
	w.fields = append(w.fields, read)
	if nested != "" && !again {
		w.typeAt(path, nested)
	}
}

// empty is what an empty value of a type means where the comment does not say it. An empty list is as none. An empty
// object lacks what must be set in it.
func (w *walk) empty(nested string, list bool) string {
	switch {
	case list:
		return removals["default"]
	case nested != "":
		return removals["refused"]
	default:
		return ""
	}
}

// describe gives a type for a person, the name of the struct type of the package that it is, or that its elements are,
// and whether it is a list.
func (w *walk) describe(typ ast.Expr) (text, nested string, list bool) {
	switch t := typ.(type) {
	case *ast.StarExpr:
		return w.describe(t.X)
	case *ast.ArrayType:
		text, nested, _ := w.describe(t.Elt)
		return "list of " + plural(text), nested, true
	case *ast.MapType:
		text, _, _ := w.describe(t.Value)
		return "map of " + plural(text), "", false
	case *ast.SelectorExpr:
		return t.Sel.Name, "", false
	case *ast.Ident:
		return w.named(t.Name)
	default:
		return "value", "", false
	}
}

func (w *walk) named(name string) (text, nested string, list bool) {
	if values, ok := w.enums[name]; ok {
		return "`" + strings.Join(values, "`, `") + "`", "", false
	}
	if declared, ok := w.types[name]; ok {
		if _, ok := declared.Type.(*ast.StructType); ok {
			return "object", name, false
		}
		return w.describe(declared.Type)
	}
	switch {
	case name == "bool":
		return "boolean", "", false
	case strings.HasPrefix(name, "int"), strings.HasPrefix(name, "uint"):
		return "integer", "", false
	default:
		return name, "", false
	}
}

func plural(text string) string {
	if strings.HasPrefix(text, "`") {
		return text
	}
	return text + "s"
}

// What a field's comment says beside what the field is, in sentences that the reference tells in their own columns.
var (
	defaultSentence = regexp.MustCompile(`^The default is (.+)\.$`)
	// choiceSentence names who chooses, and perhaps what as a rule.
	choiceSentence = regexp.MustCompile(`^(?:The )?(\w+) chooses(?: one)?(?:, (.+),)? when (?:it is|they are) unset\.$`)
	// emptySentence says what an empty list or object means.
	emptySentence  = regexp.MustCompile(`^An empty (?:list|object) (?:means|is) (.+)\.$`)
	mustSentence   = regexp.MustCompile(`^It must be set\b`)
	changeSentence = regexp.MustCompile(`^(?:It|They) (?:can|cannot) change later\.$`)
	canChange      = regexp.MustCompile(`\bcan change later\b`)
	cannotChange   = regexp.MustCompile(`\bcannot change later\b`)
)

// readComment reads what a field's comment says of it.
func readComment(lines []string) (field, error) {
	var f field
	var text, marker string
	required := false
	for _, line := range lines {
		switch {
		case strings.HasPrefix(line, markerPrefix):
			marker = strings.TrimPrefix(line, markerPrefix)
		case line == "+required":
			required = true
		case !strings.HasPrefix(line, "+"):
			text += " " + line
		}
	}
	if err := f.readMarker(marker); err != nil {
		return field{}, err
	}
	return f, f.readText(text, required)
}

func (f *field) readMarker(marker string) error {
	if marker == "" {
		return fmt.Errorf("the field does not say what it is in Neutron: "+
			"write a line such as %q above it, or attribute=none for what is the controller's own", markerExample)
	}
	values := map[string]string{}
	for pair := range strings.SplitSeq(marker, ",") {
		key, value, _ := strings.Cut(pair, "=")
		if !slices.Contains([]string{"attribute", "mutable", "removed", "privilege"}, key) || values[key] != "" ||
			value == "" {
			return fmt.Errorf("%s%s: %q is not understood: write attribute, mutable, removed and privilege, each once and "+
				"with a value, as in %q", markerPrefix, marker, pair, markerExample)
		}
		values[key] = value
	}
	if values["attribute"] == "" || values["mutable"] == "" || values["privilege"] == "" {
		return fmt.Errorf("%s%s: attribute, mutable or privilege is missing: write all three, as in %q",
			markerPrefix, marker, markerExample)
	}
	if removed := values["removed"]; removed != "" {
		if f.removed = removals[removed]; f.removed == "" {
			return fmt.Errorf("removed=%s: write one of %s", removed,
				strings.Join(slices.Sorted(maps.Keys(removals)), ", "))
		}
	}
	if values["attribute"] != "none" {
		f.attributes = strings.Split(values["attribute"], "+")
		for _, a := range f.attributes {
			if resource, name, ok := strings.Cut(a, "."); !ok || resource == "" || name == "" {
				return fmt.Errorf("attribute=%s: write the resource and its attribute, such as network.mtu, or none", a)
			}
		}
	}
	switch values["mutable"] {
	case "true", "false":
		f.mutable = values["mutable"] == "true"
	default:
		return fmt.Errorf("mutable=%s: write true or false", values["mutable"])
	}
	f.privilege = values["privilege"]
	if !slices.Contains([]string{"tenant", "admin", "operator"}, f.privilege) {
		return fmt.Errorf("privilege=%s: write tenant, admin or operator", f.privilege)
	}
	return nil
}

// readText sorts the comment's sentences: what is the default, whether the field can change, and the rest.
func (f *field) readText(text string, required bool) error {
	if required {
		f.byDefault = mustBeSet
	}
	var rest []string
	for _, sentence := range sentences(text) {
		if cannotChange.MatchString(sentence) && f.mutable || canChange.MatchString(sentence) && !f.mutable {
			return fmt.Errorf("the comment says %q and the marker mutable=%t: write the same in both", sentence, f.mutable)
		}
		if value, ok := defaultIn(sentence); ok {
			f.byDefault = value
		} else if found := emptySentence.FindStringSubmatch(sentence); found != nil {
			f.whenEmpty = found[1]
		} else if !changeSentence.MatchString(sentence) {
			rest = append(rest, sentence)
		}
	}
	f.text = strings.Join(rest, " ")
	switch {
	case f.text == "":
		return errors.New("the field has no comment: write what it is")
	case f.byDefault == "":
		return errors.New(`the comment does not say what holds where the field is unset: write a sentence such as ` +
			`"The default is none.", "The cloud chooses when it is unset." or "It must be set."`)
	case f.byDefault == mustBeSet && f.removed == "":
		f.removed = removals["refused"]
	case f.byDefault == mustBeSet:
		return errors.New("a field that must be set cannot be removed: leave removed out of the marker")
	case f.removed == "":
		return fmt.Errorf("the marker does not say what happens when the spec sets the field no longer: "+
			"write removed=default, removed=back, removed=kept or removed=refused, as in %q", markerExample)
	}
	return nil
}

// mustBeSet is in the place of the default of a field that has none.
const mustBeSet = "must be set"

// defaultIn reads a sentence that says what holds where the field is unset.
func defaultIn(sentence string) (value string, ok bool) {
	if found := defaultSentence.FindStringSubmatch(sentence); found != nil {
		return found[1], true
	}
	if found := choiceSentence.FindStringSubmatch(sentence); found != nil {
		value = found[1] + "'s choice"
		if found[1] == "cloud" {
			value = "the " + value
		}
		if found[2] != "" {
			value += ", " + found[2]
		}
		return value, true
	}
	return mustBeSet, mustSentence.MatchString(sentence)
}

// sentences splits a text at full stops that end a sentence: those before a space and a capital letter.
func sentences(text string) []string {
	var all []string
	words := strings.Fields(text)
	begin := 0
	for i, word := range words {
		last := i == len(words)-1
		if last || strings.HasSuffix(word, ".") && startsSentence(words[i+1]) {
			all = append(all, strings.Join(words[begin:i+1], " "))
			begin = i + 1
		}
	}
	return all
}

func startsSentence(word string) bool { return word[0] >= 'A' && word[0] <= 'Z' }
