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
const sensitive = `(?i:pass(?:word|wd|phrase|code)s?\d*|\bpass|[_-]pass|adminpass|\bpwd|[_-]pwd|secret|token|` +
	`credentials?\d*|cookie|signature|\bsig|_sig|authorization|\bauth|(?:api|private|account)[_-]?key|` +
	`access[_-]?key(?:[_-]?id)?|(?:secret|auth|encryption|client|tls)[._-]?key(?:[_-]?data|[_-]?base)?)`

var (
	// secretName is the name of a value in an object, and secretValue what stands before a value in a text.
	secretName  = regexp.MustCompile(sensitive + `$`)
	secretValue = regexp.MustCompile(`([\w.\-]*` + sensitive + `)\\*["'\]]?[ \t]*[:=]+>?[ \t]*`)
	// block is a value whose rest is in the lines below its name, and column what stands before a name in YAML.
	block = regexp.MustCompile(`^(?:[|>][-+\d]*|[\[{].*)?\r?$`)
	// request is what Go says of a request that failed, which may follow the name of what it was for.
	request = regexp.MustCompile(`^(?:Get|Head|Post|Put|Patch|Delete) \\*"https?:`)
	column  = regexp.MustCompile(`^[ \t]*(?:- +)*`)
	// scheme stands before the credentials in a header.
	scheme   = regexp.MustCompile(`^\[?\w+[ \t]+`)
	pemBegin = regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----`)
	pemEnd   = regexp.MustCompile(`-----END [A-Z ]*PRIVATE KEY-----`)
	pemBody  = regexp.MustCompile(`^(?:(?:\s|\\+[nr])*[\w+/=]{16,})*`)
	shapes   = []shape{
		// A password should be escaped. If it is not, the host and its port must not look like a user.
		{"credentials in URLs", regexp.MustCompile(`(:\\?/\\?/)(?:[^\s/:\["'<>\\]*:\d*[^\s@\d/"'<>\\][^\n@]*@` +
			`(?:[^\s"'<>]*@)?|[^\s/?#"'<>\\]+@)`), "${1}" + Placeholder + "@"},
		{"tokens", regexp.MustCompile(`\beyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?|gAAAA[\w-]{16,}=*|\bAKIA[A-Z0-9]{12,}|` +
			`LS0tLS1CRUdJTi[\w+/=]{20,}`), Placeholder}, // the last one is PEM in base64
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

// hints are in each text that has a secret, in lower case. "key" alone is in most lines of a log.
var hints = []string{"@", "eyj", "gaaaa", "akia", "ls0tls1crud", "bearer", "basic", "pass", "pwd", "secret", "token",
	"credential", "cookie", "sig", "auth", "_key", "-key", ".key", "apikey", "privatekey", "accountkey", "accesskey",
	"encryptionkey", "clientkey", "tlskey"}

// Text returns a text without what looks like a secret. The values of the harmless names stay.
func (t *Texts) Text(text string, harmless ...string) string {
	text = t.keys(text)
	var out, part strings.Builder // a part is a line, with the indented ones and items below it
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
		if !strings.ContainsRune(" \t\r\n", rune(line[0])) && !strings.HasPrefix(line, "- ") {
			end()
		}
		part.WriteString(line)
	}
	end()
	return out.String()
}

// keys removes private keys: up to 100 lines up to the end of one, or what looks like one. A text that only begins like
// a key erases no more.
func (t *Texts) keys(text string) string {
	var out strings.Builder
	for at := pemBegin.FindStringIndex(text); at != nil; at = pemBegin.FindStringIndex(text) {
		t.count("private keys")
		out.WriteString(text[:at[0]] + Placeholder)
		text = text[at[1]:]
		own := text // up to the next key
		if next := pemBegin.FindStringIndex(text); next != nil {
			own = text[:next[0]]
		}
		if end := pemEnd.FindStringIndex(own); end != nil && strings.Count(own[:end[0]], "\n") <= 100 {
			text = text[end[1]:]
		} else {
			text = text[len(pemBody.FindString(own)):]
		}
	}
	return out.String() + text
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
	for done := 0; ; {
		at := secretValue.FindStringSubmatchIndex(text[done:])
		if at == nil {
			out.WriteString(text[done:])
			return
		}
		begin, end := done+at[1], done+at[1]
		if name := text[done+at[2] : done+at[3]]; !slices.Contains(harmless, name) {
			end += length(text[begin:], strings.ToLower(name))
			begin, end = withBlock(text, begin, end)
		}
		out.WriteString(text[done:begin])
		if end > begin {
			t.count(values)
			out.WriteString(Placeholder)
		}
		done = end
	}
}

// withBlock adds to a value in a text the lines below its name that belong to it: those further right, and items.
func withBlock(text string, begin, end int) (from, to int) {
	if !block.MatchString(text[begin:end]) || end < len(text) && !strings.ContainsRune("\r\n", rune(text[end])) {
		return begin, end
	}
	of := len(column.FindString(text[strings.LastIndexByte(text[:begin], '\n')+1:]))
	to = end
	for line := range strings.Lines(text[end:]) {
		inner := strings.TrimLeft(line, " \t")
		at := len(line) - len(inner)
		if strings.TrimSpace(inner) != "" && (at < of || at == of && !strings.HasPrefix(inner, "- ")) {
			break
		}
		to += len(line)
	}
	below := text[end:to]
	if strings.TrimSpace(below) == "" {
		return begin, end
	}
	if begin == end {
		begin += len(below) - len(strings.TrimLeft(below, " \t\r\n"))
	}
	return begin, end + len(strings.TrimRight(below, " \t\r\n"))
}

// quoted is the number of bytes of a value in quotes at the beginning of a text, which may be in quotes itself; 0 if
// there is none.
func quoted(text string) int {
	depth := len(text) - len(strings.TrimLeft(text, `\`))
	rest := text[depth:]
	if rest == "" || !strings.ContainsRune("\"'`", rune(rest[0])) {
		return 0
	}
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

// bracketed is the number of bytes up to the end of the bracket at the beginning of a text, or of the line.
func bracketed(text string) int {
	for i, open := 0, 0; i < len(text); i++ {
		switch text[i] {
		case '[', '{':
			open++
		case ']', '}':
			if open--; open == 0 {
				return i + 1
			}
		case '\n':
			return i
		case '\\', '"': // brackets in quotes do not count
			i += max(quoted(text[i:]), len(text[i:])-len(strings.TrimLeft(text[i:], `\`)), 1) - 1
		}
	}
	return len(text)
}

// length is the number of bytes of the value of a name at the beginning of a text. It may be in quotes or brackets, in
// a text in quotes.
func length(text, name string) int {
	if strings.HasPrefix(text, "<\n") { // as klog writes several lines
		if end := strings.Index(text, "\n >"); end > 0 {
			return end + len("\n >")
		}
		return len(text)
	}
	if request.MatchString(text) {
		return 0
	}
	if end := quoted(text); end > 0 {
		return end
	}
	if rest := strings.TrimPrefix(text, "[]string"); rest != "" && (rest[0] == '[' || rest[0] == '{') {
		return len(text) - len(rest) + bracketed(rest)
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
			switch of := of.(type) {
			case nil, bool:
				continue
			case map[string]any:
				if name == "credentials" { // as in the API, where it says which Secret
					v[name] = t.Value(of)
					continue
				}
			}
			if secretName.MatchString(name) || name == "value" && secretName.MatchString(fmt.Sprint(v["name"])) {
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
