package selection

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	// maxErrors is the maximum number of Errors in one error. A value of MaxSize could have tens of thousands.
	maxErrors = 16
	// maxQuoted is the maximum number of bytes that an Error quotes.
	maxQuoted = 64
)

// Error is one problem of an annotation's value. Parse and Format return an *Error, or several joined by errors.Join;
// errors.As finds the first. The same value always gives the same text.
type Error struct {
	// Element is the index of the element, from 0. It is -1 if the problem concerns the whole value.
	Element int
	// Field is the element's key, such as "mac" or "ips[1]". It is empty if the problem concerns the whole element.
	Field string
	// Problem says what is wrong and what to write instead. It quotes the invalid text, or the beginning of a very long
	// one.
	Problem string
}

// Error is the place and the problem: networks[1].mac: "x" is no MAC address: write six bytes ...
func (e *Error) Error() string {
	var text strings.Builder
	text.WriteString("networks")
	if e.Element >= 0 {
		fmt.Fprintf(&text, "[%d]", e.Element)
	}
	if e.Field != "" {
		text.WriteString("." + e.Field)
	}
	return text.String() + ": " + e.Problem
}

// whole is the Element of an Error that concerns the whole value.
const whole = -1

// findings collects all problems, so that a user can fix them at once.
type findings struct {
	errs []error
	// unlisted counts the problems beyond maxErrors.
	unlisted int
}

// add records one problem. It ignores an empty problem, so that callers can pass the result of a rule.
func (f *findings) add(element int, field, problem string) {
	switch {
	case problem == "":
	case len(f.errs) == maxErrors:
		f.unlisted++
	default:
		f.errs = append(f.errs, &Error{Element: element, Field: field, Problem: problem})
	}
}

// err returns nil, the only Error, or all of them joined.
func (f *findings) err() error {
	if len(f.errs) == 1 && f.unlisted == 0 {
		return f.errs[0]
	}
	if f.unlisted > 0 {
		return errors.Join(append(f.errs, &Error{
			Element: whole,
			Problem: fmt.Sprintf("%d more problems are not listed: correct those above first", f.unlisted),
		})...)
	}
	return errors.Join(f.errs...)
}

// quote formats the text as a Go string literal. It cuts a text longer than maxQuoted between two characters, and adds
// three dots after the quotes.
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
