//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"cloudteam.ztgame.com/network-controller/internal/selection"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	clientset "cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned"
)

// fieldManager names the demo in server-side apply.
const fieldManager = "demo"

var (
	crds = schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	}
	networkKind    = cloudteamv1.SchemeGroupVersion.WithResource("networks")
	portKind       = cloudteamv1.SchemeGroupVersion.WithResource("networkports")
	deploymentKind = appsv1.SchemeGroupVersion.WithResource("deployments")

	// definitions are the kinds that config/crd holds, and policies those of config/admission.
	definitions = map[string]schema.GroupVersionResource{"CustomResourceDefinition": crds}
	policies    = map[string]schema.GroupVersionResource{
		"MutatingAdmissionPolicy": admissionv1.SchemeGroupVersion.WithResource("mutatingadmissionpolicies"),
		"MutatingAdmissionPolicyBinding": admissionv1.SchemeGroupVersion.WithResource(
			"mutatingadmissionpolicybindings"),
		"ValidatingAdmissionPolicy": admissionv1.SchemeGroupVersion.WithResource("validatingadmissionpolicies"),
		"ValidatingAdmissionPolicyBinding": admissionv1.SchemeGroupVersion.WithResource(
			"validatingadmissionpolicybindings"),
	}
)

// cluster is the clients of one API server.
type cluster struct {
	kube     kubernetes.Interface
	networks clientset.Interface
	dynamic  dynamic.Interface
}

func newCluster(kubeconfig string) (*cluster, error) {
	settings, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig %s: %w", kubeconfig, err)
	}
	// The demo asks often and briefly; the default of 5 per second would slow down what it shows.
	settings.QPS = -1
	settings.UserAgent = "network-controller-demo"
	var c cluster
	var errs [3]error
	c.kube, errs[0] = kubernetes.NewForConfig(settings)
	c.networks, errs[1] = clientset.NewForConfig(settings)
	c.dynamic, errs[2] = dynamic.NewForConfig(settings)
	return &c, errors.Join(errs[:]...)
}

// applyFolder applies every object of certain kinds that the YAML files in a folder hold, as kubectl apply
// --server-side does, and gives their names. Other kinds (a Kustomization) are passed over.
func (c *cluster) applyFolder(
	ctx context.Context, dir string, kinds map[string]schema.GroupVersionResource,
) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, file := range files {
		objects, err := readObjects(file)
		if err != nil {
			return nil, err
		}
		for _, object := range objects {
			resource, wanted := kinds[object.GetKind()]
			if !wanted {
				continue
			}
			_, err := c.dynamic.Resource(resource).Apply(ctx, object.GetName(), object,
				metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
			if err != nil {
				return nil, fmt.Errorf("applying %s of %s: %w", object.GetName(), file, err)
			}
			names = append(names, object.GetName())
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("there is no %s in %s: run bin/demo from a whole checkout of the repository",
			strings.Join(slices.Sorted(maps.Keys(kinds)), " or "), dir)
	}
	return names, nil
}

// readObjects reads the documents of a YAML file.
func readObjects(file string) ([]*unstructured.Unstructured, error) {
	reader, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	decoder := yaml.NewYAMLOrJSONDecoder(reader, 4096)
	var objects []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		objects = append(objects, object)
	}
}

// established gives nil once the API server serves the CustomResourceDefinition.
func (c *cluster) established(ctx context.Context, name string) error {
	crd, err := c.dynamic.Resource(crds).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	for _, condition := range conditions {
		if is, ok := condition.(map[string]any); ok && is["type"] == "Established" && is["status"] == "True" {
			return nil
		}
	}
	return fmt.Errorf("its conditions are %v", conditions)
}

// labelNamespace gives a namespace the label by which its Pods wait for their ports.
func (c *cluster) labelNamespace(ctx context.Context, name string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"labels": map[string]string{cloudteamv1.LabelNetworks: cloudteamv1.LabelNetworksEnabled},
	}})
	if err != nil {
		return err
	}
	_, err = c.kube.CoreV1().Namespaces().Patch(ctx, name, types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: fieldManager})
	return err
}

// gated gives nil once the API server puts the scheduling gate on Pods that declare networks. It asks by a dry run,
// which creates nothing.
func (c *cluster) gated(ctx context.Context) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: "gated-", Annotations: map[string]string{selection.Annotation: "any"},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "none", Image: "none"}}},
	}
	created, err := c.kube.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, pod,
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return err
	}
	if !slices.Contains(created.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: cloudteamv1.SchedulingGate}) {
		return fmt.Errorf("a Pod that declares networks has the gates %v", created.Spec.SchedulingGates)
	}
	return nil
}

// networkTable asks for the Table that kubectl get networks prints.
func (c *cluster) networkTable(ctx context.Context, namespace, name string) (*metav1.Table, error) {
	return table(ctx, c.networks.CloudteamV1().RESTClient().Get().
		Namespace(namespace).Resource(networkKind.Resource).Name(name))
}

// portTable asks for the Table that kubectl get networkports prints.
func (c *cluster) portTable(ctx context.Context, namespace string) (*metav1.Table, error) {
	return table(ctx, c.networks.CloudteamV1().RESTClient().Get().Namespace(namespace).Resource(portKind.Resource))
}

// eventTable asks for the Table that kubectl get events prints.
func (c *cluster) eventTable(ctx context.Context, namespace, name string) (*metav1.Table, error) {
	return table(ctx, c.kube.CoreV1().RESTClient().Get().
		Namespace(namespace).Resource("events").Param("fieldSelector", "involvedObject.name="+name))
}

// table sends a request that asks for the answer as a Table. See
// https://kubernetes.io/docs/reference/using-api/api-concepts/#receiving-resources-as-tables.
func table(ctx context.Context, request *rest.Request) (*metav1.Table, error) {
	content, err := request.SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(ctx).Raw()
	if err != nil {
		return nil, err
	}
	var answer metav1.Table
	if err := json.Unmarshal(content, &answer); err != nil {
		return nil, fmt.Errorf("reading the API server's table: %w", err)
	}
	if answer.Kind != "Table" {
		return nil, fmt.Errorf("the API server answered with a %s, not with a Table", answer.Kind)
	}
	return &answer, nil
}

// events lists the Events of one object with one of the reasons, the oldest first.
func (c *cluster) events(ctx context.Context, namespace, uid, reason string) ([]corev1.Event, error) {
	list, err := c.kube.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{
		FieldSelector: "involvedObject.uid=" + uid + ",reason=" + reason,
	})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// await polls until check gives nil. When patience ends, the error says what was expected and what check said last;
// when ctx ends, the error is its cause.
func await(ctx context.Context, patience time.Duration, expected string, check func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		err := check(limited)
		if err == nil {
			return nil
		}
		// At the deadline a call fails because of it, which explains nothing.
		if last == nil || limited.Err() == nil {
			last = err
		}
		select {
		case <-tick.C:
		case <-limited.Done():
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fmt.Errorf("expected within %s: %s. Last: %w", patience, expected, last)
		}
	}
}
