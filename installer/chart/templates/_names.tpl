{{- /* Labels that never change: what the DaemonSet selects by. */}}
{{- define "evergreen.selector" -}}
k8s-app: evergreen-cni
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* Labels of every object. */}}
{{- define "evergreen.labels" -}}
{{ include "evergreen.selector" . }}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
linkerd.io/cni-resource: "true"
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* The account the plugin shows to the API server. */}}
{{- define "evergreen.plugin" -}}
{{ .Release.Name }}-plugin
{{- end }}

{{- define "evergreen.image" -}}
{{ .Values.image.name }}:{{ .Values.image.version | default .Chart.AppVersion }}
{{- end }}

{{- /* "1, 2-3" to ["1","2-3"] */}}
{{- define "evergreen.strings" -}}
{{- $entries := list -}}
{{- range splitList "," (toString .) }}{{- with trim . }}{{- $entries = append $entries . }}{{- end }}{{- end -}}
{{ toJson $entries }}
{{- end }}

{{- /* The netconf: the object the installer puts into the runtime's list. */}}
{{- define "evergreen.netconf" -}}
{{- $ports := include "evergreen.strings" (printf "%v,%v,%v" .Values.proxyControlPort .Values.proxyAdminPort .Values.ignoreInboundPorts) | fromJsonArray }}
{{- $only := list }}
{{- range include "evergreen.strings" .Values.portsToRedirect | fromJsonArray }}{{- $only = append $only (int .) }}{{- end }}
{{- $linkerd := dict
  "incoming-proxy-port" (int .Values.inboundProxyPort)
  "outgoing-proxy-port" (int .Values.outboundProxyPort)
  "proxy-uid" (int .Values.proxyUID)
  "ports-to-redirect" $only
  "inbound-ports-to-ignore" $ports
  "outbound-ports-to-ignore" (include "evergreen.strings" .Values.ignoreOutboundPorts | fromJsonArray)
  "subnets-to-ignore" (include "evergreen.strings" .Values.ignoreSubnets | fromJsonArray)
  "simulate" false
  "use-wait-flag" .Values.useWaitFlag
  "iptables-mode" .Values.iptablesMode
  "ipv6" (not .Values.disableIPv6) }}
{{- if ge (int .Values.proxyGID) 0 }}{{- $_ := set $linkerd "proxy-gid" (int .Values.proxyGID) }}{{- end }}
{{- $evergreen := dict
  "exempt-namespaces" (append .Values.exemptNamespaces .Release.Namespace | uniq)
  "ask-api" .Values.askApi
  "on-api-failure" .Values.onApiFailure
  "deadline-seconds" (int .Values.deadlineSeconds) }}
{{- dict
  "name" "linkerd-cni"
  "type" "linkerd-cni"
  "log_level" .Values.logLevel
  "kubernetes" (dict "kubeconfig" "__KUBECONFIG_FILEPATH__")
  "linkerd" $linkerd
  "evergreen" $evergreen | toPrettyJson }}
{{- end }}
