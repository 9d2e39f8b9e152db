// Command chart writes the templates of charts/network-controller from the manifests in config, and its README from
// values.yaml, so that nothing is written twice. It also writes the lists of kinds in config, see writeLists. For a
// template, it copies files of config, and replaces in them the texts that a value sets. `make generate` runs it. What
// only the chart has, such as a Secret from a value, is in templates without the prefix "config-".
//
// `chart manifests FOLDER IMAGE` prints the manifests of a kustomization with an image, for a release.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	err := errors.New("usage: chart, or chart manifests FOLDER IMAGE")
	switch args := os.Args[1:]; {
	case len(args) == 0:
		err = write(".")
	case len(args) == 3 && args[0] == "manifests":
		err = writeManifests(os.Stdout, ".", args[1], args[2])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

// template is a file of the chart.
type template struct {
	// name is that of the file, without "config-".
	name string
	// when is the condition under which the chart has it; empty for always.
	when string
	// from are the files in config, or patterns of them.
	from []string
	// edits are pairs: a text that has to occur in from, and what replaces it wherever it does.
	edits []string
}

// labels are those of each object, with which Helm and users find what belongs together.
var labels = []string{
	"  labels:\n    app.kubernetes.io/name: network-controller\n",
	"  labels:\n    {{- include \"network-controller.labels\" . | nindent 4 }}\n",
}

// runbooks is the page that alerts and panels name.
var runbooks = []string{
	"https://cloudteam.ztgame.com/network-controller/docs/runbooks.html", "{{ .Values.monitoring.runbooks }}",
}

// monitoringLabels are labels for what an operator of Prometheus chooses by its labels. A key may be of commonLabels.
var monitoringLabels = []string{labels[0], `  labels:
    {{- include "network-controller.labels" . | fromYaml | merge dict .Values.monitoring.labels | toYaml | nindent 4 }}
`}

// podLabels are those by which a release finds its Pods: a controller of one namespace has others than that of the
// cluster.
var podLabels = []string{
	"      app.kubernetes.io/name: network-controller\n",
	"      app.kubernetes.io/name: {{ include \"network-controller.name\" . }}\n",
}

// names have the namespace, too, for a controller of one. They come after the labels.
var names = []string{"name: network-controller\n", "name: {{ include \"network-controller.name\" . }}\n"}

// agentLabels are those of the agents' objects.
var agentLabels = []string{
	"  labels:\n    app.kubernetes.io/name: network-agent\n",
	"  labels:\n    app.kubernetes.io/name: network-agent\n" +
		"    {{- include \"network-controller.commonLabels\" . | nindent 4 }}\n",
}

// image is how the manifests name the image.
var image = []string{"image: network-controller:latest", "image: {{ include \"network-controller.image\" . }}"}

var pullPolicy = []string{
	"imagePullPolicy: IfNotPresent", "imagePullPolicy: {{ include \"network-controller.pullPolicy\" . }}",
}

var templates = []template{
	{
		name: "crds.yaml", when: "and .Values.shared .Values.crds.install",
		from: []string{crds},
		// To delete a CRD is to delete every network: `helm uninstall` leaves them.
		edits: []string{
			"  annotations:\n    controller-gen", "  annotations:\n    helm.sh/resource-policy: keep\n    controller-gen",
		},
	},
	{
		name: "rbac.yaml",
		from: []string{
			"rbac/service_account.yaml", "rbac/role.yaml", "rbac/role_binding.yaml", "rbac/lease_role.yaml",
			"rbac/lease_role_binding.yaml",
		},
		// For one namespace, a Role there has the rights; what the cluster has stays a ClusterRole.
		edits: slices.Concat([]string{
			"kind: ClusterRole\nmetadata:\n  name: network-controller\n", `kind: {{ include "network-controller.roleKind" . }}
metadata:
  name: network-controller
  {{- with .Values.namespace }}
  namespace: {{ . }}
  {{- end }}
`,
			"kind: ClusterRoleBinding\nmetadata:\n  name: network-controller\n",
			`kind: {{ include "network-controller.roleKind" . }}Binding
metadata:
  name: network-controller
  {{- with .Values.namespace }}
  namespace: {{ . }}
  {{- end }}
`,
			"  kind: ClusterRole\n  name: network-controller\n",
			"  kind: {{ include \"network-controller.roleKind\" . }}\n  name: network-controller\n",
			"    resources: [namespaces]\n", `    resources: [namespaces]
    {{- with .Values.namespace }}
    resourceNames: [kube-system, network-controller, {{ . }}]
    {{- end }}
`,
			"  # Who reads /metrics, and", `  {{- with .Values.namespace }}
  # The policy network-controller-pods asks for it.
  - apiGroups: [cloudteam.ztgame.com]
    resources: [namespaces]
    resourceNames: [{{ . }}]
    verbs: [control]
  {{- end }}
  # Who reads /metrics, and`,
			"network-controller-cluster\n", "{{ include \"network-controller.name\" . }}-cluster\n",
			"network-controller-leader\n", "{{ include \"network-controller.name\" . }}-leader\n",
			"[network-controller]\n", "[{{ include \"network-controller.name\" . }}]\n",
			"kind: ServiceAccount\nmetadata:\n  name: network-controller\n  namespace: network-controller\n",
			`kind: ServiceAccount
metadata:
  name: network-controller
  namespace: network-controller
  {{- with .Values.serviceAccount.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
`,
		}, labels, names),
	},
	{
		name: "shared-roles.yaml", when: ".Values.shared",
		from: []string{"rbac/credentials_role.yaml", "rbac/metrics_reader_role.yaml"}, edits: labels,
	},
	{
		name: "user-roles.yaml", when: "and .Values.shared .Values.userRoles",
		from: []string{"rbac/user_roles.yaml"}, edits: labels,
	},
	{
		name: "account-policy.yaml", when: ".Values.admission.policies",
		from: []string{"admission/account.yaml"},
		edits: append([]string{
			"network-controller-account", "{{ include \"network-controller.name\" . }}-account",
			"network-controller:network-controller'", "network-controller:{{ include \"network-controller.name\" . }}'",
		}, labels...),
	},
	{
		name: "policies.yaml", when: "and .Values.shared .Values.admission.policies",
		from: []string{"admission/classes.yaml", "admission/pods.yaml"}, edits: labels,
	},
	{
		// A controller that only reports lifts no gate.
		name: "gate.yaml", when: "and .Values.shared .Values.admission.gate",
		from: []string{"admission/scheduling_gate.yaml", "admission/networks.yaml"},
		edits: append([]string{
			"apiVersion: admissionregistration.k8s.io/v1\n", "apiVersion: {{ include \"network-controller.gateVersion\" . }}\n",
		}, labels...),
	},
	{
		name: "default-class.yaml",
		when: `and .Values.shared .Values.defaultClass ` +
			`(.Capabilities.APIVersions.Has "cloudteam.ztgame.com/v1/NetworkClass")`,
		from: []string{"classes/default_class.yaml"}, edits: labels,
	},
	{
		name: "default-class-role.yaml", when: "and .Values.shared .Values.defaultClass",
		from: []string{"classes/use_default_class.yaml"}, edits: labels,
	},
	{
		name: "disruption-budget.yaml", when: ".Values.podDisruptionBudget",
		from: []string{"manager/disruption_budget.yaml"}, edits: slices.Concat(labels, podLabels, names),
	},
	{
		name: "network-policy.yaml", when: ".Values.networkPolicy.enabled",
		from: []string{"network-policy/network_policy.yaml"}, edits: slices.Concat(labels, podLabels, names),
	},
	{
		name: "deployment.yaml",
		from: []string{"manager/deployment.yaml"},
		edits: slices.Concat([]string{
			"  replicas: 2\n", "  replicas: {{ .Values.replicas }}\n",
			"      annotations:\n        kubectl", `        {{- with .Values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      annotations:
        {{- with .Values.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        {{- if .Values.cloud.cloudsYaml }}
        checksum/clouds: {{ .Values.cloud.cloudsYaml | sha256sum }}
        {{- end }}
        {{- with .Values.cloud.ca }}
        checksum/ca: {{ . | sha256sum }}
        {{- end }}
        kubectl`,
			"      priorityClassName: system-cluster-critical\n", `      {{- with .Values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with .Values.image.pullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
`,
			`      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              app.kubernetes.io/name: network-controller
`, `      {{- with .Values.topologySpreadConstraints }}
      topologySpreadConstraints:
        {{- range . }}
        {{- $ours := merge (include "network-controller.ownPods" $ | fromYaml) . }}
        - {{- toYaml (hasKey . "labelSelector" | ternary . $ours) | nindent 10 }}
        {{- end }}
      {{- end }}
`,
			"            - --cloud=openstack\n", "            - {{ printf \"--cloud=%s\" .Values.cloud.name | quote }}\n",
			"            - --metrics-bind-address=:8443\n", `            - --metrics-bind-address=:8443
            {{- with .Values.namespace }}
            - --namespace={{ . }}
            {{- end }}
            {{- if eq .Values.firstStart "Report" }}
            - --report-only
            {{- end }}
            {{- range include "network-controller.logArgs" . | fromJsonArray }}
            - {{ . }}
            {{- end }}
            {{- range .Values.extraArgs }}
            - {{ . | quote }}
            {{- end }}
`,
			"              value: 460MiB\n",
			`              value: {{ include "network-controller.goMemLimit" .Values.resources }}
            {{- with .Values.tracing.endpoint }}
            - name: OTEL_EXPORTER_OTLP_ENDPOINT
              value: {{ quote . }}
            - name: OTEL_TRACES_SAMPLER
              value: traceidratio
            - name: OTEL_TRACES_SAMPLER_ARG
              value: {{ quote $.Values.tracing.samplingRate }}
            {{- end }}
            {{- with .Values.extraEnv }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
`,
			`          resources:
            requests:
              cpu: 50m
              memory: 128Mi
            limits:
              memory: 512Mi
`, `          resources:
            {{- toYaml .Values.resources | nindent 12 }}
`,
			"              readOnly: true\n", `              readOnly: true
            {{- if .Values.cloud.ca }}
            # Where Go looks for the system's CA certificates.
            - name: ca
              mountPath: /etc/ssl/certs
              readOnly: true
            {{- end }}
            {{- with .Values.extraVolumeMounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
`,
			"            secretName: network-controller-clouds\n",
			"            secretName: {{ include \"network-controller.cloudsSecret\" . }}\n",
			"              - key: clouds.yaml\n                path: clouds.yaml",
			`              - key: {{ .Values.cloud.secretKey }}
                path: clouds.yaml
        {{- if .Values.cloud.ca }}
        - name: ca
          configMap:
            name: {{ include "network-controller.name" . }}-ca
        {{- end }}
        {{- with .Values.extraVolumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}`,
			"serviceAccountName: network-controller\n", "serviceAccountName: {{ include \"network-controller.name\" . }}\n",
		}, labels, podLabels, names, image, pullPolicy),
	},
	{
		name: "monitoring.yaml", when: "and .Values.shared .Values.monitoring.enabled",
		from: []string{"monitoring/podmonitor.yaml"}, edits: monitoringLabels,
	},
	{
		name: "monitoring-reader.yaml", when: "and .Values.shared .Values.monitoring.enabled",
		from: []string{"monitoring/reader.yaml"}, edits: labels,
	},
	{
		name: "monitoring-rules.yaml", when: "and .Values.shared .Values.monitoring.enabled .Values.monitoring.rules",
		from: []string{"monitoring/rules.yaml"}, edits: slices.Concat(monitoringLabels, runbooks),
	},
	{
		name:  "monitoring-dashboard.yaml",
		when:  "and .Values.shared .Values.monitoring.enabled .Values.monitoring.dashboard",
		from:  []string{"monitoring/dashboards/network-controller.json"},
		edits: slices.Concat(labels, runbooks),
	},
	{
		name: "node-metrics-rbac.yaml", when: "and .Values.shared .Values.nodeAgent.enabled .Values.nodeAgent.metricsPort",
		from: []string{"node-metrics/rbac.yaml"}, edits: agentLabels,
	},
	{
		name: "node-metrics.yaml",
		when: "and .Values.shared .Values.nodeAgent.enabled .Values.nodeAgent.metricsPort .Values.monitoring.enabled",
		from: []string{"node-metrics/podmonitor.yaml"}, edits: monitoringLabels,
	},
	{
		name: "node-agent.yaml", when: "and .Values.shared .Values.nodeAgent.enabled",
		from: []string{"node/namespace.yaml", "node/rbac.yaml", "node/account.yaml", "node/daemonset.yaml"},
		edits: slices.Concat(agentLabels, []string{
			"      priorityClassName: system-node-critical\n", `      priorityClassName: system-node-critical
      {{- with .Values.image.pullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
`,
			"        kubernetes.io/os: linux\n", `        kubernetes.io/os: linux
        {{- with .Values.nodeAgent.nodeSelector }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
`,
			"      tolerations:\n        - operator: Exists\n", `      {{- with .Values.nodeAgent.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
`,
			"          command: [network-agent]\n", `          command: [network-agent]
          {{- with include "network-controller.agentArgs" . }}
          args: {{ . }}
          {{- end }}
          {{- with .Values.nodeAgent.metricsPort }}
          ports:
            - name: https-metrics
              containerPort: {{ . }}
              hostPort: {{ . }}
          {{- end }}
`,
			"              value: 230MiB\n",
			"              value: {{ include \"network-controller.goMemLimit\" .Values.nodeAgent.resources }}\n",
			`          resources:
            requests:
              cpu: 10m
              memory: 64Mi
            limits:
              memory: 256Mi
`, `          resources:
            {{- toYaml .Values.nodeAgent.resources | nindent 12 }}
`,
			`              # Some distributions run Open vSwitch as a separate user. Its socket is then not root's.
              add: [DAC_OVERRIDE]
`, `              {{- if eq .Values.nodeAgent.mode "trunk" }}
              # It makes VLAN interfaces on the node.
              add: [NET_ADMIN]
              {{- else }}
              # Some distributions run Open vSwitch as a separate user. Its socket is then not root's.
              add: [DAC_OVERRIDE]
              {{- end }}
`,
			"            - name: openvswitch\n              mountPath: /run/openvswitch\n",
			`            {{- if ne .Values.nodeAgent.mode "trunk" }}
            - name: openvswitch
              mountPath: /run/openvswitch
            {{- end }}
`,
			`        - name: openvswitch
          hostPath:
            path: /run/openvswitch
            type: DirectoryOrCreate
`, `        {{- if ne .Values.nodeAgent.mode "trunk" }}
        - name: openvswitch
          hostPath:
            path: /run/openvswitch
            type: DirectoryOrCreate
        {{- end }}
`,
			"            path: /opt/cni/bin\n", "            path: {{ .Values.nodeAgent.cniBinDir }}\n",
			"mountPath: /run/network-agent\n", "mountPath: {{ dir .Values.nodeAgent.socket }}\n",
			"            path: /run/network-agent\n", "            path: {{ dir .Values.nodeAgent.socket }}\n",
		}, image, pullPolicy),
	},
}

// dashboardMap is the ConfigMap that config/monitoring makes of a dashboard.
func dashboardMap(dashboard string) string {
	return `apiVersion: v1
kind: ConfigMap
metadata:
  name: network-controller-dashboard
  labels:
    app.kubernetes.io/name: network-controller
    grafana_dashboard: "1"
data:
  network-controller.json: |
    ` + strings.ReplaceAll(strings.TrimRight(dashboard, "\n"), "\n", "\n    ") + "\n"
}

// write writes the templates into the repository at root.
func write(root string) error {
	config := filepath.Join(root, "config")
	if err := writeLists(config); err != nil {
		return err
	}
	chart := filepath.Join(root, "charts", "network-controller")
	folder := filepath.Join(chart, "templates")
	old, err := filepath.Glob(filepath.Join(folder, "config-*"))
	if err != nil {
		return err
	}
	for _, file := range old {
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	for _, t := range templates {
		var text string
		if t.from, err = found(config, t.from); err == nil {
			text, err = t.render(func(file string) (string, error) {
				content, err := os.ReadFile(filepath.Join(config, file))
				return string(content), err
			})
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, "config-"+t.name), []byte(text), 0o644) //nolint:gosec // a source
		}
		if err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	return writeREADME(chart)
}

// render gives the template's text.
func (t template) render(read func(file string) (string, error)) (string, error) {
	var all strings.Builder
	for i, file := range t.from {
		content, err := read(file)
		if err != nil {
			return "", err
		}
		if strings.HasSuffix(file, ".json") {
			content = dashboardMap(content)
		}
		content = strings.ReplaceAll(content, "{{", `{{ "{{" }}`) // Prometheus' and Grafana's, not Helm's
		if i > 0 {
			all.WriteString("---\n")
		}
		all.WriteString(strings.TrimPrefix(content, "---\n"))
	}
	text := all.String()
	var missing []error
	for i := 0; i < len(t.edits); i += 2 {
		if !strings.Contains(text, t.edits[i]) {
			missing = append(missing, fmt.Errorf("no file of config has %q: adapt tools/chart", t.edits[i]))
		}
		text = strings.ReplaceAll(text, t.edits[i], t.edits[i+1])
	}
	if t.when != "" {
		text = "{{- if " + t.when + " }}\n" + text + "{{- end }}\n"
	}
	sources := strings.Join(t.from, ", ")
	text = "{{- /* Written by tools/chart from " + sources + " in config. Change it there. */}}\n" + text
	return text, errors.Join(missing...)
}
