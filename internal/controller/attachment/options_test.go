package attachment

import (
	"strings"
	"testing"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestValidate(t *testing.T) {
	for name, c := range map[string]struct {
		options Options
		// want are parts of the error, none where there is no error.
		want []string
	}{
		"the zero value is good":                     {Options{}, nil},
		"macvlan on an interface":                    {Options{Plugin: "macvlan", Master: "eth1"}, nil},
		"a VLAN interface has a dot":                 {Options{Plugin: "macvlan", Master: "eth1.100"}, nil},
		"an interface's name has up to 15 bytes":     {Options{Plugin: "macvlan", Master: "enp0s31f6np0.10"}, nil},
		"a plugin may have any program's name":       {Options{Plugin: "acme_net-2.0"}, nil},
		"16 bytes are no interface's name":           {Options{Master: "enp0s31f6np0.100"}, []string{`--attachment-plugin=":enp0s31f6np0.100"`, "at most 15"}},
		"an interface's name has no slash":           {Options{Master: "eth/1"}, []string{"the name of an interface"}},
		"an interface's name has no colon":           {Options{Master: "eth1:0"}, []string{"the name of an interface"}},
		"an interface's name has no space":           {Options{Master: "eth 1"}, []string{"the name of an interface"}},
		"an interface's name has no line break":      {Options{Master: "eth1\n"}, []string{"the name of an interface"}},
		"an interface is not called ..":              {Options{Master: ".."}, []string{"the name of an interface"}},
		"a plugin is no path":                        {Options{Plugin: "../../bin/sh"}, []string{"--attachment-plugin", "such as \"neutron-port\""}},
		"a plugin is not called ..":                  {Options{Plugin: ".."}, []string{"--attachment-plugin"}},
		"a plugin has no line break":                 {Options{Plugin: "macvlan\n"}, []string{"--attachment-plugin"}},
		"a plugin's name is that of a file":          {Options{Plugin: strings.Repeat("a", 256)}, []string{"at most 255"}},
		"bridge takes no interface of the node":      {Options{Plugin: "bridge", Master: "eth1"}, []string{`--attachment-plugin="bridge:eth1"`, `remove ":eth1"`}},
		"the default takes no interface of the node": {Options{Master: "eth1"}, []string{"neutron-port takes no interface"}},
		"a plugin that is not known may take one":    {Options{Plugin: "acme", Master: "eth1"}, nil},
		"two mistakes are told together":             {Options{Plugin: "/", Master: "/"}, []string{"a CNI plugin's program", "the name of an interface"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.options.Validate()
			if (err != nil) != (len(c.want) > 0) {
				t.Fatalf("error %v, want one with %q", err, c.want)
			}
			for _, part := range c.want {
				expect.ErrorSays(t, err, part)
			}
		})
	}
}

// TestAFlagHasAPluginAndItsInterface holds that what --help shows is what the flag takes.
func TestAFlagHasAPluginAndItsInterface(t *testing.T) {
	for value, want := range map[string]Options{
		"":             {},
		"bridge":       {Plugin: "bridge"},
		"macvlan:eth1": {Plugin: "macvlan", Master: "eth1"},
		":eth1":        {Master: "eth1"},
	} {
		var o Options
		if err := o.Set(value); err != nil || o != want || o.String() != value {
			t.Errorf("%q is %+v, %v; printed %q", value, o, err, o.String())
		}
	}
}
