package tree

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"cloudteam.ztgame.com/network-controller/internal/kubectl/text"
)

// Print writes trees for people.
func Print(to io.Writer, trees []*Node, style text.Style) error {
	p := text.NewPrinter(to)
	for _, tree := range trees {
		tree.print(p, style, "", "")
	}
	return p.Err()
}

// print writes a node after first, and its children after rest.
func (n *Node) print(p *text.Printer, style text.Style, first, rest string) {
	line := first + style.Strong(n.Kind) + " " + text.Plain(n.Name)
	if n.Info != "" {
		line += "  " + text.Plain(n.Info)
	}
	if n.Problem != "" {
		line += "  " + style.Bad(n.Problem)
	}
	if n.Warning != "" {
		line += "  " + style.Warn(n.Warning)
	}
	p.Line("%s", line)
	for i, child := range n.Children {
		if i == len(n.Children)-1 {
			child.print(p, style, rest+"└ ", rest+"  ")
		} else {
			child.print(p, style, rest+"├ ", rest+"│ ")
		}
	}
}

// graph lists the nodes and edges of trees, each once. A router that serves several Networks is one node.
type graph struct {
	nodes map[string]int
	order []*Node
	edges [][2]int
}

func graphOf(trees []*Node) *graph {
	g := &graph{nodes: map[string]int{}}
	for _, tree := range trees {
		g.add(tree)
	}
	return g
}

func (g *graph) add(n *Node) int {
	key := n.Kind + " " + n.Name
	if n.Kind == "subnet" {
		key = fmt.Sprintf("%p", n) // two Networks may have one CIDR
	}
	at, known := g.nodes[key]
	if !known {
		at = len(g.order)
		g.nodes[key] = at
		g.order = append(g.order, n)
	}
	for _, child := range n.Children {
		g.edges = append(g.edges, [2]int{at, g.add(child)})
	}
	return at
}

// quoted makes the words of a node fit between double quotes. Users and clouds choose names.
func (n *Node) quoted(lineBreak string) string {
	clean := strings.NewReplacer(`"`, "'", `\`, "/", "<", "(", ">", ")")
	lines := []string{n.Kind + " " + n.Name, n.Info, n.Problem, n.Warning}
	lines = slices.DeleteFunc(lines, func(line string) bool { return line == "" })
	for i, line := range lines {
		lines[i] = clean.Replace(text.Plain(line))
	}
	return strings.Join(lines, lineBreak)
}

// Dot writes a graph for Graphviz.
func Dot(to io.Writer, trees []*Node) error {
	p, g := text.NewPrinter(to), graphOf(trees)
	p.Line("digraph networks {")
	p.Line("  rankdir=LR; node [shape=box];")
	for i, n := range g.order {
		p.Line(`  n%d [label="%s"];`, i, n.quoted(`\n`))
	}
	for _, e := range g.edges {
		p.Line("  n%d -> n%d;", e[0], e[1])
	}
	p.Line("}")
	return p.Err()
}

// Mermaid writes a flowchart for Mermaid.
func Mermaid(to io.Writer, trees []*Node) error {
	p, g := text.NewPrinter(to), graphOf(trees)
	p.Line("flowchart LR")
	for i, n := range g.order {
		p.Line(`  n%d["%s"]`, i, n.quoted("<br/>"))
	}
	for _, e := range g.edges {
		p.Line("  n%d --- n%d", e[0], e[1])
	}
	return p.Err()
}
