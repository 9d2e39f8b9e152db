package consumer

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

const (
	// MaxGroups is how many SecurityGroups a Pod may declare: as many as spec.securityGroupRefs of a NetworkPort may have.
	MaxGroups = 16
	// MaxGroupsSize is the maximum number of bytes of AnnotationSecurityGroups: MaxGroups names, with a comma and a space
	// after each.
	MaxGroupsSize = MaxGroups * (validation.DNS1123SubdomainMaxLength + 2)
)

// GroupsError is what is wrong with AnnotationSecurityGroups.
type GroupsError struct{ problem string }

// Error names the annotation, the problem and the remedy.
func (e *GroupsError) Error() string {
	return "annotation " + cloudteamv1.AnnotationSecurityGroups + ": " + e.problem
}

// GroupsDeclared gives the SecurityGroups that a Pod or Pod template declares, in the form of Request.Groups. Without
// the annotation there are none. The names have no namespace: a Pod cannot name what another namespace has. The error
// is a *GroupsError.
func GroupsDeclared(annotations map[string]string) (groups string, err error) {
	text, declares := annotations[cloudteamv1.AnnotationSecurityGroups]
	const remedy = "write names of SecurityGroups of the namespace with commas between, such as web,db, or remove the " +
		"annotation"
	switch {
	case !declares:
		return "", nil
	case len(text) > MaxGroupsSize:
		return "", &GroupsError{fmt.Sprintf("it has more than %d bytes: %s", MaxGroupsSize, remedy)}
	case strings.Count(text, ",") >= MaxGroups:
		return "", &GroupsError{fmt.Sprintf("it lists more than %d names: %s", MaxGroups, remedy)}
	}
	names := strings.Split(text, ",")
	for i, name := range names {
		names[i] = strings.TrimSpace(name)
		if len(validation.IsDNS1123Subdomain(names[i])) > 0 {
			return "", &GroupsError{fmt.Sprintf("%q is no name of a SecurityGroup: %s", names[i], remedy)}
		}
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ","), nil
}
