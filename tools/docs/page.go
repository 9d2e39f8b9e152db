package main

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// page is a Markdown file.
type page struct {
	// path is from the repository's root.
	path    string
	links   []link
	anchors map[string]bool
	// commands are those of the code blocks.
	commands []command
	// cells are those of its tables.
	cells []cell
	// blocks are what the page consists of, but for code. A translation has the same ones.
	blocks []block
	// code are the blocks of code, without comments.
	code []block
	// source is the page that this one translates, and at its digest when they were last compared; both may be empty.
	source, at string
	text       string
}

// block is a heading, a row of a table, an item of a list, a paragraph, or a block of code.
type block struct {
	line       int
	kind, text string
}

// link is the target of a link or picture, and where it stands.
type link struct {
	line   int
	target string
}

// command is a line of a code block that a shell would read, and where it begins.
type command struct {
	line int
	text string
}

var (
	linkPattern    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	codePattern    = regexp.MustCompile("`[^`]*`")
	anchorPattern  = regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)
	headingLinks   = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	fencePattern   = regexp.MustCompile("^ *(```+|~~~+) *([a-z]*)")
	headingPattern = regexp.MustCompile(`^#{1,6} +(.*?)[ #]*$`)
	itemPattern    = regexp.MustCompile(`^ *([-*]|\d+\.) `)
)

// readPage reads a Markdown file.
func readPage(files fs.FS, name string) (page, error) {
	content, err := fs.ReadFile(files, name)
	if err != nil {
		return page{}, err
	}
	p := page{path: name, anchors: map[string]bool{}, text: string(content)}
	if found := sourcePattern.FindStringSubmatch(p.text); found != nil {
		p.source, p.at = found[1], found[2]
	}
	used := map[string]int{}
	fence, language, more := "", "", false
	var headings []string // of the table that the line is in
	for i, line := range strings.Split(p.text, "\n") {
		if found := fencePattern.FindStringSubmatch(line); found != nil {
			if fence == "" {
				fence, language, more = found[1], found[2], false
				p.code = append(p.code, block{line: i + 1})
				p.blocks = append(p.blocks, block{}) // ends the last one
				continue
			}
			if strings.HasPrefix(found[1], fence) {
				fence = ""
				continue
			}
		}
		if fence != "" {
			more = p.addCommand(i+1, language, line, more)
			p.code[len(p.code)-1].text += strings.TrimSpace(withoutComment(line)) + "\n"
			continue
		}
		p.addBlock(i+1, line)
		headings = p.addRow(i+1, line, headings)
		if heading := headingPattern.FindStringSubmatch(line); heading != nil {
			anchor := slug(heading[1])
			used[anchor]++
			if n := used[anchor]; n > 1 {
				anchor = fmt.Sprintf("%s-%d", anchor, n-1)
			}
			p.anchors[anchor] = true
		}
		for _, found := range anchorPattern.FindAllStringSubmatch(line, -1) {
			p.anchors[found[1]] = true
		}
		// A link's text may be code; code may look like a link.
		for _, found := range linkPattern.FindAllStringSubmatch(codePattern.ReplaceAllString(line, ""), -1) {
			p.links = append(p.links, link{i + 1, found[1]})
		}
	}
	p.blocks = slices.DeleteFunc(p.blocks, func(b block) bool { return b.kind == "" })
	return p, nil
}

// addCommand records a line of a code block if it is a command or, with more, the rest of one. It reports whether the
// command goes on in the next line.
func (p *page) addCommand(number int, language, line string, more bool) bool {
	text, prompted := strings.CutPrefix(strings.TrimSpace(line), "$ ")
	if !more && !prompted && language != "sh" {
		return false
	}
	rest, goesOn := strings.CutSuffix(text, `\`)
	if more {
		p.commands[len(p.commands)-1].text += " " + rest
	} else {
		p.commands = append(p.commands, command{number, rest})
	}
	return goesOn
}

// addBlock records a line outside of code. A blank line and a comment end a block; a quotation is none.
func (p *page) addBlock(number int, line string) {
	kind := "a paragraph"
	switch {
	case strings.TrimSpace(line) == "", strings.HasPrefix(line, "<!--"), strings.HasPrefix(line, ">"):
		p.blocks = append(p.blocks, block{})
		return
	case headingPattern.MatchString(line):
		kind = "a heading"
	case strings.HasPrefix(line, "|"):
		kind = "a row"
	case itemPattern.MatchString(line):
		kind = "an item"
	default:
		if last := len(p.blocks) - 1; last >= 0 && (p.blocks[last].kind == kind || p.blocks[last].kind == "an item") {
			p.blocks[last].text += "\n" + line
			return
		}
	}
	p.blocks = append(p.blocks, block{number, kind, line})
}

// slug is the anchor that GitHub gives a heading.
func slug(heading string) string {
	heading = headingLinks.ReplaceAllString(heading, "$1")
	var b strings.Builder
	for _, r := range strings.ToLower(strings.TrimSpace(heading)) {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			b.WriteRune(r)
		case r == ' ':
			b.WriteByte('-')
		}
	}
	return b.String()
}

// pages reads all Markdown files of a tree but those of hidden folders and of what is installed or built.
func pages(files fs.FS) ([]page, error) {
	var all []page
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			switch base := path.Base(name); {
			case name == ".":
			case strings.HasPrefix(base, "."), name == "tools/docs/site", name == "bin", name == "dist", name == "bench":
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".md") || strings.HasSuffix(name, "/preface.md") {
			return nil
		}
		p, err := readPage(files, name)
		all = append(all, p)
		return err
	})
	return all, err
}
