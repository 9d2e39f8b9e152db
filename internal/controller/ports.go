package controller

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

const (
	// indexNetwork is the index of NetworkPorts by the namespace and name of their Network.
	indexNetwork = "controller/network"
	// indexGroup is the index of NetworkPorts by the namespaces and names of the SecurityGroups in their specs.
	indexGroup = "controller/group"
	// indexGives is the index of Networks by the namespaces and names of the SecurityGroups that they give to their ports.
	indexGives = "controller/gives"
	// indexPort is the index of NetworkPorts by the ids of their ports in Neutron.
	indexPort = "controller/port"
	// indexLed is the index of FloatingIPs by the ids of the ports that they lead to in Neutron.
	indexLed = "controller/led"
	// indexFloating is the index of FloatingIPs by the namespaces and names of the NetworkPorts in their specs.
	indexFloating = "controller/floating"
)

// IndexPorts adds the indexes that PortsOn and PortsIn need to the informer of NetworkPorts. Several controllers may
// call it for a shared informer, but not concurrently.
func IndexPorts(ports cache.SharedIndexInformer) error {
	return indexOnce(ports, cache.Indexers{
		indexNetwork: IndexBy(func(port *cloudteamv1.NetworkPort) []string { return []string{port.Network().String()} }),
		indexGroup: IndexBy(func(port *cloudteamv1.NetworkPort) []string {
			return namesIn(port.Namespace, port.Spec.SecurityGroupRefs...)
		}),
		indexPort: IndexBy(func(port *cloudteamv1.NetworkPort) []string { return idOf(port.Status.PortID) }),
	})
}

// indexOnce adds indexes to an informer that does not have them.
func indexOnce(informer cache.SharedIndexInformer, indexers cache.Indexers) error {
	for name := range indexers {
		if _, indexed := informer.GetIndexer().GetIndexers()[name]; indexed {
			return nil
		}
	}
	if err := informer.AddIndexers(indexers); err != nil {
		return fmt.Errorf("adding indexes to an informer: %w", err)
	}
	return nil
}

// IndexNetworks adds the index that PortsIn needs to the informer of Networks. Several controllers may call it, as
// IndexPorts.
func IndexNetworks(networks cache.SharedIndexInformer) error {
	return indexOnce(networks, cache.Indexers{indexGives: IndexBy(func(on *cloudteamv1.Network) []string {
		return namesIn(on.Namespace, on.Spec.SecurityGroupRefs...)
	})})
}

// IndexFloatingIPs adds the index that FloatingIPsTo needs to the informer of FloatingIPs. Several controllers may call
// it, as IndexPorts.
func IndexFloatingIPs(floating cache.SharedIndexInformer) error {
	return indexOnce(floating, cache.Indexers{
		indexFloating: IndexBy(func(obj *cloudteamv1.FloatingIP) []string {
			return namesIn(obj.Namespace, idOf(obj.Spec.PortName)...)
		}),
		indexLed: IndexBy(func(obj *cloudteamv1.FloatingIP) []string { return idOf(obj.Status.PortID) }),
	})
}

// namesIn are the keys of objects of a namespace.
func namesIn(namespace string, names ...string) (keys []string) {
	for _, name := range names {
		keys = append(keys, cache.NewObjectName(namespace, name).String())
	}
	return keys
}

// idOf gives an id or a name, nothing for an empty one.
func idOf(id string) []string {
	if id == "" {
		return nil
	}
	return []string{id}
}

// PortsWithID returns the NetworkPorts whose port in Neutron has an id: one, unless a cloud tells the same id twice.
// Otherwise it is as PortsOn.
func PortsWithID(ports cache.Indexer, id string) []*cloudteamv1.NetworkPort {
	return Indexed[*cloudteamv1.NetworkPort](ports, indexPort, id)
}

// FloatingIPsLedTo returns the FloatingIPs that are associated with the port of an id in Neutron. Otherwise it is as
// FloatingIPsTo.
func FloatingIPsLedTo(floating cache.Indexer, id string) []*cloudteamv1.FloatingIP {
	return Indexed[*cloudteamv1.FloatingIP](floating, indexLed, id)
}

// FloatingIPsTo returns the FloatingIPs whose specs name a NetworkPort. Otherwise it is as PortsOn.
func FloatingIPsTo(floating cache.Indexer, port cache.ObjectName) []*cloudteamv1.FloatingIP {
	return Indexed[*cloudteamv1.FloatingIP](floating, indexFloating, port.String())
}

// PortsIn returns the NetworkPorts whose groups include that of a SecurityGroup: those that name it, and those that
// their Network gives it to. IndexNetworks MUST have been called, too. Otherwise it is as PortsOn.
func PortsIn(ports, networks cache.Indexer, group cache.ObjectName) []*cloudteamv1.NetworkPort {
	in := Indexed[*cloudteamv1.NetworkPort](ports, indexGroup, group.String())
	for _, on := range Indexed[*cloudteamv1.Network](networks, indexGives, group.String()) {
		for _, port := range PortsOn(ports, cache.MetaObjectToName(on)) {
			if port.TakesGroupsOf(on) {
				in = append(in, port)
			}
		}
	}
	return in
}

// PortsOn returns the NetworkPorts on a Network from an informer's cache. IndexPorts MUST have been called for that
// informer. The result belongs to the cache and MUST NOT be changed.
func PortsOn(ports cache.Indexer, network cache.ObjectName) []*cloudteamv1.NetworkPort {
	return Indexed[*cloudteamv1.NetworkPort](ports, indexNetwork, network.String())
}

// Allows reports whether objects of a namespace may use a Network. Users of other namespaces MUST NOT learn whether a
// Network exists that does not allow them: tell them the same for both.
func Allows(network *cloudteamv1.Network, namespace string) bool {
	return namespace == network.Namespace || slices.Contains(network.Spec.AllowedNamespaces, "*") ||
		slices.Contains(network.Spec.AllowedNamespaces, namespace)
}

// PlaceOf gives the cloud, or else the class, that an object needs to be in the same project as a Network.
func PlaceOf(network *cloudteamv1.Network) (cloud *cloudteamv1.CloudReference, className string) {
	switch {
	case network.Spec.Cloud != nil:
		return network.Spec.Cloud, ""
	case network.Status.Class != nil:
		return nil, network.Status.Class.Name
	}
	return nil, network.Spec.ClassName
}

// Serves reports whether ports can be created on a Network, according to its status. It is Ready, or waits only for
// the deletion of something in use, such as an undeclared subnet. It ignores a deletion of the Network.
func Serves(network *cloudteamv1.Network) bool {
	ready := meta.FindStatusCondition(network.Status.Conditions, cloudteamv1.ConditionReady)
	return ready != nil && (ready.Status == metav1.ConditionTrue || ready.Reason == cloudteamv1.ReasonInUse)
}
