{{- define "network-controller.commonLabels" -}}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
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

{{- define "network-controller.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- define "network-controller.cloudsSecret" -}}
{{- if .Values.cloud.cloudsYaml -}}
{{ include "network-controller.name" . }}-inline-clouds
{{- else -}}
{{ .Values.cloud.existingSecret }}
{{- end -}}
{{- end }}

{{- /* Nine tenths of the memory limit: near it, Go collects garbage instead of growing. */}}
{{- define "network-controller.goMemLimit" -}}
{{- $limit := .Values.resources.limits.memory -}}
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
