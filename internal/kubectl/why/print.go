package why

import (
	"fmt"
	"io"
	"strings"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/kinds"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/text"
)

// Print writes an answer for people. now is for how long a condition has lasted.
func Print(to io.Writer, a Answer, style text.Style, now time.Time) error {
	p := text.NewPrinter(to)
	if a.Healthy {
		p.Line("%s", style.Good(a.Object.String()))
		p.Wrapped("  ", a.Summary)
	}
	for i, l := range a.Chain {
		margin, arrow := strings.Repeat("  ", i), ""
		if i > 0 {
			margin, arrow = strings.Repeat("  ", i-1), "└ "
		}
		says := ""
		if l.Condition != "" {
			says = "  " + l.Condition
		}
		lasted := ""
		if d := l.age(now); d > 0 {
			lasted = "  for " + roughly(d)
		}
		gate := ""
		if l.Gate != "" {
			gate = "  (gate: " + l.Gate + ")"
		}
		p.Line("%s%s%s%s  %s%s%s", margin, arrow, style.Strong(l.Object.String()), says, style.Bad(l.Reason), lasted, gate)
		p.Wrapped(strings.Repeat("  ", i+1), l.Message)
	}
	if a.Remedy != "" || len(a.Commands) > 0 {
		p.Line("")
		p.Line("%s", style.Strong("What to do:"))
		if a.Remedy != "" {
			p.Wrapped("  ", a.Remedy)
		}
		for _, command := range a.Commands {
			p.Line("    %s", command)
		}
	}
	for _, warning := range a.Warnings {
		p.Line("")
		p.Line("%s", style.Warn("Also:"))
		p.Wrapped("  ", warning)
	}
	for _, note := range a.Notes {
		p.Line("")
		p.Line("%s", style.Warn("Not known:"))
		p.Wrapped("  ", note)
	}
	return p.Err()
}

// Names are the objects of the chain, as kubectl names them.
func (a Answer) Names() []string {
	names := []string{name(a.Object)}
	for _, l := range a.Chain {
		if n := name(l.Object); n != names[len(names)-1] {
			names = append(names, n)
		}
	}
	return names
}

func name(o Object) string {
	kind := strings.ToLower(o.Kind)
	_, ours := kinds.Of(o.Kind)
	switch {
	case ours, o.Kind == KindNetworkClass:
		kind += ".cloudteam.ztgame.com"
	case o.Kind == KindDeployment:
		kind += ".apps"
	}
	return fmt.Sprintf("%s/%s", kind, o.Name)
}
