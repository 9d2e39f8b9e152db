package main

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
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
	text  string
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
)

// readPage reads a Markdown file.
func readPage(files fs.FS, name string) (page, error) {
	content, err := fs.ReadFile(files, name)
	if err != nil {
		return page{}, err
	}
	p := page{path: name, anchors: map[string]bool{}, text: string(content)}
	used := map[string]int{}
	fence, language, more := "", "", false
	var headings []string // of the table that the line is in
	for i, line := range strings.Split(p.text, "\n") {
		if found := fencePattern.FindStringSubmatch(line); found != nil {
			if fence == "" {
				fence, language, more = found[1], found[2], false
				continue
			}
			if strings.HasPrefix(found[1], fence) {
				fence = ""
				continue
			}
		}
		if fence != "" {
			more = p.addCommand(i+1, language, line, more)
			continue
		}
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
