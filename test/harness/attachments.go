package harness

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

// Resources that no typed client here has.
var (
	CRDResource = schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	}
	AttachmentResource = schema.GroupVersionResource{
		Group: "k8s.cni.cncf.io", Version: "v1", Resource: "network-attachment-definitions",
	}
	PolicyResource = schema.GroupVersionResource{
		Group: "k8s.cni.cncf.io", Version: "v1beta1", Resource: "multi-networkpolicies",
	}
)

// policiesCRD is the file, in the repository, of the CRD of MultiNetworkPolicies.
const policiesCRD = "test/integration/testdata/multi-networkpolicies.yaml"

// KnowAttachments installs the CRD that Multus brings, until the test ends.
func (c *ControlPlane) KnowAttachments(t testing.TB) {
	t.Helper()
	content, err := os.ReadFile(
		filepath.Join(c.Root, "test", "integration", "testdata", "network-attachment-definitions.yaml"))
	expect.NoError(t, err)
	crd := &unstructured.Unstructured{}
	expect.NoError(t, yaml.Unmarshal(content, &crd.Object))
	client, err := dynamic.NewForConfig(c.Admin)
	expect.NoError(t, err)
	crds := client.Resource(CRDResource)
	if _, err := crds.Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := crds.Delete(context.WithoutCancel(t.Context()), crd.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	c.Eventually(t, func() error {
		_, err := client.Resource(AttachmentResource).List(t.Context(), metav1.ListOptions{})
		return err
	})
}
