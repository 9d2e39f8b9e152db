// Package classes finds the NetworkClass of a Network in the caches of the controllers, and what follows from it: what
// the Network is judged by, whose credentials it uses, and which defaults it has.
package classes

import (
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/class"
	"cloudteam.ztgame.com/network-controller/internal/controller"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// Classes finds the classes of Networks. A nil one, or one without caches, finds only the built-in
// class, as in a cluster without the CRD. It is safe for concurrent use.
type Classes struct {
	namespace string
	from      atomic.Pointer[caches]
}

// New makes Classes whose credentials are in Secrets of the given namespace, the controller's own.
func New(namespace string) *Classes { return &Classes{namespace: namespace} }

// Namespace is where the Secrets of classes are.
func (c *Classes) Namespace() string {
	if c == nil {
		return ""
	}
	return c.namespace
}

// caches are where the classes and the namespaces' labels are.
type caches struct{ classes, namespaces cache.Store }

// Use sets where to look, from now on. The caches are full.
func (c *Classes) Use(classes, namespaces cache.Store) {
	c.from.Store(&caches{classes, namespaces})
}

// Made is how a Network is made, by its class.
type Made struct {
	// With is the class for status.class; nil for a Network without a class, and for the built-in class without anything
	// to remember.
	With *cloudteamv1.AppliedClass
	// Credentials are those of the class; nil for the controller's own.
	Credentials *cloudteamv1.ClassCredentials
	// Kept is whether the network is kept as declared, whatever its class says now, because this generation of it was
	// applied once.
	Kept bool
	// Unknown is whether nobody can tell whose credentials to use: the class does not exist, or is not for the namespace,
	// and none is recorded.
	Unknown bool
}

// Of gives how a Network is made. A Network that was applied, or is being deleted, uses the credentials on record, so
// that neither another default class nor a class that is gone moves it.
func (c *Classes) Of(obj *cloudteamv1.Network) Made {
	switch {
	case obj.Spec.Cloud != nil:
		return Made{}
	case kept(obj): // as most are, in most of their syncs
		return c.recorded(obj)
	}
	return c.made(obj, c.RuleOf(obj))
}

// made is Of. A class that is not for the namespace lends no credentials, also while it refuses the Network: ports on
// that are served all the same.
func (c *Classes) made(obj *cloudteamv1.Network, rule Rule) Made {
	if kept(obj) {
		return c.recorded(obj)
	}
	barred := rule.Missing != "" || !rule.Selects(c.labelsOf(obj.Namespace))
	switch {
	case obj.Status.Class != nil && (barred || obj.DeletionTimestamp != nil):
		return c.recorded(obj)
	case barred:
		return Made{Unknown: true}
	}
	return Made{With: first(obj, rule.Class), Credentials: rule.Spec.Credentials}
}

// Judge gives how a Network is made, and which class judges it. What that forbids, a reason and a message for its
// conditions say; both are empty if it forbids nothing.
func (c *Classes) Judge(obj *cloudteamv1.Network) (made Made, rule Rule, reason, message string) {
	if obj.Spec.Cloud != nil {
		return Made{}, Rule{}, "", ""
	}
	rule = c.RuleOf(obj)
	made = c.made(obj, rule)
	if rule.Missing != "" {
		return made, rule, cloudteamv1.ReasonClassNotFound, rule.Missing
	}
	violations := rule.Violations(obj.Namespace, c.labelsOf(obj.Namespace), &obj.Spec)
	if len(violations) == 0 {
		return made, rule, "", ""
	}
	return made, rule, cloudteamv1.ReasonForbiddenByClass, rule.Message(violations, effect(made.Kept))
}

// JudgeFloatingIP is Judge for a FloatingIP with a spec. obj is a Network of its class and cloud.
func (c *Classes) JudgeFloatingIP(
	obj *cloudteamv1.Network, spec *cloudteamv1.FloatingIPSpec,
) (made Made, rule Rule, reason, message string) {
	made, rule, reason, message = c.Judge(obj)
	if reason != "" || obj.Spec.Cloud != nil {
		return made, rule, reason, message
	}
	if violations := rule.FloatingIPViolations(obj.Namespace, c.labelsOf(obj.Namespace), spec); len(violations) > 0 {
		return made, rule, cloudteamv1.ReasonForbiddenByClass, rule.Message(violations, effect(made.Kept))
	}
	return made, rule, "", ""
}

// JudgeFloatingTo gives the message that says what the class of a Network forbids of FloatingIPs that are associated
// with ports on it; empty if nothing. kept is whether one is associated already.
func (c *Classes) JudgeFloatingTo(on *cloudteamv1.Network, kept bool) string {
	if on.Spec.Cloud != nil {
		return ""
	}
	means := "The address is kept but not associated with a port."
	if kept {
		means = effect(kept)
	}
	rule := c.RuleOf(on)
	return rule.Message(rule.FloatingToViolations(on.Name, c.labelsOf(on.Namespace)), means)
}

// JudgeEndpoints gives the message that says why no Service may have endpoints on a Network; empty if they may. Unlike
// with all else, what a class allowed earlier does not count: those who follow endpoints send packets to any address.
// So a Network with its own credentials has none: its cloud could return the address of anything.
func (c *Classes) JudgeEndpoints(on *cloudteamv1.Network) string {
	if on.Spec.Cloud != nil {
		return fmt.Sprintf("Network %s has its own credentials (spec.cloud), and so no class that allows endpoints of "+
			"Services: name a class in spec.className, or remove the annotation", on.Name)
	}
	_, rule, reason, message := c.Judge(on)
	if reason != "" {
		return message
	}
	var subnets []string
	for _, s := range on.Status.Subnets {
		subnets = append(subnets, s.CIDR)
	}
	return rule.Message(rule.EndpointsViolations(on.Name, c.labelsOf(on.Namespace), subnets),
		"The Service has no endpoints there.")
}

// JudgePort gives the message that says what the class of a Network forbids in the spec of a port on it; empty if
// nothing. kept is whether the port is nevertheless kept as declared.
func (c *Classes) JudgePort(on *cloudteamv1.Network, spec *cloudteamv1.NetworkPortSpec, kept bool) string {
	if on.Spec.Cloud != nil {
		return ""
	}
	rule := c.RuleOf(on)
	return rule.Message(rule.PortViolations(c.labelsOf(on.Namespace), spec), effect(kept))
}

// Unapplied reports whether the present spec of a Network may still be refused, such as the class that it names. An
// observed Network is never applied.
func Unapplied(on *cloudteamv1.Network) bool { return !kept(on) && !on.Observes() }

// kept reports whether the present spec was applied once.
func kept(obj *cloudteamv1.Network) bool {
	return controller.WasApplied(obj, obj.Status.AppliedGeneration)
}

// effect says what a violation means.
func effect(kept bool) string {
	if kept {
		return "What exists is kept as declared; the next change of the spec is not applied."
	}
	return "Nothing is created or changed in Neutron."
}

// Rule is the class that judges a Network.
type Rule struct {
	class.Class
	// Missing says that there is no such class; empty if there is.
	Missing string
}

// Limits are those of the class, none for a Network without a class.
func (r Rule) Limits() cloudteamv1.ClassLimits {
	if r.Spec.Limits == nil {
		return cloudteamv1.ClassLimits{}
	}
	return *r.Spec.Limits
}

// RuleOf gives the class that judges a Network that names no cloud; for others it is the zero value.
func (c *Classes) RuleOf(obj *cloudteamv1.Network) Rule {
	if obj.Spec.Cloud != nil {
		return Rule{}
	}
	from := c.caches()
	if name := obj.Spec.ClassName; name != "" {
		if found := from.get(name); found != nil {
			return Rule{Class: class.Of(found)}
		}
		return Rule{Missing: fmt.Sprintf("There is no NetworkClass %q. %s Name an existing class in spec.className, or "+
			"have it created.", name, effect(kept(obj)))}
	}
	all := from.all()
	if len(all) == 0 {
		return Rule{}
	}
	if found := class.Default(all); found != nil {
		return Rule{Class: class.Of(found)}
	}
	return Rule{Missing: fmt.Sprintf("No NetworkClass is the default. %s Name a class in spec.className, or have one "+
		"marked with the annotation %s.", effect(kept(obj)), cloudteamv1.AnnotationDefaultClass)}
}

// recorded is how a Network was made, with the present credentials of its class, if that exists. A record without
// credentials was made with the controller's own, and so is a Network without a record.
func (c *Classes) recorded(obj *cloudteamv1.Network) Made {
	made := Made{With: obj.Status.Class, Kept: kept(obj)}
	was := obj.Status.Credentials
	if made.With == nil || was == nil {
		return made
	}
	if was.Namespace == obj.Namespace && obj.Namespace != c.Namespace() {
		return made // by a Secret of its own, whose name may be that of anybody's in the controller's namespace
	}
	if found := c.caches().get(made.With.Name); found != nil && found.Spec.Credentials != nil {
		made.Credentials = found.Spec.Credentials
	} else {
		made.Credentials = &cloudteamv1.ClassCredentials{SecretName: was.SecretName, Name: was.Name}
	}
	return made
}

// first gives the record of a generation that was not applied yet. Its class's credentials are used; if they are for
// another project than the network's, it is Stalled by its status.cloud. Defaults stay, unless the spec names another
// class.
func first(obj *cloudteamv1.Network, rule class.Class) *cloudteamv1.AppliedClass {
	record := obj.Status.Class
	defaults := rule.Spec.Defaults
	named := obj.Spec.ClassName
	switch {
	case record != nil && (named == "" || named == record.Name):
		defaults = record.Defaults
	case record == nil && named == "" && obj.Status.AppliedGeneration > 0:
		defaults = nil // it was applied before there were classes
	case record != nil && record.Defaults != nil && record.Defaults.SubnetPool != "":
		// Another pool would mean another subnet.
		changed := cloudteamv1.ClassDefaults{}
		if defaults != nil {
			changed = *defaults
		}
		changed.SubnetPool = record.Defaults.SubnetPool
		defaults = &changed
	}
	if rule.Name == "" && rule.Spec.Credentials == nil && defaults == nil {
		return nil
	}
	return &cloudteamv1.AppliedClass{Name: rule.Name, Defaults: defaults}
}

// Effective gives the Network with its class's defaults for what its spec leaves out. It is obj itself without any.
func (m Made) Effective(obj *cloudteamv1.Network) *cloudteamv1.Network {
	if m.With == nil || m.With.Defaults == nil {
		return obj
	}
	effective := *obj
	effective.Spec = class.WithDefaults(obj.Spec, m.With.Defaults)
	return &effective
}

func (c *Classes) caches() *caches {
	if c == nil {
		return nil
	}
	return c.from.Load()
}

func (c *Classes) labelsOf(namespace string) map[string]string {
	from := c.caches()
	if from == nil {
		return nil
	}
	if found, exists := controller.Cached[*corev1.Namespace](from.namespaces, cache.ObjectName{Name: namespace}); exists {
		return found.Labels
	}
	return nil
}

func (f *caches) get(name string) *cloudteamv1.NetworkClass {
	if f == nil {
		return nil
	}
	found, _ := controller.Cached[*cloudteamv1.NetworkClass](f.classes, cache.ObjectName{Name: name})
	return found
}

func (f *caches) all() []*cloudteamv1.NetworkClass {
	if f == nil {
		return nil
	}
	return controller.All[*cloudteamv1.NetworkClass](f.classes)
}

// LimitMessage gives the message that says that a namespace has as many objects of a kind, such as Network, as the
// class allows.
func (r Rule) LimitMessage(kind string) func(limit int32) string {
	return func(limit int32) string {
		return fmt.Sprintf("NetworkClass %q allows %d %ss per namespace, and this namespace already has that many. Nothing "+
			"is created. Delete a %[3]s of this class, name another class in spec.className, or have the limit raised.", r.Name,
			limit, kind)
	}
}

// PortLimitMessage says that a Network has as many NetworkPorts as its class allows.
func PortLimitMessage(on fmt.Stringer, limit int32) string {
	return fmt.Sprintf("The NetworkClass of Network %s allows %d NetworkPorts on it, and it already has that many. The "+
		"port is created when one of them is deleted. Delete a NetworkPort, use another Network, or have the limit raised.",
		on, limit)
}

// PortsPerDeployment gives the number of NetworkPorts that one Deployment may have on a Network; limited is false
// without a limit.
func (c *Classes) PortsPerDeployment(on *cloudteamv1.Network) (most int, limited bool) {
	if limit := c.RuleOf(on).Limits().PortsPerDeployment; limit != nil {
		return int(*limit), true
	}
	return 0, false
}
