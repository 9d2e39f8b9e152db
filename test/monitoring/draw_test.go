package monitoring

import (
	"cmp"
	"fmt"
	"html"
	"slices"
	"strings"
	"time"
)

const (
	cell, top   = 50, 40 // pixels of a unit of Grafana's grid, and of the title
	rowHeight   = 24
	margin      = 10
	legendLines = 5
)

var colors = []string{
	"#7eb26d", "#eab839", "#6ed0e0", "#ef843c", "#e24d42", "#1f78c1", "#ba43a9", "#705da0", "#508642", "#cca300",
}

// draw makes a picture of the dashboard, for docs/monitoring.md.
func draw(panels []drawn, since, until time.Time) string {
	var b strings.Builder
	last := panels[len(panels)-1].GridPos
	width, height := 24*cell, top+(last.Y+last.H)*rowHeight+margin
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">`+
		`<rect width="100%%" height="100%%" fill="#111217"/>`+
		`<text x="%d" y="26" font-size="18" fill="#ddd">network-controller</text>`, width, height, margin)
	for _, p := range panels {
		x, y := p.GridPos.X*cell, top+p.GridPos.Y*rowHeight
		w, h := p.GridPos.W*cell, p.GridPos.H*rowHeight
		if p.Type == "row" {
			fmt.Fprintf(&b, `<text x="%d" y="%d" font-size="13" fill="#ddd">%s</text>`, margin, y+17, p.Title)
			continue
		}
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" fill="#181b1f" stroke="#2c3235"/>`+
			`<text x="%d" y="%d" fill="#ddd">%s</text>`, x+3, y+3, w-6, h-6, x+margin, y+20, p.Title)
		p.draw(&b, x+margin, y+28, w-2*margin, h-28-margin, since, until)
	}
	return b.String() + "</svg>\n"
}

// draw draws a panel's lines and their legend into a rectangle.
func (p drawn) draw(b *strings.Builder, x, y, w, h int, since, until time.Time) {
	most := 0.0
	for _, line := range p.lines {
		most = max(most, slices.Max(line.values))
	}
	if most == 0 {
		most = 1
	}
	shown := p.lines[:min(len(p.lines), legendLines)]
	plot := h - 13*len(shown) - 4
	fmt.Fprintf(b, `<text x="%d" y="%d" fill="#888" font-size="9" text-anchor="end">%s</text>`, x+w, y-8,
		html.EscapeString(amount(most, p.FieldConfig.Defaults.Unit)))
	fmt.Fprintf(b, `<path d="M%d %dh%d" stroke="#2c3235"/>`, x, y+plot, w)
	from, span := float64(since.Unix()), float64(until.Unix()-since.Unix())
	for n, line := range p.lines {
		color := colors[n%len(colors)]
		var path strings.Builder
		for i, at := range line.times {
			command := "L"
			if i == 0 || at-line.times[i-1] > 3 {
				command = "M"
			}
			fmt.Fprintf(&path, "%s%.1f %.1f", command, float64(x)+(at-from)/span*float64(w),
				float64(y)+float64(plot)*(1-line.values[i]/most))
		}
		fmt.Fprintf(b, `<path d="%s" fill="none" stroke="%s" stroke-width="1.3"/>`, path.String(), color)
		if n < legendLines {
			text := cmp.Or(strings.TrimSpace(line.name), p.Title)
			if n == legendLines-1 && len(p.lines) > legendLines {
				text = fmt.Sprintf("and %d more", len(p.lines)-n)
			}
			fmt.Fprintf(b, `<path d="M%d %dh10" stroke="%s" stroke-width="3"/><text x="%d" y="%d" fill="#aaa" font-size="10">%s`+
				`</text>`, x, y+plot+10+13*n, color, x+15, y+plot+14+13*n, html.EscapeString(text))
		}
	}
}

// amount writes a value with Grafana's unit.
func amount(value float64, unit string) string {
	switch unit {
	case "percentunit":
		return fmt.Sprintf("%.0f%%", 100*value)
	case "bytes":
		return fmt.Sprintf("%.0f MiB", value/(1<<20))
	case "s":
		return fmt.Sprintf("%.3g s", value)
	case "reqps":
		return fmt.Sprintf("%.3g/s", value)
	}
	return fmt.Sprintf("%.3g", value)
}
