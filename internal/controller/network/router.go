package network

import (
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/declare"
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// expected is the Kind's Expected: the network, and its own router.
func expected(obj *cloudteamv1.Network) []managed.Lookup {
	name := declare.NetworkName(obj)
	network := managed.Lookup{Resource: plan.Resource{Kind: plan.KindNetwork, ID: obj.Status.NetworkID}, Name: name}
	if obj.Spec.Import != nil {
		network.ID, network.Imported = obj.Spec.Import.ID, true
	}
	if obj.Spec.Router == nil || obj.Spec.Router.Existing != "" {
		return []managed.Lookup{network}
	}
	router := managed.Lookup{Resource: plan.Resource{Kind: plan.KindRouter}, Name: name}
	if status := obj.Status.Router; status != nil && !status.Existing {
		router.ID = status.ID
	}
	return []managed.Lookup{network, router}
}

// routerStatus says which router serves the network: its own, or the one that has its interfaces.
func routerStatus(observed plan.Observed) *cloudteamv1.RouterStatus {
	if own, exists := observed.Router(); exists {
		status := &cloudteamv1.RouterStatus{ID: own.ID, ExternalNetworkID: own.Gateway.NetworkID}
		for _, a := range own.Gateway.Addresses {
			status.ExternalIPs = append(status.ExternalIPs, a.String())
		}
		return status
	}
	for _, p := range observed.Ports {
		if p.Router != "" {
			return &cloudteamv1.RouterStatus{ID: p.Router, Existing: true}
		}
	}
	return nil
}
