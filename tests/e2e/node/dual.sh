# shellcheck shell=bash
# Dual-stack: the primary CNI gives pods an address of each family.
# shellcheck disable=SC2034,SC2154 # variables that functions of lib/ read and set

NODE_IP6=fd99::1
OUTSIDE6="[$NODE_IP6]:9001"

dual() {
  heading "Dual-stack"
  need_installed
  run_case "both families of a pod whose proxy listens on both" dual_stack_pod
  run_case "only IPv4 of a pod whose proxy listens on that alone" single_stack_proxy
  single_stack_again
}

# dual_stack_node: the primary CNI's list gets a second range.
dual_stack_node() {
  ip addr add "$NODE_IP6/128" dev lo
  start outside6 "$PROBE" serve --name outside "[::]:9001"
  jq '.plugins[0] |= (.ipMasq = false | .ipam.ranges += [[{"subnet": "fd99:77::/64"}]] | .ipam.routes += [{"dst": "::/0"}])' \
    "$PRIMARY" >"$STATE/run/dual.conflist"
  chmod 600 "$STATE/run/dual.conflist"
  primary_writes "$STATE/run/dual.conflist"
  wait_for 10 "our entry is in the chain" in_chain
  # The runtime reads its list again within half a second.
  sleep 1
}

single_stack_again() {
  primary_writes "$PRIMARY"
  ip addr del "$NODE_IP6/128" dev lo
  wait_for 10 "our entry is in the chain" in_chain
}

dual_stack_pod() {
  local address
  dual_stack_node
  pod_document both meshed |
    sed "s/'0.0.0.0:4143'/'[::]:4143'/g; s/'127.0.0.1:4140'/'[::]:4140'/g; s/'0.0.0.0:8080'/'[::]:8080'/; s/'0.0.0.0:4140', '1.1.1.1:20001'/'[::]:4140', '[fd00::1]:20001'/" |
    kubectl create -f -
  ready both
  address=$(address6_of both)
  same "inbound for [$address]:8080" "$("$PROBE" ask "[$address]:8080")" "inbound by IPv6"
  same "outbound for $OUTSIDE6" "$(ask_from both app "$OUTSIDE6")" "outbound of the app by IPv6"
  same "outside for $OUTSIDE6" "$(ask_from both linkerd-proxy "$OUTSIDE6")" "outbound of the proxy by IPv6"
  goes_through_proxy both
  remove both
}

single_stack_proxy() {
  local address
  pod_document one meshed | sed "s/'0.0.0.0:8080'/'[::]:8080'/" | kubectl create -f -
  ready one
  address=$(address6_of one)
  goes_through_proxy one
  same "app for [$address]:8080" "$("$PROBE" ask "[$address]:8080")" "inbound by IPv6"
  remove one
}

# address6_of POD: as its namespace has it.
address6_of() {
  nsenter --target "$(sandbox_of "$1")" --net ip -6 -o addr show dev eth0 scope global | awk '{ split($4, a, "/"); print a[1] }'
}
