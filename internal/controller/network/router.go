package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"cloudteam.ztgame.com/network-controller/internal/controller/owned"
	"cloudteam.ztgame.com/network-controller/internal/network"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// desiredRouter brings what a Network says of its router into the domain's form, but for what users may call by name:
// resolve puts ids there.
func desiredRouter(s *cloudteamv1.RouterSpec) (*network.RouterSpec, error) {
	if s == nil {
		return nil, nil
	}
	router := &network.RouterSpec{Existing: s.Existing, ExternalNetwork: s.ExternalNetwork, SNAT: s.SNAT}
	var errs []error
	refuse := func(field, format string, args ...any) {
		errs = append(errs, &network.FieldError{Field: "router." + field, Problem: fmt.Sprintf(format, args...)})
	}
	if s.ExternalIP != "" {
		var err error
		if router.ExternalIP, err = netip.ParseAddr(s.ExternalIP); err != nil {
			refuse(network.FieldExternalIP, "%q is no address: write one such as 203.0.113.10", s.ExternalIP)
		}
	}
	for i, route := range s.Routes {
		field := fmt.Sprintf("%s[%d]", network.FieldRoutes, i)
		destination, err := netip.ParsePrefix(route.Destination)
		if err != nil {
			refuse(field+".destination", "%q is no CIDR: write one such as 10.1.0.0/16", route.Destination)
		}
		nextHop, err := netip.ParseAddr(route.NextHop)
		if err != nil {
			refuse(field+".nextHop", "%q is no address: write one such as 192.168.0.254", route.NextHop)
		}
		router.Routes = append(router.Routes, network.Route{Destination: destination, NextHop: nextHop})
	}
	return router, errors.Join(errs...)
}

// resolve is owned.Kind's: it puts ids in the place of names.
func resolve(ctx context.Context, in owned.Inventory, declared owned.Declaration) (owned.Declaration, error) {
	d, ok := declared.(declaration)
	if !ok || d.Router == nil {
		return declared, nil
	}
	router := *d.Router
	var err error
	switch {
	case router.Existing != "":
		router.Existing, err = in.Router(ctx, router.Existing)
	case router.ExternalNetwork != "":
		router.ExternalNetwork, err = in.ExternalNetwork(ctx, router.ExternalNetwork)
	}
	d.Router = &router
	return d, err
}

// hasRouter reports whether a Network declares a router, or was seen to have one.
func hasRouter(obj *cloudteamv1.Network) bool {
	return obj.Spec.Router != nil || obj.Status.Router != nil
}

// parts is owned.Kind's: the network's own router.
func parts(obj *cloudteamv1.Network) []network.Resource {
	if obj.Spec.Router == nil || obj.Spec.Router.Existing != "" {
		return nil
	}
	router := network.Resource{Kind: network.KindRouter}
	if status := obj.Status.Router; status != nil && !status.Existing {
		router.ID = status.ID
	}
	return []network.Resource{router}
}

// routerStatus tells which router serves the network: its own, or the one that its interfaces are on.
func routerStatus(observed network.Observed) *cloudteamv1.RouterStatus {
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
