package selection

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	// maxErrors is the most Errors that are joined in one error: a value of MaxSize could have tens of thousands.
	maxErrors = 16
	// maxQuoted is the most bytes of an offending text that an Error quotes.
	maxQuoted = 64
)

// Error is one thing that is wrong with an annotation's value. Errors of Parse and Format are an *Error, or several
// that errors.Join has joined; errors.As finds the first. Its text is the same for the same value.
type Error struct {
	// Element is the index of the element, counted from 0. It is -1 where the value as a whole is wrong.
	Element int
	// Field is the element's key, such as "mac" or "ips[1]". It is empty where the element as a whole is wrong.
	Field string
	// Problem says what is wrong. It quotes the offending text, of a very long one the beginning.
	Problem string
	// Remedy says what to write instead.
	Remedy string
}

// Error is the place, the problem and the remedy: networks[1].mac: "x" is no MAC address: write six bytes ...
func (e *Error) Error() string {
	var text strings.Builder
	text.WriteString("networks")
	if e.Element >= 0 {
		fmt.Fprintf(&text, "[%d]", e.Element)
	}
	if e.Field != "" {
		text.WriteString("." + e.Field)
	}
	return text.String() + ": " + e.Problem + ": " + e.Remedy
}

// whole is the Element of an Error that concerns the whole value.
const whole = -1

// findings collects what is wrong, so that all of it can be mended at once.
type findings struct {
	errs []error
	// unlisted counts those beyond maxErrors.
	unlisted int
}

// add notes one finding. Without a problem it notes nothing, so that it can be handed a rule's answer.
func (f *findings) add(element int, field, problem, remedy string) {
	switch {
	case problem == "":
	case len(f.errs) == maxErrors:
		f.unlisted++
	default:
		f.errs = append(f.errs, &Error{Element: element, Field: field, Problem: problem, Remedy: remedy})
	}
}

// err is nil, the one Error, or all of them joined.
func (f *findings) err() error {
	if len(f.errs) == 1 && f.unlisted == 0 {
		return f.errs[0]
	}
	if f.unlisted > 0 {
		return errors.Join(append(f.errs, &Error{
			Element: whole,
			Problem: fmt.Sprintf("%d more problems are not listed", f.unlisted),
			Remedy:  "correct those above first",
		})...)
	}
	return errors.Join(f.errs...)
}

// quote is the text as a Go string literal. One that is longer than maxQuoted is cut at a character's end, which three
// dots behind the quotes show.
func quote(text string) string {
	if len(text) <= maxQuoted {
		return fmt.Sprintf("%q", text)
	}
	end := maxQuoted
	for end > maxQuoted-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return fmt.Sprintf("%q...", text[:end])
}
