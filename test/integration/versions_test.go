package integration

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// scratch is a group of this test's own, in which the CRD of Networks stands once more: the other tests need theirs as
// it is.
const scratch = "scratch.cloudteam.ztgame.com"

// TestSecondAPIVersion adds to the CRD of Networks what a later version might be, one in which the subnets stand in a
// list, and holds that nothing of what there is has to change for it: what was stored as v1 reads as v2, what is
// written as v2 reads as v1, into the types that the controller is built with, and both write as before.
func TestSecondAPIVersion(t *testing.T) {
	t.Parallel()
	crd := scratchCRD(t, scratch)
	v1 := resourceOf(t, scratch, "v1")
	namespace := newNamespace(t)

	old := readObjects(t, filepath.Join(repository, "config", "samples", "network-full.yaml"))[0]
	old.SetAPIVersion(scratch + "/v1")
	old.SetFinalizers([]string{cloudteamv1.Finalizer})
	old, err := anyAPI.Resource(v1).Namespace(namespace).Create(t.Context(), old, metav1.CreateOptions{
		FieldManager: "user", FieldValidation: metav1.FieldValidationStrict,
	})
	expect.NoError(t, err)
	old = writeScratchStatus(t, v1, old, "before")

	v2 := addSecondVersion(t, crd)

	t.Run("what was stored as v1 reads as v2", func(t *testing.T) {
		want := old.DeepCopy()
		toV2(want)
		want.SetAPIVersion(v2.GroupVersion().String())
		if diff := cmp.Diff(want.Object, withoutManagers(getScratch(t, v2, old)).Object); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("it still reads as v1, to the last field", func(t *testing.T) {
		if diff := cmp.Diff(old.Object, withoutManagers(getScratch(t, v1, old)).Object); diff != "" {
			t.Errorf("(-before +after):\n%s", diff)
		}
	})
	t.Run("the controller writes its status as before", func(t *testing.T) {
		written := writeScratchStatus(t, v1, old, "after")
		conditions, _, _ := unstructured.NestedSlice(getScratch(t, v2, old).Object, "status", "conditions")
		if len(conditions) != 1 || conditions[0].(map[string]any)["message"] != "after" {
			t.Errorf("v2 shows the conditions %v", conditions)
		}
		expect.Equal(t, old.GetGeneration(), written.GetGeneration(), "the generation after a write of a status")
	})
	t.Run("a user goes on with the YAML that there is", func(t *testing.T) {
		edited := readObjects(t, filepath.Join(repository, "config", "samples", "network-full.yaml"))[0]
		edited.SetAPIVersion(scratch + "/v1")
		edited.SetNamespace(namespace)
		expect.NoError(t, unstructured.SetNestedField(edited.Object, "10.20.0.2", "spec", "gateway"))
		applyScratch(t, v1, edited)
		subnets, _, _ := unstructured.NestedSlice(getScratch(t, v2, edited).Object, "spec", "subnets")
		if len(subnets) != 1 || subnets[0].(map[string]any)["gateway"] != "10.20.0.2" {
			t.Errorf("v2 shows the subnets %v", subnets)
		}
	})
	t.Run("what is written as v2 reads as v1, into the types that there are", func(t *testing.T) {
		newer := parseYAML(t, `
apiVersion: `+scratch+`/v2
kind: Network
metadata: {name: newer}
spec:
  subnets:
  - cidr: "192.168.0.0/16"
    gateway: "192.168.0.1"
    dhcp: true
`)
		newer.SetNamespace(namespace)
		applyScratch(t, v2, newer)
		var read cloudteamv1.Network
		err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(
			withoutManagers(getScratch(t, v1, newer)).Object, &read, true)
		expect.NoError(t, err)
		var want cloudteamv1.NetworkSpec
		want.CIDR, want.Gateway, want.DHCP = "192.168.0.0/16", "192.168.0.1", new(true)
		if diff := cmp.Diff(want, read.Spec); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("once all are stored anew, v1 may go", func(t *testing.T) {
		list, err := anyAPI.Resource(v2).Namespace(namespace).List(t.Context(), metav1.ListOptions{})
		expect.NoError(t, err)
		for _, network := range list.Items {
			// An update that changes nothing stores an object in the storage version.
			_, err := anyAPI.Resource(v2).Namespace(namespace).Update(t.Context(), &network, metav1.UpdateOptions{})
			expect.NoError(t, err)
		}
		_, err = anyAPI.Resource(harness.CRDResource).Patch(t.Context(), crd, types.MergePatchType,
			[]byte(`{"status":{"storedVersions":["v2"]}}`), metav1.PatchOptions{}, "status")
		expect.NoError(t, err)
		editCRD(t, crd, func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Spec.Versions = slices.DeleteFunc(crd.Spec.Versions,
				func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == "v1" })
			crd.Spec.Conversion = nil
		})
		eventually(t, func() error {
			_, err := kubeClient.Discovery().ServerResourcesForGroupVersion(v1.GroupVersion().String())
			if apierrors.IsNotFound(err) {
				return nil
			}
			return fmt.Errorf("%s is still served (%w)", v1.GroupVersion(), err)
		})
		subnets, _, _ := unstructured.NestedSlice(getScratch(t, v2, old).Object, "spec", "subnets")
		if len(subnets) != 1 || subnets[0].(map[string]any)["cidr"] != "10.20.0.0/16" {
			t.Errorf("without v1 the subnets are %v", subnets)
		}
	})
}

// TestAnObjectWithAFormerValueIsStillWritten has an object that was stored while managementPolicy could be Plan. The
// controller writes its status and its finalizer, and its user edits it. New ones are refused.
func TestAnObjectWithAFormerValueIsStillWritten(t *testing.T) {
	t.Parallel()
	const group = "former.cloudteam.ztgame.com"
	crd := scratchCRD(t, group)
	resource := resourceOf(t, group, "v1")
	api := anyAPI.Resource(resource).Namespace(newNamespace(t))
	allow := func(values ...string) {
		editCRD(t, crd, func(crd *apiextensionsv1.CustomResourceDefinition) {
			spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
			policy := spec.Properties["managementPolicy"]
			policy.Enum = nil
			for _, value := range values {
				policy.Enum = append(policy.Enum, apiextensionsv1.JSON{Raw: fmt.Appendf(nil, "%q", value)})
			}
			spec.Properties["managementPolicy"] = policy
			crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = spec
		})
	}
	planned := func(name string) (*unstructured.Unstructured, error) {
		return api.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": group + "/v1", "kind": "Network", "metadata": map[string]any{"name": name},
			"spec": map[string]any{"cidr": "10.0.0.0/24", "managementPolicy": "Plan"},
		}}, metav1.CreateOptions{})
	}
	allow("Manage", "Observe", "Plan")
	var old *unstructured.Unstructured
	eventually(t, func() (err error) { old, err = planned("old"); return err })
	allow("Manage", "Observe")
	tries := 0
	eventually(t, func() error {
		tries++
		if _, err := planned(fmt.Sprint("new-", tries)); !apierrors.IsInvalid(err) {
			return fmt.Errorf("a new object gets %w", err)
		}
		return nil
	})
	writeScratchStatus(t, resource, old, "paused")
	for _, patch := range []string{`{"metadata":{"finalizers":["cloudteam.ztgame.com/network"]}}`,
		`{"spec":{"description":"edited"}}`, `{"metadata":{"finalizers":null}}`, `{"spec":{"managementPolicy":null}}`} {
		if _, err := api.Patch(t.Context(), "old", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Errorf("%s: %v", patch, err)
		}
	}
}

// scratchCRD installs the CRD of Networks in another group, and returns its name. It stays until the API server stops.
func scratchCRD(t *testing.T, group string) string {
	t.Helper()
	crd := readObjects(t, filepath.Join(repository, "config", "crd", "cloudteam.ztgame.com_networks.yaml"))[0]
	name := "networks." + group
	crd.SetName(name)
	expect.NoError(t, unstructured.SetNestedField(crd.Object, group, "spec", "group"))
	// The short name and the category are the real one's.
	unstructured.RemoveNestedField(crd.Object, "spec", "names", "shortNames")
	unstructured.RemoveNestedField(crd.Object, "spec", "names", "categories")
	if _, err := anyAPI.Resource(harness.CRDResource).Create(t.Context(), crd, metav1.CreateOptions{
		FieldValidation: metav1.FieldValidationStrict,
	}); err != nil {
		t.Fatal(err)
	}
	return name
}

// resourceOf is the resource of a CRD's version, once it is served.
func resourceOf(t *testing.T, group, version string) schema.GroupVersionResource {
	t.Helper()
	resource := schema.GroupVersionResource{Group: group, Version: version, Resource: "networks"}
	eventually(t, func() error {
		_, err := anyAPI.Resource(resource).List(t.Context(), metav1.ListOptions{Limit: 1})
		if err != nil {
			err = fmt.Errorf("%s of %s: %w", version, group, err)
		}
		return err
	})
	return resource
}

// addSecondVersion adds v2, in which objects are stored from then on, with a webhook that converts.
func addSecondVersion(t *testing.T, crd string) schema.GroupVersionResource {
	t.Helper()
	webhook := httptest.NewTLSServer(http.HandlerFunc(convert))
	t.Cleanup(webhook.Close)
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: webhook.Certificate().Raw})
	editCRD(t, crd, func(crd *apiextensionsv1.CustomResourceDefinition) {
		second := *crd.Spec.Versions[0].DeepCopy()
		second.Name = "v2"
		crd.Spec.Versions[0].Storage = false
		spec := second.Schema.OpenAPIV3Schema.Properties["spec"]
		subnet := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{}}
		for _, field := range subnetFields {
			subnet.Properties[field] = spec.Properties[field]
			delete(spec.Properties, field)
		}
		spec.XValidations = nil // they are of the fields that have moved
		spec.Properties["subnets"] = apiextensionsv1.JSONSchemaProps{
			Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &subnet}, MaxItems: new(int64(8)),
		}
		second.Schema.OpenAPIV3Schema.Properties["spec"] = spec
		second.AdditionalPrinterColumns = nil
		crd.Spec.Versions = append(crd.Spec.Versions, second)
		crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
			Strategy: apiextensionsv1.WebhookConverter,
			Webhook: &apiextensionsv1.WebhookConversion{
				ConversionReviewVersions: []string{"v1"},
				ClientConfig:             &apiextensionsv1.WebhookClientConfig{URL: new(webhook.URL), CABundle: bundle},
			},
		}
	})
	return resourceOf(t, scratch, "v2")
}

// editCRD changes a CRD, which the API server writes to as well.
func editCRD(t *testing.T, name string, edit func(*apiextensionsv1.CustomResourceDefinition)) {
	t.Helper()
	eventually(t, func() error {
		object, err := anyAPI.Resource(harness.CRDResource).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &crd); err != nil {
			return err
		}
		edit(&crd)
		if object.Object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(&crd); err != nil {
			return err
		}
		_, err = anyAPI.Resource(harness.CRDResource).Update(t.Context(), object, metav1.UpdateOptions{})
		return err
	})
}

// subnetFields are those that stand in the spec of v1 and in an element of subnets in v2.
var subnetFields = []string{
	"cidr", "gateway", "allocationPools", "dhcp", "dnsServers", "hostRoutes", "serviceTypes", "dnsPublishFixedIP",
}

// toV2 moves the subnet of a v1 object into the list of v2.
func toV2(object *unstructured.Unstructured) {
	spec, _ := object.Object["spec"].(map[string]any)
	subnet := map[string]any{}
	for _, field := range subnetFields {
		if value, ok := spec[field]; ok {
			subnet[field] = value
			delete(spec, field)
		}
	}
	spec["subnets"] = []any{subnet}
}

// toV1 is the way back.
func toV1(object *unstructured.Unstructured) {
	spec, _ := object.Object["spec"].(map[string]any)
	subnets, _ := spec["subnets"].([]any)
	delete(spec, "subnets")
	for _, subnet := range subnets {
		maps.Copy(spec, subnet.(map[string]any))
	}
}

// convert answers kube-apiserver's ConversionReviews.
func convert(w http.ResponseWriter, r *http.Request) {
	var review apiextensionsv1.ConversionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	response := &apiextensionsv1.ConversionResponse{
		UID: review.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess},
	}
	for _, raw := range review.Request.Objects {
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(raw.Raw); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		switch _, listed, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", "subnets"); {
		case review.Request.DesiredAPIVersion == scratch+"/v2" && !listed:
			toV2(object)
		case review.Request.DesiredAPIVersion == scratch+"/v1" && listed:
			toV1(object)
		}
		object.SetAPIVersion(review.Request.DesiredAPIVersion)
		response.ConvertedObjects = append(response.ConvertedObjects, runtime.RawExtension{Object: object})
	}
	review.Request, review.Response = nil, response
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review) // a connection that broke is the API server's to tell of
}

func getScratch(
	t *testing.T, resource schema.GroupVersionResource, of *unstructured.Unstructured,
) *unstructured.Unstructured {
	t.Helper()
	read, err := anyAPI.Resource(resource).Namespace(of.GetNamespace()).Get(t.Context(), of.GetName(), metav1.GetOptions{})
	expect.NoError(t, err)
	return read
}

func applyScratch(t *testing.T, resource schema.GroupVersionResource, object *unstructured.Unstructured) {
	t.Helper()
	_, err := anyAPI.Resource(resource).Namespace(object.GetNamespace()).Apply(t.Context(), object.GetName(), object,
		metav1.ApplyOptions{FieldManager: "user", Force: true})
	expect.NoError(t, err)
}

// writeScratchStatus writes a status as the controller does, and returns the object as it is then.
func writeScratchStatus(
	t *testing.T, resource schema.GroupVersionResource, of *unstructured.Unstructured, message string,
) *unstructured.Unstructured {
	t.Helper()
	status := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": resource.GroupVersion().String(), "kind": "Network",
		"metadata": map[string]any{"name": of.GetName(), "namespace": of.GetNamespace(), "uid": string(of.GetUID())},
		"status": map[string]any{
			"networkID": "n-1", "mtu": int64(1400),
			"conditions": []any{map[string]any{
				"type": "Ready", "status": "True", "reason": "Available", "message": message,
				"lastTransitionTime": "2026-01-01T00:00:00Z",
			}},
		},
	}}
	written, err := anyAPI.Resource(resource).Namespace(of.GetNamespace()).ApplyStatus(t.Context(), of.GetName(), status,
		metav1.ApplyOptions{FieldManager: "network-controller", Force: true})
	expect.NoError(t, err)
	return withoutManagers(written)
}

// withoutManagers is the object without what managedFields tells of versions and times.
func withoutManagers(object *unstructured.Unstructured) *unstructured.Unstructured {
	object = object.DeepCopy()
	object.SetManagedFields(nil)
	return object
}
