package app

import (
	"context"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	kubeinformers "k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"

	attachmentcontroller "cloudteam.ztgame.com/network-controller/internal/controller/attachment"
	podcontroller "cloudteam.ztgame.com/network-controller/internal/controller/pod"
	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	fakeclientset "cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/fake"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// A process that starts learns of Pods and of NetworkAttachmentDefinitions at the same time. It must not tell all Pods
// that are Multus' alone that their networks do not exist because it has not heard of those yet.
func TestPodsWaitForTheCacheOfAttachments(t *testing.T) {
	const foreign = "somebody-elses"
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "web", UID: "pod", ResourceVersion: "1",
			Annotations: map[string]string{selection.Annotation: foreign},
		},
		Spec: corev1.PodSpec{SchedulingGates: []corev1.PodSchedulingGate{{Name: cloudteamv1.SchedulingGate}}},
	}
	kube := kubefake.NewClientset(pod)
	patched := make(chan string, 10)
	kube.PrependReactor("patch", "pods", func(action kubetesting.Action) (bool, runtime.Object, error) {
		patched <- action.GetSubresource()
		return true, pod, nil
	})
	client := fakeclientset.NewSimpleClientset()
	client.Resources = []*metav1.APIResourceList{
		{GroupVersion: networkResource.GroupVersion().String(), APIResources: []metav1.APIResource{
			{Name: networkResource.Resource}, {Name: portResource.Resource},
		}},
		{GroupVersion: attachmentcontroller.Resource.GroupVersion().String(), APIResources: []metav1.APIResource{
			{Name: attachmentcontroller.Resource.Resource},
		}},
	}
	attachment := &unstructured.Unstructured{}
	attachment.SetGroupVersionKind(attachmentcontroller.Kind)
	attachment.SetNamespace("default")
	attachment.SetName(foreign)
	attachments := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{attachmentcontroller.Resource: "NetworkAttachmentDefinitionList"})
	_, err := attachments.Resource(attachmentcontroller.Resource).Namespace("default").
		Create(t.Context(), attachment, metav1.CreateOptions{})
	expect.NoError(t, err)
	// The list of NetworkAttachmentDefinitions takes long, or until the Pod was written to.
	attachments.PrependReactor("list", attachmentcontroller.Resource.Resource,
		func(kubetesting.Action) (bool, runtime.Object, error) {
			select {
			case subresource := <-patched:
				patched <- subresource
			case <-time.After(500 * time.Millisecond):
			}
			return false, nil, nil
		})

	options := NewOptions()
	options.Controllers = []string{podcontroller.Name, attachmentcontroller.Name}
	ctx, cancel := context.WithCancel(quietly(t))
	baseCtx, stopBase := context.WithCancel(context.WithoutCancel(ctx))
	p := &process{
		options: options, cluster: "c1", kube: kube, client: client, dynamic: attachments,
		discovery: newDiscoverer(client.Discovery()), recorder: record.NewFakeRecorder(10), readiness: &readiness{},
		factory:     informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(trim)),
		kubeFactory: kubeinformers.NewSharedInformerFactoryWithOptions(kube, 0, kubeinformers.WithTransform(trim)),
		baseCtx:     baseCtx, election: alone(), attachmentsKnown: make(chan struct{}), policiesKnown: make(chan struct{}),
		machinesKnown: make(chan struct{}),
	}
	if p.namespaces, err = newNamespaces(options, kube, p.election.leads); err != nil {
		t.Fatal(err)
	}
	p.group, p.runCtx = errgroup.WithContext(ctx)
	p.startControllers()
	defer func() {
		cancel()
		if err := p.group.Wait(); err != nil {
			t.Error(err)
		}
		stopBase()
		if err := p.base.Wait(); err != nil {
			t.Error(err)
		}
	}()
	var first string
	select {
	case first = <-patched:
	case <-time.After(patience):
		t.Fatal("the Pod keeps its gate")
	}
	expect.Equal(t, "", first, "what was written before the gate was lifted")
}
