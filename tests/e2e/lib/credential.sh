# shellcheck shell=bash
# What an installer has put on the node, found as any reader of a conflist or a kubeconfig finds it. Needs chain.sh, api.sh.

HOST_KUBECONFIG=$NET_DIR/ZZZ-linkerd-cni-kubeconfig

in_chain() { jq -e '.plugins[-1].type == "linkerd-cni"' "$NET_DIR/10-node.conflist"; }

# host_token: the token the plugin would send now, found as any kubeconfig reader finds it.
host_token() {
  local file
  file=$("$TOOLS/kubectl" --kubeconfig "$HOST_KUBECONFIG" config view --raw -o jsonpath='{.users[0].user.tokenFile}')
  [ -n "$file" ] && cat "$file"
}

# host_token_differs TOKEN / host_token_accepted: for waiting.
host_token_differs() { [ "$(host_token)" != "$1" ]; }
host_token_accepted() { [ "$(answer_to "$(host_token)" /api/v1/namespaces/default/pods/nobody)" = 404 ]; }
refused() { [ "$(answer_to "$1" /api/v1/namespaces/default/pods/nobody)" = 401 ]; }

# node_trusts COUNT: how many authorities the plugin's kubeconfig trusts.
node_trusts() {
  local file
  file=$("$TOOLS/kubectl" --kubeconfig "$HOST_KUBECONFIG" config view --raw \
    -o jsonpath='{.clusters[0].cluster.certificate-authority}')
  [ "$(grep -c BEGIN "$file")" = "$1" ]
}
