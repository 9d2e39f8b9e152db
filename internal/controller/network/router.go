package network

import (
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// hasRouter reports whether a Network declares a router, or was seen to have one.
func hasRouter(obj *cloudteamv1.Network) bool {
	return obj.Spec.Router != nil || obj.Status.Router != nil
}

// parts is managed.Kind's: the network's own router.
func parts(obj *cloudteamv1.Network) []plan.Resource {
	if obj.Spec.Router == nil || obj.Spec.Router.Existing != "" {
		return nil
	}
	router := plan.Resource{Kind: plan.KindRouter}
	if status := obj.Status.Router; status != nil && !status.Existing {
		router.ID = status.ID
	}
	return []plan.Resource{router}
}

// routerStatus tells which router serves the network: its own, or the one that its interfaces are on.
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
