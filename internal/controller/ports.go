package controller

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// indexNetwork is the index of NetworkPorts by the namespace and name of their Network.
const indexNetwork = "controller/network"

// IndexPorts adds the index that PortsOn needs to the informer of NetworkPorts. Several controllers may call it for a
// shared informer, but not concurrently.
func IndexPorts(ports cache.SharedIndexInformer) error {
	if _, indexed := ports.GetIndexer().GetIndexers()[indexNetwork]; indexed {
		return nil
	}
	err := ports.AddIndexers(cache.Indexers{indexNetwork: IndexBy(func(port *cloudteamv1.NetworkPort) []string {
		return []string{port.Network().String()}
	})})
	if err != nil {
		return fmt.Errorf("indexing networkports by network: %w", err)
	}
	return nil
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

// Serves reports whether ports can be created on a Network, according to its status. It is Ready, or waits only for
// the deletion of something in use, such as an undeclared subnet. It ignores a deletion of the Network.
func Serves(network *cloudteamv1.Network) bool {
	ready := meta.FindStatusCondition(network.Status.Conditions, cloudteamv1.ConditionReady)
	return ready != nil && (ready.Status == metav1.ConditionTrue || ready.Reason == cloudteamv1.ReasonInUse)
}
