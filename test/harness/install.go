package harness

import (
	"context"
	"fmt"
	"path/filepath"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// Install creates the objects of kustomizations in the repository, as `kubectl apply -k` does, but for Deployments: the
// tests run the binary themselves. What exists stays as it is. For config/admission, it takes the overlay of the API
// server's version where there is one.
func (c *ControlPlane) Install(ctx context.Context, folders ...string) error {
	client, err := dynamic.NewForConfig(c.Admin)
	if err != nil {
		return err
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.Kube.Discovery()))
	beta, err := HasBetaPolicies()
	if err != nil {
		return err
	}
	for _, folder := range folders {
		if beta && folder == filepath.Join("config", "admission") {
			folder = filepath.Join("config", "overlays", "kubernetes-1.34")
		}
		rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).
			Run(filesys.MakeFsOnDisk(), filepath.Join(c.Root, folder))
		if err != nil {
			return fmt.Errorf("rendering %s: %w", folder, err)
		}
		for _, resource := range rendered.Resources() {
			content, err := resource.Map()
			if err != nil {
				return err
			}
			object := &unstructured.Unstructured{Object: content}
			kind := object.GroupVersionKind()
			if kind.Kind == "Deployment" {
				continue
			}
			mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
			if err != nil {
				return err
			}
			_, err = client.Resource(mapping.Resource).Namespace(object.GetNamespace()).
				Create(ctx, object, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
			if err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("creating %s %s of %s: %w", kind.Kind, object.GetName(), folder, err)
			}
		}
	}
	return nil
}
