{{- define "operator.name" -}}
{{- if contains "llmservice-operator" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-llmservice-operator" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}
{{- define "operator.serviceAccount" -}}{{ .Values.serviceAccount.name | default (include "operator.name" .) }}{{- end }}
{{- define "operator.image" -}}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{- end }}
{{- define "operator.keySecret" -}}{{ .Values.operatorKey.existingSecret | default (printf "%s-key" (include "operator.name" .)) }}{{- end }}
{{- define "operator.selector" -}}
app.kubernetes.io/name: llmservice-operator
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}
{{- define "operator.labels" -}}
{{ include "operator.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}
