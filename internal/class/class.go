// Package class judges what a Network may do with an operator's credentials. A NetworkClass says which privileged
// fields, which ranges and which namespaces are allowed, and supplies values for what a Network leaves out. The package
// is pure: it reads no Kubernetes API. The admission policy of config/admission says the same in CEL.
package class

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// PrivateRanges are the allowed ranges of a class that lists none: private ones and those for carriers.
var PrivateRanges = []string{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"}

// Class is a NetworkClass. The zero value is the built-in class, for clusters without any: it allows every namespace
// its own networks in private ranges, with their own routers.
type Class struct {
	// Name is empty for the built-in class.
	Name string
	Spec cloudteamv1.NetworkClassSpec
}

// String names the class in messages.
func (c Class) String() string {
	if c.Name == "" {
		return "The built-in class"
	}
	return fmt.Sprintf("NetworkClass %q", c.Name)
}

// Of is the class of a NetworkClass.
func Of(obj *cloudteamv1.NetworkClass) Class { return Class{Name: obj.Name, Spec: obj.Spec} }

// Default gives the class of Networks that name none: of those with the annotation the newest, then the first by name.
// It is nil if no class has it.
func Default(classes []*cloudteamv1.NetworkClass) *cloudteamv1.NetworkClass {
	var found *cloudteamv1.NetworkClass
	for _, c := range classes {
		if c.Annotations[cloudteamv1.AnnotationDefaultClass] == "true" && (found == nil || before(c, found)) {
			found = c
		}
	}
	return found
}

// before reports whether a is the default class rather than b.
func before(a, b *cloudteamv1.NetworkClass) bool {
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.Name < b.Name
	}
	return b.CreationTimestamp.Before(&a.CreationTimestamp)
}

// Violation is one thing of a Network that its class forbids.
type Violation struct {
	// Field is what forbids it, such as spec.import.
	Field string
	// Problem says what is forbidden, and Remedy what to do. Both are parts of sentences.
	Problem, Remedy string
}

// setting is a privileged field, and where it stands in a Network.
type setting struct {
	field cloudteamv1.PrivilegedField
	path  string
	isSet func(*cloudteamv1.NetworkSpec) bool
}

// settings are all privileged fields.
var settings = []setting{
	{cloudteamv1.FieldImport, "spec.import", func(s *cloudteamv1.NetworkSpec) bool { return s.Import != nil }},
	{cloudteamv1.FieldSharedWith, "spec.sharedWith", func(s *cloudteamv1.NetworkSpec) bool { return s.SharedWith != nil }},
	{cloudteamv1.FieldShared, "spec.shared", func(s *cloudteamv1.NetworkSpec) bool { return s.Shared != nil }},
	{cloudteamv1.FieldExternal, "spec.external", func(s *cloudteamv1.NetworkSpec) bool { return s.External != nil }},
	{cloudteamv1.FieldProvider, "spec.provider", func(s *cloudteamv1.NetworkSpec) bool { return s.Provider != nil }},
	ofRouter(cloudteamv1.FieldExistingRouter, "existing",
		func(r *cloudteamv1.RouterSpec) bool { return r.Existing != "" }),
	ofRouter(cloudteamv1.FieldSNAT, "snat", func(r *cloudteamv1.RouterSpec) bool { return r.SNAT != nil }),
	ofRouter(cloudteamv1.FieldExternalIP, "externalIP",
		func(r *cloudteamv1.RouterSpec) bool { return r.ExternalIP != "" }),
	ofRouter(cloudteamv1.FieldHA, "ha", func(r *cloudteamv1.RouterSpec) bool { return r.HA != nil }),
	ofRouter(cloudteamv1.FieldDistributed, "distributed",
		func(r *cloudteamv1.RouterSpec) bool { return r.Distributed != nil }),
}

func ofRouter(field cloudteamv1.PrivilegedField, name string, isSet func(*cloudteamv1.RouterSpec) bool) setting {
	return setting{field, "spec.router." + name, func(s *cloudteamv1.NetworkSpec) bool {
		return s.Router != nil && isSet(s.Router)
	}}
}

// Violations gives what a class forbids in a Network's spec, in a namespace with the given labels. A range that is no
// CIDR is not judged: the spec is invalid then.
func (c Class) Violations(namespace string, of map[string]string, spec *cloudteamv1.NetworkSpec) []Violation {
	var found []Violation
	if !c.Selects(of) {
		found = append(found, Violation{
			"spec.className", "objects in namespace " + namespace, "name a class for this namespace in spec.className",
		})
	}
	for _, s := range settings {
		if s.isSet(spec) && !slices.Contains(c.Spec.AllowedFields, s.field) {
			found = append(found, Violation{
				s.path, s.path, fmt.Sprintf("leave %s out, or name a class whose allowedFields have %s", s.path, s.field),
			})
		}
	}
	for i, subnet := range spec.Subnets() {
		if c.holds(subnet.CIDR) {
			continue
		}
		path := "spec.cidr"
		if i > 0 {
			path = fmt.Sprintf("spec.additionalSubnets[%d].cidr", i-1)
		}
		found = append(found, Violation{
			path, path + " " + subnet.CIDR,
			fmt.Sprintf("write a cidr inside %s, or name a class whose allowedRanges have it", strings.Join(c.ranges(), ", ")),
		})
	}
	return found
}

// PortFields gives the privileged fields that a NetworkPort's spec sets.
func PortFields(spec *cloudteamv1.NetworkPortSpec) (set []cloudteamv1.PrivilegedField) {
	for _, s := range []struct {
		field cloudteamv1.PrivilegedField
		isSet bool
	}{
		{cloudteamv1.FieldAddressPairs, len(spec.AllowedAddressPairs) > 0},
		{cloudteamv1.FieldPortSecurity, spec.PortSecurity != nil && !*spec.PortSecurity},
		{cloudteamv1.FieldFloatingIP, spec.FloatingIP != nil},
		{cloudteamv1.FieldExternalIP, spec.FloatingIP != nil && spec.FloatingIP.Address != ""},
	} {
		if s.isSet {
			set = append(set, s.field)
		}
	}
	return set
}

// PortViolations gives what a class forbids in the spec of a NetworkPort on a Network of the class, in a namespace with
// the given labels. A class that is not for the Network's namespace allows no privileged field.
func (c Class) PortViolations(of map[string]string, spec *cloudteamv1.NetworkPortSpec) (found []Violation) {
	for _, field := range PortFields(spec) {
		path := "spec." + string(field)
		if field == cloudteamv1.FieldExternalIP {
			path = "spec.floatingIP.address"
		}
		if !c.allows(field, of) {
			found = append(found, Violation{path, path, fmt.Sprintf(
				"leave %s out, or use a Network whose class is for its namespace and has %s in allowedFields", path, field)})
		}
	}
	return found
}

// FloatingIPViolations gives what a class forbids of a FloatingIP of the class, in a namespace with the given labels.
func (c Class) FloatingIPViolations(
	namespace string, of map[string]string, spec *cloudteamv1.FloatingIPSpec,
) (found []Violation) {
	if !c.Selects(of) {
		return []Violation{{
			"spec.className", "objects in namespace " + namespace, "name a class for this namespace in spec.className",
		}}
	}
	for _, f := range []struct {
		field cloudteamv1.PrivilegedField
		what  string
		isSet bool
	}{
		{cloudteamv1.FieldFloatingIP, "FloatingIPs", true},
		{cloudteamv1.FieldImport, "spec.import", spec.Import != nil},
		{cloudteamv1.FieldExternalIP, "spec.address", spec.Address != ""},
	} {
		if f.isSet && !slices.Contains(c.Spec.AllowedFields, f.field) {
			found = append(found, Violation{"spec.className", f.what,
				fmt.Sprintf("name a class whose allowedFields have %s in spec.className", f.field)})
		}
	}
	return found
}

// FloatingToViolations gives what a class forbids of FloatingIPs that are associated with ports on a Network of the
// class, in a namespace with the given labels. A class that is not for the namespace allows none.
func (c Class) FloatingToViolations(network string, of map[string]string) []Violation {
	if c.allows(cloudteamv1.FieldFloatingIP, of) {
		return nil
	}
	return []Violation{{"spec.portName", "floating IPs of ports on Network " + network, fmt.Sprintf(
		"name a port in spec.portName that is on a Network whose class is for its namespace and has %s in allowedFields",
		cloudteamv1.FieldFloatingIP)}}
}

// EndpointsViolations gives what a class forbids of Services with endpoints on a Network of the class, in a namespace
// with the given labels. A class that is not for the namespace allows none. subnets are the CIDRs that the Network has
// in Neutron: those of another class may be left, and a pool's are in no spec.
func (c Class) EndpointsViolations(network string, of map[string]string, subnets []string) (v []Violation) {
	for _, cidr := range subnets {
		if !c.holds(cidr) {
			v = append(v, Violation{"spec.className", "endpoints of Services in subnet " + cidr + " of Network " + network,
				"remove that subnet, or name a class that has its range in allowedRanges"})
		}
	}
	if c.allows(cloudteamv1.FieldEndpoints, of) {
		return v
	}
	return []Violation{{"spec.className", "endpoints of Services on Network " + network, fmt.Sprintf(
		"name a class in the Network's spec.className that is for its namespace and has %s in allowedFields",
		cloudteamv1.FieldEndpoints)}}
}

// allows reports whether a namespace with these labels may use the class, and set a privileged field.
func (c Class) allows(field cloudteamv1.PrivilegedField, of map[string]string) bool {
	return c.Selects(of) && slices.Contains(c.Spec.AllowedFields, field)
}

// Selects reports whether a namespace with these labels may use the class. A selector that cannot be read selects none.
func (c Class) Selects(of map[string]string) bool {
	if c.Spec.NamespaceSelector == nil {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(c.Spec.NamespaceSelector)
	return err == nil && selector.Matches(labels.Set(of))
}

func (c Class) ranges() []string {
	if len(c.Spec.AllowedRanges) == 0 {
		return PrivateRanges
	}
	return c.Spec.AllowedRanges
}

// holds reports whether an allowed range has the whole of a cidr.
func (c Class) holds(cidr string) bool {
	inner, err := netip.ParsePrefix(cidr)
	return err != nil || slices.ContainsFunc(c.ranges(), func(text string) bool {
		outer, err := netip.ParsePrefix(text)
		return err == nil && outer.Bits() <= inner.Bits() && outer.Contains(inner.Addr())
	})
}

// Message says in one text what a class forbids, what that means (effect), and what to do. It is empty if the class
// forbids nothing.
func (c Class) Message(violations []Violation, effect string) string {
	if len(violations) == 0 {
		return ""
	}
	problems, remedies := make([]string, len(violations)), make([]string, len(violations))
	for i, v := range violations {
		problems[i], remedies[i] = v.Problem, v.Remedy
	}
	todo := strings.Join(remedies, "; ")
	return fmt.Sprintf("%s forbids %s. %s %s%s.",
		c, strings.Join(problems, ", "), effect, strings.ToUpper(todo[:1]), todo[1:])
}
