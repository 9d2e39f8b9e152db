package deployment

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// verdict is what to tell users.
type verdict struct {
	// reason is a Reason of package cloudteamv1, empty if nothing blocks the Deployment. message says what blocks it, and
	// what to change.
	reason, message string
	// total is how many ports there should be.
	total int
	// settled is true if all needed ports exist and are Ready.
	settled bool
}

// judge fills in the first obstacle. stay are the ports that the plan keeps.
func (o observed) judge(p *plan, pools []pool, stay []*cloudteamv1.NetworkPort) {
	v := &p.say
	for _, port := range stay {
		v.settled = v.settled && ready(port)
	}
	for _, obstacle := range []func(*verdict){
		o.unreadable,
		func(v *verdict) { o.missingNetworks(v, pools) },
		func(v *verdict) { o.impossible(v, pools) },
		func(v *verdict) { o.failing(v, stay, p.withheld) },
		func(v *verdict) {
			if p.exceeded != "" {
				v.reason, v.message = cloudteamv1.ReasonPortLimitReached, p.exceeded
			}
		},
	} {
		if v.reason == "" {
			obstacle(v)
		}
	}
}

// unreadable reports an annotation that cannot be read.
func (o observed) unreadable(v *verdict) {
	if o.invalid != nil {
		v.reason = cloudteamv1.ReasonInvalidNetworks
		v.message = fmt.Sprintf("the Pod template's annotation %s declares no networks that can be had: %s",
			selection.Annotation, strings.ReplaceAll(o.invalid.Error(), "\n", "; "))
		if other, ok := errors.AsType[*consumer.AnnotationError](o.invalid); ok {
			v.message = "the Pod template's " + other.Error()
		}
	}
}

// errHostNetwork is for a template whose Pods have no network interfaces.
var errHostNetwork = errors.New("the Pods are on their node's network (hostNetwork: true) and have no network " +
	"interfaces: remove hostNetwork from the Pod template, or the annotation")

// missingNetworks reports declared networks that do not exist, or that do not allow the namespace.
func (o observed) missingNetworks(v *verdict, pools []pool) {
	var names []cache.ObjectName
	for _, p := range pools {
		if p.times > 0 && p.standing.kind == consumer.Missing {
			names = append(names, p.request.Network)
		}
	}
	slices.SortFunc(names, func(a, b cache.ObjectName) int { return strings.Compare(a.String(), b.String()) })
	if len(names) > 0 {
		v.reason, v.message = consumer.NotFound(o.deployment.Namespace, slices.Compact(names),
			"correct the Pod template's annotation "+selection.Annotation)
	}
}

// impossible reports an address that more than one Pod would need.
func (o observed) impossible(v *verdict, pools []pool) {
	for _, p := range pools {
		if !p.request.Exclusive() || p.times == 0 {
			continue
		}
		asked := fmt.Sprintf("networks[%d] asks for %s of Network %s, which one port can have", p.declared,
			strings.Trim(p.request.Addresses+","+p.request.MAC, ","), p.request.Network)
		switch _, unavailable := fenceposts(o.deployment); {
		case p.times > 1:
			v.message = fmt.Sprintf("%s, and %d selections ask for it: remove ips and mac from all but one", asked, p.times)
		case replicasOf(o.deployment) > 1:
			v.message = fmt.Sprintf("%s, and spec.replicas is %d: remove ips and mac from the Pod template's annotation %s, "+
				"or set spec.replicas to 1 and spec.strategy.type to Recreate", asked, replicasOf(o.deployment),
				selection.Annotation)
		case o.rolling && unavailable == 0 && p.unmet > 0 && len(p.held) > 0:
			// The new Pod waits for the old one's port, and the old one for the new one to be available.
			v.message = asked + ", and the rolling update keeps the old Pod, which has it, until the new one is available: " +
				"set spec.strategy.type to Recreate"
		default:
			continue
		}
		v.reason = cloudteamv1.ReasonInvalidNetworks
		return
	}
}

// failing reports ports that fail, and why the first of them fails. withheld is how many are not created before a
// failing one is.
func (o observed) failing(v *verdict, ports []*cloudteamv1.NetworkPort, withheld int) {
	var failing []*cloudteamv1.NetworkPort
	made := false
	for _, port := range ports {
		if port.DeletionTimestamp == nil && o.fails(port) {
			failing = append(failing, port)
			made = made || port.Status.PortID != ""
		}
	}
	if len(failing) == 0 {
		return
	}
	first := slices.MinFunc(failing, consumer.CompareByName)
	why := meta.FindStatusCondition(first.Status.Conditions, cloudteamv1.ConditionReady)
	v.reason = cloudteamv1.ReasonPortsFailed
	if why.Reason == cloudteamv1.ReasonNamespaceNotAllowed {
		v.reason = cloudteamv1.ReasonNamespaceNotAllowed
	}
	what := "cannot be created"
	if made {
		what = "are failing"
	}
	v.message = fmt.Sprintf("%d of %d ports %s; %s: %s: %s", len(failing)+withheld, v.total, what, first.Name,
		why.Reason, consumer.Quoted(why.Message))
}

// fails reports whether a port is not Ready for a reason that does not end soon by itself. A Network that is being
// created, a concurrent change and a rate limit end by themselves. A stalled or missing Network does not, and neither
// does what a SecurityGroup may lack.
func (o observed) fails(port *cloudteamv1.NetworkPort) bool {
	if consumer.StateOf(port) == consumer.PortFailing {
		return true
	}
	condition := meta.FindStatusCondition(port.Status.Conditions, cloudteamv1.ConditionReady)
	switch {
	case condition != nil && condition.Reason == cloudteamv1.ReasonSecurityGroupNotReady:
		return true
	case condition == nil || condition.Reason != cloudteamv1.ReasonNetworkNotReady:
		return false
	}
	network := o.resolve(consumer.NetworkOf(port))
	return network.kind != consumer.Ours || network.stalled
}
