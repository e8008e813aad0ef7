# shellcheck shell=bash
# What users do with pods.

pods() {
  heading "Pods"
  need_installed
  run_case "a meshed pod: its validator passes, its traffic goes through the proxy" meshed_pod
  run_case "a meshed pod without a validator" unvalidated_pod
  run_case "the proxy as a native sidecar" sidecar_pod
  run_case "an unmeshed pod is left alone" unmeshed_pod
  run_case "a Job with a native sidecar ends" job
  run_case "a StatefulSet pod, re-created under its name" stateful_pod
  run_case "a static pod and a pod on the host's network" special_pods
  run_case "30 meshed pods at once" many_pods
}

meshed_pod() {
  make_pod meshed meshed
  ready meshed
  is_meshed meshed
}

unvalidated_pod() {
  make_pod unvalidated unvalidated
  ready unvalidated
  is_meshed unvalidated
  remove unvalidated
}

sidecar_pod() {
  make_pod sidecar sidecar
  ready sidecar
  is_meshed sidecar
  remove sidecar
}

unmeshed_pod() {
  make_pod plain plain
  ready plain
  is_plain plain
}

job() {
  kubectl create -f - <<END
apiVersion: batch/v1
kind: Job
metadata: {name: job}
spec:
  backoffLimit: 0
  template:
    metadata: {labels: {job: job}, annotations: {$MARKS}}
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 1
      automountServiceAccountToken: false
      initContainers: [$VALIDATOR, {$PROXY, restartPolicy: Always}]
      containers:
      - {name: app, image: $PROBE_IMAGE, imagePullPolicy: Never, args: [ask, '$NODE_IP:$OUTSIDE_PORT'],
         securityContext: {runAsUser: $APP_UID}}
END
  kubectl wait job/job --for=condition=Complete --timeout=60s
  same "outbound for $NODE_IP:$OUTSIDE_PORT" "$(kubectl logs job/job -c app)" "what the job was answered"
  kubectl delete job job
}

stateful_pod() {
  kubectl create -f - <<END
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: stateful}
spec:
  serviceName: stateful
  selector: {matchLabels: {app: stateful}}
  template:
    metadata: {labels: {app: stateful}, annotations: {$MARKS}}
    spec:
$(pod_spec meshed | sed 's/^/    /')
END
  wait_for 20 "its pod exists" kubectl get pod stateful-0
  ready stateful-0
  is_meshed stateful-0
  remove stateful-0
  wait_for 20 "the next pod of that name exists" kubectl get pod stateful-0
  ready stateful-0
  is_meshed stateful-0
  kubectl delete statefulset stateful
}

special_pods() {
  make_static_pod
  make_pod on-host plain-on-host
  wait_for 30 "the static pod is known" kubectl get pod "static-$NODE_NAME"
  ready "static-$NODE_NAME"
  is_plain "static-$NODE_NAME"
  ready on-host
  remove on-host
  rm "$STATE/kubelet/static/static.yaml"
  kubectl wait "pod/static-$NODE_NAME" --for=delete --timeout=30s
}

many_pods() {
  local n address count=0 names=()
  for n in $(seq 30); do names+=("many-$n"); done
  for n in "${names[@]}"; do
    pod_document "$n" meshed
    echo ---
  done | kubectl create -f -
  kubectl wait "${names[@]/#/pod/}" --for=condition=Ready --timeout=120s
  while read -r n address; do
    count=$((count + 1))
    same "inbound for $address:8080" "$("$PROBE" ask "$address:8080")" "$n, inbound"
  done < <(kubectl get pods "${names[@]}" --no-headers -o custom-columns=:.metadata.name,:.status.podIP)
  same 30 "$count" "pods that were asked"
  same "" "$(kubectl get events --field-selector type=Warning -o json |
    jq -r '.items[] | select(.involvedObject.name | startswith("many-")).message')" "warnings in Events"
  kubectl delete pod "${names[@]}" --wait=false
}
