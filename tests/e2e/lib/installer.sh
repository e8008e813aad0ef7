# shellcheck shell=bash
# evergreen-install as the container of a DaemonSet pod, without a kubelet: the pod's object, its token volume, the
# node's folders mounted below /host, the environment. Needs api.sh, chain.sh and volume.sh.

OWN_NAMESPACE=evergreen
VOLUME=/run/secrets/kubernetes.io/serviceaccount
MOUNTED=$STATE/container/host

NETCONF='{
  "name": "linkerd-cni", "type": "linkerd-cni", "log_level": "info",
  "kubernetes": {"kubeconfig": "__KUBECONFIG_FILEPATH__"},
  "linkerd": {"incoming-proxy-port": 4143, "outgoing-proxy-port": 4140, "proxy-uid": 2102,
              "inbound-ports-to-ignore": ["4190", "4191"]}
}'

# grant: the two identities and what each may do. The plugin's reads pods; the installer's mints tokens for it.
grant() {
  kubectl apply -f "$ROOT/tests/e2e/rbac.yaml" >>"$STATE/logs/kubectl.log"
}

# installer_pod NAME: the pod's object.
installer_pod() {
  api POST "/api/v1/namespaces/$OWN_NAMESPACE/pods" "{
    \"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"$1\"},
    \"spec\":{\"nodeName\":\"$NODE_NAME\",\"serviceAccountName\":\"evergreen-install\",
      \"automountServiceAccountToken\":false,\"containers\":[{\"name\":\"install\",\"image\":\"none\"}]}}" >/dev/null
}

# fresh_volume POD: what the kubelet does when it renews the pod's token: a new one, bound to the pod, and the CA
# bundle of the day.
fresh_volume() {
  local token uid
  uid=$(uid_of "/api/v1/namespaces/$OWN_NAMESPACE/pods/$1")
  token=$(mint $OWN_NAMESPACE evergreen-install "$(bound_to Pod "$1" "$uid" 3607)")
  publish "$VOLUME" "$token" "$STATE/pki/trust.crt" $OWN_NAMESPACE
}

# install_on_node: start it, and wait until the chain has our entry. Sets `took`.
# shellcheck disable=SC2034 # `took` is for the caller
install_on_node() {
  local begun
  mkdir -p "$MOUNTED$NODE" "$STATE/image"
  mount --bind "$NODE" "$MOUNTED$NODE"
  cp "$DIST/evergreen-cni" "$STATE/image/"
  begun=$(clock)
  start installer env \
    DEST_CNI_BIN_DIR="$BIN_DIR" DEST_CNI_NET_DIR="$NET_DIR" CONTAINER_MOUNT_PREFIX="$MOUNTED" \
    CONTAINER_CNI_BIN_DIR="$STATE/image" CNI_NETWORK_CONFIG="$NETCONF" \
    KUBERNETES_SERVICE_HOST="$NODE_IP" KUBERNETES_SERVICE_PORT="$API_PORT" \
    NODE_NAME="$NODE_NAME" EVERGREEN_DAEMONSET=evergreen EVERGREEN_SERVICE_ACCOUNT="$OWN_NAMESPACE/evergreen-cni" \
    "${INSTALLER_ENV[@]}" "$DIST/evergreen-install" run
  wait_for 15 "the chain has our entry" in_chain
  took=$(since "$begun")
}
INSTALLER_ENV=()

# uninstall_from_node: what the DaemonSet's end means to the container.
uninstall_from_node() {
  stop installer TERM
  umount "$MOUNTED$NODE"
}
