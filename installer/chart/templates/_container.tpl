{{- /* The installer, as a container that stays (run) or as an init container (once). */}}
{{- define "evergreen.container" }}
{{- with .top }}
- name: install-cni
  image: {{ include "evergreen.image" . }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  args: [{{ $.verb }}]
  env:
  - name: DEST_CNI_BIN_DIR
    value: {{ .Values.destCNIBinDir }}
  - name: DEST_CNI_NET_DIR
    value: {{ .Values.destCNINetDir }}
  - name: CNI_NETWORK_CONFIG
    valueFrom: {configMapKeyRef: {name: {{ .Release.Name }}, key: cni_network_config}}
  - name: EVERGREEN_LOG_LEVEL
    value: {{ .Values.logLevel }}
  - name: EVERGREEN_ON_TERM
    value: {{ .Values.onTerm }}
  - name: EVERGREEN_ON_TERM_UNSURE
    value: {{ .Values.onTermUnsure }}
  - name: EVERGREEN_CONFLIST
    value: {{ .Values.conflist }}
  - name: EVERGREEN_DAEMONSET
    value: {{ .Release.Name }}
  - name: EVERGREEN_SERVICE_ACCOUNT
    value: {{ .Release.Namespace }}/{{ include "evergreen.plugin" . }}
  - name: EVERGREEN_TOKEN_SOURCE
    value: {{ .Values.credential.source }}
  - name: EVERGREEN_TOKEN_SECONDS
    value: {{ .Values.credential.seconds | quote }}
  {{- with .Values.credential.audience }}
  - name: EVERGREEN_TOKEN_AUDIENCE
    value: {{ . }}
  {{- end }}
  - name: EVERGREEN_KUBELET_DIR
    value: {{ .Values.kubeletDir }}
  - name: EVERGREEN_ADMIN_PORT
    value: {{ .Values.adminPort | quote }}
  - name: NODE_NAME
    valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
  {{- with .Values.extraEnv }}{{ toYaml . | nindent 2 }}{{ end }}
  {{- if eq $.verb "run" }}
  ports:
  - {name: admin, containerPort: {{ .Values.adminPort }}}
  livenessProbe:
    httpGet: {path: /livez, port: admin}
    initialDelaySeconds: 10
  readinessProbe:
    # Ready: all is in place, and the credential on the node has just been accepted.
    httpGet: {path: /readyz, port: admin}
    periodSeconds: 5
  {{- end }}
  {{- include "evergreen.resources" .Values.resources | nindent 2 }}
  {{- include "evergreen.security" . | nindent 2 }}
  volumeMounts:
  - {name: cni-bin, mountPath: /host{{ .Values.destCNIBinDir }}}
  - {name: cni-net, mountPath: /host{{ .Values.destCNINetDir }}}
  {{- range $i, $dir := .Values.linkedNetDirs }}
  - {name: cni-linked-{{ $i }}, mountPath: /host{{ $dir }}, readOnly: true}
  {{- end }}
  - {name: token, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
{{- end }}
{{- end }}

{{- /* What our containers may do. */}}
{{- define "evergreen.security" -}}
securityContext:
  {{- if .Values.privileged }}
  privileged: true
  {{- else }}
  allowPrivilegeEscalation: false
  # Root, because the node's CNI folders are root's; as their owner it needs no capability.
  capabilities: {drop: [ALL]}
  seccompProfile: {type: RuntimeDefault}
  {{- end }}
  readOnlyRootFilesystem: true
  runAsUser: 0
  runAsGroup: 0
{{- end }}

{{- /* linkerd2-cni's form of resources to Kubernetes' own. */}}
{{- define "evergreen.resources" -}}
{{- $limits := dict }}{{- $requests := dict }}
{{- range $ours, $theirs := dict "cpu" "cpu" "memory" "memory" "ephemeralStorage" "ephemeral-storage" "ephemeral-storage" "ephemeral-storage" }}
{{- $both := get $ $ours | default dict }}
{{- with get $both "limit" }}{{- $_ := set $limits $theirs . }}{{- end }}
{{- with get $both "request" }}{{- $_ := set $requests $theirs . }}{{- end }}
{{- end }}
resources:
  limits: {{ toJson $limits }}
  requests: {{ toJson $requests }}
{{- end }}
