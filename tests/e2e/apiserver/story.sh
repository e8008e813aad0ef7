# shellcheck shell=bash
# The story of a node: a pod joins the mesh, and pods keep doing so whatever happens to tokens, keys and certificates.
# shellcheck disable=SC2034,SC2154 # variables that functions of lib/ read and set

story() {
  installer_installs
  pods_start
  token_rotates
  signing_key_rotates
  account_is_recreated
  installer_pod_is_replaced
  authority_moves
  all_is_removed
}

installer_installs() {
  heading "The installer puts the plugin on the node"
  make_node
  before=$(picture)
  installer_pod install-1
  fresh_volume install-1
  install_on_node
  installer_pid=$(cat "$STATE/run/installer.pid")
  pass "binary, credentials and the entry in the CNI chain are there" "$took"
  wait_for 10 "the API server accepts the credential on the node" host_token_accepted
  pass "the API server accepts the credential on the node: $(claim "$(host_token)" .sub)"
  expect 600 "$(stat -c %a "$HOST_KUBECONFIG")" "mode of the kubeconfig"
}

pods_start() {
  heading "Pods start"
  add_is_fine meshed-1 meshed && check_traffic meshed-1 "$address" meshed
  add_is_fine plain-1 plain && check_traffic plain-1 "$address" plain
}

# add_is_fine POD KIND: ADD for a new pod; one line with how long it took.
add_is_fine() {
  if start_pod "$1" "$2"; then
    pass "ADD of $1, a $2 pod" "$took"
  else
    fail "ADD of $1, a $2 pod: $reply $complaint" "$took"
    return 1
  fi
}

# still_works POD: a new meshed pod is redirected; then it leaves.
still_works() {
  add_is_fine "$1" meshed || return 0
  expect "inbound for $address:8080" "$(who_answers "$address:8080")" "$1: the proxy gets what comes in for the app"
  if remove_pod "$1"; then pass "DEL of $1" "$took"; else fail "DEL of $1: $reply $complaint" "$took"; fi
}

# node_heals OLD-TOKEN: a new credential, accepted by the server, replaces the old one on the node.
node_heals() {
  local begun
  begun=$(clock)
  if wait_for 20 "a new credential is on the node" host_token_differs "$1" && wait_for 20 "it is accepted" host_token_accepted; then
    pass "the node has a new credential, and the server accepts it" "$(since "$begun")"
  else
    fail "the node still has the old credential"
  fi
}

token_rotates() {
  local old
  heading "The kubelet renews the installer's token"
  old=$(host_token)
  fresh_volume install-1
  node_heals "$old"
  still_works after-renewal
}

signing_key_rotates() {
  local old
  heading "The key that signs tokens is replaced"
  signing_key second-key
  restart_apiserver second-key first-key
  still_works with-both-keys
  old=$(host_token)
  restart_apiserver second-key
  old_is_dead "$old" "the token signed with the first key"
  fresh_volume install-1
  node_heals "$old"
  still_works with-the-new-key
}

account_is_recreated() {
  local old account
  heading "The service account behind the credential is deleted and created again"
  old=$(host_token)
  account=$(claim "$old" .sub | cut -d: -f4)
  api DELETE "/api/v1/namespaces/$OWN_NAMESPACE/serviceaccounts/$account" >/dev/null
  grant
  old_is_dead "$old" "the token of the account that was deleted"
  fresh_volume install-1
  node_heals "$old"
  still_works after-new-account
}

installer_pod_is_replaced() {
  local old
  heading "The installer's pod is replaced by another"
  old=$(cat "$VOLUME/token")
  installer_pod install-2
  fresh_volume install-2
  api DELETE "/api/v1/namespaces/$OWN_NAMESPACE/pods/install-1" '{"gracePeriodSeconds":0}' >/dev/null
  old_is_dead "$old" "the token bound to the deleted pod"
  still_works with-the-next-installer
}

authority_moves() {
  heading "The API server moves to a new certificate authority"
  authority second-ca
  trust first-ca second-ca
  fresh_volume install-2
  wait_for 10 "the bundle of both is on the node" node_trusts 2
  pass "the node trusts both authorities"
  still_works bundle-of-both-ca
  serve_with second-ca
  pass "the server presents a certificate of the new one"
  still_works new-certificate
  trust second-ca
  fresh_volume install-2
  wait_for 10 "the new authority alone is on the node" node_trusts 1
  pass "the node trusts the new one only"
  still_works only-new-ca
}

all_is_removed() {
  heading "Pods end, and the installer leaves"
  if [ "$installer_pid" = "$(cat "$STATE/run/installer.pid")" ] && alive installer; then
    pass "one installer process did all of that, and still runs"
  else
    fail "the installer has ended, or was started anew"
  fi
  check_traffic meshed-1 "$(inside meshed-1 hostname -I | tr -d ' ')" meshed
  for pod in meshed-1 plain-1; do
    if remove_pod "$pod"; then pass "DEL of $pod" "$took"; else fail "DEL of $pod: $reply $complaint" "$took"; fi
  done
  uninstall_from_node
  if diff <(echo "$before") <(picture); then
    pass "the node's directories are as they were, byte for byte"
  else
    fail "the node's directories differ from what they were (see above)"
  fi
}
