package attachment

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// LabelManagedBy is on every NetworkAttachmentDefinition that the controller makes. It is one of the labels that
// Kubernetes recommends, for people and tools to select by: whose an object is, its controller owner reference tells.
const LabelManagedBy = "app.kubernetes.io/managed-by"

// cniVersion is the version of the CNI specification that the configurations are written for. The reference plugins
// know it since their v1.0.0; the macvlan plugin takes the capability mac since v0.8.7, so that no tuning plugin is
// needed behind it.
const cniVersion = "1.0.0"

// The CNI configuration, in the form of a list of one plugin (CNI specification 1.0.0, section 1). Multus passes it on
// to the plugin, together with those of the Pod's requests whose capabilities the plugin declares; the static IPAM
// plugin is given its caller's whole configuration and finds the addresses there.
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
		IPAM         ipamConfig   `json:"ipam"`
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

// understood is what a CNI plugin has fields for.
type understood struct {
	master, mtu bool
	// mac is whether it takes the capability mac.
	mac bool
	// mode is the value for its field mode, where it has one that is worth setting.
	mode string
}

// plugins are the CNI project's own ones (github.com/containernetworking/plugins, plugins/main) and what each
// understands by its NetConf in v1.9. An ipvlan interface has its node's hardware address by nature; vlan, ptp,
// host-device and dummy have no field for one. The device of host-device comes from a device plugin, by way of Multus.
var plugins = map[string]understood{
	"macvlan":     {master: true, mtu: true, mac: true, mode: "bridge"},
	"ipvlan":      {master: true, mtu: true},
	"vlan":        {master: true, mtu: true},
	"bridge":      {mtu: true, mac: true},
	"tap":         {mtu: true, mac: true},
	"ptp":         {mtu: true},
	"host-device": {},
	"dummy":       {},
}

// unknown is what is set for any other plugin: the fields that most have. A plugin may refuse what it does not know
// (CNI specification 1.0.0, section 1); few do.
var unknown = understood{master: true, mtu: true, mac: true}

// config is the CNI configuration for a Network, the same text for the same Network and Options.
func config(network *cloudteamv1.Network, options Options) (string, error) {
	fields, ok := plugins[options.plugin()]
	if !ok {
		fields = unknown
	}
	plugin := pluginConfig{
		Type:         options.plugin(),
		Mode:         fields.mode,
		Capabilities: capabilities{IPs: true, MAC: fields.mac},
		// The addresses are Neutron's to give: they come with each Pod, by the capability ips.
		IPAM: ipamConfig{Type: "static"},
	}
	if fields.master {
		plugin.Master = options.Master
	}
	if fields.mtu && network.Status.MTU > 0 {
		plugin.MTU = network.Status.MTU
	}
	for _, subnet := range network.Spec.Subnets() {
		for _, r := range subnet.HostRoutes {
			plugin.IPAM.Routes = append(plugin.IPAM.Routes, route{Destination: r.Destination, Gateway: r.NextHop})
		}
	}
	// The De-facto Standard has the name be the object's own (section 3.4.3).
	text, err := json.Marshal(configList{CNIVersion: cniVersion, Name: network.Name, Plugins: []pluginConfig{plugin}})
	if err != nil {
		return "", fmt.Errorf("writing the CNI configuration: %w", err)
	}
	return string(text), nil
}

// desired is the NetworkAttachmentDefinition to create for a Network.
func desired(network *cloudteamv1.Network, config string) *unstructured.Unstructured {
	attachment := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"config": config}}}
	attachment.SetGroupVersionKind(Kind)
	attachment.SetNamespace(network.Namespace)
	attachment.SetName(network.Name)
	attachment.SetLabels(map[string]string{LabelManagedBy: controller.FieldManager})
	// Garbage collection removes it once the Network is gone, and with a foreground deletion before that.
	attachment.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(network, networkKind)})
	return attachment
}

// isDesired reports whether a NetworkAttachmentDefinition has the configuration and the label. All the rest is left to
// others.
func isDesired(attachment *unstructured.Unstructured, config string) bool {
	has, found, err := unstructured.NestedString(attachment.Object, "spec", "config")
	return err == nil && found && has == config && attachment.GetLabels()[LabelManagedBy] == controller.FieldManager
}

// isReady reports whether a Network's status is that of its present spec, and Ready.
func isReady(network *cloudteamv1.Network) bool {
	ready := meta.FindStatusCondition(network.Status.Conditions, cloudteamv1.ConditionReady)
	// By kstatus, a generation that is not written is the present one.
	return ready != nil && ready.Status == metav1.ConditionTrue &&
		(ready.ObservedGeneration == 0 || ready.ObservedGeneration >= network.Generation)
}
