package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// refused are idioms that many readers with another first language do not know, with what to write in their place.
var refused = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{idiom(`told`), "reported, returned, notified or known"},
	{idiom(`tells?\s+of`), "report or show"},
	{ending(`no\s+more`), "no longer, or nothing else"},
	{idiom(`anew`), "again"},
	{idiom(`all\s+the\s+same`), "still or nevertheless"},
	{idiom(`whoever`), "anyone who, or regardless of who"},
	{ending(`of\s+(?:its|their|your|one's)\s+own`), "its own ..., or separate"},
	{idiom(`(?:goes|go|going)\s+by`), "use or pass"},
	{idiom(`as\s+(?:it|they)\s+likes?`), "any"},
	{idiom(`(?:leads?|leading|led)\s+(?:to|nowhere|elsewhere)`), "be associated with, connect to, be for, or cause"},
	{idiom(`by\s+now`), "already, or nothing"},
	{idiom(`stands`), "is or means"},
	{idiom(`alike`), "in the same way, or both"},
	{idiom(`(?:is|are|was|were)\s+away`), "be unavailable or stopped"},
}

// clauseEnds follows words that are an idiom only at the end of a clause: "of its own kind" is none.
const clauseEnds = `(?:[^\w\s]|\s+\||\s*$|\s+(?:and|as|at|because|but|by|for|from|has|if|in|is|on|or|so|that|then|` +
	`to|until|when|which|while|with|without)\b)`

func idiom(pattern string) *regexp.Regexp { return regexp.MustCompile(`(?i)\b(` + pattern + `)\b`) }

func ending(pattern string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b(` + pattern + `)` + clauseEnds)
}

// inIdiom calls note for each idiom of a text, with its offset.
func inIdiom(text string, note func(at int, problem string)) {
	for _, r := range refused {
		for _, at := range r.pattern.FindAllStringSubmatchIndex(text, -1) {
			note(at[0], fmt.Sprintf("%q is an idiom: write %s", strings.Join(strings.Fields(text[at[2]:at[3]]), " "), r.instead))
		}
	}
}

var inlinePattern = regexp.MustCompile("`[^`\n]*`")

// checkProse notes the idioms of a page, outside of its code.
func (c *checker) checkProse(p page) {
	lines := strings.Split(p.text, "\n")
	fence := ""
	for i, line := range lines {
		found := fencePattern.FindStringSubmatch(line)
		switch {
		case found != nil && fence == "":
			fence = found[1]
		case found != nil && strings.HasPrefix(found[1], fence):
			fence = ""
		case fence == "":
			lines[i] = inlinePattern.ReplaceAllString(line, "`")
			continue
		}
		lines[i] = "`"
	}
	text := strings.Join(lines, "\n")
	inIdiom(text, func(at int, problem string) { c.note(p, 1+strings.Count(text[:at], "\n"), problem) })
}

// checkCode notes the idioms of Go files: in texts of several words, which are nearly all for users, and in the
// comments of packages and of what they export. Tests and generated files are left out.
func (c *checker) checkCode() error {
	return fs.WalkDir(c.files, ".", func(name string, entry fs.DirEntry, err error) error {
		switch base := path.Base(name); {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && (strings.HasPrefix(base, ".") || base == "testdata" || base == "node_modules" ||
			name == "pkg/client" || name == "bin" || name == "dist"):
			return fs.SkipDir
		case entry.IsDir(), !strings.HasSuffix(base, ".go"), strings.HasSuffix(base, "_test.go"),
			strings.HasPrefix(base, "zz_generated"):
			return nil
		}
		content, err := fs.ReadFile(c.files, name)
		if err != nil {
			return err
		}
		positions := token.NewFileSet()
		file, err := parser.ParseFile(positions, name, content, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for at, text := range textsOf(file) {
			inIdiom(text, func(_ int, problem string) { c.note(page{path: name}, positions.Position(at).Line, problem) })
		}
		return nil
	})
}

// textsOf gives the docstrings of a file and its texts of several words, by where they begin.
func textsOf(file *ast.File) map[token.Pos]string {
	texts := map[token.Pos]string{}
	document := func(comment *ast.CommentGroup, names ...*ast.Ident) {
		for _, name := range names {
			if comment != nil && name.IsExported() {
				// The name that it begins with may be such a word.
				texts[comment.Pos()] = strings.TrimPrefix(comment.Text(), name.Name)
			}
		}
	}
	if file.Doc != nil {
		texts[file.Doc.Pos()] = file.Doc.Text()
	}
	var visit func(ast.Node) bool
	visit = func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.FuncDecl:
			document(n.Doc, n.Name)
		case *ast.GenDecl:
			for _, spec := range n.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					document(n.Doc, s.Name)
					document(s.Doc, s.Name)
					for _, list := range membersOf(s.Type) {
						document(list.Doc, list.Names...)
					}
				case *ast.ValueSpec:
					document(n.Doc, s.Names...)
					document(s.Doc, s.Names...)
				}
			}
		case *ast.BinaryExpr, *ast.BasicLit:
			text, others := textOf(n.(ast.Expr))
			if strings.Contains(text, " ") {
				texts[n.Pos()] = text
			}
			for _, other := range others {
				ast.Inspect(other, visit)
			}
			return false
		}
		return true
	}
	ast.Inspect(file, visit)
	return texts
}

// textOf joins the texts of a sum, and gives its other operands.
func textOf(expression ast.Expr) (text string, others []ast.Expr) {
	switch e := expression.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			text, _ = strconv.Unquote(e.Value)
		}
		return text, nil
	case *ast.BinaryExpr:
		left, some := textOf(e.X)
		right, more := textOf(e.Y)
		return left + right, append(some, more...)
	}
	return "", []ast.Expr{expression}
}
