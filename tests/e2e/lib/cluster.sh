# shellcheck shell=bash
# etcd and a real kube-apiserver inside the sandbox, with the authority and the signing keys as arguments, so that a
# run can move the cluster from one to the next. Needs report.sh, ground.sh and pki.sh.

KUBERNETES=${KUBERNETES:-$TOOLS}     # the folder of its programs: one release for all of them
NODE_IP=10.99.0.1        # an address of the sandbox's loopback: pods reach it through their gateway
SERVICE_IP=10.96.0.1     # what the cluster's certificates also have to name
API_PORT=6443
ETCD=http://127.0.0.1:2379
API_URL=https://$NODE_IP:$API_PORT

# What kubectl and helm remember of a server's kinds: every run's has the same address, but not the same release.
export KUBECACHEDIR=$STATE/kubectl

SERVER_NAMES="DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:localhost"
SERVER_NAMES+=",IP:127.0.0.1,IP:$SERVICE_IP,IP:$NODE_IP"

# make_cluster_pki: the first authority and signing key, the server's certificate, and the administrator's.
# clients.crt is what the server accepts clients from and never changes; trust.crt is what clients trust it by.
make_cluster_pki() {
  mkdir -p "$STATE/pki"
  authority first-ca
  cp "$STATE/pki/first-ca.crt" "$STATE/pki/clients.crt"
  cp "$STATE/pki/first-ca.crt" "$STATE/pki/trust.crt"
  issue first-ca server "/CN=kube-apiserver" serverAuth "$SERVER_NAMES"
  issue first-ca admin "/O=system:masters/CN=admin" clientAuth
  client_kubeconfig admin "$API_URL" "$STATE/pki/trust.crt"
  signing_key first-key
  echo first-ca >"$STATE/pki/current-ca"
}

# current_ca / current_key: what the server presents and signs with, by name. Kept in files, for a run in the
# background moves them too.
current_ca() { cat "$STATE/pki/current-ca"; }
current_key() { cat "$STATE/pki/current-key"; }

# start_etcd: its data lives in memory, for nothing here outlives the run.
start_etcd() {
  ip addr add "$NODE_IP/32" dev lo
  mkdir "$STATE/etcd"
  mount -t tmpfs -o mode=700 etcd "$STATE/etcd"
  start etcd etcd --name one --data-dir "$STATE/etcd/data" \
    --listen-client-urls "$ETCD" --advertise-client-urls "$ETCD" \
    --listen-peer-urls http://127.0.0.1:2380 --initial-advertise-peer-urls http://127.0.0.1:2380 \
    --initial-cluster one=http://127.0.0.1:2380
  wait_for 20 "etcd is healthy" curl -fs "$ETCD/health"
}

# start_apiserver SIGNING-KEY [ALSO-ACCEPTED-KEY...]: tokens are signed with the first and accepted from all.
# EXTRA_API_FLAGS is an array a run may fill beforehand.
start_apiserver() {
  local key keys=()
  for key in "$@"; do keys+=("--service-account-key-file=$STATE/pki/$key.pub"); done
  start apiserver "$KUBERNETES/kube-apiserver" \
    --etcd-servers="$ETCD" --bind-address=0.0.0.0 --advertise-address="$NODE_IP" --secure-port="$API_PORT" \
    --tls-cert-file="$STATE/pki/server.crt" --tls-private-key-file="$STATE/pki/server.key" \
    --client-ca-file="$STATE/pki/clients.crt" \
    --service-account-issuer=https://kubernetes.default.svc.cluster.local \
    --service-account-signing-key-file="$STATE/pki/$1.key" "${keys[@]}" \
    --service-cluster-ip-range=10.96.0.0/16 --authorization-mode=Node,RBAC \
    --enable-admission-plugins=NodeRestriction --allow-privileged=true "${EXTRA_API_FLAGS[@]}"
  wait_for 60 "kube-apiserver is ready" apiserver_ready
  echo "$1" >"$STATE/pki/current-key"
}
EXTRA_API_FLAGS=()

# apiserver_ready: not before the process that was started is the one that answers.
apiserver_ready() {
  alive apiserver && curl -fs -m 2 --cacert "$STATE/pki/trust.crt" "$API_URL/readyz"
}

cluster_version() { api GET /version | jq -r .gitVersion; }

# restart_apiserver SIGNING-KEY [ALSO-ACCEPTED-KEY...]
restart_apiserver() {
  stop apiserver
  start_apiserver "$@"
}

# serve_with AUTHORITY: a new certificate for the server, issued by AUTHORITY. The server reads its files anew by itself.
serve_with() {
  issue "$1" next-server "/CN=kube-apiserver" serverAuth "$SERVER_NAMES"
  mv "$STATE/pki/next-server.key" "$STATE/pki/server.key"
  mv "$STATE/pki/next-server.crt" "$STATE/pki/server.crt"
  wait_for 90 "kube-apiserver presents a certificate of $1" \
    curl -fs -m 2 --cacert "$STATE/pki/$1.crt" "$API_URL/readyz"
  echo "$1" >"$STATE/pki/current-ca"
}

# trust AUTHORITY...: what clients of the cluster trust from now on.
trust() {
  local name
  for name in "$@"; do cat "$STATE/pki/$name.crt"; done >"$STATE/pki/trust.new"
  mv "$STATE/pki/trust.new" "$STATE/pki/trust.crt"
}
