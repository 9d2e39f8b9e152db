package declare

import (
	"cmp"

	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// object is one of any kind.
type object interface{ GetAnnotations() map[string]string }

// ImportID gives the id of what an object imports: the one in the spec, or what the spec's filter has found. It is
// empty if the object imports nothing, or has found nothing yet. Users can write the annotation, as they can the spec.
func ImportID(obj object) string {
	id, shown, by := importOf(obj)
	if by.Empty() {
		return id
	}
	if found := obj.GetAnnotations()[cloudteamv1.AnnotationImportID]; plan.IsID(found) {
		return found
	}
	return shown // somebody took the annotation off
}

// ImportFilter gives the filter of an import; it is empty for an import by an id, and without one.
func ImportFilter(obj object) plan.ImportFilter {
	_, _, by := importOf(obj)
	return by
}

// importOf gives the id and the filter of an object's import, and the id in the status.
func importOf(obj object) (id, shown string, by plan.ImportFilter) {
	switch obj := obj.(type) {
	case *cloudteamv1.Network:
		if i := obj.Spec.Import; i != nil {
			f := cmp.Or(i.Filter, &cloudteamv1.NetworkImportFilter{})
			return i.ID, obj.Status.NetworkID, plan.ImportFilter{Name: f.Name, Tags: f.Tags}
		}
	case *cloudteamv1.FloatingIP:
		if i := obj.Spec.Import; i != nil {
			f := cmp.Or(i.Filter, &cloudteamv1.FloatingIPImportFilter{})
			return i.ID, obj.Status.FloatingIPID, plan.ImportFilter{Tags: f.Tags}
		}
	}
	return "", "", plan.ImportFilter{}
}
