//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
	networkKind    = cloudteamv1.SchemeGroupVersion.WithResource("networks")
	portKind       = cloudteamv1.SchemeGroupVersion.WithResource("networkports")
	deploymentKind = appsv1.SchemeGroupVersion.WithResource("deployments")
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

// applyFolder applies every object that the YAML files in a folder hold, as kubectl apply --server-side -k does, and
// gives their names.
func (c *cluster) applyFolder(ctx context.Context, dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) == 0 {
		return nil, errors.Join(err,
			fmt.Errorf("there is nothing in %s: run bin/demo from a whole checkout of the repository", dir))
	}
	var names []string
	for _, file := range files {
		objects, err := readObjects(file)
		if err != nil {
			return nil, err
		}
		for _, object := range objects {
			if object.GetKind() == "Kustomization" {
				continue
			}
			resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
			_, err := c.dynamic.Resource(resource).Apply(ctx, object.GetName(), object,
				metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
			if err != nil {
				return nil, fmt.Errorf("applying %s of %s: %w", object.GetName(), file, err)
			}
			names = append(names, object.GetName())
		}
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

// labelNamespace gives a namespace the label by which its Pods wait for their ports.
func (c *cluster) labelNamespace(ctx context.Context, name string) error {
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`,
		cloudteamv1.LabelNetworks, cloudteamv1.LabelNetworksEnabled)
	_, err := c.kube.CoreV1().Namespaces().Patch(ctx, name, types.MergePatchType, patch,
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
