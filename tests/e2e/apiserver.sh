#!/bin/bash
# Runs on an API server, without a kubelet: the real one, or with API=standin the small one of the tests. Each argument
# names a file of tests/e2e/apiserver/ and the function in it that is the run. Started by scripts/e2e and scripts/demo
# inside a sandbox; $STATE, $ROOT, $TOOLS and $DIST are set.
# Times of ADD are those of the whole chain: bridge, host-local, portmap and ours, started by cnitool.
# shellcheck disable=SC2034,SC2154 # variables that functions of lib/ read and set
set -Eeuo pipefail

parts=(report ground pki cluster api volume chain credential pods installer release)
[ "${API:-kubernetes}" = kubernetes ] || parts+=("$API")
for part in "${parts[@]}"; do
  # shellcheck source=/dev/null
  . "$ROOT/tests/e2e/lib/$part.sh"
done

NODE_NAME=node-1
PROBE=$DIST/evergreen-e2e-probe

cluster_starts() {
  local begun
  heading "A Kubernetes API server starts"
  begun=$(clock)
  start_etcd
  make_cluster_pki
  start_apiserver first-key
  api POST /api/v1/nodes "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"$NODE_NAME\"}}" >/dev/null
  grant
  run_outside
  pass "the API server $(cluster_version) answers" "$(since "$begun")"
}

# old_is_dead TOKEN WHAT: the server refuses it with 401, which it may take some seconds to notice (it caches).
old_is_dead() {
  local begun
  begun=$(clock)
  if wait_for 30 "$2 is refused" refused "$1"; then
    pass "$2 is refused with 401" "$(since "$begun")"
  else
    fail "$2 is still accepted"
  fi
}

for part in "$@"; do
  # shellcheck source=/dev/null
  . "$ROOT/tests/e2e/apiserver/$part.sh"
done

settle
cluster_starts
for part in "$@"; do "$part"; done
[ "$failed" -eq 0 ] || show_logs
totals || exit 1
