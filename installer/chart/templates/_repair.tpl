{{- /* The repair controller: the image's program, known by the path that Linkerd's chart starts it by. */}}
{{- define "evergreen.repair" }}
- name: repair-controller
  image: {{ include "evergreen.image" . }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  command: [/usr/lib/linkerd/linkerd-cni-repair-controller]
  args:
  - --admin-addr=[::]:{{ .Values.repairController.adminPort }}
  - --log-format={{ .Values.repairController.logFormat }}
  - --log-level={{ .Values.repairController.logLevel }}
  env:
  - name: LINKERD_CNI_REPAIR_CONTROLLER_NODE_NAME
    valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
  - name: DEST_CNI_NET_DIR
    value: {{ .Values.destCNINetDir }}
  - name: EVERGREEN_CNI_RESULTS_DIR
    value: {{ .Values.repairController.resultsDir }}
  ports:
  - {name: admin-http, containerPort: {{ .Values.repairController.adminPort }}}
  livenessProbe:
    httpGet: {path: /live, port: admin-http}
    initialDelaySeconds: 10
  readinessProbe:
    # Ready: the node's pods have been listed once.
    httpGet: {path: /ready, port: admin-http}
    periodSeconds: 5
  {{- include "evergreen.resources" .Values.repairController.resources | nindent 2 }}
  {{- if .Values.repairController.enableSecurityContext }}
  {{- include "evergreen.security" . | nindent 2 }}
  {{- end }}
  volumeMounts:
  - {name: cni-net, mountPath: /host{{ .Values.destCNINetDir }}, readOnly: true}
  - {name: cni-results, mountPath: /host{{ .Values.repairController.resultsDir }}, readOnly: true}
  - {name: token, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
{{- end }}
