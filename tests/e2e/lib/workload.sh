# shellcheck shell=bash
# Pods on a real node: made with kubectl, asked by real connections. Needs api.sh, node.sh and cases.sh.

PROXY_UID=2102
APP_UID=1000
OUTSIDE_PORT=9000
PROBE_IMAGE=localhost/probe:1

# run_outside: a server that every pod can reach, in place of the rest of the world.
run_outside() {
  start outside "$PROBE" serve --name outside "0.0.0.0:$OUTSIDE_PORT"
  wait_for 5 "the outside server listens" "$PROBE" ask "127.0.0.1:$OUTSIDE_PORT"
}

# The marks the injector leaves on a pod.
MARKS='linkerd.io/inject: enabled, linkerd.io/created-by: linkerd/proxy-injector e2e,
      linkerd.io/proxy-version: e2e, linkerd.io/trust-root-sha256: e2e'

# Containers as the injector adds them. The proxy's listeners say which of them a connection reached.
VALIDATOR="{name: linkerd-network-validator, image: $PROBE_IMAGE, imagePullPolicy: Never,
      args: [validate, '0.0.0.0:4140', '1.1.1.1:20001'], securityContext: {runAsUser: 65534}}"
PROXY="name: linkerd-proxy, image: $PROBE_IMAGE, imagePullPolicy: Never,
      args: [serve, --name, inbound, '0.0.0.0:4143', --name, outbound, '127.0.0.1:4140'],
      env: [{name: LINKERD2_PROXY_INBOUND_LISTEN_ADDR, value: '0.0.0.0:4143'},
            {name: LINKERD2_PROXY_OUTBOUND_LISTEN_ADDRS, value: '127.0.0.1:4140'}],
      securityContext: {runAsUser: $PROXY_UID}"
APP="{name: app, image: $PROBE_IMAGE, imagePullPolicy: Never, args: [serve, --name, app, '0.0.0.0:8080'],
      securityContext: {runAsUser: $APP_UID}}"

# pod_spec FORM: the spec of a pod. FORM is meshed (validator, proxy beside the app), unvalidated (the same without the
# validator), sidecar (the proxy as a native sidecar), plain, or plain-on-host (on the host's network).
pod_spec() {
  local init='' containers=$APP host=false
  case "$1" in
    meshed) init=$VALIDATOR containers="{$PROXY}, $APP" ;;
    unvalidated) containers="{$PROXY}, $APP" ;;
    sidecar) init="$VALIDATOR, {$PROXY, restartPolicy: Always}" ;;
    plain-on-host) host=true ;;
  esac
  cat <<END
  terminationGracePeriodSeconds: 1
  automountServiceAccountToken: false
  hostNetwork: $host
  tolerations: [{operator: Exists}]
  initContainers: [$init]
  containers: [$containers]
END
}

# annotations FORM
annotations() {
  case "$1" in
    plain*) echo '{}' ;;
    *) echo "{$MARKS}" ;;
  esac
}

# pod_document NAME FORM / make_pod NAME FORM
pod_document() {
  cat <<END
apiVersion: v1
kind: Pod
metadata: {name: $1, labels: {app: $1}, annotations: $(annotations "$2")}
spec:
$(pod_spec "$2")
END
}

make_pod() { pod_document "$1" "$2" | kubectl create -f -; }

# ready POD [SECONDS]
ready() { kubectl wait "pod/$1" --for=condition=Ready --timeout="${2:-60}s"; }

pod_address() { kubectl get pod "$1" -o jsonpath='{.status.podIP}'; }

# ask_from POD CONTAINER ADDRESS: who answers a connection that this container makes.
ask_from() { kubectl exec "$1" -c "$2" -- /probe ask "$3"; }

# is_meshed POD: both directions end at the proxy, and the proxy's own connections do not.
is_meshed() {
  goes_through_proxy "$1"
  same "outbound for $NODE_IP:$OUTSIDE_PORT" "$(ask_from "$1" app "$NODE_IP:$OUTSIDE_PORT")" "$1, outbound of the app"
  same "outside for $NODE_IP:$OUTSIDE_PORT" "$(ask_from "$1" linkerd-proxy "$NODE_IP:$OUTSIDE_PORT")" "$1, outbound of the proxy"
}

# goes_through_proxy POD: at least what comes in does.
goes_through_proxy() {
  local address
  address=$(pod_address "$1")
  same "inbound for $address:8080" "$("$PROBE" ask "$address:8080")" "$1, inbound"
}

# is_plain POD: nothing stands between it and the world.
is_plain() {
  local address
  address=$(pod_address "$1")
  same "app for $address:8080" "$("$PROBE" ask "$address:8080")" "$1, inbound"
  same "outside for $NODE_IP:$OUTSIDE_PORT" "$(ask_from "$1" app "$NODE_IP:$OUTSIDE_PORT")" "$1, outbound"
}

# make_static_pod: the kubelet finds it in its folder and calls it static-$NODE_NAME.
make_static_pod() {
  cat >"$STATE/kubelet/static/static.yaml" <<END
apiVersion: v1
kind: Pod
metadata: {name: static, namespace: default}
spec:
$(pod_spec plain)
END
}

# remove POD...: and wait until they are gone.
# After an outage of the API server the kubelet hears of it late: its watches come back with pauses of up to a minute.
remove() { kubectl delete pod "$@" --timeout=120s; }

# complaints POD: what its Events warn of.
complaints() {
  kubectl get events --field-selector "involvedObject.name=$1,type=Warning" -o json | jq -r '.items[].message'
}

# no_pod_in NAMESPACE: for waiting.
no_pod_in() { [ -z "$(kubectl -n "$1" get pods -o name)" ]; }
