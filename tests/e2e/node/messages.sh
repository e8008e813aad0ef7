# shellcheck shell=bash
# What people see: the Event of a pod that cannot start, for each class of failure; readiness; and a node that heals.
# shellcheck disable=SC2034,SC2154 # variables that functions of lib/ read and set

messages() {
  heading "What a user sees"
  need_installed
  run_case "ready turns false when the runtime's network goes, and true when it is back" readiness_follows
  run_case "what is deleted, emptied or opened on the node is back at once" node_is_healed
  run_case "a configuration that the plugin would refuse does not reach the node" bad_netconf_stays_out
  # From here on the pod waits when the API server cannot be asked: the runtime's annotations would let it start.
  run_case "an annotation that is no port" event_says wrong-port 'skip-inbound-ports.*80-' break_nothing \
    '"config.linkerd.io/skip-inbound-ports": "80-"'
  run_case "the plugin may not read pods" event_says no-right 'may not\|does not allow' take_the_right
  run_case "the credential's account is gone" event_says no-account '401.*ServiceAccount' take_the_account
  run_case "the authority on the node is not the API server's" event_says wrong-authority 'certificate\|authority' break_authority
  run_case "the kubeconfig is gone" event_says no-kubeconfig 'kubeconfig' remove_kubeconfig
  run_case "after all that the node is as good as before" all_is_well
}

readiness_follows() {
  mv "$NET_DIR/10-node.conflist" "$STATE/run/"
  wait_for 40 "the installer's pod is not ready" installer_ready_is False
  mv "$STATE/run/10-node.conflist" "$NET_DIR/.back"
  mv "$NET_DIR/.back" "$NET_DIR/10-node.conflist"
  wait_for 40 "the installer's pod is ready" installer_ready_is True
}

node_is_healed() {
  local wanted
  wanted=$(picture)
  rm "$BIN_DIR/linkerd-cni"
  rm "$HOST_KUBECONFIG"
  : >"$(kubeconfig_path_of_token)"
  chmod 644 "$(kubeconfig_path_of_token)"
  wait_for 5 "binary, kubeconfig and token are back" everything_is "$wanted"
}

# kubeconfig_path_of_token: known before the kubeconfig goes.
kubeconfig_path_of_token() { find "$NET_DIR" -name token; }

# everything_is PICTURE: but for the token's own bytes, for a new one may have been minted.
everything_is() { diff <(grep -v '/token$' <<<"$1") <(picture | grep -v '/token$') && host_token_accepted; }

# bad_netconf_stays_out: it would fail every pod of the node, and so the installer's next one, which could correct it.
bad_netconf_stays_out() {
  apply_chart --set ignoreSubnets=10.0.0.0/33
  wait_for 60 "the new installer refuses" installer_refuses
  echo "note: $(installer_says | grep 'rejects the netconf' | head -n 1 | cut -c1-300)"
  in_chain
  if grep 10.0.0.0/33 "$NET_DIR/10-node.conflist"; then return 1; fi
  make_pod meanwhile meshed
  ready meanwhile
  is_meshed meanwhile
  remove meanwhile
  install_chart
}

installer_refuses() { installer_says | grep 'rejects the netconf'; }

installer_says() { kubectl -n "$RELEASE_NAMESPACE" logs -l k8s-app=evergreen-cni -c install-cni --tail=20; }

# event_says POD PATTERN BREAK [ANNOTATION]: something is broken with the installer frozen, a meshed pod is made, and its
# Event has to say what is wrong. Then all is put right again, and the pod starts.
event_says() {
  local pod=$1 pattern=$2 break_it=$3 annotation=${4:-} installer
  install_chart --set onApiFailure=fail >/dev/null
  wait_for 20 "the API server accepts the credential on the node" host_token_accepted
  installer=$(pgrep -x evergreen-insta)
  kill -STOP "$installer"
  "$break_it"
  pod_document "$pod" meshed | sed "s#annotations: {#annotations: {${annotation:+$annotation, }#" | kubectl create -f -
  wait_for 60 "an Event says why" complained "$pod"
  echo "note: $(complained "$pod" | head -n 1 | cut -c1-400)"
  complained "$pod" | grep -q "$pattern"
  # No message shows a token; every token starts like this.
  if complained "$pod" | grep eyJhbGci; then return 1; fi
  kill -CONT "$installer"
  remove "$pod"
}

# complained POD: what the plugin said, without what the kubelet and the runtime put before it.
complained() { complaints "$1" | grep 'failed to setup network' | sed 's/.*failed (add): //'; }

break_nothing() { :; }

take_the_right() {
  kubectl delete clusterrolebinding "$RELEASE-plugin"
}

take_the_account() {
  local old
  old=$(host_token)
  kubectl -n "$RELEASE_NAMESPACE" delete serviceaccount "$RELEASE-plugin"
  wait_for 30 "its token is refused" refused "$old"
}

break_authority() {
  authority foreign-ca
  cp "$STATE/pki/foreign-ca.crt" "$(kubeconfig_names ca)"
}

remove_kubeconfig() { rm "$HOST_KUBECONFIG"; }

all_is_well() {
  install_chart
  wait_for 20 "the API server accepts the credential on the node" host_token_accepted
  make_pod well meshed
  ready well
  is_meshed well
  remove well
}
