package doctor

import (
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"

	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/fake"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestVersionsOfThePluginTheControllerAndTheAgentsAreCompared(t *testing.T) {
	now := time.Now()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "network-controller", Name: "network-controller"},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: new("leader-1_5f0c"), LeaseDurationSeconds: new(int32(15)),
			RenewTime: &metav1.MicroTime{Time: now}},
	}
	pod := func(image string, labels map[string]string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "network-controller", Name: "leader-1", Labels: labels},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "proxy", Image: "p:v9.9.9"},
				{Name: "controller", Image: image}}}}
	}
	chart := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "network-controller", Name: "network-controller",
		Labels: map[string]string{versionLabel: "1.2.0"}}}
	node := func(version string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n" + version, Annotations: map[string]string{
			cloudteamv1.AnnotationDataplaneVersion: version}}}
	}
	const registry = "registry.example.org:5000/network-controller"
	for sentence, c := range map[string]struct {
		objects      []runtime.Object
		want         State
		says, remedy string
	}{
		"all are the same": {objects: []runtime.Object{lease, pod(registry+":v1.2.0", nil), node("v1.2.0")}, want: OK,
			says: "kubectl network v1.2.0, node agents v1.2.0, controller v1.2.0 (Pod network-controller/leader-1)"},
		"with a digest, too": {objects: []runtime.Object{lease, pod(registry+":v1.2.0@sha256:00", nil)}, want: OK},
		"by the Pod's label": {objects: []runtime.Object{lease,
			pod(registry+":latest", map[string]string{versionLabel: "v1.2.0"})}, want: OK},
		"by the chart's label": {objects: []runtime.Object{lease, chart,
			pod(registry+"@sha256:00", map[string]string{nameLabel: "network-controller"})}, want: OK},
		"an older controller": {objects: []runtime.Object{lease, pod(registry+":v1.1.0", nil)}, want: Warns,
			says: "controller v1.1.0", remedy: "or upgrade the controller"},
		"a newer controller": {objects: []runtime.Object{lease, pod(registry+":v1.3.0", nil)}, want: Warns,
			says: "controller v1.3.0", remedy: "Install or build kubectl network v1.3.0 (docs/kubectl-network.md#install)."},
		"older agents": {objects: []runtime.Object{lease, pod(registry+":v1.2.0", nil), node("v1.1.0"), node("v1.2.0")},
			want: Warns, says: "node agents v1.1.0 and v1.2.0", remedy: "Bring the node agents to v1.2.0"},
		"an image without a version": {objects: []runtime.Object{lease, pod(registry+":latest", nil)}, want: Unknown,
			says: "image " + registry + ":latest names no version", remedy: "a tag with its version"},
		"a digest alone": {objects: []runtime.Object{lease, pod(registry+"@sha256:00", nil)}, want: Unknown,
			says: "names no version"},
		"outside of the cluster": {objects: []runtime.Object{lease}, want: Unknown, says: "on leader-1 is no Pod",
			remedy: "network-controller --version"},
		"no controller": {want: Unknown, says: "no controller holds the Lease", remedy: "get pods"},
	} {
		cluster := &ask.Cluster{Kubernetes: kubefake.NewClientset(c.objects...), Networks: fake.NewSimpleClientset()}
		var got Check
		for _, check := range Run(t.Context(), cluster, Options{Version: "v1.2.0", Now: now}) {
			if check.Name == "versions" {
				got = check
			}
		}
		if got.State != c.want || !strings.Contains(got.Says, c.says) || !strings.Contains(got.Remedy, c.remedy) ||
			(got.State == OK) != (got.Remedy == "") {
			t.Errorf("%s: %+v, want %s %q %q", sentence, got, c.want, c.says, c.remedy)
		}
	}
}

// TestThePageListsTheExtensionsThatAreChecked holds docs/compatibility.md, and the extensions that the fields' texts
// name, against the check.
func TestThePageListsTheExtensionsThatAreChecked(t *testing.T) {
	checked := map[string]string{}
	for _, alias := range needed {
		checked[alias] = "all"
	}
	maps.Copy(checked, useful)
	page, err := os.ReadFile("../../../docs/compatibility.md")
	expect.NoError(t, err)
	listed := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z0-9_-]+)` \\| (.*) \\|$").FindAllStringSubmatch(string(page), -1) {
		listed[row[1]] = strings.ReplaceAll(row[2], "`", "")
	}
	expect.Equal(t, checked, listed, "docs/compatibility.md lists other extensions than doctor checks")
	for _, name := range []string{"fields", "network", "networkport", "router", "securitygroup"} {
		text, err := os.ReadFile("../../../docs/" + name + ".md")
		expect.NoError(t, err)
		for _, named := range regexp.MustCompile("extension `?([a-z0-9]+(?:-[a-z0-9]+)+|qos|dvr)").
			FindAllStringSubmatch(string(text), -1) {
			if checked[named[1]] == "" {
				t.Errorf("docs/%s.md names extension %s, which doctor does not check", name, named[1])
			}
		}
	}
}
