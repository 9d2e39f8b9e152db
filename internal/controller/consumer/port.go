package consumer

import (
	"encoding/hex"
	"hash/fnv"
	"net/netip"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// NetworkOf names the Network that a port is on, in the form that caches use.
func NetworkOf(port *cloudteamv1.NetworkPort) cache.ObjectName {
	return cache.ObjectName(port.Network())
}

// Request is what a selection requests of a port. Equal Requests can be served by the same ports. It is comparable.
type Request struct {
	// Network names the Network.
	Network cache.ObjectName
	// Addresses are the requested ones, without prefix lengths, sorted and joined by commas; empty for any.
	Addresses string
	// MAC is in lower case; empty for any.
	MAC string
	// Groups are the names of SecurityGroups of the own namespace, sorted and joined by commas; empty for the default
	// ones.
	Groups string
	// External is the id or name of the external network of the port's floating IP; empty for none.
	External string
}

// Exclusive reports whether at most one port can serve the request: it names an address, which no two ports can have.
func (r Request) Exclusive() bool { return r.Addresses != "" || r.MAC != "" }

// RequestOf is what a selection requests, of a Pod that says more of its ports; see ExtrasDeclared.
func RequestOf(s selection.Selection, of Extras) Request {
	addresses := make([]netip.Addr, len(s.Addresses))
	for i, prefix := range s.Addresses {
		addresses[i] = prefix.Addr()
	}
	on := cache.NewObjectName(s.Namespace, s.Name)
	return Request{on, joined(addresses), s.MAC, of.Groups, of.external(s)}
}

// ServedBy is the request that a port serves.
func ServedBy(port *cloudteamv1.NetworkPort) Request {
	var addresses []netip.Addr
	for _, text := range port.Spec.Addresses {
		if address, err := netip.ParseAddr(text); err == nil {
			addresses = append(addresses, address)
		}
	}
	return Request{NetworkOf(port), joined(addresses), strings.ToLower(port.Spec.MAC), groupsOf(port), externalOf(port)}
}

// Given is the request in a Pod's annotation after the Pod was given the port: it names everything that the port has
// got. ok is false if the port has not got it yet.
func Given(port *cloudteamv1.NetworkPort) (request Request, ok bool) {
	var addresses []netip.Addr
	for _, a := range port.Status.Addresses {
		if address, err := netip.ParsePrefix(a.Address); err == nil {
			addresses = append(addresses, address.Addr())
		}
	}
	request = ServedBy(port)
	request.Addresses, request.MAC = joined(addresses), strings.ToLower(port.Status.MAC)
	return request, request.Addresses != "" && request.MAC != ""
}

// groupsOf gives the SecurityGroups that a port was made for, in the form of Request.Groups. A writer that edits those
// in its spec, which can change, does not make it another Pod's port.
func groupsOf(port *cloudteamv1.NetworkPort) string {
	return port.Annotations[cloudteamv1.AnnotationSecurityGroups]
}

// externalOf is the external network of the floating IP that a port was made for, as groupsOf.
func externalOf(port *cloudteamv1.NetworkPort) string {
	return port.Annotations[cloudteamv1.AnnotationFloatingIP]
}

func joined(addresses []netip.Addr) string {
	slices.SortFunc(addresses, netip.Addr.Compare)
	texts := make([]string, len(addresses))
	for i, a := range addresses {
		texts[i] = a.String()
	}
	return strings.Join(texts, ",")
}

// NewPort makes a NetworkPort that serves a request for an object, which controls it: garbage collection removes the
// port with the object.
func NewPort(namespace, name string, owner metav1.OwnerReference, request Request) *cloudteamv1.NetworkPort {
	port := newPort(namespace, name, owner.Kind+"/"+owner.Name, request)
	port.OwnerReferences = []metav1.OwnerReference{owner}
	return port
}

// NewPortOfSlot makes a NetworkPort that serves a request for the Pods of a slot. Nothing controls it.
func NewPortOfSlot(name string, slot Slot, request Request) *cloudteamv1.NetworkPort {
	return newPort(slot.Namespace, name, slot.String(), request)
}

func newPort(namespace, name, madeFor string, request Request) *cloudteamv1.NetworkPort {
	port := &cloudteamv1.NetworkPort{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, Annotations: map[string]string{AnnotationMadeFor: madeFor},
	}}
	port.Spec.NetworkName, port.Spec.MAC = request.Network.Name, request.MAC
	if request.Network.Namespace != namespace {
		port.Spec.NetworkNamespace = request.Network.Namespace
	}
	if request.Groups != "" {
		port.Annotations[cloudteamv1.AnnotationSecurityGroups] = request.Groups
		port.Spec.SecurityGroupRefs = strings.Split(request.Groups, ",")
	}
	if request.External != "" {
		port.Annotations[cloudteamv1.AnnotationFloatingIP] = request.External
		port.Spec.FloatingIP = &cloudteamv1.PortFloatingIP{ExternalNetwork: request.External}
	}
	if request.Addresses != "" {
		port.Spec.Addresses = strings.Split(request.Addresses, ",")
	}
	return port
}

// PortName joins parts to the name of a port. If that is too long for an object's name, a hash of the whole replaces
// its end. So different parts give different names.
func PortName(parts ...string) string {
	name := strings.Join(parts, "-")
	if len(name) <= validation.DNS1123SubdomainMaxLength {
		return name
	}
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(name))
	tail := "-" + hex.EncodeToString(sum.Sum(nil))
	return strings.TrimRight(name[:validation.DNS1123SubdomainMaxLength-len(tail)], "-.") + tail
}
