package integration

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	admissionv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// controllerName is the name of the controller's Deployment, ServiceAccount and namespace in config.
const controllerName = "network-controller"

// TestManifestsInstall applies what `kubectl apply -k config` would, and holds what was stored against its purpose.
func TestManifestsInstall(t *testing.T) {
	beta, err := harness.HasBetaPolicies()
	expect.NoError(t, err)
	for _, object := range renderConfig(t) {
		if beta && strings.HasPrefix(object.GetKind(), "MutatingAdmissionPolicy") {
			object.SetAPIVersion("admissionregistration.k8s.io/v1beta1") // as TestOverlayForBetaPolicies holds
		}
		apply(t, "", object)
	}
	deployment, err := kubeClient.AppsV1().Deployments(controllerName).Get(t.Context(), controllerName, metav1.GetOptions{})
	expect.NoError(t, err)

	t.Run("the Pod passes the namespace's restricted Pod Security Standard", func(t *testing.T) {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "restricted-", Labels: deployment.Spec.Template.Labels},
			Spec:       deployment.Spec.Template.Spec,
		}
		create := func() error {
			_, err := kubeClient.CoreV1().Pods(controllerName).Create(t.Context(), pod,
				metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}
		if err := create(); err != nil {
			t.Errorf("want it accepted, got %v", err)
		}
		pod.Spec.SecurityContext.RunAsNonRoot = nil
		expect.ErrorSays(t, create(), "restricted")
	})

	// The walk through the rights (test/rights) takes one as used whose use is narrower. So these are asked for.
	t.Run("the account reads no Secret by itself, and no other program's Lease", func(t *testing.T) {
		account := "system:serviceaccount:" + controllerName + ":" + deployment.Spec.Template.Spec.ServiceAccountName
		for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete"} {
			for _, namespace := range []string{metav1.NamespaceAll, metav1.NamespaceDefault, controllerName} {
				if mayDo(t, account, namespace, verb, "", "secrets", "") {
					t.Errorf("it may %s Secrets in namespace %q", verb, namespace)
				}
			}
			if verb != "create" && mayDo(t, account, controllerName, verb, "coordination.k8s.io", "leases", "another") {
				t.Errorf("it may %s the Lease of another program", verb)
			}
		}
	})

	// Kubernetes adds the roles to its own by a controller that does not run here.
	t.Run("an editor has the objects of its namespace, writes no status, and uses no account", func(t *testing.T) {
		own, others := newNamespaceWith(t, nil), newNamespaceWith(t, nil)
		for _, role := range []string{"network-controller-edit", "network-controller-view", "system:aggregate-to-edit"} {
			is, err := kubeClient.RbacV1().ClusterRoles().Get(t.Context(), role, metav1.GetOptions{})
			if err != nil || is.Labels["rbac.authorization.k8s.io/aggregate-to-edit"] != "true" {
				t.Fatalf("the role edit has not the rules of %s: labels %v, error %v", role, is.Labels, err)
			}
			_, err = kubeClient.RbacV1().RoleBindings(own).Create(t.Context(), &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: strings.ReplaceAll(role, ":", "-")},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
				Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "editor"}},
			}, metav1.CreateOptions{})
			expect.NoError(t, err)
		}
		harness.AwaitRight(t, plane, kubeClient, "editor", own, "create", "pods") // the last one's
		const ours = "cloudteam.ztgame.com"
		for _, kind := range []string{"networks", "networkports", "securitygroups", "floatingips"} {
			for _, test := range []struct {
				allowed                           bool
				namespace, verbs, group, resource string
			}{
				{true, own, "get list watch create update patch delete deletecollection", ours, kind},
				{false, own, "update patch", ours, kind + "/status"},
				{false, own, "update patch", ours, kind + "/finalizers"},
				{false, others, "get list watch create update patch delete deletecollection", ours, kind},
				{false, own, "create update patch delete use", ours, "networkclasses"},
				{false, own, "update patch", "", "namespaces"},
				{false, controllerName, "create", "", "serviceaccounts/token"},
			} {
				for verb := range strings.FieldsSeq(test.verbs) {
					if is := mayDo(t, "editor", test.namespace, verb, test.group, test.resource, ""); is != test.allowed {
						t.Errorf("%s %s %s in %s: allowed %t, want %t", verb, test.group, test.resource, test.namespace, is,
							test.allowed)
					}
				}
			}
		}
	})
}

// mayDo asks the API server whether RBAC allows a user something. A resource may have a subresource behind a slash.
func mayDo(t *testing.T, user, namespace, verb, group, resource, name string) bool {
	t.Helper()
	resource, subresource, _ := strings.Cut(resource, "/")
	return harness.May(t, kubeClient, user, authorizationv1.ResourceAttributes{
		Namespace: namespace, Verb: verb, Group: group, Resource: resource, Subresource: subresource, Name: name,
	})
}

// TestCRDsAreInstalledAndStayApart fails when a CRD is generated that config/crd/kustomization.yaml does not list, and when
// `kubectl delete -k config` would delete one, and with it every object. That of Foos is left to config/foo.
func TestCRDsAreInstalledAndStayApart(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(repository, "config", "crd", "*_*.yaml"))
	expect.NoError(t, err)
	var want, got []string
	for _, file := range files {
		if name := readObjects(t, file)[0].GetName(); name != "foos.samplecontroller.k8s.io" {
			want = append(want, name)
		}
	}
	for _, object := range render(t, "config/crd") {
		got = append(got, object.GetName())
	}
	for _, object := range renderConfig(t) {
		if object.GetKind() == "CustomResourceDefinition" {
			t.Errorf("config has the CRD %s: leave it to config/crd", object.GetName())
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	expect.Equal(t, want, got, "CRDs of config/crd that its kustomization.yaml lists")
}

// TestOneApplyInstallsConfig fails when config has an object of a kind that it defines itself. kubectl looks up the kinds
// of all objects before it creates the first, so no apply of both together could create such an object.
func TestOneApplyInstallsConfig(t *testing.T) {
	defined := map[string]bool{}
	for _, object := range append(render(t, "config/crd"), renderConfig(t)...) {
		if group, found, _ := unstructured.NestedString(object.Object, "spec", "group"); found {
			defined[group] = true
		}
		if defined[object.GroupVersionKind().Group] {
			t.Errorf("%s %s needs a second apply", object.GetKind(), object.GetName())
		}
	}
	if len(defined) == 0 {
		t.Error("config defines no kind")
	}
}

// TestOverlayForBetaPolicies holds the overlay for Kubernetes 1.34 and 1.35 to the API that these serve, and to what
// config/admission has.
func TestOverlayForBetaPolicies(t *testing.T) {
	kinds := map[string]any{
		"MutatingAdmissionPolicy":          &admissionv1beta1.MutatingAdmissionPolicy{},
		"MutatingAdmissionPolicyBinding":   &admissionv1beta1.MutatingAdmissionPolicyBinding{},
		"ValidatingAdmissionPolicy":        &admissionv1.ValidatingAdmissionPolicy{},
		"ValidatingAdmissionPolicyBinding": &admissionv1.ValidatingAdmissionPolicyBinding{},
	}
	base, overlay := render(t, "config/admission"), render(t, "config/overlays/kubernetes-1.34")
	if len(base) != len(overlay) {
		t.Fatalf("the overlay has %d objects, config/admission %d", len(overlay), len(base))
	}
	for i, object := range overlay {
		want := "admissionregistration.k8s.io/v1"
		if strings.HasPrefix(object.GetKind(), "Mutating") {
			want += "beta1"
		}
		expect.Equal(t, want, object.GetAPIVersion(), "the apiVersion of %s %s", object.GetKind(), object.GetName())
		text, err := yaml.Marshal(object)
		if err == nil {
			err = yaml.UnmarshalStrict(text, kinds[object.GetKind()])
		}
		if err != nil {
			t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
		}
		if diff := cmp.Diff(base[i].Object["spec"], object.Object["spec"]); diff != "" {
			t.Errorf("%s %s (-config/admission +overlay):\n%s", object.GetKind(), object.GetName(), diff)
		}
	}
}

func TestSamplesApply(t *testing.T) {
	namespace := newNamespace(t)
	files, err := filepath.Glob(filepath.Join(repository, "config", "samples", "*.yaml"))
	expect.NoError(t, err)
	if len(files) == 0 {
		t.Fatal("config/samples is empty")
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			for _, object := range readObjects(t, file) {
				apply(t, namespace, object)
			}
		})
	}
}

// TestSamplesShowEveryField fails when a field is added to the spec that is neither in the sample of all fields nor in
// that of an administrator's, of an import or of subnet pools.
func TestSamplesShowEveryField(t *testing.T) {
	crd := readObjects(t, filepath.Join(repository, "config", "crd", "cloudteam.ztgame.com_networks.yaml"))[0]
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	expect.NoError(t, err)
	fields, _, err := unstructured.NestedMap(versions[0].(map[string]any),
		"schema", "openAPIV3Schema", "properties", "spec", "properties")
	expect.NoError(t, err)
	shown := map[string]bool{}
	for _, file := range []string{
		"network-full.yaml", "network-provider.yaml", "network-import.yaml", "network-subnet-pool.yaml",
	} {
		sample := readObjects(t, filepath.Join(repository, "config", "samples", file))[0]
		spec, _, err := unstructured.NestedMap(sample.Object, "spec")
		expect.NoError(t, err)
		// What only IPv6 has is shown in the second subnet.
		more, _, err := unstructured.NestedSlice(spec, "additionalSubnets")
		expect.NoError(t, err)
		for _, shows := range append(more, spec) {
			for field := range shows.(map[string]any) {
				shown[field] = true
			}
		}
	}
	for field := range fields {
		if !shown[field] {
			t.Errorf("the samples lack %s", field)
		}
	}
}

// renderConfig returns the objects of config/kustomization.yaml, in the order in which kubectl applies them.
func renderConfig(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	objects := render(t, "config")
	// Kustomize keeps the order of its files; kubectl puts namespaces and CRDs first.
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int { return applyOrder(a) - applyOrder(b) })
	return objects
}

// render returns the objects of a kustomization in the repository, in the order of its files.
func render(t *testing.T, folder string) []*unstructured.Unstructured {
	t.Helper()
	return renderAt(t, filepath.Join(repository, folder))
}

// renderAt returns the objects of a kustomization in a folder.
func renderAt(t *testing.T, folder string) []*unstructured.Unstructured {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		t.Fatalf("render %s: %v", folder, err)
	}
	var objects []*unstructured.Unstructured
	for _, resource := range resources.Resources() {
		object, err := resource.Map()
		expect.NoError(t, err)
		objects = append(objects, &unstructured.Unstructured{Object: object})
	}
	return objects
}

// TestKustomizationOfTheDocs renders the example of docs/install.md.
func TestKustomizationOfTheDocs(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(repository, "docs", "install.md"))
	expect.NoError(t, err)
	_, after, _ := strings.Cut(string(page), "```yaml\napiVersion: kustomize.config.k8s.io/v1beta1\n")
	text, _, ok := strings.Cut(after, "```")
	if !ok {
		t.Fatal("docs/install.md has no kustomization")
	}
	dir := t.TempDir()
	config, err := filepath.Abs(filepath.Join(repository, "config"))
	expect.NoError(t, err)
	if config, err = filepath.Rel(dir, config); err != nil {
		t.Fatal(err)
	}
	text = strings.Replace(text, "network-controller/config #", config+" #", 1)
	for name, content := range map[string]string{"kustomization.yaml": text, "ca.pem": "a certificate"} {
		expect.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	var deployment appsv1.Deployment
	configMaps := map[string]bool{}
	for _, object := range renderAt(t, dir) {
		switch object.GetKind() {
		case "ConfigMap":
			configMaps[object.GetName()] = true
		case "Deployment":
			expect.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &deployment))
		}
	}
	pod := deployment.Spec.Template.Spec
	if len(pod.Containers) != 1 {
		t.Fatalf("the Deployment has %d containers", len(pod.Containers))
	}
	c := pod.Containers[0]
	if c.Image != "REGISTRY/network-controller:v0.1.0" || !slices.Contains(c.Args, "--cloud=ENTRY") ||
		slices.ContainsFunc(c.Args, func(arg string) bool { return arg == "--cloud=openstack" }) {
		t.Errorf("the image is %s, and the arguments are %q", c.Image, c.Args)
	}
	mounted := slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
		return m.Name == "cloud-ca" && m.MountPath == "/etc/ssl/certs"
	})
	volume := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == "cloud-ca" })
	if !mounted || volume < 0 || !configMaps[pod.Volumes[volume].ConfigMap.Name] {
		t.Errorf("the CA is not mounted: %+v, %+v, ConfigMaps %v", c.VolumeMounts, pod.Volumes, configMaps)
	}
}

// applyOrder returns a lower number for objects that others need.
func applyOrder(object *unstructured.Unstructured) int {
	switch object.GetKind() {
	case "Namespace":
		return 0
	case "CustomResourceDefinition":
		return 1
	default:
		return 2
	}
}

// readObjects returns the objects of a YAML file, at least one.
func readObjects(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(file)
	expect.NoError(t, err)
	var objects []*unstructured.Unstructured
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		objects = append(objects, parseYAML(t, string(document)))
	}
	return objects
}

// apply applies an object on the server's side, as `kubectl apply --server-side` does, to the namespace given where the
// object names none. Unknown fields fail the test.
func apply(t *testing.T, namespace string, object *unstructured.Unstructured) {
	t.Helper()
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(kubeClient.Discovery()))
	kind := object.GroupVersionKind()
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	expect.NoError(t, err)
	text, err := yaml.Marshal(object)
	expect.NoError(t, err)
	if own := object.GetNamespace(); own != "" {
		namespace = own
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		namespace = ""
	}
	_, err = anyAPI.Resource(mapping.Resource).Namespace(namespace).Patch(t.Context(), object.GetName(),
		types.ApplyYAMLPatchType, text, metav1.PatchOptions{
			FieldManager: "integration-test", Force: new(true), FieldValidation: metav1.FieldValidationStrict,
		})
	if err != nil {
		t.Errorf("apply %s %s: %v", kind.Kind, object.GetName(), err)
	}
}

// TestTheInstallationLeavesTheSampleOutAndKnowsItsMemory holds the controller's command line and its memory.
func TestTheInstallationLeavesTheSampleOutAndKnowsItsMemory(t *testing.T) {
	var manager appsv1.Deployment
	for _, object := range renderConfig(t) {
		if object.GetKind() == "Deployment" && object.GetName() == controllerName {
			expect.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &manager))
		}
	}
	if len(manager.Spec.Template.Spec.Containers) != 1 {
		t.Fatalf("config has the Deployment %+v", manager)
	}
	container := manager.Spec.Template.Spec.Containers[0]
	if !slices.Contains(container.Args, "--controllers=*,-foo") {
		t.Errorf("the arguments are %q, want the sample Foo left out", container.Args)
	}
	limit := container.Resources.Limits.Memory().Value()
	for _, variable := range container.Env {
		if variable.Name != "GOMEMLIMIT" {
			continue
		}
		at := resource.MustParse(strings.TrimSuffix(variable.Value, "B"))
		if got := at.Value(); got > limit*92/100 || got < limit*85/100 {
			t.Errorf("GOMEMLIMIT is %d bytes of %d, want nine tenths", got, limit)
		}
		return
	}
	t.Error("GOMEMLIMIT is not set")
}
