package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Check gives what is wrong with the Markdown of a tree and with the texts of its Go files, one line for each problem.
func Check(files fs.FS) ([]string, error) {
	all, err := pages(files)
	if err != nil {
		return nil, err
	}
	c := checker{files: files, pages: map[string]page{}, translations: map[string]string{},
		symbols: map[string]map[string]int{}}
	for _, p := range all {
		c.pages[p.path] = p
		c.translations[p.source] = p.path
	}
	if c.targets, err = makeTargets(files); err != nil {
		return nil, err
	}
	sections, err := fs.ReadFile(files, sectionsFile)
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		c.note(p, 1, checkPlace(string(sections), p.path))
		c.note(p, 1, c.checkIndexed(p.path))
		for _, l := range p.links {
			c.note(p, l.line, c.checkLink(p, l.target))
		}
		for _, command := range p.commands {
			c.note(p, command.line, c.checkCommand(command.text))
		}
		for _, in := range p.here() {
			c.note(p, in.line, c.checkHere(p, in))
		}
		c.checkTranslation(p)
		c.checkProse(p)
	}
	err = c.checkCode()
	return c.problems, err
}

// checker has what the checks of one tree share.
type checker struct {
	files fs.FS
	pages map[string]page
	// translations are the paths of the translated pages, by their sources.
	translations map[string]string
	targets      []string
	symbols      map[string]map[string]int
	problems     []string
}

func (c *checker) note(p page, line int, problem string) {
	if problem != "" {
		c.problems = append(c.problems, fmt.Sprintf("%s:%d: %s", p.path, line, problem))
	}
}

// sectionsFile lists the pages of the site.
const sectionsFile = "tools/docs/site/sections.mjs"

// checkPlace gives what is wrong if the site's sidebar has no place for a page of docs/, or "". A translation is where
// its source is.
func checkPlace(sections, name string) string {
	if !strings.HasPrefix(name, "docs/") || strings.HasPrefix(name, "docs/zh/") ||
		strings.Contains(sections, "'"+name+"'") || strings.Contains(sections, "'"+path.Dir(name)+"/'") {
		return ""
	}
	return "the page has no place on the site: add it to " + sectionsFile
}

// decisions is the index of docs/adr, by topic.
const decisions = "docs/adr/README.md"

// checkIndexed gives what is wrong if the index of decisions does not link one of them, or "".
func (c *checker) checkIndexed(name string) string {
	index, ok := c.pages[decisions]
	if path.Dir(name) != path.Dir(decisions) || name == decisions || ok &&
		slices.ContainsFunc(index.links, func(l link) bool { return l.target == path.Base(name) }) {
		return ""
	}
	return "the decision has no topic: link it in " + decisions
}

// checkLink gives what is wrong with a link of a page, or "". Links to other hosts are not followed.
func (c *checker) checkLink(p page, target string) string {
	if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
		return ""
	}
	file, fragment, _ := strings.Cut(target, "#")
	name := p.path
	if file != "" {
		name = path.Join(path.Dir(p.path), file)
	}
	if _, err := fs.Stat(c.files, name); err != nil {
		return fmt.Sprintf("the link %s is broken: there is no %s", target, name)
	}
	switch {
	case fragment == "":
	case strings.HasSuffix(name, ".md"):
		if !c.pages[name].anchors[fragment] {
			return fmt.Sprintf("the link %s is broken: %s has no heading with the anchor %s", target, name, fragment)
		}
	case strings.HasSuffix(name, ".go"):
		symbols, err := c.symbolsOf(name)
		if err != nil {
			return err.Error()
		}
		if symbols[fragment] == 0 {
			return fmt.Sprintf("the link %s is broken: %s declares no %s", target, name, fragment)
		}
	default:
		return fmt.Sprintf("the link %s has a fragment that cannot be checked: omit it", target)
	}
	return ""
}

// symbolsOf gives the lines of what a Go file declares at its top level. A method or field is under "Type.Name".
func (c *checker) symbolsOf(name string) (map[string]int, error) {
	if known, ok := c.symbols[name]; ok {
		return known, nil
	}
	content, err := fs.ReadFile(c.files, name)
	if err != nil {
		return nil, err
	}
	positions := token.NewFileSet()
	file, err := parser.ParseFile(positions, name, content, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	lines := map[string]int{}
	add := func(name string, at token.Pos) { lines[name] = positions.Position(at).Line }
	for _, declaration := range file.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				name = receiver(d.Recv.List[0].Type) + "." + name
			}
			add(name, d.Pos())
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					add(s.Name.Name, s.Pos())
					for _, field := range fieldsOf(s.Type) {
						add(s.Name.Name+"."+field.Name, field.Pos())
					}
				case *ast.ValueSpec:
					for _, name := range s.Names {
						add(name.Name, name.Pos())
					}
				}
			}
		}
	}
	c.symbols[name] = lines
	return lines, nil
}

// fieldsOf gives the names of a struct's fields or of an interface's methods. An embedded one has none.
func fieldsOf(expression ast.Expr) (names []*ast.Ident) {
	for _, field := range membersOf(expression) {
		names = append(names, field.Names...)
	}
	return names
}

// membersOf gives the fields of a struct or the methods of an interface; none of other types.
func membersOf(expression ast.Expr) []*ast.Field {
	switch e := expression.(type) {
	case *ast.StructType:
		return e.Fields.List
	case *ast.InterfaceType:
		return e.Methods.List
	}
	return nil
}

// receiver is the name of a receiver's type, without its pointer and type parameters.
func receiver(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

var targetPattern = regexp.MustCompile(`(?m)^([a-z][a-z-]*):`)

// makeTargets are the targets of the Makefile.
func makeTargets(files fs.FS) ([]string, error) {
	content, err := fs.ReadFile(files, "Makefile")
	if err != nil {
		return nil, err
	}
	var targets []string
	for _, found := range targetPattern.FindAllStringSubmatch(string(content), -1) {
		targets = append(targets, found[1])
	}
	return targets, nil
}

var (
	makePattern = regexp.MustCompile(`(?:^|[ ;|&(])make ((?:[A-Z]+=\S+ )*)([a-z][a-z-]*)`)
	filePattern = regexp.MustCompile(
		`(?:^|[ =])(?:\./)?((?:config|hack|charts|dev|docs|test|tools|internal|pkg|cmd)/[\w./-]+)`)
	testPattern = regexp.MustCompile(`go test .*?(\./[\w./-]+).* -run[= ]'?(Test\w+(?:\|Test\w+)*)`)
)

// checkCommand gives what is wrong with a command, or "": targets of make, files of the repository and tests that do
// not exist.
func (c *checker) checkCommand(text string) string {
	for _, found := range makePattern.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(c.targets, found[2]) {
			return fmt.Sprintf("make has no target %s", found[2])
		}
	}
	for _, found := range filePattern.FindAllStringSubmatch(text, -1) {
		name := strings.TrimSuffix(strings.TrimRight(found[1], "/."), "/...")
		if _, err := fs.Stat(c.files, name); err != nil {
			return fmt.Sprintf("there is no %s", name)
		}
	}
	if found := testPattern.FindStringSubmatch(text); found != nil {
		for test := range strings.SplitSeq(found[2], "|") {
			if !c.hasTest(strings.TrimPrefix(found[1], "./"), test) {
				return fmt.Sprintf("%s has no test %s", found[1], test)
			}
		}
	}
	return ""
}

var commentPattern = regexp.MustCompile(`(^|\s+)#\s.*$`)

func withoutComment(text string) string { return commentPattern.ReplaceAllString(text, "") }

func (c *checker) hasTest(folder, test string) bool {
	names, err := fs.Glob(c.files, folder+"/*_test.go")
	return err == nil && slices.ContainsFunc(names, func(name string) bool {
		symbols, err := c.symbolsOf(name)
		return err == nil && symbols[test] > 0
	})
}
