package app

import (
	floatingcontroller "cloudteam.ztgame.com/network-controller/internal/controller/floatingip"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// floatingIPTrims: a FloatingIP is never large by its spec.
var floatingIPTrims = trimsFor(nil, false, func(f *cloudteamv1.FloatingIP) { f.Status.Class = nil })

func (p *process) buildFloatingIP() (started, error) {
	objects := p.factory.Cloudteam().V1()
	c, err := floatingcontroller.NewController(p.client.CloudteamV1(), objects.FloatingIPs(),
		floatingcontroller.Ports{Ports: objects.NetworkPorts(), Networks: objects.Networks()}, p.inventory(), p.recorder,
		p.cluster, p.classes)
	if err != nil {
		return nil, err
	}
	return serveManaged(p, c), nil
}
