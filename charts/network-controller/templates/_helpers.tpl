{{- define "network-controller.commonLabels" -}}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | splitList "@" | first | trunc 63 | trimAll "-_." | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* What is in the cluster once for each release. */}}
{{- define "network-controller.name" -}}
network-controller{{ with .Values.namespace }}-{{ . }}{{ end }}
{{- end }}

{{- define "network-controller.roleKind" -}}
{{ if .Values.namespace }}Role{{ else }}ClusterRole{{ end }}
{{- end }}

{{- define "network-controller.labels" -}}
app.kubernetes.io/name: network-controller
{{ include "network-controller.commonLabels" . }}
{{- end }}

{{- define "network-controller.ownPods" -}}
labelSelector:
  matchLabels:
    app.kubernetes.io/name: {{ include "network-controller.name" . }}
{{- end }}

{{- define "network-controller.image" -}}
{{ .Values.image.repository | default "network-controller" }}
{{- if .Values.image.digest -}}
@{{ .Values.image.digest }}
{{- else -}}
:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- /* An image that nobody named comes from no registry: somebody else may have that name there. */}}
{{- define "network-controller.pullPolicy" -}}
{{ if .Values.image.repository }}{{ .Values.image.pullPolicy }}{{ else }}Never{{ end }}
{{- end }}

{{- define "network-controller.cloudsSecret" -}}
{{- if .Values.cloud.cloudsYaml -}}
{{ include "network-controller.name" . }}-inline-clouds
{{- else -}}
{{ .Values.cloud.existingSecret }}
{{- end -}}
{{- end }}

{{- /* Flags of the log, for the controller and the agent, as JSON. */}}
{{- define "network-controller.logArgs" -}}
{{- $args := list -}}
{{- if .Values.logLevel -}}
{{- $args = append $args (printf "--v=%d" (int .Values.logLevel)) -}}
{{- end -}}
{{- if ne .Values.logFormat "text" -}}
{{- $args = append $args (printf "--logging-format=%s" .Values.logFormat) -}}
{{- end -}}
{{ toJson $args }}
{{- end }}

{{- /* The flags of the agent, as JSON; empty if there are none. */}}
{{- define "network-controller.agentArgs" -}}
{{- $args := include "network-controller.logArgs" . | fromJsonArray -}}
{{- with .Values.nodeAgent.mode -}}
{{- $args = append $args (printf "--mode=%s" .) -}}
{{- end -}}
{{- with .Values.nodeAgent.parent -}}
{{- $args = append $args (printf "--parent=%s" .) -}}
{{- end -}}
{{- if ne .Values.nodeAgent.socket "/run/network-agent/agent.sock" -}}
{{- $args = append $args (printf "--socket=%s" .Values.nodeAgent.socket) -}}
{{- end -}}
{{- with .Values.nodeAgent.metricsPort -}}
{{- $args = append $args (printf "--metrics-bind-address=:%v" .) -}}
{{- end -}}
{{- if $args -}}
{{ toJson $args }}
{{- end -}}
{{- end }}

{{- /* Nine tenths of the memory limit of resources: near it, Go collects garbage instead of growing. */}}
{{- define "network-controller.goMemLimit" -}}
{{- $limit := .limits.memory -}}
{{- $mebibytes := trimSuffix "Mi" $limit | int -}}
{{- if hasSuffix "Gi" $limit -}}
{{- $mebibytes = mul 1024 (trimSuffix "Gi" $limit | int) -}}
{{- end -}}
{{ div (mul $mebibytes 9) 10 }}MiB
{{- end }}

{{- /* Kubernetes 1.34 and 1.35 have mutating policies as v1beta1. */}}
{{- define "network-controller.gateVersion" -}}
{{- if semverCompare ">=1.36.0-0" .Capabilities.KubeVersion.Version -}}
admissionregistration.k8s.io/v1
{{- else -}}
admissionregistration.k8s.io/v1beta1
{{- end -}}
{{- end }}
