package declare

import (
	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// routerOf translates a Network's router into the domain's form. It omits what users may declare by name. The Network's
// controller adds those ids.
func routerOf(s *cloudteamv1.RouterSpec) (*plan.RouterSpec, error) {
	if s == nil {
		return nil, nil
	}
	router := &plan.RouterSpec{
		Existing: s.Existing, ExternalNetwork: s.ExternalNetwork, SNAT: s.SNAT, HA: s.HA, Distributed: s.Distributed,
	}
	p := parser{within: "router."}
	if s.ExternalIP != "" {
		router.ExternalIP = p.addr(plan.FieldExternalIP, s.ExternalIP)
	}
	router.Routes = routes(&p, plan.FieldRoutes, s.Routes)
	return router, p.err()
}
