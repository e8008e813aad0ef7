# shellcheck shell=bash
# Upgrade and removal by helm.
# shellcheck disable=SC2034,SC2154 # variables that functions of lib/ read and set

removal() {
  heading "Upgrade and removal"
  need_installed
  run_case "helm upgrade to another image and other values, while pods start" under_churn upgrade
  run_case "helm uninstall leaves the node as it was; pods keep working, and can be deleted" uninstall
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
  helm uninstall "$RELEASE" --namespace "$RELEASE_NAMESPACE" --wait --timeout 60s
  wait_for 60 "the installer's pod has gone" no_pod_in "$RELEASE_NAMESPACE"
  as_before
  wait_for 5 "containerd has loaded the chain without us" has_loaded bridge,portmap
  is_meshed last-meshed
  make_pod afterwards plain
  ready afterwards
  is_plain afterwards
  remove last-meshed afterwards
}
