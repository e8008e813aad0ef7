# shellcheck shell=bash
# The small API server of tests/support in the place of etcd and kube-apiserver: the functions of cluster.sh, api.sh,
# credential.sh and installer.sh that need the real ones, by other means. Read after those.

# start_etcd: it keeps its objects itself; what is left is the node's address.
start_etcd() { ip addr add "$NODE_IP/32" dev lo; }

# start_apiserver SIGNING-KEY [ALSO-ACCEPTED-KEY...]
start_apiserver() {
  local dir=$STATE/pki orders=$STATE/run/orders
  mkfifo "$orders"
  # Held open for as long as the run lasts: the server ends with its orders.
  exec 9<>"$orders"
  # shellcheck disable=SC2016 # for the inner shell
  start apiserver sh -c 'exec "$@" <"$0"' "$orders" "$DIST/evergreen-standin" "0.0.0.0:$API_PORT" \
    "$dir/server.crt" "$dir/server.key" "$dir/clients.crt" "$dir/admin.crt"
  wait_for 10 "the stand-in API server answers" answers_with "$dir/trust.crt"
  echo "$1" >"$STATE/pki/current-key"
}

# restart_apiserver SIGNING-KEY [ALSO-ACCEPTED-KEY...]: it need not restart to change keys.
restart_apiserver() {
  if [ "$1" != "$(current_key)" ]; then echo rotate-key >&9; fi
  if [ $# -eq 1 ]; then echo forget-old-keys >&9; fi
  echo "$1" >"$STATE/pki/current-key"
}

# serve_with AUTHORITY
serve_with() {
  issue "$1" next-server "/CN=kube-apiserver" serverAuth "$SERVER_NAMES"
  echo "certificate $STATE/pki/next-server.crt $STATE/pki/next-server.key" >&9
  wait_for 10 "the stand-in presents a certificate of $1" answers_with "$STATE/pki/$1.crt"
  echo "$1" >"$STATE/pki/current-ca"
}

# answers_with AUTHORITY-FILE: whatever it answers, over TLS that this authority vouches for.
answers_with() { curl -s -m 2 -o /dev/null --cacert "$1" "$API_URL/"; }

cluster_version() { echo "(the stand-in)"; }

# grant: it lets everybody it knows do everything, so accounts are all it needs.
grant() {
  local account
  for account in evergreen-install evergreen-cni; do
    api GET "/api/v1/namespaces/$OWN_NAMESPACE/serviceaccounts/$account" >/dev/null 2>&1 ||
      api POST "/api/v1/namespaces/$OWN_NAMESPACE/serviceaccounts" \
        "{\"apiVersion\":\"v1\",\"kind\":\"ServiceAccount\",\"metadata\":{\"name\":\"$account\",\"namespace\":\"$OWN_NAMESPACE\"}}" >/dev/null
  done
}

# kubeconfig_names KEY: the installer writes JSON.
kubeconfig_names() {
  jq -er "$(case $1 in token) echo .users[0].user.tokenFile ;; ca) echo '.clusters[0].cluster["certificate-authority"]' ;; esac)" \
    "$HOST_KUBECONFIG"
}
