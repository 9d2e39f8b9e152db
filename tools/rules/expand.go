package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// fragment is a piece of CEL with parameters.
type fragment struct {
	parameters []string
	body       string
}

// declaration is a fragment's name and its parameters.
var declaration = regexp.MustCompile(`^(\w+)(?:\((\w+(?:, \w+)*)\))?$`)

// parse reads fragments by their declarations, such as "overlap(a, b)".
func parse(declared map[string]string) (map[string]fragment, error) {
	known := map[string]fragment{}
	for head, body := range declared {
		parts := declaration.FindStringSubmatch(head)
		if parts == nil {
			return nil, fmt.Errorf("fragment %q: write a name, or a name and its parameters, such as overlap(a, b)", head)
		}
		if _, again := known[parts[1]]; again {
			return nil, fmt.Errorf("the fragment $%s is defined twice", parts[1])
		}
		f := fragment{body: oneLine(body)}
		if parts[2] != "" {
			f.parameters = strings.Split(parts[2], ", ")
		}
		known[parts[1]] = f
	}
	return known, nil
}

// oneLine joins the lines of a fragment: with nothing between them inside a parenthesis and before a method, else with
// a space.
func oneLine(body string) string {
	var joined strings.Builder
	space := ""
	for line := range strings.SplitSeq(strings.TrimSpace(body), "\n") {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, ".") {
			space = ""
		}
		joined.WriteString(space + line)
		space = " "
		if strings.HasSuffix(line, "(") || strings.HasSuffix(line, "[") {
			space = ""
		}
	}
	return joined.String()
}

// token is a string literal, a use of a fragment, a number or word with the full stop before it, or any other
// character.
var token = regexp.MustCompile(`(?s)'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\$\w+|\.?\w+|.`)

// expand replaces each use of a fragment in an expression by the fragment's body, in which the arguments stand for the
// parameters, and notes which were used. Only text is replaced: a body needs parentheses where an operator around its
// use binds more tightly, and its own variables must not be those of an argument.
func expand(expression string, known map[string]fragment, used map[string]bool) (string, error) {
	return expandIn(expression, known, used, nil)
}

// expandIn is expand inside the fragments of the given names, none of which may use itself.
func expandIn(expression string, known map[string]fragment, used map[string]bool, inside []string) (string, error) {
	var out strings.Builder
	for expression != "" {
		next := token.FindString(expression)
		expression = expression[len(next):]
		name, isFragment := strings.CutPrefix(next, "$")
		if !isFragment {
			out.WriteString(next)
			continue
		}
		f, ok := known[name]
		switch {
		case !ok:
			return "", fmt.Errorf("there is no fragment $%s: define it in tools/rules/fragments.go", name)
		case slices.Contains(inside, name):
			return "", fmt.Errorf("the fragment $%s uses itself", name)
		}
		used[name] = true
		var arguments []string
		if len(f.parameters) > 0 {
			if arguments, expression, ok = cutArguments(expression); !ok || len(arguments) != len(f.parameters) {
				return "", fmt.Errorf("write $%s(%s)", name, strings.Join(f.parameters, ", "))
			}
		}
		// The arguments may use fragments, too, and the same one.
		for i := range arguments {
			var err error
			if arguments[i], err = expandIn(arguments[i], known, used, inside); err != nil {
				return "", err
			}
		}
		body, err := expandIn(f.with(arguments), known, used, append(slices.Clip(inside), name))
		if err != nil {
			return "", err
		}
		out.WriteString(body)
	}
	return out.String(), nil
}

// cutArguments cuts "(a, b)" off the front of a text.
func cutArguments(text string) (arguments []string, rest string, ok bool) {
	depth := 0
	argument := ""
	for i := 0; i < len(text); {
		next := token.FindString(text[i:])
		i += len(next)
		switch next {
		case "(", "[", "{":
			if depth++; depth == 1 {
				continue
			}
		case ")", "]", "}":
			depth--
		}
		switch {
		case depth == 0 && len(arguments) == 0 && argument == "":
			return nil, text, false // no parenthesis, or nothing in it
		case depth == 0:
			return append(arguments, strings.TrimSpace(argument)), text[i:], true
		case depth == 1 && next == ",":
			arguments = append(arguments, strings.TrimSpace(argument))
			argument = ""
		default:
			argument += next
		}
	}
	return nil, text, false
}

// with gives the body with arguments in the place of the parameters.
func (f fragment) with(arguments []string) string {
	return token.ReplaceAllStringFunc(f.body, func(word string) string {
		if i := slices.Index(f.parameters, word); i >= 0 {
			return arguments[i]
		}
		return word
	})
}
