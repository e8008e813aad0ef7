# shellcheck shell=bash
# Pods without a validator that run without rules: the repair controller finds them in libcni's records.
# shellcheck disable=SC2034,SC2154 # variables that functions of lib/ read and set

repair() {
  heading "Pods that run without rules"
  need_installed
  run_case "pods made while the installer is frozen and the primary CNI's list stands run past their proxies" made_in_the_gap
  run_case "repairController.enabled: the one of a Deployment is made anew and goes through its proxy" made_anew
  run_case "one that nobody would make anew stays, with an Event; plain and meshed pods are as they were" others_untouched
  kubectl delete deployment/gap pod/gap-alone pod/gap-plain pod/gap-meshed --wait=false >/dev/null
  install_chart >/dev/null
}

# What the injector's webhook puts on a pod besides its marks.
INJECTED='linkerd.io/control-plane-ns: linkerd'

# injected_pod NAME FORM: with that label.
injected_pod() { pod_document "$1" "$2" | sed "s#labels: {#&$INJECTED, #" | kubectl create -f -; }

# injected_deployment NAME FORM: one pod of that form.
injected_deployment() {
  kubectl create -f - <<END
apiVersion: apps/v1
kind: Deployment
metadata: {name: $1}
spec:
  selector: {matchLabels: {app: $1}}
  template:
    metadata: {labels: {app: $1, $INJECTED}, annotations: {$MARKS}}
    spec:
$(pod_spec "$2" | sed 's/^/    /')
END
}

# pod_of DEPLOYMENT: the name of its pod that is not ending.
pod_of() {
  kubectl get pods -l "app=$1" -o json | jq -er '[.items[] | select(.metadata.deletionTimestamp == null).metadata.name] | .[0]'
}

pod_uid() { kubectl get pod "$1" -o jsonpath='{.metadata.uid}'; }

made_in_the_gap() {
  local frozen pod
  frozen=$(pgrep -x evergreen-insta)
  kill -STOP "$frozen"
  primary_writes "$PRIMARY"
  wait_for 5 "containerd has loaded the list without us" has_loaded bridge,portmap
  injected_deployment gap unvalidated
  injected_pod gap-alone unvalidated
  make_pod gap-plain plain
  kubectl rollout status deployment/gap --timeout=60s
  ready gap-alone
  ready gap-plain
  kill -CONT "$frozen"
  wait_for 10 "containerd has loaded our entry again" has_loaded bridge,portmap,linkerd-cni
  injected_pod gap-meshed unvalidated
  ready gap-meshed
  is_meshed gap-meshed
  # A controller that evicted it by now would be a mistake: none runs yet.
  pod=$(pod_of gap)
  is_plain "$pod"
  is_plain gap-alone
  # What the cases under churn count such pods by knows these, too.
  made_without_us gap-alone
  if made_without_us gap-meshed; then return 1; fi
  echo "$pod" >"$STATE/run/gap"
  for pod in gap-alone gap-plain gap-meshed; do pod_uid "$pod"; done >"$STATE/run/gap-others"
}

made_anew() {
  local old begun pod
  old=$(cat "$STATE/run/gap")
  install_chart --set repairController.enabled=true
  begun=$(clock)
  wait_for 60 "the pod has another in its place" another_than "$old"
  echo "note: another pod is there $(since "$begun") ms after the controller was"
  pod=$(pod_of gap)
  ready "$pod"
  is_meshed "$pod"
  complaints "$old" | grep "created from a CNI conflist without the plugin's entry"
}

another_than() {
  local pod
  pod=$(pod_of gap) && [ "$pod" != "$1" ]
}

others_untouched() {
  local pod said
  wait_for 20 "the pod that stays is told of" told_of gap-alone
  for pod in gap-alone gap-plain gap-meshed; do pod_uid "$pod"; done | diff "$STATE/run/gap-others" -
  same "" "$(complaints gap-plain)$(complaints gap-meshed)" "complaints of the others"
  # After one more look, for one comes every ten seconds, it is not told again, nor is the new pod touched.
  pod=$(pod_of gap)
  said=$(complaints gap-alone | wc -l)
  sleep 12
  same "$pod $said" "$(pod_of gap) $(complaints gap-alone | wc -l)" "the new pod, and what was told of the one that stays"
}

told_of() { complaints "$1" | grep -q "delete it and create it again"; }
