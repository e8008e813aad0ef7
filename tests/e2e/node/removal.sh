# shellcheck shell=bash
# Upgrade and removal by helm.
# shellcheck disable=SC2034,SC2154 # variables that functions of lib/ read and set

removal() {
  heading "Upgrade and removal"
  need_installed
  run_case "helm upgrade to another image and other values, while pods start" under_churn upgrade
  run_case "helm uninstall leaves the node as it was; pods keep working, and can be deleted" uninstall
  run_case "the same for an installer whose own token may not read pods" uninstall_with_least_rights
  run_case "the namespace is deleted: the node is as it was" namespace_deleted
}

upgrade() {
  import_ours e2e-next
  install_chart --set image.version=e2e-next --set 'ignoreInboundPorts=25'
  sleep 2
  same '["4190","4191","25"]' "$(jq -c '.plugins[-1].linkerd["inbound-ports-to-ignore"]' "$NET_DIR/10-node.conflist")" \
    "the netconf on the node"
}

uninstall() {
  make_pod last-meshed meshed
  ready last-meshed
  follow_installer
  uninstall_chart
  leaves_a_clean_node
  wait_for 5 "containerd has loaded the chain without us" has_loaded bridge,portmap
  is_meshed last-meshed
  make_pod afterwards plain
  ready afterwards
  is_plain afterwards
  remove last-meshed afterwards
}

# uninstall_with_least_rights: once more right after a pod has shown the plugin's token to the API server, which remembers it.
uninstall_with_least_rights() {
  install_chart --set rbac.podTokenReadsPods=false
  follow_installer
  make_pod last-meshed meshed
  ready last-meshed
  uninstall_chart
  leaves_a_clean_node
  remove last-meshed
}

# namespace_deleted: since Kubernetes 1.33 its pods go first, while DaemonSet and rights are as ever.
namespace_deleted() {
  local kind
  install_chart
  follow_installer
  kubectl delete namespace "$RELEASE_NAMESPACE" --timeout=90s
  leaves_a_clean_node
  for kind in clusterrole clusterrolebinding; do
    kubectl delete "$kind" -l "app.kubernetes.io/instance=$RELEASE"
  done
}

# follow_installer: what it says at its end goes with its pod.
follow_installer() {
  kubectl -n "$RELEASE_NAMESPACE" logs -f "daemonset/$RELEASE" -c install-cni >>"$STATE/logs/leaving.log" 2>&1 &
}

leaves_a_clean_node() {
  wait_for 60 "the installer's pod has gone" no_pod_in "$RELEASE_NAMESPACE"
  echo "note: $(grep -o 'msg=shutdown .*' "$STATE/logs/leaving.log" | tail -n 1)"
  as_before
}
