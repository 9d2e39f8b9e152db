package app

import (
	networkcontroller "cloudteam.ztgame.com/network-controller/internal/controller/network"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// networkTrims: what deletes a Network and what its ports need stays of a large one.
var networkTrims = trimsFor(nil, false, func(n *cloudteamv1.Network) {
	spec := n.Spec
	n.Spec = cloudteamv1.NetworkSpec{
		NetworkName: spec.NetworkName, DeletionPolicy: spec.DeletionPolicy, ManagementPolicy: spec.ManagementPolicy,
		Import: spec.Import, Cloud: spec.Cloud, ClassName: spec.ClassName,
		AllowedNamespaces: spec.AllowedNamespaces, SecurityGroupRefs: spec.SecurityGroupRefs,
	}
	if spec.Router != nil {
		n.Spec.Router = &cloudteamv1.RouterSpec{Existing: spec.Router.Existing}
	}
}, func(n *cloudteamv1.Network) {
	n.Spec.AllowedNamespaces, n.Spec.SecurityGroupRefs = nil, nil
	n.Status = cloudteamv1.NetworkStatus{ResourceStatus: n.Status.ResourceStatus, NetworkID: n.Status.NetworkID}
})

func (p *process) buildNetwork() (started, error) {
	networks := p.factory.Cloudteam().V1().Networks()
	c, err := networkcontroller.NewController(p.client.CloudteamV1(), networks, p.ports(), p.inventory(), p.recorder,
		p.cluster, networkcontroller.Options{AddressesLow: p.options.AddressesLow / 100, Classes: p.classes})
	if err != nil {
		return nil, err
	}
	c.ObserveEvery(p.options.AuditInterval)
	return serveManaged(p, c), nil
}
