// Command flags writes the reference of the command lines, docs/flags.md, from the programs' own flags.
package main

import (
	_ "embed"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"cloudteam.ztgame.com/network-controller/internal/app"
	"cloudteam.ztgame.com/network-controller/internal/kubectl"
	"cloudteam.ztgame.com/network-controller/internal/node/agent"
)

//go:embed preface.md
var preface string

func main() {
	out := flag.String("out", "docs/flags.md", "file to write")
	flag.Parse()
	os.Clearenv() // some defaults come from it
	if err := os.WriteFile(*out, []byte(page()), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func page() string {
	var b strings.Builder
	b.WriteString(preface)
	plugin := kubectl.NewCommand(genericiooptions.IOStreams{})
	for _, command := range append([]*cobra.Command{app.NewCommand(), agent.NewCommand(), plugin}, plugin.Commands()...) {
		fmt.Fprintf(&b, "\n## %s\n\n", command.CommandPath())
		table(&b, command.NonInheritedFlags())
	}
	return b.String()
}

// table lists the flags that --help lists, but for --help and --version, which all programs have.
func table(b *strings.Builder, flags *pflag.FlagSet) {
	rows := ""
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" || f.Name == "version" {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		byDefault := "–"
		if f.DefValue != "" && f.DefValue != "[]" {
			byDefault = "`" + f.DefValue + "`"
		}
		rows += fmt.Sprintf("| `%s` | %s | %s | %s |\n", name, value, byDefault,
			strings.NewReplacer("|", `\|`, "*", `\*`, "<", `\<`, "\n", "<br>").Replace(usage))
	})
	if rows == "" {
		rows = "It has no other flags.\n"
	} else {
		rows = "| flag | value | default | meaning |\n| --- | --- | --- | --- |\n" + rows
	}
	b.WriteString(rows)
}
