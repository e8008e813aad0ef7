# shellcheck shell=bash
# The rotation storm: ADDs in a row while the installer's token is renewed every 200 ms, the certificate authority and
# the signing key move on in order, and the API server restarts. No ADD may fail, none may pass its deadline.
# Every rotation is done as an operator does it: the new one is trusted before the old one goes.
# shellcheck disable=SC2034,SC2154 # variables that functions of lib/ read and set

STORM_ADDS=${STORM_ADDS:-200}
# Longer than the default of 10 s: a busy machine needs about that long to restart the API server, and no ADD can be over
# before.
DEADLINE_SECONDS=20

storm() {
  heading "A storm: $STORM_ADDS ADDs in a row while everything rotates"
  make_node
  installer_pod storm-install
  fresh_volume storm-install
  NETCONF=$(jq -c ".evergreen[\"deadline-seconds\"] = $DEADLINE_SECONDS" <<<"$NETCONF")
  install_on_node
  wait_for 10 "the API server accepts the credential on the node" host_token_accepted
  pod_object storm meshed
  mkdir "$STATE/storm"
  (token_weather) 2>>"$STATE/logs/weather.log" &
  local tokens=$!
  (cluster_weather) >>"$STATE/logs/weather.log" 2>&1 &
  local cluster=$!
  run_adds "$STORM_ADDS"
  touch "$STATE/storm/over"
  wait "$cluster" || fail "the storm itself broke down: see weather.log"
  # Only now: the cluster's moves wait for what the installer gets by its token's volume.
  touch "$STATE/storm/clear"
  wait "$tokens" || fail "the renewals broke down: see weather.log"
  report_storm
  quiet_after_storm
  expect 0 "$(($(cat "$STATE/storm/stale") + $(stale_tokens)))" \
    "serviceaccount_stale_tokens_total of the API server, over all its restarts"
  uninstall_from_node
  api DELETE /api/v1/namespaces/default/pods/storm '{"gracePeriodSeconds":0}' >/dev/null
}

# run_adds COUNT: each in a network namespace of its own, each followed by DEL. Fills `times` and `broken`; the first
# three failures are shown.
run_adds() {
  local n
  times=()
  broken=0
  for n in $(seq "$1"); do
    ip netns add storm
    if ! cni add storm; then
      broken=$((broken + 1))
      [ "$broken" -gt 3 ] || fail "ADD number $n: $reply $complaint" "$took"
    elif [ -z "$(inside storm nft list tables)" ]; then
      broken=$((broken + 1))
      fail "ADD number $n succeeded, but there are no rules" "$took"
    fi
    times+=("$took")
    cni del storm || fail "DEL number $n: $complaint"
    ip netns del storm
  done
}

# token_weather: a new token for the installer, as often as that. A server that is away is asked again.
token_weather() {
  local uid token count=0
  uid=$(uid_of "/api/v1/namespaces/$OWN_NAMESPACE/pods/storm-install")
  while [ ! -e "$STATE/storm/clear" ]; do
    if token=$(mint "$OWN_NAMESPACE" evergreen-install "$(bound_to Pod storm-install "$uid" 3607)" 2>/dev/null); then
      publish "$VOLUME" "$token" "$STATE/pki/trust.crt" "$OWN_NAMESPACE"
      count=$((count + 1))
    fi
    sleep 0.2
  done
  echo "$count" >"$STATE/storm/tokens"
}

# cluster_weather: authority, then signing key with two restarts; again and again.
cluster_weather() {
  local round=0 stale=0
  while [ ! -e "$STATE/storm/over" ]; do
    round=$((round + 1))
    authority_moves_on "storm-ca-$round"
    stale=$((stale + $(stale_tokens)))
    signing_key_moves_on "storm-key-$round"
    echo "$round" >"$STATE/storm/rounds"
    echo "$stale" >"$STATE/storm/stale"
    # A moment without a restart, or the ADDs would spend the whole storm waiting for a server.
    sleep 2
  done
}

# authority_moves_on NEXT: trusted beside the old one, then used, then trusted alone.
authority_moves_on() {
  authority "$1"
  trust "$(current_ca)" "$1"
  wait_for 20 "the bundle of both is on the node" node_trusts 2
  serve_with "$1"
  trust "$1"
  wait_for 20 "the new authority alone is on the node" node_trusts 1
}

# signing_key_moves_on NEXT: signs while both are accepted, then is the only one, once no token of the old one is left.
signing_key_moves_on() {
  local old
  old=$(current_key)
  signing_key "$1"
  old_id=$(header "$(host_token)" .kid)
  restart_apiserver "$1" "$old"
  wait_for 20 "the token on the node is signed with the new key" signed_otherwise "$old_id"
  restart_apiserver "$1"
}

signed_otherwise() { [ "$(header "$(host_token)" .kid)" != "$1" ]; }

# report_storm: how much came down, and how the ADDs fared.
report_storm() {
  local sorted slowest middle rounds
  mapfile -t sorted < <(printf '%s\n' "${times[@]}" | sort -n)
  slowest=${sorted[-1]}
  middle=${sorted[$((${#sorted[@]} / 2))]}
  rounds=$(cat "$STATE/storm/rounds")
  pass "came down: $(cat "$STATE/storm/tokens") token renewals, $rounds authorities, $rounds signing keys, $((2 * rounds)) restarts of the API server"
  expect 0 "$broken" "failures in ${#times[@]} ADDs"
  if [ "$slowest" -le $((DEADLINE_SECONDS * 1000)) ]; then
    pass "the slowest ADD (median: $middle ms)" "$slowest"
  else
    fail "the slowest ADD is beyond the deadline of $DEADLINE_SECONDS s (median: $middle ms)" "$slowest"
  fi
}

# quiet_after_storm: no installer, no pod of it; the credential on the node lives on, for it is bound to the node.
quiet_after_storm() {
  local old
  heading "The installer is frozen and its pod object deleted"
  old=$(cat "$VOLUME/token")
  signal installer STOP
  api DELETE "/api/v1/namespaces/$OWN_NAMESPACE/pods/storm-install" '{"gracePeriodSeconds":0}' >/dev/null
  old_is_dead "$old" "the token bound to the deleted pod"
  run_adds 30
  expect 0 "$broken" "failures in ${#times[@]} ADDs without an installer"
  signal installer CONT
}
