package main

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// hereColumns are the headings of a table's column that says where something is in this repository, by language.
var hereColumns = []string{"here", "本项目"}

// others are the packages of client-go that a column of hereColumns may name. The repository has none of these names.
var others = []string{"cache", "workqueue", "record", "rest"}

// cell is a cell of a table.
type cell struct {
	line int
	// column is the heading of its column.
	column, text string
}

var (
	delimiterPattern = regexp.MustCompile(`^[ |:-]+$`)
	linkedPattern    = regexp.MustCompile("\\[`([^`]+)`\\]\\(([^()\\s]+)\\)")
	wordPattern      = regexp.MustCompile("`([^`]+)`")
	namePattern      = regexp.MustCompile(`^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$`)
	flagPattern      = regexp.MustCompile(`^(--[a-z-]+)`)
)

// addRow records the cells of a line that is a row of a table. It returns the headings of that table; nil outside of
// one.
func (p *page) addRow(number int, line string, headings []string) []string {
	if !strings.HasPrefix(line, "|") {
		return nil
	}
	cells := strings.Split(strings.Trim(line, " ")[1:], "|") // the last one, after the last bar, is empty
	if headings == nil {
		for _, heading := range cells {
			headings = append(headings, strings.TrimSpace(heading))
		}
		return headings
	}
	if delimiterPattern.MatchString(line) {
		return headings
	}
	for i, text := range cells {
		if i < len(headings) {
			p.cells = append(p.cells, cell{number, headings[i], text})
		}
	}
	return headings
}

// here are the cells of the columns of hereColumns.
func (p *page) here() []cell {
	return slices.DeleteFunc(slices.Clone(p.cells), func(in cell) bool { return !slices.Contains(hereColumns, in.column) })
}

// checkHere gives what is wrong with a cell that says where something is, or "". Each word of code MUST be a file, a
// folder, a flag, a command of make, or a name that a file or package declares which the cell names, by a link or by
// its path. Words that are no names, such as markers, MUST be in such a file.
func (c *checker) checkHere(p page, in cell) string {
	var named, types []string // the files and folders that the cell names, and the names that its links open in them
	text := in.text
	for _, link := range linkedPattern.FindAllStringSubmatch(in.text, -1) {
		file, fragment, _ := strings.Cut(link[2], "#")
		file = path.Join(path.Dir(p.path), file)
		named, types = append(named, file), append(types, fragment)
		if !isNameOf(link[1], file, fragment) {
			return fmt.Sprintf("the link text %s is not the name of what it opens: %s", link[1], link[2])
		}
		text = strings.ReplaceAll(text, link[0], "")
	}
	var words []string
	for _, word := range wordPattern.FindAllStringSubmatch(text, -1) {
		if c.exists(word[1]) {
			named = append(named, word[1])
			continue
		}
		words = append(words, word[1])
	}
	for _, word := range words {
		if problem := c.checkWord(word, named, types); problem != "" {
			return problem
		}
	}
	return ""
}

// isNameOf reports whether a link's text names what the link opens: a symbol, also behind its package, or a file, by
// the end of its path.
func isNameOf(text, file, fragment string) bool {
	if fragment == "" {
		text, _, _ = strings.Cut(strings.TrimPrefix(text, "make "), " ")
		return file == text || strings.HasSuffix(file, "/"+strings.TrimSuffix(text, "/")) || file == "Makefile"
	}
	return text == fragment || text == path.Base(path.Dir(file))+"."+fragment
}

// exists reports whether a word is the path of a file or folder, from the repository's root.
func (c *checker) exists(word string) bool {
	if !fs.ValidPath(word) || !strings.ContainsAny(word, "/.") {
		return false
	}
	_, err := fs.Stat(c.files, word)
	return err == nil
}

// checkWord gives what is wrong with a word of code of a cell that names some files, folders and types, or "".
func (c *checker) checkWord(word string, named, types []string) string {
	if flag := flagPattern.FindString(word); flag != "" {
		flags, err := fs.ReadFile(c.files, "docs/flags.md")
		if err != nil || !strings.Contains(string(flags), "| `"+flag+"` |") {
			return fmt.Sprintf("docs/flags.md has no flag %s", flag)
		}
		return ""
	}
	if target, ok := strings.CutPrefix(word, "make "); ok {
		return c.checkCommand("make " + target)
	}
	if !namePattern.MatchString(word) || strings.HasSuffix(word, ".go") {
		if strings.HasSuffix(word, ".go") || strings.Contains(word, "/") && !strings.HasPrefix(word, "+") {
			return fmt.Sprintf("there is no %s: write its path from the repository's root, or link it", word)
		}
		if !slices.ContainsFunc(named, func(name string) bool {
			content, err := fs.ReadFile(c.files, name)
			return err == nil && whole(word).Match(content)
		}) {
			return fmt.Sprintf("%s is in none of the files that the cell names: %s", word, strings.Join(named, ", "))
		}
		return ""
	}
	first, _, _ := strings.Cut(word, ".")
	if first != word && slices.Contains(others, first) {
		return ""
	}
	for _, name := range named {
		symbols := c.symbolsBelow(name)
		as := append([]string{word, strings.TrimPrefix(word, path.Base(name)+"."),
			strings.TrimPrefix(word, path.Base(path.Dir(name))+".")}, qualified(types, word)...)
		if slices.ContainsFunc(as, func(name string) bool { return symbols[name] > 0 }) {
			return ""
		}
	}
	return fmt.Sprintf("no file or package that the cell names declares %s: %s", word, strings.Join(named, ", "))
}

// whole matches a word that goes on with no letter or digit.
func whole(word string) *regexp.Regexp { return regexp.MustCompile(regexp.QuoteMeta(word) + `(\W|$)`) }

// qualified gives the names that a word has as a field or method of types.
func qualified(types []string, word string) (names []string) {
	for _, of := range types {
		if of != "" {
			names = append(names, of+"."+word)
		}
	}
	return names
}

// symbolsBelow gives what a Go file and the others of its package declare, or the files of a folder.
func (c *checker) symbolsBelow(name string) map[string]int {
	folder := name
	if strings.HasSuffix(name, ".go") {
		folder = path.Dir(name)
	}
	names, _ := fs.Glob(c.files, folder+"/*.go") // the pattern is right
	all := map[string]int{}
	for _, name := range names {
		symbols, err := c.symbolsOf(name)
		if err != nil || strings.HasSuffix(name, "_test.go") {
			continue
		}
		maps.Copy(all, symbols)
	}
	return all
}
