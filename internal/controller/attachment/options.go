package attachment

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// DefaultPlugin is the CNI plugin for Options that name none: the project's own, which makes the Pod's interface the
// port in Neutron. It needs the network-agent on the nodes.
const DefaultPlugin = "neutron-port"

// Options say how Pods connect to the networks. They apply to all Networks.
type Options struct {
	// Plugin is the type of the CNI plugin, which is the name of its program on the nodes. Empty means DefaultPlugin.
	Plugin string
	// Master is the name of the nodes' interface that carries the networks. Empty leaves it to the plugin. macvlan and
	// ipvlan then use the interface of the node's default route.
	Master string
}

// String, Set and Type make it the value of a flag: a plugin, or a plugin and an interface, such as macvlan:eth1.
func (o *Options) String() string {
	if o.Master == "" {
		return o.Plugin
	}
	return o.Plugin + ":" + o.Master
}

// Set takes any text; see Validate.
func (o *Options) Set(value string) error {
	o.Plugin, o.Master, _ = strings.Cut(value, ":")
	return nil
}

// Type is what --help calls the value.
func (*Options) Type() string { return "string" }

// plugin is the CNI plugin's type.
func (o Options) plugin() string {
	if o.Plugin == "" {
		return DefaultPlugin
	}
	return o.Plugin
}

const (
	// pluginLength is the maximum length of a file name in bytes, Linux's NAME_MAX.
	pluginLength = 255
	// masterLength is the maximum length of an interface name in bytes, Linux's IFNAMSIZ without the closing zero.
	masterLength = 15
)

// pluginName matches the name of a plugin's program. It never matches a path to another folder.
var pluginName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)

// masterName matches what Linux accepts as an interface name (dev_valid_name in net/core/dev.c), limited to printable
// ASCII.
var masterName = regexp.MustCompile(`^[!-.0-9;-~]+$`)

// Validate refuses options that no node can apply. The errors name the flags and say what to write instead.
func (o Options) Validate() error {
	var errs []error
	if o.Plugin != "" && (!pluginName.MatchString(o.Plugin) || len(o.Plugin) > pluginLength) {
		errs = append(errs, fmt.Errorf("--attachment-plugin=%q: write the name of a CNI plugin's program, such as %q: "+
			"a letter or digit, then letters, digits, \"-\", \"_\" and \".\", at most %d in all",
			o.Plugin, DefaultPlugin, pluginLength))
	}
	switch known, isKnown := plugins[o.plugin()]; {
	case o.Master == "":
	case !masterName.MatchString(o.Master) || len(o.Master) > masterLength || strings.Trim(o.Master, ".") == "":
		errs = append(errs, fmt.Errorf("--attachment-plugin=%q: write the name of an interface of the nodes after the "+
			"\":\", such as \"eth1\": at most %d characters, without spaces, \"/\" and \":\"", o.String(), masterLength))
	case isKnown && !known.master:
		errs = append(errs, fmt.Errorf("--attachment-plugin=%q: the plugin %s takes no interface of the nodes: remove "+
			"\":%s\", or write another plugin", o.String(), o.plugin(), o.Master))
	}
	return errors.Join(errs...)
}
