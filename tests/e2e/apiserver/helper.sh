# shellcheck shell=bash
# The safest form a credential can have: a helper mints one for each call by TokenRequest, and none rests on disk.
# shellcheck disable=SC2034,SC2154 # variables that functions of lib/ read and set

helper() {
  heading "A helper mints the credential for each call (exec in the kubeconfig)"
  make_node
  write_helper
  write_exec_kubeconfig
  write_exec_chain
  if start_pod by-helper meshed; then
    pass "ADD of by-helper, a meshed pod" "$took"
    check_traffic by-helper "$address" meshed
  else
    fail "ADD of by-helper, a meshed pod: $reply $complaint" "$took"
  fi
  expect 1 "$(wc -l <"$STATE/exec/minted")" "tokens minted for one ADD"
  if remove_pod by-helper; then pass "DEL of by-helper" "$took"; else fail "DEL of by-helper: $reply $complaint" "$took"; fi
  # Every token starts with these letters: {"alg" in base64.
  expect "" "$(grep -rl eyJhbGci "$NODE" /var/lib/cni || true)" "files on the node that hold a token"
}

# write_helper: it has a right of its own, here the administrator's, and prints what it mints.
write_helper() {
  mkdir -p "$STATE/exec"
  cat >"$STATE/exec/helper" <<END
#!/bin/bash
set -euo pipefail
TOOLS='$TOOLS' STATE='$STATE' API_URL='$API_URL'
. '$ROOT/tests/e2e/lib/api.sh'
token=\$(mint $OWN_NAMESPACE evergreen-cni '{"expirationSeconds":600}')
echo minted >>"\$STATE/exec/minted"
jq -n --arg token "\$token" --arg version "\$(jq -r .apiVersion <<<"\$KUBERNETES_EXEC_INFO")" \\
  '{apiVersion: \$version, kind: "ExecCredential", status: {token: \$token}}'
END
  chmod 755 "$STATE/exec/helper"
}

write_exec_kubeconfig() {
  cat >"$STATE/exec/kubeconfig" <<END
apiVersion: v1
kind: Config
clusters:
- name: cluster
  cluster: {server: "$API_URL", certificate-authority: "$STATE/pki/trust.crt"}
users:
- name: helper
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: $STATE/exec/helper
      interactiveMode: Never
      provideClusterInfo: true
contexts:
- name: context
  context: {cluster: cluster, user: helper}
current-context: context
END
}

# write_exec_chain: our plugin put into the chain by hand.
write_exec_chain() {
  cp "$DIST/evergreen-cni" "$BIN_DIR/linkerd-cni"
  jq --argjson ours "${NETCONF/__KUBECONFIG_FILEPATH__/$STATE/exec/kubeconfig}" '.plugins += [$ours]' \
    "$NET_DIR/10-node.conflist" >"$STATE/exec/conflist"
  cp "$STATE/exec/conflist" "$NET_DIR/10-node.conflist"
}
