package redact

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Texts removes what looks like a secret from texts whose secrets nobody knows: logs, messages, objects. It rather
// removes too much. The zero value is ready for use. It is not safe for concurrent use.
type Texts struct{ removed map[string]int }

// sensitive ends the names of values that are secrets.
const sensitive = `(?i:pass(?:word|wd|phrase|code)|\bpass|[_-]pass|adminpass|\bpwd|[_-]pwd|secret|token|credential|` +
	`cookie|signature|authorization|api[_-]?key|private[_-]?key|access[_-]?key(?:[_-]?id)?|account[_-]?key)`

var (
	// secretName is the name of a value in an object, and secretValue what stands before a value in a text.
	secretName  = regexp.MustCompile(sensitive + `$`)
	secretValue = regexp.MustCompile(`([\w.\-]*` + sensitive + `)\\*["'\]]?[ \t]*[:=]+>?[ \t]*(?:\r?\n[ \t]+)?`)
	// scheme stands before the credentials in a header.
	scheme = regexp.MustCompile(`^\[?\w+[ \t]+`)
	keys   = shape{"private keys", regexp.MustCompile(
		`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)`), Placeholder}
	shapes = []shape{
		// With a "/" in the password, which should be escaped, the host and its port must not look like a user.
		{"credentials in URLs", regexp.MustCompile(`(:\\?/\\?/)(?:[^\s/?#"'<>\\]+|[^\s/@:"'<>\\]*:(?:\d*[^\s@\d/"'<>\\])` +
			`[^\s@"'<>]*)@`), "${1}" + Placeholder + "@"},
		{"tokens", regexp.MustCompile(`\beyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?|gAAAA[\w-]{16,}=*|\bAKIA[A-Z0-9]{12,}`),
			Placeholder},
		{"tokens", regexp.MustCompile(`((?i:\bbearer)\s+|(?i:\bbasic)\s+[A-Za-z/]*[A-Z0-9+=])[\w+/=.~-]{6,}`),
			"${1}" + Placeholder},
		{values, regexp.MustCompile(`(--[\w-]*` + sensitive + `[ \t]+)[^\s"-][^\s"]*`), "${1}" + Placeholder},
	}
)

// values is what is counted of names and their values.
const values = "values of passwords, tokens and the like"

// shape is how a secret looks.
type shape struct {
	what    string
	is      *regexp.Regexp
	instead string
}

// hints are in each text that has a secret, in lower case.
var hints = []string{"@", "eyj", "gaaaa", "akia", "bearer", "basic", "pass", "pwd", "secret", "token", "credential",
	"cookie", "signature", "authorization", "key"}

// Text returns a text without what looks like a secret. The values of the harmless names stay.
func (t *Texts) Text(text string, harmless ...string) string {
	if strings.Contains(text, "PRIVATE KEY-----") {
		text = t.shape(text, keys)
	}
	var out, part strings.Builder // a part is a line, with the indented ones below it
	end := func() {
		if lower := strings.ToLower(part.String()); slices.ContainsFunc(hints, func(hint string) bool {
			return strings.Contains(lower, hint)
		}) {
			t.part(&out, part.String(), harmless)
		} else {
			out.WriteString(part.String())
		}
		part.Reset()
	}
	for line := range strings.Lines(text) {
		if line[0] != ' ' && line[0] != '\t' {
			end()
		}
		part.WriteString(line)
	}
	end()
	return out.String()
}

func (t *Texts) shape(text string, of shape) string {
	return of.is.ReplaceAllStringFunc(text, func(found string) string {
		t.count(of.what)
		return of.is.ReplaceAllString(found, of.instead)
	})
}

func (t *Texts) part(out *strings.Builder, text string, harmless []string) {
	for _, of := range shapes {
		text = t.shape(text, of)
	}
	for {
		at := secretValue.FindStringSubmatchIndex(text)
		if at == nil {
			out.WriteString(text)
			return
		}
		begin, end, name := at[1], at[1], text[at[2]:at[3]]
		if !slices.Contains(harmless, name) {
			end += length(text[begin:], strings.ToLower(name))
		}
		out.WriteString(text[:begin])
		if end > begin {
			t.count(values)
			out.WriteString(Placeholder)
		}
		text = text[end:]
	}
}

// length is the number of bytes of the value of a name at the beginning of a text. It may be in quotes, in a text in
// quotes.
func length(text, name string) int {
	depth := len(text) - len(strings.TrimLeft(text, `\`))
	switch rest := text[depth:]; {
	case strings.HasPrefix(rest, "<\n"): // as klog writes several lines
		if end := strings.Index(rest, "\n >"); end > 0 {
			return depth + end + len("\n >")
		}
		return len(text)
	case rest != "" && strings.ContainsRune("\"'`", rune(rest[0])):
		slashes := 0
		for i := 1; i < len(rest); i++ {
			switch {
			case rest[i] == '\\':
				slashes++
				continue
			case rest[i] == rest[0] && slashes%(2*(depth+1)) == depth:
				return depth + i + 1
			case rest[i] == '\n':
				return depth + i
			}
			slashes = 0
		}
		return len(text)
	}
	skip, ends := 0, " \t\r\n\""
	switch {
	case strings.HasSuffix(name, "authorization"):
		skip = len(scheme.FindString(text))
	case strings.HasSuffix(name, "cookie"):
		ends = "\r\n\"" // it may be several
	}
	if end := strings.IndexAny(text[skip:], ends); end >= 0 {
		return skip + end
	}
	return len(text)
}

// Value returns what encoding/json reads, without what looks like a secret. It changes the value.
func (t *Texts) Value(value any) any {
	switch v := value.(type) {
	case string:
		return t.Text(v)
	case []any:
		for i := range v {
			v[i] = t.Value(v[i])
		}
	case map[string]any:
		for name, of := range v {
			_, text := of.(string)
			_, list := of.([]any)
			if (text || list) && secretName.MatchString(name) {
				t.count(values)
				v[name] = Placeholder
				continue
			}
			v[name] = t.Value(of)
		}
	}
	return value
}

func (t *Texts) count(what string) {
	if t.removed == nil {
		t.removed = map[string]int{}
	}
	t.removed[what]++
}

// Removed says how much was removed, by what it was.
func (t *Texts) Removed() (all []string) {
	for _, what := range slices.Sorted(maps.Keys(t.removed)) {
		all = append(all, fmt.Sprintf("%d %s", t.removed[what], what))
	}
	return all
}
