package attachment

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/declare"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// LabelManagedBy is on every NetworkAttachmentDefinition that the controller creates. Kubernetes recommends this label
// for selection by people and tools. The controller does not use it to find the owner; the controller owner reference
// says that.
const LabelManagedBy = "app.kubernetes.io/managed-by"

// cniVersion is the version of the CNI specification that the configurations follow. The reference plugins support it
// since v1.0.0. The macvlan plugin supports the capability mac since v0.8.7, so it needs no tuning plugin.
const cniVersion = "1.0.0"

// The CNI configuration, as a list of one plugin (CNI specification 1.0.0, section 1). Multus passes it to the plugin.
// It adds the Pod's requests for which the plugin declares a capability. The static IPAM plugin gets the full
// configuration of its caller and finds the addresses there.
type (
	configList struct {
		CNIVersion string         `json:"cniVersion"`
		Name       string         `json:"name"`
		Plugins    []pluginConfig `json:"plugins"`
	}
	pluginConfig struct {
		Type         string       `json:"type"`
		Master       string       `json:"master,omitempty"`
		Mode         string       `json:"mode,omitempty"`
		MTU          int32        `json:"mtu,omitempty"`
		Capabilities capabilities `json:"capabilities"`
		Routes       []route      `json:"routes,omitempty"`
		IPAM         *ipamConfig  `json:"ipam,omitempty"`
	}
	capabilities struct {
		IPs bool `json:"ips"`
		MAC bool `json:"mac,omitempty"`
	}
	ipamConfig struct {
		Type   string  `json:"type"`
		Routes []route `json:"routes,omitempty"`
	}
	route struct {
		Destination string `json:"dst"`
		Gateway     string `json:"gw"`
	}
)

// understood lists the fields that a CNI plugin supports.
type understood struct {
	master, mtu bool
	// mac says that it supports the capability mac.
	mac bool
	// mode is the value for the plugin's field mode, or empty to leave it unset.
	mode string
	// own says that it is this project's plugin. It needs no IPAM plugin: the agent of the node knows the addresses.
	own bool
}

// plugins are the CNI project's own (github.com/containernetworking/plugins, plugins/main), with the fields of each
// NetConf in v1.9. An ipvlan interface always has its node's hardware address. vlan, ptp, host-device and dummy have no
// field for one. The device of host-device comes from a device plugin through Multus.
var plugins = map[string]understood{
	DefaultPlugin: {mac: true, own: true},

	"macvlan":     {master: true, mtu: true, mac: true, mode: "bridge"},
	"ipvlan":      {master: true, mtu: true},
	"vlan":        {master: true, mtu: true},
	"bridge":      {mtu: true, mac: true},
	"tap":         {mtu: true, mac: true},
	"ptp":         {mtu: true},
	"host-device": {},
	"dummy":       {},
}

// unknown is for all other plugins. It sets the fields that most plugins have. A plugin may refuse unknown fields (CNI
// specification 1.0.0, section 1), but few do.
var unknown = understood{master: true, mtu: true, mac: true}

// config is the CNI configuration for a Network. The same Network and Options always give the same text.
func config(network *cloudteamv1.Network, options Options) (string, error) {
	fields, ok := plugins[options.plugin()]
	if !ok {
		fields = unknown
	}
	plugin := pluginConfig{
		Type:         options.plugin(),
		Mode:         fields.mode,
		Capabilities: capabilities{IPs: true, MAC: fields.mac},
	}
	if fields.master {
		plugin.Master = options.Master
	}
	if fields.mtu && network.Status.MTU > 0 {
		plugin.MTU = network.Status.MTU
	}
	if fields.own {
		// It knows the port, and leaves out the routes that the port does not reach.
		plugin.Routes = routesOf(network, func(cloudteamv1.HostRoute) bool { return true })
	} else {
		// Neutron allocates the addresses. Each Pod brings them through the capability ips. The routes are the same for all.
		reached := declare.Reached(network)
		plugin.IPAM = &ipamConfig{Type: "static", Routes: routesOf(network, func(r cloudteamv1.HostRoute) bool {
			// The kernel refuses a route by a next hop elsewhere, and the Pod would not start.
			hop, err := netip.ParseAddr(r.NextHop)
			return err == nil && slices.ContainsFunc(reached, func(s netip.Prefix) bool { return s.Contains(hop) })
		})}
	}
	// The De-facto Standard requires the name of the object (section 3.4.3).
	text, err := json.Marshal(configList{CNIVersion: cniVersion, Name: network.Name, Plugins: []pluginConfig{plugin}})
	if err != nil {
		return "", fmt.Errorf("writing the CNI configuration: %w", err)
	}
	return string(text), nil
}

// routesOf returns the routes of all subnets of a Network that are wanted, in the spec's order.
func routesOf(network *cloudteamv1.Network, wanted func(cloudteamv1.HostRoute) bool) []route {
	var routes []route
	for _, subnet := range network.Spec.Subnets() {
		for _, r := range subnet.HostRoutes {
			if wanted(r) {
				routes = append(routes, route{Destination: r.Destination, Gateway: r.NextHop})
			}
		}
	}
	return routes
}

// desired is the NetworkAttachmentDefinition to create for a Network.
func desired(network *cloudteamv1.Network, config string) *unstructured.Unstructured {
	attachment := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"config": config}}}
	attachment.SetGroupVersionKind(Kind)
	attachment.SetNamespace(network.Namespace)
	attachment.SetName(network.Name)
	attachment.SetLabels(map[string]string{LabelManagedBy: controller.FieldManager})
	// Garbage collection deletes it after the Network, or before it in a foreground deletion.
	attachment.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(network, networkKind)})
	return attachment
}

// isDesired reports whether a NetworkAttachmentDefinition has the configuration and the label. Others may change the
// rest.
func isDesired(attachment *unstructured.Unstructured, config string) bool {
	has, found, err := unstructured.NestedString(attachment.Object, "spec", "config")
	return err == nil && found && has == config && attachment.GetLabels()[LabelManagedBy] == controller.FieldManager
}

// isReady reports whether a Network is Ready and its status is that of the current spec.
func isReady(network *cloudteamv1.Network) bool {
	ready := meta.FindStatusCondition(network.Status.Conditions, cloudteamv1.ConditionReady)
	// By kstatus, a missing observedGeneration means the current generation.
	return ready != nil && ready.Status == metav1.ConditionTrue &&
		(ready.ObservedGeneration == 0 || ready.ObservedGeneration >= network.Generation)
}
