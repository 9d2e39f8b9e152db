// Package text prints for people: short lines, and colours on terminals alone.
package text

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"

	"golang.org/x/term"
)

// Width is the longest line of wrapped text.
const Width = 100

// Style colours words. The zero value leaves them as they are.
type Style struct{ colours bool }

// StyleFor gives the style for an output: with colours if it is a terminal that shows them.
func StyleFor(to io.Writer) Style {
	file, ok := to.(*os.File)
	_, never := os.LookupEnv("NO_COLOR")
	return Style{colours: ok && !never && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(file.Fd()))}
}

func (s Style) in(code, word string) string {
	if !s.colours {
		return word
	}
	return "\x1b[" + code + "m" + word + "\x1b[0m"
}

// Strong is for what a line is about.
func (s Style) Strong(word string) string { return s.in("1", word) }

// Good is for what is as it should be.
func (s Style) Good(word string) string { return s.in("32", word) }

// Bad is for a problem.
func (s Style) Bad(word string) string { return s.in("31", word) }

// Warn is for what needs attention later.
func (s Style) Warn(word string) string { return s.in("33", word) }

// Printer writes lines and keeps the first error.
type Printer struct {
	to  io.Writer
	err error
}

// NewPrinter makes a Printer.
func NewPrinter(to io.Writer) *Printer { return &Printer{to: to} }

// Err is the first error of the output.
func (p *Printer) Err() error { return p.err }

// Line writes a line.
func (p *Printer) Line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.to, format+"\n", args...)
	}
}

// Wrapped writes a text without colours in lines of at most Width columns, each after a margin.
func (p *Printer) Wrapped(margin, words string) { p.Hanging(margin, margin, words) }

// Hanging is Wrapped with another beginning of the first line, which takes the columns of the margin.
func (p *Printer) Hanging(first, margin, words string) {
	line := ""
	for word := range strings.FieldsSeq(Plain(words)) {
		switch {
		case line == "":
			line = word
		case len([]rune(margin+line+" "+word)) > Width:
			p.Line("%s%s", first, line)
			first, line = margin, word
		default:
			line += " " + word
		}
	}
	if line != "" {
		p.Line("%s%s", first, line)
	}
}

// Plain removes what a terminal would act on, and what a reader would not see: controls, characters that turn the
// direction of a text, and those without width. Users and clouds write the texts.
func Plain(words string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, words)
}
