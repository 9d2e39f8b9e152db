package securitygroup

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// inUse is the Kind's InUse. It names the NetworkPorts whose specs, or whose Networks, put them into the group, and
// counts those of other namespaces. One without a port in Neutron does not count: nobody but a controller can write the
// id. Neutron refuses to delete a group that other ports are in, and names them.
func (k *kind) inUse(obj *cloudteamv1.SecurityGroup) string {
	if k.members == nil {
		return ""
	}
	var own []string
	others := 0
	for _, port := range k.members(cache.MetaObjectToName(obj)) {
		switch {
		case port.Status.PortID == "":
		case port.Namespace == obj.Namespace:
			own = append(own, port.Name)
		default:
			others++
		}
	}
	slices.Sort(own)
	const shown = 3
	var users []string
	if more := len(own) - shown; more > 0 {
		users = append(users, fmt.Sprintf("NetworkPort %s and %d more", strings.Join(own[:shown], ", "), more))
	} else if len(own) > 0 {
		users = append(users, "NetworkPort "+strings.Join(own, ", "))
	}
	if others > 0 {
		users = append(users, fmt.Sprintf("%d of other namespaces", others))
	}
	if len(users) == 0 {
		return ""
	}
	return fmt.Sprintf("In use by %s. The group is deleted when no port is in it. Remove it from spec.securityGroupRefs "+
		"of the NetworkPorts or of their Network, or delete the Pods or NetworkPorts.", strings.Join(users, " and "))
}

// leftBy gives the function that names the SecurityGroups in deletion that a NetworkPort may be in.
func (k *kind) leftBy(networks cache.Store) func(metav1.Object) []cache.ObjectName {
	return func(obj metav1.Object) []cache.ObjectName {
		port, ok := obj.(*cloudteamv1.NetworkPort)
		if !ok {
			return nil
		}
		keys := k.leaving(port.Namespace, port.Spec.SecurityGroupRefs)
		if port.Spec.SecurityGroups != nil || port.Spec.SecurityGroupRefs != nil {
			return keys
		}
		if on, exists := controller.Cached[*cloudteamv1.Network](networks, cache.ObjectName(port.Network())); exists {
			return k.givenBy(on)
		}
		return keys
	}
}

// givenBy names the SecurityGroups in deletion that a Network has for its ports.
func (k *kind) givenBy(obj metav1.Object) []cache.ObjectName {
	on, ok := obj.(*cloudteamv1.Network)
	if !ok {
		return nil
	}
	return k.leaving(on.Namespace, on.Spec.SecurityGroupRefs)
}

// leaving gives the SecurityGroups in deletion among those of some names.
func (k *kind) leaving(namespace string, names []string) (keys []cache.ObjectName) {
	for _, name := range names {
		key := cache.NewObjectName(namespace, name)
		if group, exists := controller.Cached[*cloudteamv1.SecurityGroup](k.groups, key); exists &&
			group.DeletionTimestamp != nil {
			keys = append(keys, key)
		}
	}
	return keys
}

// sameGroups reports whether two states of a Network are the same for SecurityGroups.
func sameGroups(was, is *cloudteamv1.Network) bool {
	return slices.Equal(was.Spec.SecurityGroupRefs, is.Spec.SecurityGroupRefs)
}
