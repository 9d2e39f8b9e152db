package controllertest

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller/classes"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// ClassNamespace is where the Secrets of the classes of tests are.
const ClassNamespace = "network-controller"

// Classes are NetworkClasses in memory, for tests to change.
type Classes struct {
	*classes.Classes
	known, namespaces cache.Indexer
}

// NewClasses makes Classes with some NetworkClasses.
func NewClasses(known ...*cloudteamv1.NetworkClass) *Classes {
	c := &Classes{
		classes.New(ClassNamespace),
		cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}),
		cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}),
	}
	c.Use(c.known, c.namespaces)
	for _, class := range known {
		c.Set(class)
	}
	return c
}

// Set adds or replaces a class.
func (c *Classes) Set(class *cloudteamv1.NetworkClass) {
	if err := c.known.Update(class); err != nil {
		panic(err) // it has a name
	}
}

// Remove removes a class.
func (c *Classes) Remove(name string) {
	if err := c.known.Delete(&cloudteamv1.NetworkClass{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		panic(err) // it has a name
	}
}

// Label gives a namespace labels.
func (c *Classes) Label(namespace string, labels map[string]string) {
	obj := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: labels}}
	if err := c.namespaces.Update(obj); err != nil {
		panic(err) // it has a name
	}
}

// OpenClasses has one class, which is the default and allows everything.
func OpenClasses() *classes.Classes {
	return NewClasses(OpenClass()).Classes
}

// OpenClass is the default class, and allows everything.
func OpenClass() *cloudteamv1.NetworkClass {
	return &cloudteamv1.NetworkClass{
		ObjectMeta: metav1.ObjectMeta{
			Name: "open", Annotations: map[string]string{cloudteamv1.AnnotationDefaultClass: "true"},
		},
		Spec: cloudteamv1.NetworkClassSpec{
			AllowedFields: []cloudteamv1.PrivilegedField{
				cloudteamv1.FieldImport, cloudteamv1.FieldExistingRouter, cloudteamv1.FieldSharedWith,
				cloudteamv1.FieldProvider, cloudteamv1.FieldExternal, cloudteamv1.FieldShared, cloudteamv1.FieldHA,
				cloudteamv1.FieldDistributed, cloudteamv1.FieldExternalIP, cloudteamv1.FieldSNAT, cloudteamv1.FieldFloatingIP,
				cloudteamv1.FieldEndpoints,
			},
			AllowedRanges: []string{"0.0.0.0/0", "::/0"},
		},
	}
}
