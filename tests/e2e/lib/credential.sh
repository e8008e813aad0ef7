# shellcheck shell=bash
# What an installer has put on the node, found as any reader of a conflist or a kubeconfig finds it. Needs chain.sh, api.sh.

HOST_KUBECONFIG=$NET_DIR/ZZZ-linkerd-cni-kubeconfig

in_chain() { jq -e '.plugins[-1].type == "linkerd-cni"' "$NET_DIR/10-node.conflist"; }

# kubeconfig_names token|ca: the file a kubeconfig reader would take it from, in kubectl's eyes.
kubeconfig_names() {
  local field
  case $1 in token) field='{.users[0].user.tokenFile}' ;; ca) field='{.clusters[0].cluster.certificate-authority}' ;; esac
  "$KUBERNETES/kubectl" --kubeconfig "$HOST_KUBECONFIG" config view --raw -o jsonpath="$field"
}

# host_token: the token the plugin would send now.
host_token() {
  local file
  file=$(kubeconfig_names token)
  [ -n "$file" ] && cat "$file"
}

# host_token_differs TOKEN / host_token_accepted: for waiting.
host_token_differs() { [ "$(host_token)" != "$1" ]; }
host_token_accepted() { [ "$(answer_to "$(host_token)" /api/v1/namespaces/default/pods/nobody)" = 404 ]; }
refused() { [ "$(answer_to "$1" /api/v1/namespaces/default/pods/nobody)" = 401 ]; }

# node_trusts COUNT: how many authorities the plugin's kubeconfig trusts.
node_trusts() { [ "$(grep -c BEGIN "$(kubeconfig_names ca)")" = "$1" ]; }
