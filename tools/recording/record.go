package main

import (
	"fmt"
	"html"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// scene is a step of the demo that the recording shows.
type scene struct {
	// step is its number in the demo.
	step int
	// lines is how many of its lines are shown; 0 shows all.
	lines int
}

// scenes are shown in this order, with numbers of their own. still is the index of the one that a reader sees who wants
// no motion.
var scenes = []scene{{step: 3}, {step: 5, lines: 6}, {step: 9, lines: 11}}

const still = 2

// omitted are columns of tables that say nothing in a recording. Without them, lines are shorter and letters larger.
var omitted = []string{"REASON", "AGE"}

const (
	columns = 88
	// seconds is how long the recording takes before it begins again: a second for each line.
	seconds = 26
	// typing is the part of a step's time in which its lines appear. In the rest, all of them stand.
	typing = 0.55

	// These are in pixels. Monospaced letters are at most 0.61 times as wide as they are high.
	letter, lineHeight, padding, bar = 14, 20, 18, 34
	width                            = columns*letter*61/100 + 2*padding
)

// line is one line on the screen, with its class in the style sheet.
type line struct{ class, text string }

// Record gives the recording of the transcript in a page, as an animated SVG.
func Record(page string) (string, error) {
	_, transcript, found := strings.Cut(page, "\n```\n")
	transcript, _, closed := strings.Cut(transcript, "\n```\n")
	if !found || !closed {
		return "", fmt.Errorf("it has no code block with a transcript")
	}
	steps := split(transcript)
	screens := make([][]line, 0, len(scenes))
	total, rows := 0, 0
	for i, scene := range scenes {
		lines := steps[scene.step]
		if len(lines) == 0 || len(lines) < scene.lines {
			return "", fmt.Errorf("the transcript has no step %d with %d lines, which the recording shows",
				scene.step, max(scene.lines, 1))
		}
		if scene.lines > 0 {
			lines = lines[:scene.lines]
		}
		screen := layOut(lines)
		screen[0].text = fmt.Sprintf("%d. %s", i+1, title.ReplaceAllString(screen[0].text, ""))
		screens = append(screens, screen)
		total, rows = total+len(screen), max(rows, len(screen))
	}
	return draw(screens, total, rows), nil
}

var title = regexp.MustCompile(`^(\d+)\. `)

// split gives the lines of each step, by its number.
func split(transcript string) map[int][]string {
	steps := map[int][]string{}
	number := 0
	for text := range strings.Lines(transcript) {
		text = strings.TrimRight(text, "\n")
		if match := title.FindStringSubmatch(text); match != nil {
			number, _ = strconv.Atoi(match[1])
		}
		if strings.TrimSpace(text) != "" && number != 0 && !strings.HasPrefix(text, "All steps succeeded") {
			steps[number] = append(steps[number], text)
		}
	}
	for number, lines := range steps { // a cut after the last line says nothing
		if lines[len(lines)-1] == "…" {
			steps[number] = lines[:len(lines)-1]
		}
	}
	return steps
}

var (
	uuid     = regexp.MustCompile(`\b([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
	tableRow = regexp.MustCompile(`^   [A-Z]+( [A-Z]+)*   +[A-Z]`)
	column   = regexp.MustCompile(`\S+( \S+)*`)
)

// layOut makes a step's lines those of a screen: the colours are the demo's on a terminal.
func layOut(texts []string) []line {
	var lines []line
	for i := 0; i < len(texts); i++ {
		text := uuid.ReplaceAllString(texts[i], "$1…")
		class := "o"
		switch {
		case i == 0:
			class = "t"
		case i == 1 || text == "…":
			class = "f"
		case strings.HasPrefix(text, "   $ "):
			class = "c"
		case strings.HasPrefix(text, "   ✓ "):
			class = "g"
		}
		if class == "o" && tableRow.MatchString(texts[i]) {
			end := i + 1
			for end < len(texts) && isRow(texts[end]) {
				end++
			}
			for _, row := range table(texts[i:end]) {
				lines = append(lines, line{"o", row})
			}
			i = end - 1
			continue
		}
		for _, part := range wrap(text) {
			lines = append(lines, line{class, part})
		}
	}
	return lines
}

// isRow tells the rows of a table from what follows it: their cells are apart.
func isRow(text string) bool {
	return strings.Contains(strings.TrimSpace(text), "   ") && !strings.HasPrefix(strings.TrimSpace(text), "$")
}

// table sets a table's columns closer, once its ids are cut, and leaves out those without a value and the omitted ones.
func table(rows []string) []string {
	starts := column.FindAllStringIndex(rows[0], -1)
	cells := make([][]string, len(rows))
	widths, empty := make([]int, len(starts)), slices.Repeat([]bool{true}, len(starts))
	for r, row := range rows {
		letters := []rune(row)
		for c, at := range starts {
			end := len(letters)
			if c+1 < len(starts) {
				end = min(end, starts[c+1][0])
			}
			cell := strings.TrimSpace(string(letters[min(at[0], end):end]))
			cell = uuid.ReplaceAllString(cell, "$1…")
			cells[r] = append(cells[r], cell)
			widths[c] = max(widths[c], utf8.RuneCountInString(cell))
			empty[c] = empty[c] && (r == 0 || cell == "") || slices.Contains(omitted, cells[0][c])
		}
	}
	out := make([]string, 0, len(rows))
	for _, row := range cells {
		var text strings.Builder
		for c, cell := range row {
			if !empty[c] {
				fmt.Fprintf(&text, "  %-*s", widths[c], cell)
			}
		}
		out = append(out, " "+strings.TrimRight(text.String(), " "))
	}
	return out
}

// wrap breaks a line between words where it is too long. What follows is set in.
func wrap(text string) []string {
	const inset = "     "
	var lines []string
	for utf8.RuneCountInString(text) > columns {
		letters := []rune(text)
		at := columns
		for at > len(inset) && letters[at] != ' ' {
			at--
		}
		if at == len(inset) {
			break // one word, longer than a line
		}
		lines = append(lines, string(letters[:at]))
		text = inset + string(letters[at+1:])
	}
	return append(lines, text)
}

// head is the picture's frame and style. It is a dark terminal on a light page, too: its own border sets it off.
const head = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[2]d" width="%[1]d" height="%[2]d" role="img">
  <title>make demo</title>
  <desc>%[3]s</desc>
  <style>
    text { font: %[4]dpx ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
      white-space: pre; }
    .t { fill: #f0f6fc; font-weight: 700; }
    .f { fill: #9ea7b0; }
    .c { fill: #76e3ea; }
    .g { fill: #56d364; }
    .o { fill: #d1d9e0; }
    .s { visibility: hidden; }
    .still { visibility: visible; }
`

// draw gives the picture. A line is hidden but for its time; without motion the still's lines stand.
func draw(screens [][]line, total, rows int) string {
	height := bar + rows*lineHeight + 2*padding
	var rules, body strings.Builder
	var titles []string
	began, id := 0.0, 0
	for i, screen := range screens {
		took := seconds * float64(len(screen)) / float64(total)
		ended := percent(began + took)
		titles = append(titles, title.ReplaceAllString(screen[0].text, ""))
		for row, l := range screen {
			from := percent(began + took*typing*float64(row)/float64(len(screen)))
			fmt.Fprintf(&rules, "      @keyframes k%[1]d { 0%% { visibility: hidden; } %[2]s { visibility: visible; } "+
				"%[3]s { visibility: hidden; } }\n      #l%[1]d { animation: k%[1]d %[4]ds step-end infinite; }\n",
				id, from, ended, seconds)
			class := "s"
			if i == still {
				class += " still"
			}
			fmt.Fprintf(&body, "  <text id=\"l%d\" class=\"%s %s\" x=\"%d\" y=\"%d\">%s</text>\n",
				id, l.class, class, padding, bar+padding+(row+1)*lineHeight-lineHeight/4, html.EscapeString(l.text))
			id++
		}
		began += took
	}
	var svg strings.Builder
	fmt.Fprintf(&svg, head, width, height, html.EscapeString(strings.Join(titles, ". ")+"."), letter)
	svg.WriteString("    @media (prefers-reduced-motion: no-preference) {\n" + rules.String() + "    }\n  </style>\n")
	fmt.Fprintf(&svg, "  <rect x=\"0.5\" y=\"0.5\" width=\"%d\" height=\"%d\" rx=\"8\" fill=\"#0d1117\" "+
		"stroke=\"#57606a\"/>\n", width-1, height-1)
	fmt.Fprintf(&svg, "  <text class=\"f\" x=\"%d\" y=\"%d\">$ make demo</text>\n", padding, bar-lineHeight/2)
	fmt.Fprintf(&svg, "  <path d=\"M0 %[1]dH%[2]d\" stroke=\"#30363d\"/>\n", bar, width)
	svg.WriteString(body.String() + "</svg>\n")
	return svg.String()
}

// percent gives a moment as a part of the whole, as keyframes name it.
func percent(moment float64) string {
	return strconv.FormatFloat(moment/seconds*100, 'f', 2, 64) + "%"
}
