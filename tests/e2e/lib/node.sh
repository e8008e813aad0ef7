# shellcheck shell=bash
# A real node inside the sandbox: containerd, kubelet, and the two controllers that pods depend on. Needs cluster.sh,
# api.sh, containerd.sh and chain.sh (for the folders of the node and its primary CNI).

NODE_NAME=node-1
CGROUP=/${STATE##*/}     # every control group of the node is below it; removed when the sandbox is left
SERVICE_RANGE=10.96.0.0/16

# route_service: the address of service kubernetes, which kube-proxy would provide, for pods and for the node itself.
# Rules of the sandbox's own network namespace.
route_service() {
  ip route replace "$SERVICE_RANGE" dev lo
  nft -f - <<END
table ip service {
  chain pods { type nat hook prerouting priority -100; ip daddr $SERVICE_IP tcp dport 443 dnat to $NODE_IP:$API_PORT; }
  chain node { type nat hook output priority -100; ip daddr $SERVICE_IP tcp dport 443 dnat to $NODE_IP:$API_PORT; }
}
END
}

# make_node_pki: certificates of the parts that talk to the API server as somebody.
make_node_pki() {
  local name
  issue first-ca controller-manager "/CN=system:kube-controller-manager" clientAuth
  issue first-ca scheduler "/CN=system:kube-scheduler" clientAuth
  issue first-ca kubelet "/O=system:nodes/CN=system:node:$NODE_NAME" clientAuth
  issue first-ca kubelet-client "/O=system:masters/CN=kube-apiserver" clientAuth
  for name in controller-manager scheduler kubelet; do
    client_kubeconfig "$name" "$API_URL" "$STATE/pki/trust.crt"
  done
  EXTRA_API_FLAGS+=(--kubelet-client-certificate="$STATE/pki/kubelet-client.crt"
    --kubelet-client-key="$STATE/pki/kubelet-client.key" --kubelet-preferred-address-types=InternalIP)
}

# start_controllers SIGNING-KEY
start_controllers() {
  local config=$STATE/pki/controller-manager.kubeconfig
  start controller-manager "$KUBERNETES/kube-controller-manager" --kubeconfig="$config" \
    --authentication-kubeconfig="$config" --authorization-kubeconfig="$config" --leader-elect=false \
    --bind-address=127.0.0.1 --use-service-account-credentials=true --cert-dir="$STATE/run/controller-manager" \
    --service-account-private-key-file="$STATE/pki/$1.key" --root-ca-file="$STATE/pki/trust.crt"
  config=$STATE/pki/scheduler.kubeconfig
  start scheduler "$KUBERNETES/kube-scheduler" --kubeconfig="$config" --authentication-kubeconfig="$config" \
    --authorization-kubeconfig="$config" --leader-elect=false --bind-address=127.0.0.1 --cert-dir="$STATE/run/scheduler"
  wait_for 30 "kube-controller-manager is healthy" curl -fsk https://127.0.0.1:10257/healthz
  wait_for 30 "kube-scheduler is healthy" curl -fsk https://127.0.0.1:10259/healthz
}

# start_containerd: Debian's, or with CONTAINERD2 set the one in that folder.
start_containerd() {
  mkdir -p "$STATE/containerd"
  if [ -n "${CONTAINERD2:-}" ]; then containerd2_config; else containerd1_config; fi >"$STATE/containerd/config.toml"
  run_containerd
}

run_containerd() {
  start containerd "${CONTAINERD2:+$CONTAINERD2/}containerd" -c "$STATE/containerd/config.toml"
  wait_for 20 "containerd answers" ctr -a "$RUNTIME" version
}

# import_image FILE
import_image() {
  ctr -a "$RUNTIME" -n k8s.io images import --snapshotter "$(snapshotter)" "$1" >>"$STATE/logs/images.log" 2>&1
}

# make_images: what pods are made of here, from the probe alone, as archives in $STATE/images.
make_images() {
  mkdir -p "$STATE/images/probe"
  cp "$PROBE" "$STATE/images/probe/probe"
  "$ROOT/scripts/image" --from "$STATE/images/probe" --entry /probe \
    --name localhost/probe:1 --output "$STATE/images/probe.tar" >>"$STATE/logs/images.log"
  # The runtime's pause container is started without arguments: the program is told by its name.
  mkdir -p "$STATE/images/pause"
  cp "$PROBE" "$STATE/images/pause/pause"
  "$ROOT/scripts/image" --from "$STATE/images/pause" --entry /pause \
    --name localhost/pause:1 --output "$STATE/images/pause.tar" >>"$STATE/logs/images.log"
  import_image "$STATE/images/probe.tar"
  import_image "$STATE/images/pause.tar"
}

# start_kubelet: on cgroup v1 too; nothing is ever evicted, no image collected.
start_kubelet() {
  local group
  mkdir -p "$STATE"/kubelet/{root,pki,podlogs,static}
  for group in /sys/fs/cgroup /sys/fs/cgroup/*/; do
    [ ! -e "$group/cgroup.procs" ] || mkdir -p "$group/$CGROUP"
  done
  echo "nameserver 127.0.0.1" >"$STATE/kubelet/resolv.conf"
  cat >"$STATE/kubelet/config.yaml" <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: "$STATE/pki/clients.crt"}}
authorization: {mode: Webhook}
containerRuntimeEndpoint: "unix://$RUNTIME"
cgroupDriver: cgroupfs
cgroupRoot: "$CGROUP"
failCgroupV1: false
failSwapOn: false
oomScoreAdj: 0
makeIPTablesUtilChains: false
evictionHard: {memory.available: "0%", nodefs.available: "0%", nodefs.inodesFree: "0%", imagefs.available: "0%"}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
clusterDomain: cluster.local
clusterDNS: [10.96.0.10]
resolvConf: "$STATE/kubelet/resolv.conf"
podLogsDir: "$STATE/kubelet/podlogs"
staticPodPath: "$STATE/kubelet/static"
nodeStatusUpdateFrequency: 2s
syncFrequency: 10s
END
  run_kubelet
}

run_kubelet() {
  launch_kubelet
  wait_for 30 "the kubelet is healthy" kubelet_healthy
}

# kubelet_healthy: one that has ended, because containerd was not ready for it, is started again, as an init system does.
kubelet_healthy() {
  alive kubelet || launch_kubelet
  curl -fs http://127.0.0.1:10248/healthz
}

launch_kubelet() {
  start kubelet "$KUBERNETES/kubelet" --config="$STATE/kubelet/config.yaml" --kubeconfig="$STATE/pki/kubelet.kubeconfig" \
    --root-dir="$STATE/kubelet/root" --cert-dir="$STATE/kubelet/pki" --hostname-override="$NODE_NAME" --node-ip="$NODE_IP"
}

# sandbox_of POD: the pid of the pod's first process, which holds its namespaces; seen by the runtime, not by the API.
sandbox_of() { running_sandbox "$1" | cut -d' ' -f2 | grep .; }

# sandbox_id POD: its name in the runtime.
sandbox_id() { running_sandbox "$1" | cut -d' ' -f1 | grep .; }

# running_sandbox POD: name and pid. The runtime may still know older ones that have ended.
running_sandbox() {
  local ids
  ids=$(ctr -a "$RUNTIME" -n k8s.io containers ls -q \
    "labels.\"io.kubernetes.pod.name\"==$1,labels.\"io.cri-containerd.kind\"==sandbox")
  [ -n "$ids" ] || return 1
  ctr -a "$RUNTIME" -n k8s.io tasks ls | grep -F "$ids" | awk '$3 == "RUNNING" { print $1, $2 }'
}

# serve_mutating_policies: by them a cluster's owner changes requests. In releases before 1.36 they are a beta that is off.
serve_mutating_policies() {
  [ "$KUBERNETES" = "$TOOLS" ] ||
    EXTRA_API_FLAGS+=(--feature-gates=MutatingAdmissionPolicy=true --runtime-config=admissionregistration.k8s.io/v1beta1=true)
}

# node_up: all of it, until pods can be made.
node_up() {
  # Volumes and namespaces of pods have to reach the containers that watch them.
  mount --make-rshared /
  start_etcd
  make_cluster_pki
  make_node_pki
  serve_mutating_policies
  start_apiserver first-key
  route_service
  start_controllers first-key
  make_node
  start_containerd
  make_images
  start_kubelet
  wait_for 60 "the node is ready" node_is True
  wait_for 60 "namespace default has its service account" kubectl -n default get serviceaccount default
}

# node_is STATUS: True, False or Unknown.
node_is() {
  [ "$(kubectl get node "$NODE_NAME" -o jsonpath='{.status.conditions[?(@.type=="Ready")].status}')" = "$1" ]
}
