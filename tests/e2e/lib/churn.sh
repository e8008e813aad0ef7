# shellcheck shell=bash
# A cluster at work: pods are made, one a second, while something is done to the node; then every one of them is looked
# at. Needs workload.sh, node.sh and credential.sh.

# under_churn COMMAND...: meshed with a validator, meshed without, and plain ones in turn.
under_churn() {
  rm -rf "$STATE/churn"
  mkdir -p "$STATE/churn"
  make_pods_until_over &
  local maker=$!
  count_absence_until_over &
  local watcher=$!
  "$@"
  touch "$STATE/churn/over"
  wait "$maker" "$watcher"
  judge_pods
}

make_pods_until_over() {
  local n=0 form begun forms=(meshed unvalidated plain)
  while [ ! -e "$STATE/churn/over" ]; do
    begun=$(clock)
    form=${forms[$((n % 3))]}
    n=$((n + 1))
    # While the API server is away nobody can make a pod; that is not what is looked at.
    if make_pod "churn-$n" "$form" >/dev/null 2>&1; then echo "churn-$n $form" >>"$STATE/churn/pods"; fi
    while [ "$(since "$begun")" -lt 1000 ] && [ ! -e "$STATE/churn/over" ]; do sleep 0.05; done
  done
}

# count_absence_until_over: how often our entry was missed in the runtime's list, 50 times a second.
count_absence_until_over() {
  local absent=0
  while [ ! -e "$STATE/churn/over" ]; do
    grep -q linkerd-cni "$NET_DIR/10-node.conflist" || absent=$((absent + 1))
    sleep 0.02
  done
  echo "$absent" >"$STATE/churn/absent"
}

# judge_pods: every pod is ready, none is without its rules, none was refused by us, no validator had to try twice.
judge_pods() {
  local pod form bad=0 count=0 names
  names=$(cut -d' ' -f1 "$STATE/churn/pods")
  # shellcheck disable=SC2046,SC2086 # names
  kubectl wait --for=condition=Ready --timeout=90s $(printf 'pod/%s ' $names) >/dev/null || bad=1
  while read -r pod form; do
    count=$((count + 1))
    if [ "$form" = plain ]; then
      same "app" "$("$PROBE" ask "$(pod_address "$pod"):8080" | cut -d' ' -f1)" "$pod ($form)" || bad=$((bad + 1))
    else
      same "inbound" "$("$PROBE" ask "$(pod_address "$pod"):8080" | cut -d' ' -f1)" "$pod ($form)" || bad=$((bad + 1))
    fi
    same "" "$(refusals "$pod")" "$pod ($form), refusals" || bad=$((bad + 1))
    same "" "$(restarts "$pod")" "$pod ($form), validator runs" || bad=$((bad + 1))
  done <"$STATE/churn/pods"
  # shellcheck disable=SC2086 # names
  kubectl delete pod $names --wait=false >/dev/null
  echo "note: $count pods, $bad bad; our entry was missing in $(cat "$STATE/churn/absent") looks of 50 a second"
  [ "$bad" -eq 0 ]
}

# refusals POD: Events that say a sandbox could not be made for a reason of ours.
refusals() { complaints "$1" | grep -E 'linkerd-cni|evergreen' || true; }

# restarts POD: init containers that ran more than once.
restarts() {
  kubectl get pod "$1" -o json |
    jq -r '.status.initContainerStatuses[]? | select(.restartCount > 0) | "\(.name): \(.restartCount)"'
}
