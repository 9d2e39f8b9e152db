package app

import (
	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/controller/netpolicy"
	groupcontroller "cloudteam.ztgame.com/network-controller/internal/controller/securitygroup"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// groupTrims: policies have SecurityGroups made, and say on them what is wrong.
var groupTrims = trimsFor(annotations{
	consumer.AnnotationMadeFor: 512, cloudteamv1.AnnotationPolicyProblem: netpolicy.MaxProblem,
}, false, func(g *cloudteamv1.SecurityGroup) {
	g.Spec = cloudteamv1.SecurityGroupSpec{
		Cloud: g.Spec.Cloud, ClassName: g.Spec.ClassName, DeletionPolicy: g.Spec.DeletionPolicy,
		ManagementPolicy: g.Spec.ManagementPolicy,
	}
}, func(g *cloudteamv1.SecurityGroup) { g.Status.Class = nil })

func (p *process) buildSecurityGroup() (started, error) {
	groups := p.factory.Cloudteam().V1().SecurityGroups()
	var in *groupcontroller.Members
	if ports := p.ports(); ports != nil {
		in = &groupcontroller.Members{Ports: ports, Networks: p.factory.Cloudteam().V1().Networks()}
	}
	c, err := groupcontroller.NewController(
		p.client.CloudteamV1(), groups, in, p.inventory(), p.recorder, p.cluster, p.classes)
	if err != nil {
		return nil, err
	}
	return serveManaged(p, c), nil
}
