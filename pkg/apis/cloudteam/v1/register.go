package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam"
)

// SchemeGroupVersion is the group and version of the types in this package.
var SchemeGroupVersion = schema.GroupVersion{Group: cloudteam.GroupName, Version: "v1"}

var (
	// SchemeBuilder collects the functions that add this package's types to a scheme.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)
	// AddToScheme adds this package's types to a scheme. The generated clientset calls it.
	AddToScheme = SchemeBuilder.AddToScheme
)

// Kind returns the group-qualified form of a kind of this package.
func Kind(kind string) schema.GroupKind {
	return SchemeGroupVersion.WithKind(kind).GroupKind()
}

// Resource returns the group-qualified form of a resource of this package. The generated listers call it.
func Resource(resource string) schema.GroupResource {
	return SchemeGroupVersion.WithResource(resource).GroupResource()
}

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion,
		&Network{}, &NetworkList{}, &NetworkClass{}, &NetworkClassList{}, &NetworkPort{}, &NetworkPortList{},
		&SecurityGroup{}, &SecurityGroupList{}, &FloatingIP{}, &FloatingIPList{})
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	return nil
}
