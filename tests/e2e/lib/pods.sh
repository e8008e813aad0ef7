# shellcheck shell=bash
# Pods without a kubelet: the object in the API server, a network namespace of the same name, and small programs in
# it that say what reached them. Needs api.sh and chain.sh; $PROBE is the probe program.

PROXY_UID=2102
APP_UID=1000
OUTSIDE_PORT=9000

# pod_object NAME KIND [ANNOTATIONS]: KIND is meshed (a container linkerd-proxy beside the app) or plain.
pod_object() {
  local proxy=''
  [ "$2" != meshed ] || proxy=",{\"name\":\"linkerd-proxy\",\"image\":\"none\",\"securityContext\":{\"runAsUser\":$PROXY_UID}}"
  api POST /api/v1/namespaces/default/pods "{
    \"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"$1\",\"annotations\":${3:-null}},
    \"spec\":{\"nodeName\":\"$NODE_NAME\",\"automountServiceAccountToken\":false,
      \"containers\":[{\"name\":\"app\",\"image\":\"none\"}$proxy]}}" >/dev/null
}

# inside POD COMMAND...: in the pod's network namespace.
inside() {
  local pod=$1
  shift
  nsenter "--net=/run/netns/$pod" "$@"
}

# as_user UID COMMAND...
as_user() {
  local uid=$1
  shift
  setpriv --reuid "$uid" --regid "$uid" --clear-groups "$@"
}

# run_outside: a server that every pod can reach, in place of the rest of the world.
run_outside() {
  start outside "$PROBE" serve --name outside "0.0.0.0:$OUTSIDE_PORT"
  wait_for 5 "the outside server listens" "$PROBE" ask "127.0.0.1:$OUTSIDE_PORT"
}

# run_pod NAME: an app on 8080 and, as the proxy would, listeners on 4143 and 4140.
run_pod() {
  start "$1-app" nsenter "--net=/run/netns/$1" setpriv --reuid $APP_UID --regid $APP_UID --clear-groups \
    "$PROBE" serve --name app 0.0.0.0:8080
  start "$1-proxy" nsenter "--net=/run/netns/$1" setpriv --reuid $PROXY_UID --regid $PROXY_UID --clear-groups \
    "$PROBE" serve --name inbound 0.0.0.0:4143 --name outbound 127.0.0.1:4140
  wait_for 5 "app and proxy of $1 listen" listening "$1"
}

# listening POD: all three of them.
listening() {
  [ "$(inside "$1" ss -Htln '( sport = :8080 or sport = :4143 or sport = :4140 )' | wc -l)" = 3 ]
}

# who_answers ADDRESS [COMMAND PREFIX...]: who a connection to ADDRESS ends at, and where that end was told it was going.
who_answers() {
  local address=$1
  shift
  "$@" "$PROBE" ask "$address" || echo nobody
}

# check_traffic POD ADDRESS KIND: three connections and who answers them. KIND is meshed or plain.
check_traffic() {
  local pod=$1 address=$2 world=$NODE_IP:$OUTSIDE_PORT
  if [ "$3" = meshed ]; then
    expect "inbound for $address:8080" "$(who_answers "$address:8080")" \
      "$pod: what comes in for the app reaches the proxy's port 4143"
    expect "outbound for $world" "$(who_answers "$world" inside "$pod" setpriv --reuid $APP_UID --clear-groups)" \
      "$pod: what the app sends out reaches the proxy's port 4140"
    expect "outside for $world" "$(who_answers "$world" inside "$pod" setpriv --reuid $PROXY_UID --clear-groups)" \
      "$pod: what the proxy itself sends out is left alone"
  else
    expect "app for $address:8080" "$(who_answers "$address:8080")" "$pod: what comes in reaches the app itself"
    expect "outside for $world" "$(who_answers "$world" inside "$pod" setpriv --reuid $APP_UID --clear-groups)" \
      "$pod: what the app sends out goes where it was sent"
    expect "" "$(inside "$pod" nft list ruleset)" "$pod: its network namespace holds no rule at all"
  fi
}

# start_pod NAME KIND: object, namespace, ADD, programs. Sets `address`.
start_pod() {
  pod_object "$1" "$2"
  add_pod "$1" || return 1
  run_pod "$1"
}

# add_pod NAME: the namespace and the ADD. Sets `address`.
add_pod() {
  ip netns add "$1"
  inside "$1" ip link set lo up
  cni add "$1" || return 1
  address=$(address_of_reply)
}

# remove_pod NAME: DEL, programs, namespace and object.
remove_pod() {
  local status=0
  cni del "$1" || status=$?
  [ ! -e "$STATE/run/$1-app.pid" ] || stop "$1-app"
  [ ! -e "$STATE/run/$1-proxy.pid" ] || stop "$1-proxy"
  ip netns del "$1"
  api DELETE "/api/v1/namespaces/default/pods/$1" '{"gracePeriodSeconds":0}' >/dev/null
  return "$status"
}
