package monitoring

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	_ "cloudteam.ztgame.com/network-controller/internal/app" // makes its metrics
	"cloudteam.ztgame.com/network-controller/internal/metric"
	_ "cloudteam.ztgame.com/network-controller/internal/node/agent" // makes its metrics
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// folder has what is tested here.
const folder = "../../config/monitoring"

// stock are metrics of others that the binary serves, with their labels. The test with Prometheus shows that it does.
var stock = map[string][]string{
	"kube_daemonset_status_desired_number_scheduled": {"namespace", "daemonset"},
	"kube_daemonset_status_number_unavailable":       {"namespace", "daemonset"}, "leader_election_master_status": {"name"},
	"workqueue_depth": {"name"}, "workqueue_queue_duration_seconds": {"name"}, "process_cpu_seconds_total": nil,
	"process_resident_memory_bytes": nil, "rest_client_requests_total": {"code", "host", "method"},
}

var (
	// names matches the names of metrics in expressions, and some of the functions and labels.
	names  = regexp.MustCompile(`\b[a-z]+(?:_[a-z]+)+\b`)
	quoted = regexp.MustCompile(`"[^"]*"`)
	suffix = regexp.MustCompile(`_(bucket|sum|count)$`)
	// matched is a metric with matchers, of which label matches the names. grouped are the labels that stay.
	matched = regexp.MustCompile(`([a-z_]+)\{([^}]*)\}`)
	label   = regexp.MustCompile(`([a-z_]+)\s*[=!]`)
	grouped = regexp.MustCompile(`\bby \(([^)]*)\)`)
	// replaced is the label that label_replace makes.
	replaced = regexp.MustCompile(`label_replace\(.*?, "([a-z]+)", "`)
)

// labelsOf are the labels of a metric, with those that each scrape adds.
func labelsOf(name string) []string {
	all := append([]string{"job", "instance", "pod"}, stock[suffix.ReplaceAllString(name, "")]...)
	for _, d := range metric.All() {
		if d.Name == name || d.Type == "histogram" && d.Name == suffix.ReplaceAllString(name, "") {
			all = append(all, d.Labels...)
		}
	}
	if strings.HasSuffix(name, "_bucket") {
		all = append(all, "le")
	}
	return all
}

// unlabelled returns the labels in an expression that its metrics do not have.
func unlabelled(expr string) (missing []string) {
	var all []string
	for _, name := range names.FindAllString(quoted.ReplaceAllString(expr, ""), -1) {
		all = append(all, labelsOf(name)...)
	}
	for _, made := range replaced.FindAllStringSubmatch(expr, -1) {
		all = append(all, made[1])
	}
	bare := quoted.ReplaceAllString(expr, `""`)
	for _, m := range matched.FindAllStringSubmatch(bare, -1) {
		for _, l := range label.FindAllStringSubmatch(m[2], -1) {
			if !slices.Contains(labelsOf(m[1]), l[1]) {
				missing = append(missing, m[1]+"{"+l[1]+"}")
			}
		}
	}
	for _, by := range grouped.FindAllStringSubmatch(bare, -1) {
		for l := range strings.SplitSeq(by[1], ",") {
			if l = strings.TrimSpace(l); !slices.Contains(all, l) {
				missing = append(missing, "by "+l)
			}
		}
	}
	return missing
}

// unknown returns the metrics in an expression that nobody serves.
func unknown(expr string) (missing []string) {
	for _, name := range names.FindAllString(quoted.ReplaceAllString(expr, ""), -1) {
		known := func(d metric.Definition) bool {
			return d.Name == name || d.Type == "histogram" && d.Name == suffix.ReplaceAllString(name, "")
		}
		switch {
		case slices.Contains([]string{"histogram_quantile", "label_replace", "label_values"}, name), strings.HasPrefix(name, "__"):
		case isStock(name), slices.ContainsFunc(metric.All(), known):
		default:
			missing = append(missing, name)
		}
	}
	return missing
}

func isStock(name string) bool {
	_, is := stock[suffix.ReplaceAllString(name, "")]
	return is
}

// decode reads a YAML or JSON file of folder.
func decode(t *testing.T, name string, into any) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(folder, name))
	if err == nil {
		err = yaml.Unmarshal(content, into)
	}
	expect.NoError(t, err)
}

// rule is an alert.
type rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// groups is a rule file of Prometheus.
type groups struct {
	Groups []struct {
		Name  string `json:"name"`
		Rules []rule `json:"rules"`
	} `json:"groups"`
}

func readRules(t *testing.T) groups {
	t.Helper()
	var manifest struct {
		Spec groups `json:"spec"`
	}
	decode(t, "rules.yaml", &manifest)
	return manifest.Spec
}

// panel is a panel of a dashboard.
type panel struct {
	Title   string `json:"title"`
	Type    string `json:"type"`
	Targets []struct {
		Expr   string `json:"expr"`
		Legend string `json:"legendFormat"`
	} `json:"targets"`
	FieldConfig struct {
		Defaults struct {
			Unit string `json:"unit"`
		} `json:"defaults"`
	} `json:"fieldConfig"`
	Links []struct {
		URL string `json:"url"`
	} `json:"links"`
	GridPos struct{ X, Y, W, H int } `json:"gridPos"`
}

func readPanels(t *testing.T) []panel {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(folder, "dashboards/network-controller.json"))
	expect.NoError(t, err)
	var dashboard struct {
		Panels []panel `json:"panels"`
	}
	expect.NoError(t, json.Unmarshal(content, &dashboard))
	return dashboard.Panels
}

func TestEachAlertAsksForMetricsThatExistAndHasARunbook(t *testing.T) {
	runbooks, err := os.ReadFile("../../docs/runbooks.md")
	expect.NoError(t, err)
	sections := regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(string(runbooks), -1)
	tests, err := os.ReadFile(filepath.Join(folder, "alerts_test.yaml"))
	expect.NoError(t, err)
	count := 0
	for _, group := range readRules(t).Groups {
		for _, r := range group.Rules {
			count++
			if missing := unknown(r.Expr); len(missing) > 0 {
				t.Errorf("%s: nobody serves %s", r.Alert, missing)
			}
			if missing := unlabelled(r.Expr); len(missing) > 0 {
				t.Errorf("%s: its metrics have no labels %s", r.Alert, missing)
			}
			if url := r.Annotations["runbook_url"]; !strings.HasPrefix(url, "https://") ||
				!strings.HasSuffix(url, "/runbooks.html#"+strings.ToLower(r.Alert)) {
				t.Errorf("%s: the runbook is %q", r.Alert, url)
			}
			if !slices.ContainsFunc(sections, func(s []string) bool { return s[1] == r.Alert }) {
				t.Errorf("%s has no section in docs/runbooks.md", r.Alert)
			}
			if !strings.Contains(string(tests), r.Alert) {
				t.Errorf("%s is not in alerts_test.yaml", r.Alert)
			}
			if r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" || r.For == "" {
				t.Errorf("%s lacks a severity, a summary, a description or a duration: %+v", r.Alert, r)
			}
		}
	}
	if count != len(sections) {
		t.Errorf("%d alerts and %d runbooks", count, len(sections))
	}
	if got := unknown(`sum(rate(network_controller_misspelt_total{a="workqueue_depth"}[5m]))`); len(got) != 1 {
		t.Errorf("a misspelt metric is taken for one that is served: %v", got)
	}
	expect.Equal(t, []string{"network_controller_objects{phase}", "by phase"}, unlabelled(
		`sum by (kind, phase) (network_controller_objects{ready="False", phase=~"x"})`), "misspelt labels")
}

func TestEachPanelAsksForMetricsThatExist(t *testing.T) {
	panels := 0
	for _, p := range readPanels(t) {
		if p.Type == "row" {
			continue
		}
		panels++
		if len(p.Targets) == 0 {
			t.Errorf("panel %q shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			if missing := unknown(target.Expr); len(missing) > 0 {
				t.Errorf("panel %q: nobody serves %s", p.Title, missing)
			}
			if missing := unlabelled(target.Expr); len(missing) > 0 {
				t.Errorf("panel %q: its metrics have no labels %s", p.Title, missing)
			}
		}
	}
	if panels < 20 {
		t.Errorf("only %d panels", panels)
	}
}

// TestTheDashboardSaysHowManyAreBroken holds the single figures on top, with their runbooks, and the choice of a namespace.
func TestTheDashboardSaysHowManyAreBroken(t *testing.T) {
	var figures []string
	for _, p := range readPanels(t) {
		for _, target := range p.Targets {
			for _, d := range metric.All() {
				if slices.Contains(d.Labels, "namespace") && strings.Contains(target.Expr, d.Name+"{") &&
					!strings.Contains(target.Expr, `namespace=~"$namespace"`) {
					t.Errorf("panel %q does not follow the choice of a namespace: %s", p.Title, target.Expr)
				}
			}
		}
		if p.Type != "stat" {
			continue
		}
		figures = append(figures, p.Title)
		if len(p.Links) != 1 || !slices.ContainsFunc(readRules(t).Groups[0].Rules, func(r rule) bool {
			return r.Annotations["runbook_url"] == p.Links[0].URL
		}) {
			t.Errorf("panel %q has the links %v, want that of an alert's runbook", p.Title, p.Links)
		}
		if p.GridPos.Y > 1 {
			t.Errorf("panel %q is not on top", p.Title)
		}
	}
	for _, want := range []string{"Objects not Ready", "Nodes without an agent"} {
		if !slices.Contains(figures, want) {
			t.Errorf("no figure %q: %q", want, figures)
		}
	}
}

func TestTheManifestsRender(t *testing.T) {
	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	expect.NoError(t, err)
	manager, err := os.ReadFile(filepath.Join(folder, "../manager/deployment.yaml"))
	expect.NoError(t, err)
	for _, wanted := range []string{"name: https-metrics", "app.kubernetes.io/name: network-controller"} {
		if !strings.Contains(string(manager), wanted) {
			t.Errorf("the PodMonitor looks for %q, which the Deployment has not", wanted)
		}
	}
	var kinds []string
	for _, r := range rendered.Resources() {
		kinds = append(kinds, r.GetKind())
		if r.GetKind() != "ClusterRoleBinding" && r.GetNamespace() != "network-controller" {
			t.Errorf("%s %s is in namespace %q", r.GetKind(), r.GetName(), r.GetNamespace())
		}
	}
	slices.Sort(kinds)
	want := "ClusterRoleBinding ConfigMap PodMonitor PrometheusRule Secret ServiceAccount"
	if got := strings.Join(kinds, " "); got != want {
		t.Errorf("kinds: %s, want %s", got, want)
	}
}

// TestKubeStateMetricsReadsFieldsThatExist holds the paths of the configuration against the CRDs, and its own fields to
// those of kube-state-metrics that it uses, which ignores others.
func TestKubeStateMetricsReadsFieldsThatExist(t *testing.T) {
	type paths map[string][]string
	type of struct {
		Path           []string `json:"path"`
		ValueFrom      []string `json:"valueFrom"`
		LabelsFromPath paths    `json:"labelsFromPath"`
		NilIsZero      bool     `json:"nilIsZero"`
	}
	var config struct {
		Kind string `json:"kind"`
		Spec struct {
			Resources []struct {
				GroupVersionKind struct {
					Group   string `json:"group"`
					Version string `json:"version"`
					Kind    string `json:"kind"`
				} `json:"groupVersionKind"`
				MetricNamePrefix string `json:"metricNamePrefix"`
				ErrorLogV        int    `json:"errorLogV"`
				LabelsFromPath   paths  `json:"labelsFromPath"`
				Metrics          []struct {
					Name string `json:"name"`
					Help string `json:"help"`
					Each struct {
						Type  string `json:"type"`
						Gauge *of    `json:"gauge"`
						Info  *of    `json:"info"`
					} `json:"each"`
				} `json:"metrics"`
			} `json:"resources"`
		} `json:"spec"`
	}
	content, err := os.ReadFile(filepath.Join(folder, "kube-state-metrics.yaml"))
	if err == nil {
		err = yaml.UnmarshalStrict(content, &config)
	}
	expect.NoError(t, err)
	if len(config.Spec.Resources) != 5 {
		t.Errorf("%d kinds, want 5", len(config.Spec.Resources))
	}
	for _, resource := range config.Spec.Resources {
		kind := resource.GroupVersionKind
		var crd apiextensionsv1.CustomResourceDefinition
		decode(t, fmt.Sprintf("../crd/%s_%ss.yaml", kind.Group, pluralless(kind.Kind)), &crd)
		at := slices.IndexFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
			return v.Name == kind.Version && v.Served
		})
		if at < 0 || crd.Spec.Names.Kind != kind.Kind {
			t.Errorf("no CRD serves %+v", kind)
			continue
		}
		root := crd.Spec.Versions[at].Schema.OpenAPIV3Schema
		hold := func(metric string, from *apiextensionsv1.JSONSchemaProps, path []string) *apiextensionsv1.JSONSchemaProps {
			found := descend(from, path)
			if found == nil {
				t.Errorf("%s, %s: there is no field %s", kind.Kind, metric, strings.Join(path, "."))
			}
			return found
		}
		for _, path := range resource.LabelsFromPath {
			hold("labels", root, path)
		}
		for _, m := range resource.Metrics {
			each := m.Each.Gauge
			if m.Each.Type == "Info" {
				each = m.Each.Info
			}
			if each == nil || m.Each.Gauge != nil && m.Each.Info != nil {
				t.Errorf("%s, %s: it is of the type %s, and has not the fields of this type alone", kind.Kind, m.Name, m.Each.Type)
				continue
			}
			from := hold(m.Name, root, each.Path)
			for _, path := range each.LabelsFromPath {
				hold(m.Name, from, path)
			}
			hold(m.Name, from, each.ValueFrom)
		}
	}
	var schema apiextensionsv1.JSONSchemaProps
	if descend(&schema, []string{"status"}) != nil {
		t.Error("a field that does not exist was found")
	}
}

// pluralless is a kind as in the names of the CRDs' files, without the plural's ending.
func pluralless(kind string) string {
	kind = strings.ToLower(kind)
	if strings.HasSuffix(kind, "s") {
		return kind + "e"
	}
	return kind
}

// descend follows a path, of which a step into a list is a step into its items; nil if it leads nowhere.
func descend(from *apiextensionsv1.JSONSchemaProps, path []string) *apiextensionsv1.JSONSchemaProps {
	for _, name := range path {
		if from == nil {
			return nil
		}
		if len(path) > 1 && path[0] == "metadata" {
			return from // of every object
		}
		next, ok := from.Properties[name]
		if !ok {
			return nil
		}
		from = &next
		if from.Items != nil {
			from = from.Items.Schema
		}
	}
	return from
}
