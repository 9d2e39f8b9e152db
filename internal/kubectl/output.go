package kubectl

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// outputFlag adds -o with the given formats. Without it, people read the output.
func (f *factory) outputFlag(c *cobra.Command, output *string, formats ...string) {
	c.Flags().StringVarP(output, "output", "o", "", "Output format: "+strings.Join(formats, ", "))
	complete := cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)
	if err := c.RegisterFlagCompletionFunc("output", complete); err != nil {
		panic(err) // the flag was just added
	}
	before := c.PreRunE
	c.PreRunE = func(c *cobra.Command, args []string) error {
		if *output != "" && !slices.Contains(formats, *output) {
			return fmt.Errorf("-o %s is no format of this command: write %s", *output, strings.Join(formats, ", "))
		}
		if before != nil {
			return before(c, args)
		}
		return nil
	}
}

// nameOf is an object as kubectl -o name gives it, without its namespace.
func nameOf(kind, name string) string {
	name = name[strings.LastIndex(name, "/")+1:]
	return strings.ToLower(kind) + "." + cloudteamv1.SchemeGroupVersion.Group + "/" + name
}

// objectNames gives the names of objects, for the format name. One without a name is left out.
func objectNames[T any](objects []T, name func(T) string) func() []string {
	return func() (all []string) {
		for _, o := range objects {
			if name := name(o); name != "" {
				all = append(all, name)
			}
		}
		return all
	}
}

// print writes a result in a format. names gives the objects for the format name; people prints for people.
func (f *factory) print(output string, result any, names func() []string, people func() error) error {
	var out []byte
	var err error
	switch output {
	case "json":
		out, err = json.MarshalIndent(result, "", "  ")
		out = append(out, '\n')
	case "yaml":
		out, err = yaml.Marshal(result)
	case "name":
		for _, name := range names() {
			out = append(out, name+"\n"...)
		}
	default:
		return people()
	}
	if err == nil {
		_, err = f.Out.Write(out)
	}
	return err
}
