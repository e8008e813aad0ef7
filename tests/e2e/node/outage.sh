# shellcheck shell=bash
# The API server goes away, restarts, and takes every key with it; the node and its object do too.
# shellcheck disable=SC2034,SC2154 # variables that functions of lib/ read and set

# How long the server is away while sandboxes die.
OUTAGE_SECONDS=${OUTAGE_SECONDS:-60}

outage() {
  heading "The API server goes away"
  need_installed
  run_case "killed for 10 s with six pods in flight" pods_in_flight
  run_case "away for $OUTAGE_SECONDS s: killed sandboxes come back, with the right rules" sandboxes_come_back
  run_case "the signing key is replaced at once, and the kubelet mints anew 25 s later" under_churn key_replaced_at_once
  run_case "the Node object is deleted and made anew: the token bound to it dies, pods go on starting" \
    under_churn node_object_replaced
  run_case "containerd and kubelet restart, and a pod is made again from nothing" node_restarts
}

pods_in_flight() {
  local n names=()
  for n in 1 2 3 4 5 6; do names+=("flight-$n"); done
  for n in "${names[@]}"; do
    pod_document "$n" "$( ((${n#flight-} % 2)) && echo meshed || echo plain)"
    echo ---
  done | kubectl create -f -
  stop apiserver KILL
  sleep 10
  start_apiserver "$(current_key)"
  kubectl wait "${names[@]/#/pod/}" --for=condition=Ready --timeout=60s
  for n in "${names[@]}"; do
    same "" "$(refusals "$n")" "$n, refusals"
    if ((${n#flight-} % 2)); then goes_through_proxy "$n"; else is_plain "$n"; fi
  done
  remove "${names[@]}"
}

sandboxes_come_back() {
  make_static_pod
  make_pod away-meshed meshed
  make_pod away-later meshed
  make_pod away-plain plain
  ready away-meshed
  ready away-later
  ready away-plain
  wait_for 30 "the static pod is known" kubectl get pod "static-$NODE_NAME"
  ready "static-$NODE_NAME"
  stop apiserver KILL
  sleep 5
  comes_back away-meshed inbound
  comes_back away-plain app
  comes_back "static-$NODE_NAME" app
  sleep "$OUTAGE_SECONDS"
  comes_back away-later inbound
  start_apiserver "$(current_key)"
  rm "$STATE/kubelet/static/static.yaml"
  # The kubelet's own pauses between two tries have grown by then.
  wait_for 120 "the node is ready" node_is True
  remove away-meshed away-later away-plain
}

# comes_back POD WHO: its sandbox is killed; soon there is another, and WHO answers a connection to the app.
comes_back() {
  local old begun
  old=$(sandbox_of "$1")
  begun=$(clock)
  kill -KILL "$old"
  wait_for 30 "$1 is back" answers_anew "$1" "$old" "$2"
  echo "note: $1 is back after $(since "$begun") ms"
}

# answers_anew POD OLD-PID WHO
answers_anew() {
  local new address
  new=$(sandbox_of "$1") && [ "$new" != "$2" ] || return 1
  address=$(nsenter --target "$new" --net ip -4 -o addr show dev eth0 | awk '{ split($4, a, "/"); print a[1] }')
  [ "$("$PROBE" ask "$address:8080" | cut -d' ' -f1)" = "$3" ]
}

key_replaced_at_once() {
  signing_key another-key
  restart_apiserver another-key
  sleep 25
  stop kubelet
  run_kubelet
  installer_is_ready
  wait_for 30 "the API server accepts the credential on the node" host_token_accepted
}

# node_object_replaced: the plugin meets a 401 until the installer has found it out and asked for another token.
node_object_replaced() {
  local token uid
  token=$(host_token)
  uid=$(uid_of "/api/v1/nodes/$NODE_NAME")
  same "$uid" "$(claim "$token" '.["kubernetes.io"].node.uid')" "the Node that the token is bound to"
  stop kubelet
  kubectl delete node "$NODE_NAME"
  run_kubelet
  wait_for 60 "the node is ready" node_is True
  [ "$(uid_of "/api/v1/nodes/$NODE_NAME")" != "$uid" ]
  wait_for 30 "the token of the old object is refused" refused "$token"
  wait_for 60 "the API server accepts the credential on the node" host_token_accepted
  wait_for 60 "the installer's pod is ready" installer_ready_is True
}

# node_restarts: all processes of one pod end while nobody looks, as in a reboot; the other pod lives on.
node_restarts() {
  local old
  make_pod survivor meshed
  make_pod again meshed
  ready survivor
  ready again
  old=$(sandbox_of again)
  stop kubelet
  stop containerd
  kill -KILL "$old"
  run_containerd
  run_kubelet
  wait_for 60 "the node is ready" node_is True
  wait_for 30 "the kubelet knows its pods again" ask_from survivor app "$NODE_IP:$OUTSIDE_PORT"
  is_meshed survivor
  wait_for 60 "the other pod is back" answers_anew again "$old" inbound
  make_pod after-restart meshed
  ready after-restart
  is_meshed after-restart
  remove survivor again after-restart
}
