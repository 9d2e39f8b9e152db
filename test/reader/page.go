// Package reader does what the documents tell a reader to do, command by command, and compares what comes of it with
// what the pages show.
package reader

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// command is what a reader enters.
type command struct {
	// line is where it stands in its page.
	line int
	// text is empty where a block only shows what the last command printed.
	text string
	// shown is what the page says that it prints; nil where the page does not say.
	shown []string
}

var fence = regexp.MustCompile("^```([a-z]*)$")

// blocks gives the blocks of a page that are for a shell: those of the language sh, which are one command each, those
// with a prompt, and those that only show output.
func blocks(path string) ([][]command, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all [][]command
	var inside []string
	language, open := "", false
	for i, line := range strings.Split(string(content), "\n") {
		found := fence.FindStringSubmatch(line)
		switch {
		case found != nil && !open:
			language, open, inside = found[1], true, nil
		case found != nil:
			open = false
			if commands := entered(i-len(inside)+1, language, inside); len(commands) > 0 {
				all = append(all, commands)
			}
		case open:
			inside = append(inside, line)
		}
	}
	if open {
		return nil, fmt.Errorf("%s: a block of code does not end", path)
	}
	return all, nil
}

// entered gives the commands of a block that begins at a line of the page.
func entered(first int, language string, lines []string) []command {
	switch {
	case language == "sh":
		return []command{{line: first, text: strings.Join(lines, "\n")}}
	case language != "" && language != "console" || len(lines) == 0:
		return nil
	case !strings.HasPrefix(lines[0], "$ "):
		return []command{{line: first, shown: lines}}
	}
	var all []command
	for i, line := range lines {
		text, prompted := strings.CutPrefix(line, "$ ")
		switch {
		case prompted:
			all = append(all, command{line: first + i, text: text})
		default:
			last := &all[len(all)-1]
			last.shown = append(last.shown, line)
		}
	}
	return all
}

var (
	uuid   = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	mac    = regexp.MustCompile(`\b[0-9a-f]{2}(:[0-9a-f]{2}){5}\b`)
	pod    = regexp.MustCompile(`\bweb-[0-9a-f]+-[0-9a-z]{5}\b`)
	folder = regexp.MustCompile(`network-controller-demo-[0-9]+`)
	hash   = regexp.MustCompile(`\b[0-9a-f]{8,}\b`)
	age    = regexp.MustCompile(`\b([0-9]+[smhd])+\b`)
	number = regexp.MustCompile(`[0-9]+`)
	border = regexp.MustCompile(`[-+]{3,}`)
	blank  = regexp.MustCompile(`\s+`)
)

// loose is a line without what differs from run to run: ids, names of Pods, numbers, ages, and the width of columns.
func loose(line string) string {
	line = uuid.ReplaceAllString(line, "ID")
	line = mac.ReplaceAllString(line, "MAC")
	line = pod.ReplaceAllString(line, "POD")
	line = folder.ReplaceAllString(line, "FOLDER")
	line = hash.ReplaceAllString(line, "HASH")
	line = age.ReplaceAllString(line, "AGE")
	line = number.ReplaceAllString(line, "0")
	line = border.ReplaceAllString(line, "---")
	return strings.TrimSpace(blank.ReplaceAllString(line, " "))
}

// missing gives the first line that a page shows and that was not printed, in this order; others may come between. Of a
// line that ends with "…", the page shows the beginning.
func missing(shown []string, printed string) string {
	rest := strings.Split(printed, "\n")
	for _, line := range shown {
		want := loose(line)
		want, begins := strings.CutSuffix(want, "…")
		if want == "" {
			continue
		}
		for {
			if len(rest) == 0 {
				return line
			}
			is := loose(rest[0])
			rest = rest[1:]
			if is == want || begins && strings.HasPrefix(is, want) {
				break
			}
		}
	}
	return ""
}
