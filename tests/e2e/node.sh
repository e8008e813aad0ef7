#!/bin/bash
# The cases on a real node. Each argument names a file of tests/e2e/node/ and the function in it that runs its cases.
# Started by scripts/e2e inside a sandbox; $STATE, $ROOT, $TOOLS and $DIST are set, and $KEEP when the node shall stay.
# shellcheck disable=SC2034,SC2154 # variables that functions of lib/ read and set
set -Eeuo pipefail

PROBE=$DIST/evergreen-e2e-probe
for part in report ground pki cluster api chain credential containerd node workload release churn cases; do
  # shellcheck source=/dev/null
  . "$ROOT/tests/e2e/lib/$part.sh"
done
for part in "$@"; do
  # shellcheck source=/dev/null
  . "$ROOT/tests/e2e/node/$part.sh"
done

# stay_up: until the run is interrupted.
stay_up() {
  printf '\nThe node stays up until Ctrl-C. In another terminal:\n'
  printf '  nsenter --target %s --mount --net --pid env KUBECONFIG=%s %s get pods -A\n' \
    "\$(cat $STATE/sandbox.pid)" "$STATE/pki/admin.kubeconfig" "$KUBERNETES/kubectl"
  tail -f /dev/null
}

settle
heading "A node starts"
begun=$(clock)
node_up
run_outside
pass "Kubernetes $(api GET /version | jq -r .gitVersion), $("${CONTAINERD2:+$CONTAINERD2/}containerd" --version | awk '{print $1, $3}'), one node, ready" \
  "$(since "$begun")"
for part in "$@"; do "$part"; done
[ "$failed" -eq 0 ] || show_logs
show_table
[ -z "${KEEP:-}" ] || stay_up
totals || exit 1
