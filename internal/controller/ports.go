package controller

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// indexNetwork is the index of NetworkPorts by the namespace and name of the Network that they are on.
const indexNetwork = "controller/network"

// IndexPorts has the informer of NetworkPorts keep what PortsOn needs. Controllers that share the informer may each
// call it, one after the other.
func IndexPorts(ports cache.SharedIndexInformer) error {
	if _, indexed := ports.GetIndexer().GetIndexers()[indexNetwork]; indexed {
		return nil
	}
	err := ports.AddIndexers(cache.Indexers{indexNetwork: func(obj any) ([]string, error) {
		port, ok := obj.(*cloudteamv1.NetworkPort)
		if !ok {
			return nil, fmt.Errorf("%T is no NetworkPort", obj)
		}
		return []string{port.Network().String()}, nil
	}})
	if err != nil {
		return fmt.Errorf("indexing networkports by network: %w", err)
	}
	return nil
}

// PortsOn gives the NetworkPorts on a Network, from the cache of an informer that IndexPorts was called for. They are
// the cache's own and MUST NOT be changed.
func PortsOn(ports cache.Indexer, network cache.ObjectName) []*cloudteamv1.NetworkPort {
	found, err := ports.ByIndex(indexNetwork, network.String())
	if err != nil {
		return nil // the index is made in IndexPorts
	}
	on := make([]*cloudteamv1.NetworkPort, 0, len(found))
	for _, obj := range found {
		if port, ok := obj.(*cloudteamv1.NetworkPort); ok {
			on = append(on, port)
		}
	}
	return on
}

// Serves reports whether ports can be made on a Network, as its status tells: it is Ready, or nothing is left to be
// done but to delete what is in use, such as a subnet that its spec does not have any more. Whether the Network is
// being deleted does not count.
func Serves(network *cloudteamv1.Network) bool {
	ready := meta.FindStatusCondition(network.Status.Conditions, cloudteamv1.ConditionReady)
	return ready != nil && (ready.Status == metav1.ConditionTrue || ready.Reason == cloudteamv1.ReasonInUse)
}
