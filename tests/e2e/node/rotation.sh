# shellcheck shell=bash
# Tokens that end while the run lasts: the server gives 600 s, the shortest it can give, where the chart asks for an hour
# and for a day. The kubelet renews its volumes by its own clock, at 80 % of that, so this takes 12 minutes and runs only
# when it is named. One release has a token of the plugin's own, the other copies the pod's, on a node folder of its own.
# shellcheck disable=SC2034,SC2154 # variables that functions of lib/ read and set

COPIER=copier
COPIER_DIR=$STATE/copier
# What a token lives here, and for how long the API server still takes it afterwards.
LIFE=600
LEEWAY=60

rotation() {
  heading "The kubelet renews tokens by its own clock (12 minutes)"
  [ -e "$STATE/images/ours.tar" ] || import_ours e2e
  run_case "600 s are given where more is asked: what was given counts" less_is_given
  run_case "at 80 % of that the kubelet renews both pods' tokens, and the node's follow at once" kubelet_renews
  run_case "the first tokens end, and pods go on starting" first_tokens_end
  kubectl delete mutatingadmissionpolicybinding,mutatingadmissionpolicy shorter >/dev/null
}

# shorten_tokens: by an admission policy, as a cluster's owner may have one.
shorten_tokens() {
  local version
  version=$(kubectl api-resources --no-headers | awk '$NF == "MutatingAdmissionPolicy" { print $(NF - 2) }')
  kubectl apply -f - <<END
apiVersion: $version
kind: MutatingAdmissionPolicy
metadata: {name: shorter}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [serviceaccounts/token]}]
  failurePolicy: Fail
  reinvocationPolicy: Never
  mutations:
  - patchType: JSONPatch
    jsonPatch:
      expression: '[JSONPatch{op: "add", path: "/spec/expirationSeconds", value: $LIFE}]'
---
apiVersion: $version
kind: MutatingAdmissionPolicyBinding
metadata: {name: shorter}
spec: {policyName: shorter}
END
  wait_for 60 "the API server gives less than is asked" is_shortened
}

is_shortened() { [ "$(life "$(mint default default '{"expirationSeconds":7200}')")" = "$LIFE" ]; }

# life TOKEN: in seconds.
life() { claim "$1" '.exp - .iat'; }

less_is_given() {
  shorten_tokens
  # A pod waits when a token is refused: none may start by its annotations here.
  install_chart --set onApiFailure=fail
  copier_installs
  wait_for 20 "the API server accepts the credential on the node" host_token_accepted
  host_token >"$STATE/run/first-minted"
  cat "$(volume_token "$RELEASE")" >"$STATE/run/first-of-pod"
  same "$LIFE" "$(life "$(cat "$STATE/run/first-of-pod")")" "life of the pod's token, asked for an hour"
  same "$LIFE" "$(life "$(host_token)")" "life of the plugin's token, asked for a day"
  same "$(claim "$(host_token)" .exp)" "$(date -d "$(recorded_end)" +%s)" "its end, as the installer knows it"
  same "$(cat "$(volume_token "$COPIER")")" "$(cat "$(copied_token)")" "the copy"
}

# copier_installs: a second release, whose plugin's token is a copy of its pod's.
copier_installs() {
  mkdir -p "$COPIER_DIR/bin" "$COPIER_DIR/net"
  cp "$PRIMARY" "$COPIER_DIR/net/"
  helm upgrade --install "$COPIER" "$ROOT/installer/chart" --namespace "$COPIER" --create-namespace \
    --set image.name="$OUR_IMAGE" --set image.version=e2e --set image.pullPolicy=Never --set credential.source=copy \
    --set destCNIBinDir="$COPIER_DIR/bin" --set destCNINetDir="$COPIER_DIR/net"
  kubectl -n "$COPIER" rollout status "daemonset/$COPIER" --timeout=90s
}

copied_token() { find "$COPIER_DIR/net" -name token; }

recorded_end() { jq -er .ends "$(dirname "$(kubeconfig_names token)")/credential"; }

kubelet_renews() {
  local minted copied
  minted=$(volume_token "$RELEASE")
  copied=$(volume_token "$COPIER")
  : >"$STATE/run/renewed"
  note_renewal "$minted" "$(kubeconfig_names token)" "of the plugin's own" &
  note_renewal "$copied" "$(copied_token)" "copied" &
  # It may take until 480 s, and looks at each volume about once a minute.
  pods_start_until $((LIFE - 30)) "both volumes have been renewed, and the node's tokens" both_are_renewed
  same "$(cat "$copied")" "$(cat "$(copied_token)")" "the copy"
  # The plugin's own is renewed between half and two thirds of its life, and again with the pod's token.
  [ "$(installer_log | grep -c 'source=node-bound')" -ge 3 ]
  host_token_accepted
}

both_are_renewed() { [ "$(wc -l <"$STATE/run/renewed")" = 2 ]; }

# note_renewal SOURCE TARGET WHICH: waits until the kubelet has renewed SOURCE and then TARGET has changed; the kernel's
# times of the two renames say how much later that was.
note_renewal() {
  local data first renewed born
  data=$(dirname "$1")/..data
  born=$(claim "$(cat "$1")" .iat)
  first=$(readlink "$data")
  while [ "$(readlink "$data")" = "$first" ]; do sleep 0.2; done
  renewed=$(changed "$data")
  while [ "$(changed "$2")" -lt "$renewed" ]; do sleep 0.2; done
  echo "note: the kubelet renewed after $((renewed / 1000 - born)) s; the token $3 was on the node" \
    "$(($(changed "$2") - renewed)) ms later" >>"$STATE/run/renewed"
}

# changed PATH: when it was renamed into place, in milliseconds.
changed() { stat -c %.3Z "$1" | tr -d .; }

installer_log() { kubectl -n "$RELEASE_NAMESPACE" logs -l k8s-app=evergreen-cni -c install-cni --tail=-1; }

# first_tokens_end: the API server refuses them when its leeway is over, too.
first_tokens_end() {
  pods_start_until $((LIFE + LEEWAY + 60)) "the first tokens are refused" both_are_refused
  host_token_accepted
  installer_ready_is True
  cat "$STATE/run/renewed"
}

both_are_refused() { refused "$(cat "$STATE/run/first-minted")" && refused "$(cat "$STATE/run/first-of-pod")"; }

# pods_start_until AGE WHAT COMMAND...: one meshed pod after another, each judged, until COMMAND succeeds, which it has to
# before the pod's first token has this age in seconds.
pods_start_until() {
  local age=$1 what=$2 born n=0
  shift 2
  born=$(claim "$(cat "$STATE/run/first-of-pod")" .iat)
  until "$@"; do
    if [ $(($(date +%s) - born)) -gt "$age" ]; then echo "not within $age s: $what"; return 1; fi
    n=$((n + 1))
    make_pod "token-$n" meshed >/dev/null
    ready "token-$n" >/dev/null
    goes_through_proxy "token-$n"
    same "" "$(refusals "token-$n")" "token-$n, refusals"
    remove "token-$n" >/dev/null
  done
  echo "note: $n pods started meanwhile, none failed"
}
