# shellcheck shell=bash
# What is done to the installer while pods are being made: nothing of it may reach a pod.
# shellcheck disable=SC2034,SC2154 # variables that functions of lib/ read and set

rollout() {
  heading "The installer is replaced while pods start"
  need_installed
  run_case "three rolling updates of the DaemonSet" under_churn three_rollouts
  run_case "the installer's pod is deleted by force three times" under_churn three_deletions
  WITHOUT_US=counted run_case "the primary CNI rewrites its conflist 15 times; our entry is back each time" \
    under_churn fifteen_rewrites
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

# fifteen_rewrites: half of them in place, half by a rename; always without our entry. A pod whose sandbox is made in the
# milliseconds until our entry is back is made without us; how many those are is a matter of luck, and counted.
fifteen_rewrites() {
  local n begun gap gaps=()
  for n in $(seq 15); do
    begun=$(clock)
    if [ $((n % 2)) -eq 0 ]; then
      primary_writes "$PRIMARY"
    else
      cat "$PRIMARY" >"$NET_DIR/10-node.conflist"
    fi
    wait_for 5 "our entry is back" in_chain
    # The kernel's time of our rename.
    gap=$(($(stat -c %.6Z "$NET_DIR/10-node.conflist" | tr -d .) - begun))
    gaps+=($((gap / 1000)))
    # Out of step with the pods, of which there is one a second.
    sleep 1.7
  done
  echo "note: the list was without us for $(printf '%s\n' "${gaps[@]}" | sort -n | tr '\n' ' ')ms"
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
