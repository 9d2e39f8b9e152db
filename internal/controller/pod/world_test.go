package pod

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubeinformers "k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/consumer"
	"cloudteam.ztgame.com/network-controller/internal/controller/controllertest"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/fake"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// portOf reads a port from its name and what else is to be said of it: "going", "bound:UID", or "version:N". The last
// but one part of the name is the network's: web-net-0.
func portOf(text string) *cloudteamv1.NetworkPort {
	words := strings.Fields(text)
	parts := strings.Split(words[0], "-")
	port := &cloudteamv1.NetworkPort{}
	port.Namespace, port.Name, port.UID, port.ResourceVersion = "team", words[0], types.UID(words[0]), "1"
	port.Spec.NetworkName = parts[len(parts)-2]
	port.Status.PortID, port.Status.MAC = words[0], "fa:16:3e:00:00:01"
	port.Status.Addresses = []cloudteamv1.PortAddress{{Address: "192.168.0.7/16"}}
	for _, word := range words[1:] {
		what, value, _ := strings.Cut(word, ":")
		switch what {
		case "going":
			port.DeletionTimestamp = &metav1.Time{}
		case "bound":
			port.Status.BoundTo = &cloudteamv1.PortBinding{Kind: "Pod", Name: value, UID: types.UID(value)}
		case "mac":
			port.Spec.MAC = "fa:16:3e:00:00:01"
		case "version":
			port.ResourceVersion = value
		}
	}
	return port
}

// requestFor is that of a selection of a network, "net" or "net mac".
func requestFor(text string) consumer.Request {
	network, mac, _ := strings.Cut(text, " ")
	request := consumer.Request{Network: cache.NewObjectName("team", network)}
	if mac != "" {
		request.MAC = "fa:16:3e:00:00:01"
	}
	return request
}

// newIdle makes a controller whose caches show the objects given, and whose API server has none of them.
func newIdle(t testing.TB, shown ...runtime.Object) *Controller {
	t.Helper()
	return newIdleWith(t, nil, shown...)
}

// newIdleWith makes a controller whose caches and API server have the virtual machines and instances given, and whose
// caches show the objects given. Without any, KubeVirt is not served.
func newIdleWith(t testing.TB, machines []*metav1.PartialObjectMetadata, shown ...runtime.Object) *Controller {
	t.Helper()
	client, kube := fake.NewSimpleClientset(), kubefake.NewSimpleClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	kubeFactory := kubeinformers.NewSharedInformerFactory(kube, 0)
	caches, err := consumer.NewCaches(consumer.InformersOf(factory, kubeFactory), nil)
	expect.NoError(t, err)
	scheme := metadatafake.NewTestScheme()
	expect.NoError(t, metav1.AddMetaToScheme(scheme))
	objects := make([]runtime.Object, len(machines))
	for i, m := range machines {
		objects[i] = m
	}
	read := metadatafake.NewSimpleMetadataClient(scheme, objects...)
	var known *consumer.Machines
	if machines != nil {
		informers := metadatainformer.NewSharedInformerFactory(read, 0)
		known = &consumer.Machines{
			All:       informers.ForResource(consumer.MachineResource).Informer(),
			Instances: informers.ForResource(consumer.InstanceResource).Informer(),
		}
		informers.Start(t.Context().Done())
		informers.WaitForCacheSync(t.Context().Done())
	}
	c, err := NewController(client.CloudteamV1(), kube.CoreV1(), kube.AppsV1(), read, caches, known, nil,
		&controllertest.Events{}, func(string) labels.Set { return nil })
	expect.NoError(t, err)
	t.Cleanup(func() { controllertest.Dismiss(t, c.Loop) })
	for _, object := range shown {
		controllertest.ShowIn(t, factory, kubeFactory, object)
		c.note(object)
	}
	return c
}

// note has the handlers of an object note it.
func (c *Controller) note(object any) {
	switch object := object.(type) {
	case *corev1.Pod:
		c.ofMachine.Put(controller.WaitingOf(object), machineOf(object))
	case *cloudteamv1.NetworkPort:
		c.keysOfPort(object)
	}
}
