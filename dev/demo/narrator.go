//go:build unix

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
)

// narrator prints the story for a person. Its methods are safe for concurrent use.
type narrator struct {
	mu      sync.Mutex
	out     io.Writer
	colours bool
	steps   int
	// unheard, if set, is called when the reader has gone away.
	unheard func()
}

// newNarrator prints to out, with colours where that is a terminal that knows them and NO_COLOR (https://no-color.org)
// is not set.
func newNarrator(out io.Writer) *narrator {
	n := &narrator{out: out}
	if file, ok := out.(*os.File); ok {
		info, err := file.Stat()
		n.colours = err == nil && info.Mode()&os.ModeCharDevice != 0 &&
			os.Getenv("TERM") != "dumb" && os.Getenv("NO_COLOR") == ""
	}
	return n
}

// style is an SGR parameter of ECMA-48.
type style string

const (
	bold   style = "1"
	faint  style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
	cyan   style = "36"
)

// paint styles a text where colours are on.
func (n *narrator) paint(s style, text string) string {
	if !n.colours {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

func (n *narrator) print(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	// An error that matters was noted.
	_, _ = n.write([]byte(text + "\n"))
}

// title heads the whole.
func (n *narrator) title(text string) { n.print(n.paint(bold, text)) }

// step begins a numbered step: what happens, and why it matters.
func (n *narrator) step(what, why string) {
	n.steps++
	n.print(fmt.Sprintf("\n%s\n   %s", n.paint(bold, fmt.Sprintf("%d. %s", n.steps, what)), n.paint(faint, why)))
}

// command shows the command that does what is being done.
func (n *narrator) command(line string) { n.print("   " + n.paint(cyan, "$ "+line)) }

// say prints lines below a step.
func (n *narrator) say(format string, args ...any) { n.print(indent(fmt.Sprintf(format, args...))) }

// detail prints lines that may be passed over.
func (n *narrator) detail(text string) { n.print(indent(n.paint(faint, text))) }

// good says what came true.
func (n *narrator) good(format string, args ...any) {
	n.print("   " + n.paint(green, "✓") + " " + fmt.Sprintf(format, args...))
}

// warn prints what the reader must not miss.
func (n *narrator) warn(format string, args ...any) {
	n.print(indent(n.paint(yellow, fmt.Sprintf(format, args...))))
}

// bad says what did not come true.
func (n *narrator) bad(err error) { n.print("\n" + n.paint(red, "✗ "+err.Error())) }

// Write prints a text unchanged, for logs.
func (n *narrator) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.write(p)
}

// write writes, and notes that the reader has gone away. n.mu MUST be held.
func (n *narrator) write(p []byte) (int, error) {
	written, err := n.out.Write(p)
	if errors.Is(err, syscall.EPIPE) && n.unheard != nil {
		n.unheard()
	}
	return written, err
}

// indent sets every line of a text in by three spaces, as far as it is not empty.
func indent(text string) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i, line := range lines {
		if line != "" {
			lines[i] = "   " + line
		}
	}
	return strings.Join(lines, "\n")
}
