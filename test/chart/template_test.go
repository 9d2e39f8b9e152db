package chart

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/action"
	helmchart "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/strvals"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

const name = "network-controller"

// placeholder is the image of the manifests in config. The chart has none: whoever installs it names one.
const placeholder = "image.repository=network-controller"

// loadChart reads the chart. The working directory is test: see TestMain.
func loadChart(t *testing.T) *helmchart.Chart {
	t.Helper()
	c, err := loader.Load(filepath.Join("..", "charts", name))
	expect.NoError(t, err)
	return c
}

// values reads values as --set does.
func values(t *testing.T, set ...string) map[string]any {
	t.Helper()
	all := map[string]any{}
	for _, one := range set {
		expect.NoError(t, strvals.ParseInto(one, all))
	}
	return all
}

// target is a cluster that the chart is rendered for.
type target struct {
	kubernetes, namespace string
	apis                  []string
	// upgrades is true for helm upgrade.
	upgrades bool
	// chart is that of a release; nil for the one in the repository.
	chart *helmchart.Chart
}

// try renders the chart as `helm install --dry-run` does, and gives the objects by kind and name.
func (to target) try(t *testing.T, set ...string) (map[string]*unstructured.Unstructured, string, error) {
	t.Helper()
	install := action.NewInstall(&action.Configuration{Log: t.Logf})
	install.DryRun, install.ClientOnly, install.Replace, install.IsUpgrade = true, true, true, to.upgrades
	install.ReleaseName, install.Namespace = name, name
	if to.namespace != "" {
		install.Namespace = to.namespace
	}
	install.APIVersions = chartutil.VersionSet(to.apis)
	version := "v1.37.0"
	if to.kubernetes != "" {
		version = to.kubernetes
	}
	install.KubeVersion = &chartutil.KubeVersion{Version: version}
	if to.chart == nil {
		to.chart, set = loadChart(t), append([]string{placeholder}, set...)
	}
	release, err := install.Run(to.chart, values(t, set...))
	if err != nil {
		return nil, "", err
	}
	objects := map[string]*unstructured.Unstructured{}
	for text := range strings.SplitSeq("\n"+release.Manifest, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict([]byte(text), &object.Object); err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if len(object.Object) > 0 {
			objects[object.GetKind()+"/"+object.GetName()] = object
		}
	}
	return objects, release.Info.Notes, nil
}

func render(t *testing.T, set ...string) map[string]*unstructured.Unstructured {
	t.Helper()
	objects, _, err := target{}.try(t, set...)
	expect.NoError(t, err)
	return objects
}

// TestChartIsConfig holds what the chart renders by default to what kustomize gives for config and config/crd: the
// labels of Helm, the image's tag and the annotation that keeps CRDs are all that differs.
func TestChartIsConfig(t *testing.T) {
	for _, folder := range []string{"config", "config/crd", "config/node", "config/node-trunk", "config/node-metrics", "config/classes", "config/network-policy"} {
		set := []string{"image.tag=latest"}
		if strings.HasPrefix(folder, "config/node") {
			set = append(set, "nodeAgent.enabled=true")
		}
		if folder == "config/node-trunk" {
			set = append(set, "nodeAgent.mode=trunk")
		}
		if folder == "config/node-metrics" {
			set = append(set, "nodeAgent.metricsPort=9480", "monitoring.enabled=true")
		}
		if folder == "config/classes" {
			set = append(set, "defaultClass=true")
		}
		if folder == "config/network-policy" {
			set = append(set, "networkPolicy.enabled=true")
		}
		got, _, err := target{apis: []string{"cloudteam.ztgame.com/v1/NetworkClass"}}.try(t, set...)
		expect.NoError(t, err)
		resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).
			Run(filesys.MakeFsOnDisk(), filepath.Join("..", folder))
		expect.NoError(t, err)
		for _, resource := range resources.Resources() {
			text, err := resource.AsYAML()
			expect.NoError(t, err)
			want := &unstructured.Unstructured{}
			expect.NoError(t, yaml.Unmarshal(text, &want.Object))
			key := want.GetKind() + "/" + want.GetName()
			if key == "Namespace/"+name {
				continue // helm install --create-namespace
			}
			object := got[key]
			if object == nil {
				t.Errorf("the chart lacks %s of %s", key, folder)
				continue
			}
			labels := object.GetLabels()
			for key := range labels {
				if key != "app.kubernetes.io/name" && want.GetLabels()[key] == "" {
					delete(labels, key)
				}
			}
			if want.GetKind() == "CustomResourceDefinition" {
				annotations := object.GetAnnotations()
				if annotations["helm.sh/resource-policy"] != "keep" {
					t.Errorf("helm uninstall deletes %s, and with it every object", key)
				}
				delete(annotations, "helm.sh/resource-policy")
				object.SetAnnotations(annotations)
			}
			object.SetLabels(labels)
			expect.Equal(t, want.Object, object.Object, "%s (-%s +chart)", key, folder)
		}
	}
}

// TestCRDsHaveAChartOfTheirOwn holds that it has those of the other chart, which stay when a release is uninstalled.
func TestCRDsHaveAChartOfTheirOwn(t *testing.T) {
	own, err := loader.Load(filepath.Join("..", "charts", name+"-crds"))
	expect.NoError(t, err)
	got, _, err := target{chart: own}.try(t)
	expect.NoError(t, err)
	want := map[string]*unstructured.Unstructured{}
	for key, object := range render(t) {
		if object.GetKind() == "CustomResourceDefinition" {
			want[key] = object
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 {
		t.Errorf("the charts have other CRDs (-%s +%s-crds):\n%s", name, name, diff)
	}
}

const certificate = "-----BEGIN CERTIFICATE-----"

// TestValues shows what each value does. A key is --set's text, a value is a text of an object, or the object's absence.
func TestValues(t *testing.T) {
	deployment := "Deployment/" + name
	agent := func(values ...string) []string {
		values[0] = "nodeAgent." + values[0]
		return append(values, "nodeAgent.enabled=true")
	}
	for _, test := range []struct {
		set    []string
		object string
		// has is in the object's YAML; lacks is not. With neither, the object is absent.
		has, lacks string
	}{
		{set: nil, object: deployment, has: "image: network-controller:v0.0.0"},
		{[]string{"image.repository=example/nc", "image.tag=v1"}, deployment, "image: example/nc:v1", ""},
		{
			[]string{"image.digest=sha256:" + strings.Repeat("a", 64)}, deployment,
			"image: network-controller@sha256:aaa", "",
		},
		{[]string{"image.pullPolicy=Always"}, deployment, "imagePullPolicy: Always", ""},
		{[]string{"image.repository=null"}, deployment, "imagePullPolicy: Never", ""},
		{[]string{"image.tag=v1@sha256:" + strings.Repeat("a", 64)}, deployment, "version: v1\n", ""},
		{[]string{"image.pullSecrets[0].name=pull"}, deployment, "- name: pull", ""},
		{[]string{"firstStart=Report"}, deployment, "- --report-only", ""},
		{[]string{"firstStart=Apply"}, deployment, "", "--report-only"},
		{[]string{"firstStart=Report"}, "MutatingAdmissionPolicy/network-controller-scheduling-gate", "network-controller", ""},
		{[]string{"cloud.name=mycloud"}, deployment, "- --cloud=mycloud", ""},
		{[]string{"cloud.existingSecret=mine"}, deployment, "secretName: mine", ""},
		{[]string{"cloud.secretKey=c.yaml"}, deployment, "key: c.yaml", ""},
		{[]string{"cloud.cloudsYaml=clouds: {}"}, deployment, "secretName: network-controller-inline-clouds", ""},
		{[]string{"cloud.cloudsYaml=clouds: {}"}, deployment, "checksum/clouds", ""},
		{[]string{"cloud.cloudsYaml=clouds: {}"}, "Secret/network-controller-inline-clouds", "clouds.yaml: 'clouds: {}'", ""},
		{nil, "Secret/network-controller-inline-clouds", "", ""},
		{[]string{"cloud.ca=" + certificate}, deployment, "mountPath: /etc/ssl/certs", ""},
		{[]string{"cloud.ca=" + certificate}, "ConfigMap/network-controller-ca", "ca.pem: '" + certificate, ""},
		{[]string{"cloud.ca=" + certificate}, deployment, "checksum/ca", ""},
		{nil, deployment, "", "/etc/ssl/certs"},
		{[]string{"replicas=3"}, deployment, "replicas: 3", ""},
		{[]string{"extraArgs[0]=--drift-policy=Report"}, deployment, "- --drift-policy=Report", ""},
		{nil, deployment, "value: 460MiB", ""},
		{[]string{"resources.limits.memory=2Gi"}, deployment, "value: 1843MiB", ""},
		{[]string{"resources.limits.memory=2Gi"}, deployment, "memory: 2Gi", ""},
		{[]string{"priorityClassName="}, deployment, "", "priorityClassName"},
		{[]string{"podDisruptionBudget=false"}, "PodDisruptionBudget/" + name, "", ""},
		{nil, "PodMonitor/" + name, "", ""},
		{[]string{"monitoring.enabled=true"}, "PodMonitor/" + name, "port: https-metrics", ""},
		{[]string{"monitoring.enabled=true"}, "PrometheusRule/" + name, "{{ if $labels.secret }}info{{ else }}critical{{ end }}", ""},
		{[]string{"monitoring.enabled=true"}, "ConfigMap/" + name + "-dashboard", `grafana_dashboard: "1"`, ""},
		{[]string{"monitoring.enabled=true", "monitoring.labels.release=p", "commonLabels.release=c"}, "PodMonitor/" + name, "release: p", ""},
		{[]string{"monitoring.enabled=true", "monitoring.labels.release=p", "commonLabels.release=c"}, "PrometheusRule/" + name, "release: p", ""},
		{
			[]string{"monitoring.enabled=true", "monitoring.runbooks=https://example.com/r"}, "ConfigMap/" + name + "-dashboard",
			`"url": "https://example.com/r#networkobjectsnotready"`, "cloudteam.ztgame.com/network-controller/docs",
		},
		{
			[]string{"monitoring.enabled=true", "monitoring.runbooks=https://example.com/r"}, "PrometheusRule/" + name,
			"runbook_url: https://example.com/r#networkcloudoutage", "cloudteam.ztgame.com/network-controller",
		},
		{[]string{"monitoring.enabled=true", "monitoring.rules=false"}, "PrometheusRule/" + name, "", ""},
		{[]string{"monitoring.enabled=true", "monitoring.dashboard=false"}, "ConfigMap/" + name + "-dashboard", "", ""},
		{[]string{"monitoring.enabled=true", "monitoring.dashboard=false"}, "PodMonitor/" + name, "https-metrics", ""},
		{nil, deployment, "", "OTEL"},
		{[]string{"tracing.endpoint=http://c:4318"}, deployment, "value: http://c:4318", ""},
		{[]string{"tracing.endpoint=http://c:4318", "tracing.samplingRate=0.25"}, deployment, `value: "0.25"`, ""},
		{[]string{"extraArgs[0]=-v=4"}, deployment, "- -v=4", ""},
		{[]string{"logLevel=4"}, deployment, "- --v=4", ""},
		{[]string{"logFormat=json"}, deployment, "- --logging-format=json", ""},
		{nil, deployment, "", "--logging-format"},
		{[]string{"extraEnv[0].name=HTTPS_PROXY", "extraEnv[0].value=http://p:1"}, deployment, "name: HTTPS_PROXY", ""},
		{[]string{"extraVolumes[0].name=more", "extraVolumes[0].emptyDir.medium=Memory"}, deployment, "medium: Memory", ""},
		{[]string{"extraVolumeMounts[0].name=more", "extraVolumeMounts[0].mountPath=/m"}, deployment, "mountPath: /m", ""},
		{[]string{"podAnnotations.a=b"}, deployment, "a: b", ""},
		{[]string{"podLabels.a=b"}, deployment, "        a: b", ""},
		{[]string{"serviceAccount.annotations.a=b"}, "ServiceAccount/" + name, "a: b", ""},
		{[]string{"topologySpreadConstraints[0].topologyKey=zone", "namespace=team"}, deployment + "-team", name + "-team\n        topologyKey: zone", ""},
		{
			[]string{"topologySpreadConstraints[0].topologyKey=zone", "topologySpreadConstraints[0].labelSelector.matchLabels.a=b"},
			deployment, "a: b\n        topologyKey: zone", "",
		},
		{[]string{"topologySpreadConstraints=null"}, deployment, "", "topologySpreadConstraints"},
		{[]string{"nodeSelector.a=b"}, deployment, "a: b", ""},
		{[]string{"tolerations[0].operator=Exists"}, deployment, "operator: Exists", ""},
		{[]string{"affinity.nodeAffinity.x=y"}, deployment, "nodeAffinity", ""},
		{[]string{"crds.install=false"}, "CustomResourceDefinition/networks.cloudteam.ztgame.com", "", ""},
		{[]string{"admission.policies=false"}, "ValidatingAdmissionPolicy/network-controller-account", "", ""},
		{[]string{"admission.gate=false"}, "MutatingAdmissionPolicy/network-controller-scheduling-gate", "", ""},
		{[]string{"userRoles=false"}, "ClusterRole/network-controller-edit", "", ""},
		{nil, "NetworkClass/default", "", ""},
		// The kind may not exist yet.
		{[]string{"defaultClass=true"}, "NetworkClass/default", "", ""},
		{[]string{"defaultClass=true"}, "ClusterRole/network-controller-use-default-class", "use", ""},
		{nil, "DaemonSet/network-agent", "", ""},
		// No credentials are on a node.
		{[]string{"nodeAgent.enabled=true"}, "DaemonSet/network-agent", "hostPath", "secret"},
		{[]string{"nodeAgent.enabled=true", "image.tag=v1"}, "DaemonSet/network-agent", "image: network-controller:v1", "latest"},
		{agent("mode=ovn"), "DaemonSet/network-agent", "- --mode=ovn", "NET_ADMIN"},
		{agent("mode=trunk", "nodeAgent.parent=eth1"), "DaemonSet/network-agent", "- --parent=eth1", "openvswitch"},
		{agent("metricsPort=9999"), "DaemonSet/network-agent", "- --metrics-bind-address=:9999", "9480"},
		{agent("metricsPort=9999"), "ClusterRoleBinding/network-agent-auth-delegator", "system:auth-delegator", ""},
		{agent("metricsPort=9999"), "PodMonitor/network-agent", "", ""},
		{agent("mode=ovn"), "ClusterRoleBinding/network-agent-auth-delegator", "", ""},
		{agent("cniBinDir=/var/lib/cni/bin"), "DaemonSet/network-agent", "path: /var/lib/cni/bin", "path: /opt/cni/bin"},
		{agent("socket=/var/run/a/b.sock"), "DaemonSet/network-agent", "- --socket=/var/run/a/b.sock", "/run/network-agent"},
		{agent("socket=/var/run/a/b.sock"), "DaemonSet/network-agent", "mountPath: /var/run/a\n", ""},
		{agent("resources.limits.memory=1Gi"), "DaemonSet/network-agent", "value: 921MiB", ""},
		{agent("resources.requests.cpu=1"), "DaemonSet/network-agent", "cpu: 1\n", ""},
		{agent("tolerations=null"), "DaemonSet/network-agent", "", "tolerations"},
		{agent("nodeSelector.a=b"), "DaemonSet/network-agent", "a: b\n        kubernetes.io/os: linux", ""},
		{append(agent("mode="), "logLevel=4"), "DaemonSet/network-agent", "- --v=4", ""},
		{[]string{"namespace=team"}, deployment + "-team", "- --namespace=team", ""},
		{[]string{"namespace=team"}, "ClusterRole/" + name, "", ""},
		{[]string{"namespace=team"}, "ClusterRoleBinding/" + name, "", ""},
		{[]string{"namespace=team"}, "Role/" + name + "-team", "namespace: team", ""},
		{[]string{"namespace=team"}, "RoleBinding/" + name + "-team", "namespace: team", "ClusterRole"},
		{[]string{"namespace=team"}, "ClusterRole/" + name + "-team-cluster", "- team", "pods"},
		{[]string{"namespace=team"}, "Role/" + name + "-team-leader", "- network-controller-team", ""},
		{
			[]string{"namespace=team"}, "ValidatingAdmissionPolicy/" + name + "-team-account",
			"system:serviceaccount:network-controller:network-controller-team'", "",
		},
		{[]string{"namespace=team"}, "PodDisruptionBudget/" + name + "-team", "name: network-controller-team", ""},
		{[]string{"namespace=team", "cloud.cloudsYaml=clouds: {}"}, "Secret/" + name + "-team-inline-clouds", "clouds", ""},
		{[]string{"shared=false"}, "CustomResourceDefinition/networks.cloudteam.ztgame.com", "", ""},
		{[]string{"shared=false"}, "ValidatingAdmissionPolicy/network-controller-classes", "", ""},
		{[]string{"shared=false"}, "ClusterRole/network-controller-edit", "", ""},
		{[]string{"shared=false"}, "ClusterRole/network-controller-metrics-reader", "", ""},
		{[]string{"shared=false"}, "MutatingAdmissionPolicy/network-controller-scheduling-gate", "", ""},
		{[]string{"shared=false"}, "ValidatingAdmissionPolicy/network-controller-account", "is-the-account", ""},
		{nil, "NetworkPolicy/" + name, "", ""},
		{[]string{"networkPolicy.enabled=true"}, "NetworkPolicy/" + name, "port: https-metrics", ""},
	} {
		t.Run(strings.Join(test.set, ",")+" "+test.object, func(t *testing.T) {
			object := render(t, test.set...)[test.object]
			if test.has == "" && test.lacks == "" {
				if object != nil {
					t.Error("want it absent")
				}
				return
			}
			if object == nil {
				t.Fatal("it is absent")
			}
			text, err := yaml.Marshal(object.Object)
			expect.NoError(t, err)
			if !strings.Contains(string(text), test.has) || test.lacks != "" && strings.Contains(string(text), test.lacks) {
				t.Errorf("want %q and not %q in\n%s", test.has, test.lacks, text)
			}
		})
	}
}

// TestRefused gives values that would hurt, and what Helm says of them.
func TestRefused(t *testing.T) {
	for _, test := range []struct {
		to   target
		set  string
		want string
	}{
		{target{}, "firstStart=report", "firstStart"},
		{target{}, "replica=3", "replica"},
		{target{}, "cloud.existingSecret=", "existingSecret"},
		{target{}, "cloud.ca=/etc/ssl/ca.pem", "ca"},
		{target{}, "resources.limits.memory=1G", "memory"},
		{target{}, "extraArgs[0]=v=2", "extraArgs"},
		{target{}, "extraEnv[0].name=GOMEMLIMIT", "extraEnv"},
		{target{}, "podLabels.app\\.kubernetes\\.io/name=x", "app.kubernetes.io/name"},
		{target{}, "monitoring=true", "monitoring"},
		{target{}, "nodeAgent.mode=bridge", "nodeAgent"},
		{target{}, "nodeAgent.metricsPort=9479", "metricsPort"}, // of the health checks
		// Its folder is the agent's to write.
		{target{}, "nodeAgent.socket=/run/agent.sock", "socket"},
		{target{}, "nodeAgent.socket=/var/run/agent.sock", "socket"},
		// As after helm upgrade --set image.tag=NEW, without the release's other values.
		{
			target{chart: loadChart(t), upgrades: true}, "image.tag=NEW",
			"--set image.repository=REGISTRY/network-controller); helm upgrade keeps the values of the release with --reset-then-reuse-values",
		},
		{target{}, "tracing.endpoint=collector:4318", "endpoint"},
		{target{}, "tracing.samplingRate=1.5", "samplingRate"},
		{target{}, "tracing.samplingRate=2", "samplingRate"},
		{target{}, "namespace=a b", "namespace"},
		{target{namespace: "default"}, "replicas=1", "--namespace network-controller --create-namespace"},
		{target{kubernetes: "v1.33.0"}, "replicas=1", "1.33"},
	} {
		_, _, err := test.to.try(t, test.set)
		expect.ErrorSays(t, err, test.want)
	}
}

// TestAsADependency has the chart in another one, with the condition that Helm's users write.
func TestAsADependency(t *testing.T) {
	for enabled, want := range map[string]bool{"true": true, "false": false} {
		platform := &helmchart.Chart{
			Metadata: &helmchart.Metadata{
				APIVersion: "v2", Name: "platform", Version: "1.0.0",
				Dependencies: []*helmchart.Dependency{{Name: name, Version: "0.0.0", Condition: name + ".enabled"}},
			},
		}
		platform.AddDependency(loadChart(t))
		objects, _, err := target{chart: platform}.try(t, name+".enabled="+enabled, "global.team=x")
		expect.NoError(t, err)
		deployment := objects["Deployment/"+name]
		expect.Equal(t, want, deployment != nil, "whether there is a Deployment with enabled=%s", enabled)
		if want { // nobody named an image
			of := as[*appsv1.Deployment](t, deployment).Spec.Template.Spec.Containers[0]
			expect.Equal(t, corev1.PullNever, of.ImagePullPolicy, "the pull policy of %s", of.Image)
		}
	}
}

func TestEveryObjectHasTheCommonLabels(t *testing.T) {
	objects, _, err := target{apis: []string{"cloudteam.ztgame.com/v1/NetworkClass"}}.try(t, "commonLabels.team=x",
		"monitoring.enabled=true", "nodeAgent.enabled=true", "nodeAgent.metricsPort=9480", "defaultClass=true",
		"networkPolicy.enabled=true", "cloud.cloudsYaml=clouds: {}", "cloud.ca="+certificate)
	expect.NoError(t, err)
	for key, object := range objects {
		if object.GetLabels()["team"] != "x" && object.GetKind() != "CustomResourceDefinition" {
			t.Errorf("%s has the labels %v", key, object.GetLabels())
		}
	}
}

func TestGateOfOlderKubernetesIsBeta(t *testing.T) {
	objects, _, err := target{kubernetes: "v1.35.2"}.try(t)
	expect.NoError(t, err)
	gate := objects["MutatingAdmissionPolicy/network-controller-scheduling-gate"]
	expect.Equal(t, "admissionregistration.k8s.io/v1beta1", gate.GetAPIVersion(), "the gate's apiVersion")
	account := objects["ValidatingAdmissionPolicy/network-controller-account"]
	expect.Equal(t, "admissionregistration.k8s.io/v1", account.GetAPIVersion(), "the apiVersion of the other policies")
}

// TestNotes holds that the notes say what to do next.
func TestNotes(t *testing.T) {
	for want, set := range map[string][]string{
		"kubectl apply -f -":                     nil,
		"--set firstStart=Apply":                 {"firstStart=Report"},
		"create secret generic mine --from-file": {"cloud.existingSecret=mine"},
		"label namespace team cloudteam.ztgame.com/controller=network-controller": {"namespace=team"},
		"\"default\" comes with the next `helm up":                                {"defaultClass=true"},
	} {
		_, notes, err := target{}.try(t, set...)
		if err != nil || !strings.Contains(notes, want) {
			t.Errorf("%v: %v, want %q in\n%s", set, err, want, notes)
		}
	}
}
