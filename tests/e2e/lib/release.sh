# shellcheck shell=bash
# Our image and our chart on the node, by helm, as a user installs them. Needs node.sh and chain.sh.

RELEASE=evergreen-cni
RELEASE_NAMESPACE=evergreen
OUR_IMAGE=localhost/evergreen-cni

# helm ARGS...
helm() { HELM_CACHE_HOME=$STATE/helm HELM_CONFIG_HOME=$STATE/helm HELM_DATA_HOME=$STATE/helm \
  KUBECONFIG=$STATE/pki/admin.kubeconfig "$TOOLS/helm" "$@"; }

# import_ours TAG: our image as scripts/image makes it.
import_ours() {
  "$ROOT/scripts/image" --name "$OUR_IMAGE:$1" --output "$STATE/images/ours.tar" >>"$STATE/logs/images.log"
  import_image "$STATE/images/ours.tar"
}

# apply_chart ARGS...: helm's part. install_chart ARGS...: and wait until the DaemonSet is ready.
apply_chart() {
  helm upgrade --install "$RELEASE" "$ROOT/installer/chart" --namespace "$RELEASE_NAMESPACE" --create-namespace \
    --set image.name="$OUR_IMAGE" --set image.version=e2e --set image.pullPolicy=Never \
    --set destCNIBinDir="$BIN_DIR" --set destCNINetDir="$NET_DIR" "$@"
}

# shellcheck disable=SC2120 # they come from the parts
install_chart() {
  apply_chart "$@"
  installer_is_ready
}

uninstall_chart() { helm uninstall "$RELEASE" --namespace "$RELEASE_NAMESPACE" --wait --timeout 60s; }

installer_is_ready() { kubectl -n "$RELEASE_NAMESPACE" rollout status "daemonset/$RELEASE" --timeout=90s; }

# need_installed: for parts that may be run alone. Sets `before`, what the node was without us, as the part `install` does.
# shellcheck disable=SC2034,SC2119 # for the part; without arguments
need_installed() {
  [ -e "$STATE/images/ours.tar" ] || import_ours e2e
  if ! in_chain >/dev/null; then
    before=$(picture)
    install_chart >/dev/null
  fi
}

# installer_ready_is STATUS: of its pod, for waiting.
installer_ready_is() {
  [ "$(kubectl -n "$RELEASE_NAMESPACE" get pods -l k8s-app=evergreen-cni \
    -o jsonpath='{.items[0].status.conditions[?(@.type=="Ready")].status}')" = "$1" ]
}

# volume_token RELEASE: the kubelet's file of that release's pod.
volume_token() {
  local uid
  uid=$(kubectl get pods -A -l "app.kubernetes.io/instance=$1" -o jsonpath='{.items[0].metadata.uid}')
  echo "$STATE/kubelet/root/pods/$uid/volumes/kubernetes.io~projected/token/token"
}
