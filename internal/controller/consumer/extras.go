package consumer

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation"

	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

const (
	// MaxGroups is how many SecurityGroups a Pod may declare: as many as spec.securityGroupRefs of a NetworkPort may have.
	MaxGroups = 16
	// MaxGroupsSize is the maximum number of bytes of AnnotationSecurityGroups: MaxGroups names, with a comma and a space
	// after each.
	MaxGroupsSize = MaxGroups * (validation.DNS1123SubdomainMaxLength + 2)
	// MaxFloatingSize is the maximum number of bytes of AnnotationFloatingIP.
	MaxFloatingSize = 4 << 10
	// maxExternal is the maximum number of bytes of the id or name of an external network.
	maxExternal = 255
)

// AnnotationError is what is wrong with an annotation that says more of a Pod's ports.
type AnnotationError struct{ annotation, problem string }

// Error names the annotation, the problem and the remedy.
func (e *AnnotationError) Error() string { return "annotation " + e.annotation + ": " + e.problem }

// Extras is what a Pod or Pod template says of its ports beside their networks. It is comparable.
type Extras struct {
	// Groups are the SecurityGroups of all ports, in the form of Request.Groups.
	Groups string
	// Floating says which ports have a floating IP, in the form of the annotation, sorted.
	Floating string
	// namespace is the one of the Networks that Floating names.
	namespace string
}

// ExtrasDeclared reads the annotations of a Pod or Pod template in a namespace, with the networks that it declares. The
// error is an *AnnotationError.
func ExtrasDeclared(
	annotations map[string]string, namespace string, selections []selection.Selection,
) (e Extras, err error) {
	e.namespace = namespace
	if e.Groups, err = groupsDeclared(annotations); err != nil {
		return Extras{}, err
	}
	if e.Floating, err = FloatingDeclared(annotations); err != nil {
		return Extras{}, err
	}
	for of := range e.floating {
		named := func(s selection.Selection) bool { return s.Namespace == namespace && s.Name == of }
		if of != "" && !slices.ContainsFunc(selections, named) {
			return Extras{}, &AnnotationError{cloudteamv1.AnnotationFloatingIP, fmt.Sprintf("%q is no Network of the namespace "+
				"that annotation %s lists: correct the name, or list it there, too", of, selection.Annotation)}
		}
	}
	return e, nil
}

// groupsDeclared gives the SecurityGroups. Without the annotation there are none. The names have no namespace: a Pod
// cannot name what another namespace has.
func groupsDeclared(annotations map[string]string) (groups string, err error) {
	text, declares := annotations[cloudteamv1.AnnotationSecurityGroups]
	const remedy = "write names of SecurityGroups of the namespace with commas between, such as web,db, or remove the " +
		"annotation"
	refuse := func(format string, args ...any) error {
		return &AnnotationError{cloudteamv1.AnnotationSecurityGroups, fmt.Sprintf(format, args...) + ": " + remedy}
	}
	switch {
	case !declares:
		return "", nil
	case len(text) > MaxGroupsSize:
		return "", refuse("it has more than %d bytes", MaxGroupsSize)
	case strings.Count(text, ",") >= MaxGroups:
		return "", refuse("it lists more than %d names", MaxGroups)
	}
	names := strings.Split(text, ",")
	for i, name := range names {
		names[i] = strings.TrimSpace(name)
		if len(validation.IsDNS1123Subdomain(names[i])) > 0 {
			return "", refuse("%q is no name of a SecurityGroup", names[i])
		}
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ","), nil
}

// FloatingDeclared gives which ports have a floating IP, by the annotation: items such as web=public, sorted, with
// commas between, or =public for all ports. It is empty without the annotation. The error is an *AnnotationError.
func FloatingDeclared(annotations map[string]string) (floating string, err error) {
	text, declares := annotations[cloudteamv1.AnnotationFloatingIP]
	const remedy = "write the external network, such as public, or Networks of the namespace with theirs, such as " +
		"web=public,db=public, or remove the annotation"
	refuse := func(format string, args ...any) error {
		return &AnnotationError{cloudteamv1.AnnotationFloatingIP, fmt.Sprintf(format, args...) + ": " + remedy}
	}
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	switch {
	case !declares:
		return "", nil
	case len(text) > MaxFloatingSize:
		return "", refuse("it has more than %d bytes", MaxFloatingSize)
	}
	items := strings.Split(text, ",")
	for i, item := range items {
		network, external, named := strings.Cut(item, "=")
		network, external = strings.TrimSpace(network), strings.TrimSpace(external)
		if !named {
			network, external = "", network
		}
		switch {
		case external == "" || len(external) > maxExternal || strings.ContainsFunc(external, unprintable):
			return "", refuse("%q names no external network", item)
		case named && len(validation.IsDNS1123Subdomain(network)) > 0:
			return "", refuse("%q is no name of a Network", network)
		case !named && len(items) > 1:
			return "", refuse("%q does not say which Network it is for", item)
		}
		items[i] = network + "=" + external
	}
	slices.Sort(items)
	for i, item := range items[1:] {
		if network, _, _ := strings.Cut(item, "="); strings.HasPrefix(items[i], network+"=") && item != items[i] {
			return "", refuse("Network %q is listed twice", network)
		}
	}
	return strings.Join(slices.Compact(items), ","), nil
}

// floating gives the items of Floating: a Network's name, empty for all, and an external network.
func (e Extras) floating(yield func(network, external string) bool) {
	if e.Floating == "" {
		return
	}
	for item := range strings.SplitSeq(e.Floating, ",") {
		if network, external, _ := strings.Cut(item, "="); !yield(network, external) {
			return
		}
	}
}

// external is the external network of the floating IP of the port for a selection; empty for none.
func (e Extras) external(s selection.Selection) string {
	for of, external := range e.floating {
		if of == "" || of == s.Name && s.Namespace == e.namespace {
			return external
		}
	}
	return ""
}
