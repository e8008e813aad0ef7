# shellcheck shell=bash
# Very many callers at once in front of a real API server with its own priority and fairness, until it answers 429; and
# pods that start meanwhile. The plugins of all nodes are one user, so each crowd here asks as one.
#
# The identities, rights and FlowSchema are the chart's. What keeps a seat of the server is a slow reader of a large pod:
# so a small machine shows what else takes thousands of nodes.
# shellcheck disable=SC2034,SC2154 # variables that functions of lib/ read and set

# shellcheck source=tests/e2e/lib/crowd.sh
. "$ROOT/tests/e2e/lib/crowd.sh"

ADDS=30
# In seconds; the plugin's default.
ADD_DEADLINE=10
# What the injector writes: then the pod alone says all, and the namespace is not asked for.
MESHED_POD='{"linkerd.io/created-by": "linkerd/proxy-injector edge", "linkerd.io/proxy-version": "edge"}'

crowd() {
  crowd_setting
  cost_of_a_get
  crowd_of_our_own
  crowd_of_another
  flow_schema_is_installed
  crowd_of_another
  crowd_for_another_namespace
}

crowd_setting() {
  local number
  heading "A node with the plugin and the chart's identities; pods"
  make_node
  mkdir "$CROWD_DIR"
  ulimit -n 20000
  # So that a slow reader is felt after some kilobytes and not after megabytes; in this network namespace only.
  sysctl -qw net.ipv4.tcp_wmem='4096 16384 16384'
  {
    chart_part accounts.yaml rbac.yaml | kubectl apply -f -
    kubectl create namespace busy
    kubectl -n busy create serviceaccount default
    kubectl -n busy create serviceaccount crowd
    kubectl create clusterrolebinding crowd --clusterrole="$RELEASE-plugin" --serviceaccount=busy:crowd
  } >>"$STATE/logs/kubectl.log"
  mint busy crowd '{"expirationSeconds":3600}' >"$CROWD_DIR/another.token"
  mint "$RELEASE_NAMESPACE" "$RELEASE-plugin" '{"expirationSeconds":3600}' >"$CROWD_DIR/ours.token"
  issue first-ca kubelet "/O=system:nodes/CN=system:node:$NODE_NAME" clientAuth
  client_kubeconfig kubelet "$API_URL" "$STATE/pki/trust.crt"
  crowd_chain
  large_pod default
  large_pod busy
  for number in $(seq "$ADDS"); do pod_object "pod-$number" meshed "$MESHED_POD"; done
  adds_at_once "$ADDS"
  expect "" "$words" "$ADDS ADDs at once on a quiet server (median $median ms)" "$slowest"
}

# chart_part FILE...: these templates of our chart, the FlowSchema among them.
chart_part() {
  local name shown=()
  for name in "$@"; do shown+=(--show-only "templates/$name"); done
  helm template "$RELEASE" "$ROOT/installer/chart" --namespace "$RELEASE_NAMESPACE" --kube-version "$(cluster_version)" \
    --set flowSchema.enabled=true "${shown[@]}"
}

# crowd_chain: the plugin put into the chain by hand, with that token.
crowd_chain() {
  cp "$STATE/pki/admin.kubeconfig" "$CROWD_DIR/kubeconfig"
  "$KUBERNETES/kubectl" --kubeconfig "$CROWD_DIR/kubeconfig" config unset users >>"$STATE/logs/kubectl.log"
  "$KUBERNETES/kubectl" --kubeconfig "$CROWD_DIR/kubeconfig" config set users.user.tokenFile "$CROWD_DIR/ours.token" \
    >>"$STATE/logs/kubectl.log"
  cp "$DIST/evergreen-cni" "$BIN_DIR/linkerd-cni"
  jq --argjson ours "$NETCONF" --arg kubeconfig "$CROWD_DIR/kubeconfig" '.plugins += [$ours | .log_level = "debug"
    | .kubernetes.kubeconfig = $kubeconfig | .capabilities = {"io.kubernetes.cri.pod-annotations": true}]' \
    "$PRIMARY" >"$NET_DIR/10-node.conflist"
}

# large_pod NAMESPACE: more than the buffers between server and reader hold.
large_pod() {
  jq -n --arg namespace "$1" --arg node "$NODE_NAME" '{apiVersion: "v1", kind: "Pod",
    metadata: {name: "large", namespace: $namespace, annotations: {filler: ("x" * 60000)}},
    spec: {nodeName: $node, automountServiceAccountToken: false, containers: [{name: "app", image: "none"}]}}' |
    kubectl apply --server-side -f - >>"$STATE/logs/kubectl.log"
}

# cost_of_a_get: the processor time that one request as the plugin makes it takes of the server, and so how many it can answer.
cost_of_a_get() {
  local kind before each
  heading "What the server has to do for one GET of a pod"
  for kind in "--fresh" ""; do
    before=$(server_cpu)
    # shellcheck disable=SC2086 # an empty word is none
    crowd_program ours "/api/v1/namespaces/default/pods/pod-1?resourceVersion=0" --callers 20 --each 100 $kind \
      >"$CROWD_DIR/report"
    each=$((($(server_cpu) - before) * 10000 / 2000))
    expect 2000 "$(reported '.statuses["200"]')" "answers to 20 callers${kind:+, each on a connection of its own}"
    pass "one takes $each us of the server's CPU: $((2000000 / each)) a second on two cores"
  done
}

# server_cpu: hundredths of a second it has worked so far.
server_cpu() { awk '{ print $14 + $15 }' "/proc/$(cat "$STATE/run/apiserver.pid")/stat"; }

crowd_of_our_own() {
  local seats
  heading "A crowd under the plugin's own identity, as if all nodes asked at once"
  seats=$(counted current_limit_seats '"workload-low"')
  crowd_asks ours default
  wait_for 60 "429s of the flow that all plugins share" flow_is_full service-accounts
  export CAP_ARGS="{\"io.kubernetes.cri.pod-annotations\": $MESHED_POD}"
  adds_at_once "$ADDS"
  expect "" "$words" "$ADDS ADDs with the runtime's annotations: these decide (median $median ms)" "$slowest"
  CAP_ARGS='{"io.kubernetes.cri.pod-annotations": {"for": "nobody"}}' MESHED=no adds_at_once "$ADDS"
  expect "" "$words" "$ADDS ADDs of pods that are not meshed: they ask nothing (median $median ms)" "$slowest"
  unset CAP_ARGS
  adds_at_once "$ADDS"
  expect "" "$(sed '/429: Too many requests/d; /timed out after .* for the first byte/d; /^$/d' <<<"$words")" \
    "$ADDS ADDs without annotations: $fine right after $refused 429s, the others told that the server has too much to do"
  expect "" "$(sed -nE '/([5-9]|[0-9]{2,}) attempts/p' <<<"$words")" "none has asked more than four times"
  crowd_goes
  say_crowd "$seats" workload-low
}

# say_crowd SEATS LEVEL: how many there were when the server had enough.
say_crowd() {
  local first
  first=$(reported .asking_at_first_429)
  if [ "$first" -gt 300 ]; then
    pass "the first 429 came when $first were asking: 300 may queue, and $2 had $1 seats before the crowd and \
$(counted current_limit_seats "\"$2\"") at its end"
  else
    fail "the first 429 came when $first were asking: $(cat "$CROWD_DIR/report")"
  fi
  pass "it was given $(reported '.statuses["200"]') answers and $(reported '.statuses["429"]') 429s; Retry-After: \
$(reported '[.retry_after | to_entries | sort_by(.key | tonumber)[] | "\(.key) s (\(.value) times)"] | join(", ")')"
}

# crowd_of_another: somebody else asks too much; a pod of ours waits for a seat or, with the FlowSchema, does not.
crowd_of_another() {
  local schema=service-accounts
  [ -z "${WITH_FLOW_SCHEMA:-}" ] || schema=$RELEASE
  heading "A crowd under another identity, our requests classified by FlowSchema $schema"
  crowd_asks another busy
  wait_for 60 "429s for that crowd" flow_is_full service-accounts
  adds_at_once "$ADDS"
  expect "" "$words" "$ADDS ADDs without annotations, $refused 429s (median $median ms)" "$slowest"
  if [ "$schema" = "$RELEASE" ]; then
    expect 0 "$(counted rejected_requests_total "flow_schema=\"$schema\"")" "429s for our FlowSchema"
    pass "a request of ours waited for a seat, in mean: $(mean_wait "$schema") ms"
  fi
  crowd_goes
}

flow_schema_is_installed() {
  heading "The chart's FlowSchema"
  if chart_part flowschema.yaml | kubectl apply --dry-run=server -f - >>"$STATE/logs/kubectl.log" 2>&1; then
    pass "a server-side dry run takes it"
  else
    fail "a server-side dry run refuses it: see kubectl.log"
  fi
  chart_part flowschema.yaml | kubectl apply -f - >>"$STATE/logs/kubectl.log"
  wait_for 10 "the server classifies by it" classifies_ours
  WITH_FLOW_SCHEMA=yes
}

# classifies_ours: an answer names the schema it was classified by.
classifies_ours() {
  printf 'header = "Authorization: Bearer %s"\n' "$(cat "$CROWD_DIR/ours.token")" |
    curl -s -m 10 -K - -o /dev/null -D - --cacert "$STATE/pki/trust.crt" "$API_URL/api/v1/namespaces/default/pods/pod-1" |
    grep -i "^x-kubernetes-pf-flowschema-uid: $(uid_of "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/$RELEASE")"
}

# crowd_for_another_namespace: our own crowd again, for pods of one namespace: those of all others do not wait behind it.
crowd_for_another_namespace() {
  local seats
  heading "A crowd under the plugin's own identity, for pods of one namespace, with the FlowSchema"
  seats=$(counted current_limit_seats "\"$RELEASE\"")
  crowd_asks ours busy
  wait_for 60 "429s of that namespace's flow" flow_is_full "$RELEASE"
  adds_at_once "$ADDS"
  expect "" "$words" "$ADDS ADDs in another namespace, without annotations, $refused 429s (median $median ms)" "$slowest"
  if timeout 10 "$KUBERNETES/kubectl" --kubeconfig "$STATE/pki/kubelet.kubeconfig" get pod pod-1 >>"$STATE/logs/kubectl.log" 2>&1; then
    pass "the kubelet is served meanwhile; its requests waited for a seat, in mean: $(mean_wait system-nodes) ms"
  else
    fail "the kubelet is not served: see kubectl.log"
  fi
  crowd_goes
  say_crowd "$seats" "$RELEASE"
}
