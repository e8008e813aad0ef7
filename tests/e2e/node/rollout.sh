# shellcheck shell=bash
# What is done to the installer while pods are being made: nothing of it may reach a pod.
# shellcheck disable=SC2034,SC2154 # variables that functions of lib/ read and set

rollout() {
  heading "The installer is replaced while pods start"
  run_case "three rolling updates of the DaemonSet" under_churn three_rollouts
  run_case "the installer's pod is deleted by force three times" under_churn three_deletions
  run_case "the primary CNI rewrites its conflist 15 times; our entry is back each time" fifteen_rewrites
  run_case "the installer is frozen and its pod object deleted; a new one heals the node" under_churn frozen_installer
}

three_rollouts() {
  local n
  for n in 1 2 3; do
    kubectl -n "$RELEASE_NAMESPACE" rollout restart "daemonset/$RELEASE"
    installer_is_ready
    sleep 2
  done
}

three_deletions() {
  local n
  for n in 1 2 3; do
    delete_installer_pod
    installer_is_ready
    sleep 2
  done
}

delete_installer_pod() {
  kubectl -n "$RELEASE_NAMESPACE" delete pod -l k8s-app=evergreen-cni --force --grace-period=0
}

# fifteen_rewrites: half of them in place, half by a rename; always without our entry. A pod is made after each, not
# during it: one whose sandbox is made in the milliseconds between is made by a list without us, and only its validator
# can tell.
fifteen_rewrites() {
  local n begun took slowest=0
  for n in $(seq 15); do
    begun=$(clock)
    if [ $((n % 2)) -eq 0 ]; then
      primary_writes "$PRIMARY"
    else
      cat "$PRIMARY" >"$NET_DIR/10-node.conflist"
    fi
    until grep -q linkerd-cni "$NET_DIR/10-node.conflist"; do [ "$(since "$begun")" -lt 5000 ]; done
    took=$(since "$begun")
    [ "$took" -le "$slowest" ] || slowest=$took
    # The runtime reads the list a moment after it changed.
    sleep 0.5
    make_pod "rewrite-$n" unvalidated
    ready "rewrite-$n"
    goes_through_proxy "rewrite-$n"
    kubectl delete pod "rewrite-$n" --wait=false
  done
  echo "note: 15 pods, all with their rules; our entry was back after $slowest ms at the latest"
}

frozen_installer() {
  local frozen
  frozen=$(pgrep -x evergreen-insta)
  kill -STOP "$frozen"
  delete_installer_pod
  # The token bound to that pod is dead by then.
  sleep 15
  installer_is_ready
  kill -KILL "$frozen" 2>/dev/null || true
}
