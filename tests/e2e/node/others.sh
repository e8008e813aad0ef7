# shellcheck shell=bash
# The other ways to install: Linkerd's own chart with our image, our chart with init containers only, and the plain
# manifest. Each is followed by pods, and by an end after which the node is as it was.
# shellcheck disable=SC2034,SC2154 # variables that functions of lib/ read and set

others() {
  heading "Other ways to install"
  before=$(picture)
  [ -e "$STATE/images/ours.tar" ] || import_ours e2e
  run_case "Linkerd's own chart, with only the image changed" linkerds_chart
  run_case "our chart, with init containers only" init_mode
  run_case "the plain manifest" plain_manifest
}

# pods_join NAME: one of each kind.
pods_join() {
  make_pod "$1-meshed" meshed
  make_pod "$1-plain" plain
  ready "$1-meshed"
  ready "$1-plain"
  is_meshed "$1-meshed"
  is_plain "$1-plain"
  remove "$1-meshed" "$1-plain"
}

linkerds_chart() {
  sed "s#IMAGE\$#$OUR_IMAGE:e2e#; s#BIN_DIR#$BIN_DIR#; s#NET_DIR#$NET_DIR#" "$ROOT/tests/e2e/linkerd2-cni.yaml" |
    sed "s#DEST_CNI_$BIN_DIR#DEST_CNI_BIN_DIR#; s#DEST_CNI_$NET_DIR#DEST_CNI_NET_DIR#" >"$STATE/run/linkerd2-cni.yaml"
  kubectl apply -f "$STATE/run/linkerd2-cni.yaml"
  kubectl -n linkerd-cni rollout status daemonset/linkerd-cni --timeout=60s
  wait_for 20 "our entry is in the chain" in_chain
  same "" "$(grep -l eyJhbGci "$NET_DIR"/*.conflist || true)" "conflists with a token"
  echo "note: the plugin's credential: $(claim "$(host_token)" .sub)"
  pods_join linkerds
  # A rolling update deletes the old pod before the new one comes: the copied token dies, pods of the mesh go on.
  kubectl -n linkerd-cni rollout restart daemonset/linkerd-cni
  kubectl -n linkerd-cni rollout status daemonset/linkerd-cni --timeout=90s
  wait_for 20 "the API server accepts the credential on the node" host_token_accepted
  pods_join linkerds-next
  kubectl delete -f "$STATE/run/linkerd2-cni.yaml" --timeout=90s
  wait_for 30 "the node is as it was" as_before
}

init_mode() {
  install_chart --set mode=init --set pauseImage=localhost/pause:1 --set kubeletDir="$STATE/kubelet/root"
  in_chain
  same kubernetes.io~projected "$(kubeconfig_names token | grep -o kubernetes.io~projected)" "where the token is read"
  wait_for 20 "the API server accepts the credential on the node" host_token_accepted
  pods_join init
  # A new pod has a new volume; the kubeconfig has to name that one.
  kubectl -n "$RELEASE_NAMESPACE" rollout restart "daemonset/$RELEASE"
  installer_is_ready
  wait_for 20 "the API server accepts the credential on the node" host_token_accepted
  pods_join init-next
  uninstall_chart
  uninstall_by_hand
  as_before
}

# uninstall_by_hand: what an init container has installed nothing removes by itself.
uninstall_by_hand() {
  DEST_CNI_BIN_DIR=$BIN_DIR DEST_CNI_NET_DIR=$NET_DIR CONTAINER_MOUNT_PREFIX='' "$DIST/evergreen-install" uninstall
}

plain_manifest() {
  sed "s#image: IMAGE\$#image: $OUR_IMAGE:e2e#; s#image: PAUSE_IMAGE#image: localhost/pause:1#; s#/opt/cni/bin#$BIN_DIR#g; s#/etc/cni/net.d#$NET_DIR#g" \
    "$ROOT/installer/manifest.yaml" |
    sed "s#        env:#        env:\n        - {name: DEST_CNI_BIN_DIR, value: '$BIN_DIR'}\n        - {name: DEST_CNI_NET_DIR, value: '$NET_DIR'}\n        - {name: EVERGREEN_KUBELET_DIR, value: '$STATE/kubelet/root'}#" \
      >"$STATE/run/manifest.yaml"
  kubectl apply -f "$STATE/run/manifest.yaml"
  kubectl -n linkerd-cni rollout status daemonset/linkerd-cni --timeout=60s
  in_chain
  wait_for 20 "the API server accepts the credential on the node" host_token_accepted
  pods_join manifest
  kubectl delete -f "$STATE/run/manifest.yaml" --timeout=90s
  uninstall_by_hand
  as_before
}
