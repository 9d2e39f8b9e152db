package app

import (
	"slices"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/controller/netpolicy"
	portcontroller "cloudteam.ztgame.com/network-controller/internal/controller/networkport"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	informersv1 "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions/cloudteam/v1"
)

// portTrims: MultiNetworkPolicies select ports by their labels.
var portTrims = trimsFor(annotations{
	consumer.AnnotationMadeFor:           512,
	cloudteamv1.AnnotationSecurityGroups: consumer.MaxGroupsSize,
	cloudteamv1.AnnotationFloatingIP:     1 << 10, // one external network, of 255 characters
}, true, func(p *cloudteamv1.NetworkPort) {
	p.Spec = cloudteamv1.NetworkPortSpec{
		NetworkName: p.Spec.NetworkName, NetworkNamespace: p.Spec.NetworkNamespace,
		SecurityGroupRefs: p.Spec.SecurityGroupRefs, FloatingIP: p.Spec.FloatingIP,
		DeletionPolicy: p.Spec.DeletionPolicy,
	}
}, func(p *cloudteamv1.NetworkPort) {
	p.Labels = map[string]string{netpolicy.TooManyLabels: ""}
	p.Status.Addresses = slices.Clone(p.Status.Addresses[:min(len(p.Status.Addresses), 2)])
	p.Status.Drift, p.Status.SecurityGroupIDs, p.Spec.SecurityGroupRefs = nil, nil, nil
})

func (p *process) buildNetworkPort() (started, error) {
	objects := p.factory.Cloudteam().V1()
	// Without the CRD of SecurityGroups, only the ports that name one wait.
	var groups informersv1.SecurityGroupInformer
	if p.installed(groupResource) {
		groups = objects.SecurityGroups()
	}
	by, err := p.networkPolicies()
	if err != nil {
		return nil, err
	}
	c, err := portcontroller.NewController(p.client.CloudteamV1(), objects.NetworkPorts(), objects.Networks(), groups,
		p.inventory(), p.recorder, p.cluster, p.classes, by)
	if err != nil {
		return nil, err
	}
	return serveManaged(p, c), nil
}

// ports gives the NetworkPorts that a deleted Network or SecurityGroup waits for; nil without this controller or their
// CRD, because then there are none. When the CRD is installed later, Neutron refuses to delete what has ports, until
// this process restarts.
func (p *process) ports() informersv1.NetworkPortInformer {
	if !p.options.enabled(portcontroller.Name) || !p.installed(portResource) {
		return nil
	}
	return p.factory.Cloudteam().V1().NetworkPorts()
}
