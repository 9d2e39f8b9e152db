package controllertest

import (
	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// DeriveNetworks does to the annotations of a Pod that declares networks what config/admission/networks.yaml does when
// the Pod is created, or changed.
func DeriveNetworks(created bool, annotations map[string]string) {
	declared := annotations[selection.Annotation]
	if created {
		annotations[cloudteamv1.AnnotationDeclaredNetworks] = declared
		return
	}
	was, known := annotations[cloudteamv1.AnnotationDeclaredNetworks]
	if resolved, ok := annotations[cloudteamv1.AnnotationResolvedNetworks]; ok && known && was == declared {
		annotations[selection.Annotation] = resolved
	}
}
