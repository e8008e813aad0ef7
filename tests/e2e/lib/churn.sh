# shellcheck shell=bash
# A cluster at work: pods are made, one a second, while something is done to the node; then every one of them is looked
# at. Needs workload.sh, node.sh, chain.sh and credential.sh.

# under_churn COMMAND...: meshed with a validator, meshed without, and plain ones in turn.
under_churn() {
  rm -rf "$STATE/churn"
  mkdir -p "$STATE/churn"
  : >"$STATE/churn/pods"
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
  local n=0 form pod begun round forms=(meshed unvalidated plain)
  # The pods of the case before may still be ending.
  round=$(date +%s)
  while [ ! -e "$STATE/churn/over" ]; do
    begun=$(clock)
    form=${forms[$((n % 3))]}
    n=$((n + 1))
    # While the API server is away nobody can make a pod; that is not what is looked at.
    pod=churn-$round-$n
    if make_pod "$pod" "$form" >/dev/null 2>&1; then echo "$pod $form" >>"$STATE/churn/pods"; fi
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

# judge_pods: every pod is ready, none is without its rules, none was refused by us, no validator had to try twice. Those
# whose sandbox was made by a list that a neighbour had just written, without us, are counted apart: there must be none, and
# our entry never absent, unless WITHOUT_US is set.
judge_pods() {
  local pod form bad=0 count=0 without=0 names=()
  while read -r pod form; do
    count=$((count + 1))
    wait_for 60 "$pod has a sandbox" sandbox_id "$pod" || true
    if [ "$form" != plain ] && made_without_us "$pod"; then
      without=$((without + 1))
    else
      names+=("$pod")
    fi
  done <"$STATE/churn/pods"
  kubectl wait --for=condition=Ready --timeout=90s "${names[@]/#/pod/}" >/dev/null || bad=1
  # Once for all of them: a hundred kubectl would be most of the work of this run.
  kubectl get pods -o json >"$STATE/churn/pods.json"
  kubectl get events --field-selector type=Warning -o json >"$STATE/churn/warnings.json"
  while read -r pod form; do
    if [[ " ${names[*]} " == *" $pod "* ]]; then judge_pod "$pod" "$form" || bad=$((bad + 1)); fi
  done <"$STATE/churn/pods"
  # shellcheck disable=SC2046 # names
  kubectl delete pod --wait=false $(cut -d' ' -f1 "$STATE/churn/pods") >/dev/null
  echo "note: $count pods, $bad bad, $without made by a list without us;" \
    "our entry was missing in $(cat "$STATE/churn/absent") looks of 50 a second"
  [ "$count" -gt 0 ] && [ "$bad" -eq 0 ]
  [ -n "${WITHOUT_US:-}" ] || [ "$without$(cat "$STATE/churn/absent")" = 00 ]
}

# judge_pod POD FORM
judge_pod() {
  local wanted=inbound address
  [ "$2" != plain ] || wanted=app
  address=$(of_pod "$1" .status.podIP)
  same "$wanted" "$("$PROBE" ask "$address:8080" | cut -d' ' -f1)" "$1 ($2)" &&
    same "" "$(jq -r --arg pod "$1" '.items[] | select(.involvedObject.name == $pod).message' "$STATE/churn/warnings.json" |
      ours)" "$1 ($2), refusals" &&
    same "" "$(of_pod "$1" "$RAN_TWICE")" "$1 ($2), validator runs"
}

# of_pod POD FILTER: jq's, on the pod as it was when all were ready.
of_pod() { jq -r --arg pod "$1" ".items[] | select(.metadata.name == \$pod) | $2" "$STATE/churn/pods.json"; }

# Init containers that ran more than once, and how the run before ended: a validator's 95 means no redirection.
RAN_TWICE='.status.initContainerStatuses[]? | select(.restartCount > 0) |
  "\(.name): \(.restartCount), before: \(.lastState.terminated | "\(.exitCode) \(.reason) \(.startedAt) to \(.finishedAt)")"'

# made_without_us POD: whether its sandbox was made by a list without our entry, as libcni has noted it.
made_without_us() {
  local id note
  id=$(sandbox_id "$1") || return 1
  note=$(cat "/var/lib/cni/results/$CHAIN-$id-eth0") || return 1
  ! jq -r .config <<<"$note" | base64 -d | jq -e 'any(.plugins[]; .type == "linkerd-cni")' >/dev/null
}

# refusals POD: Events that say a sandbox could not be made for a reason of ours.
refusals() { complaints "$1" | ours; }

# ours: of these lines, those that blame us.
ours() { grep -E 'linkerd-cni|evergreen' || true; }
