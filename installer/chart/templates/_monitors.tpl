{{- /* One endpoint of a PodMonitor or ServiceMonitor; the argument is its part of the values, and the port. */}}
{{- define "evergreen.endpoint" -}}
port: {{ .port }}
path: /metrics
interval: {{ .interval }}
{{- with .scrapeTimeout }}
scrapeTimeout: {{ . }}
{{- end }}
relabelings:
# What is wrong is wrong with a node: the pod's name says nothing to people.
- sourceLabels: [__meta_kubernetes_pod_node_name]
  targetLabel: node
{{- with .relabelings }}
{{ toYaml . }}
{{- end }}
{{- with .metricRelabelings }}
metricRelabelings: {{- toYaml . | nindent 0 }}
{{- end }}
{{- end }}

{{- /* The containers that serve metrics, by the names of their ports: none in mode init without the repair controller. */}}
{{- define "evergreen.metricsPorts" -}}
{{- $ports := list }}
{{- if eq .Values.mode "watch" }}{{ $ports = append $ports "admin" }}{{ end }}
{{- if .Values.repairController.enabled }}{{ $ports = append $ports "admin-http" }}{{ end }}
{{- toJson $ports }}
{{- end }}
