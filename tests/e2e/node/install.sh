# shellcheck shell=bash
# Our chart put on the node, as its users do it.
# shellcheck disable=SC2034,SC2154 # variables that functions of lib/ read and set

install() {
  heading "Our image and our chart"
  before=$(picture)
  run_case "a pod without a mesh runs before anything of ours is there" plain_pod
  run_case "scripts/image makes the same archive twice, and containerd takes it" image_is_reproducible
  run_case "the image is what installer/Dockerfile says" image_is_the_dockerfiles
  run_case "helm lint, and a server-side dry run of both modes" chart_is_accepted
  run_case "values that mean nothing are refused, each by its name" bad_values_are_refused
  run_case "helm install: the DaemonSet gets ready, and our entry is in the chain" chart_installs
  run_case "containerd has been woken: the chain it has loaded is the one with our entry" chain_is_loaded
  run_case "what PodMonitor and ServiceMonitor select leads to the installer's metrics" monitors_lead_to_metrics
  run_case "what is on the node is for root only, and no token is in a conflist" files_are_private
  run_case "both tokens, the pod's and the plugin's, are for the API server and nothing else" tokens_have_one_audience
}

plain_pod() {
  make_pod before plain
  ready before
  is_plain before
  remove before
}

image_is_reproducible() {
  "$ROOT/scripts/image" --name "$OUR_IMAGE:e2e" --output "$STATE/images/one.tar"
  "$ROOT/scripts/image" --name "$OUR_IMAGE:e2e" --output "$STATE/images/two.tar"
  cmp "$STATE/images/one.tar" "$STATE/images/two.tar"
  import_image "$STATE/images/one.tar"
  echo "note: $(stat -c %s "$STATE/images/one.tar") bytes"
}

# image_is_the_dockerfiles: files, entry and version; no engine is here to build the other one.
image_is_the_dockerfiles() {
  local recipe=$ROOT/installer/Dockerfile manifest version
  version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$ROOT/Cargo.toml" | head -n 1)
  manifest=$(tar -xOf "$STATE/images/one.tar" ./index.json | jq -r '.manifests[0].digest')
  same "$(awk '/^COPY --from=build/ { print "." $NF }' "$recipe" | sort)" \
    "$(blob "$(blob "$manifest" | jq -r '.layers[0].digest')" | tar -t | grep -v '/$' | sort)" "files"
  same "$(sed -n 's/^ENTRYPOINT //p' "$recipe")" \
    "$(blob "$(blob "$manifest" | jq -r .config.digest)" | jq -c .config.Entrypoint)" "entry"
  same "$version" "$(sed -n 's/^ARG VERSION=//p' "$recipe")" "version in the Dockerfile"
  same "$version" "$(sed -n 's/^appVersion: *"\{0,1\}\([^"]*\)"\{0,1\}$/\1/p' "$ROOT/installer/chart/Chart.yaml")" "version in the chart"
}

# blob DIGEST: of the archive.
blob() { tar -xOf "$STATE/images/one.tar" "./blobs/sha256/${1#sha256:}"; }

chart_is_accepted() {
  local mode
  helm lint "$ROOT/installer/chart"
  kubectl create namespace "$RELEASE_NAMESPACE"
  for mode in watch init; do
    helm template "$RELEASE" "$ROOT/installer/chart" --namespace "$RELEASE_NAMESPACE" --kube-version "$(cluster_version)" \
      --set mode=$mode --set pauseImage=localhost/pause:1 --set flowSchema.enabled=true --set repairController.enabled=true \
      --set 'linkedNetDirs={/usr/lib/cni}' |
      kubectl apply --dry-run=server -f -
  done
}

bad_values_are_refused() {
  local value
  for value in proxyUid=2102 inboundProxyPort=0 mode=other ignoreInboundPorts=80- token.expirationSeconds=60 \
    serviceMonitor.interval=soon repairController.resultsDir=cni linkedNetDirs=usr; do
    if helm template x "$ROOT/installer/chart" --kube-version "$(cluster_version)" --set "$value" >"$STATE/run/refused" 2>&1; then
      echo "$value was taken"
      return 1
    fi
    grep -q "${value%%=*}\|$(tr . / <<<"${value%%=*}")" "$STATE/run/refused"
  done
}

chart_installs() {
  cp -p "$NET_DIR/10-node.conflist" "$STATE/run/neighbours.conflist"
  install_chart
  in_chain
}

# chain_is_loaded: now, and again after a neighbour's rename in the directory has thrown us out. The time is a bound, for a
# watch that does not wake would leave it out for ever.
chain_is_loaded() {
  wait_for 5 "containerd has loaded our entry" has_loaded bridge,portmap,linkerd-cni
  cp -p "$STATE/run/neighbours.conflist" "$NET_DIR/neighbour.tmp"
  mv "$NET_DIR/neighbour.tmp" "$NET_DIR/10-node.conflist"
  wait_for 5 "our entry is back" in_chain
  wait_for 5 "containerd has loaded it again" has_loaded bridge,portmap,linkerd-cni
}

# monitors_lead_to_metrics: followed as the Prometheus operator follows them.
monitors_lead_to_metrics() {
  local selector address port service
  kubectl apply -f "$ROOT/tests/e2e/monitors.yaml"
  kubectl wait crd/{pod,service}monitors.monitoring.coreos.com --for=condition=Established --timeout=30s
  install_chart --set podMonitor.enabled=true --set serviceMonitor.enabled=true --set serviceMonitor.labels.release=prometheus
  selector=$(in_release get podmonitor "$RELEASE" -o json | jq -er "$LABELS")
  port=$(in_release get podmonitor "$RELEASE" -o jsonpath='{.spec.podMetricsEndpoints[0].port}')
  address=$(in_release get pods -l "$selector" -o json |
    jq -er --arg port "$port" '.items[0] | "\(.status.podIP):\(.spec.containers[].ports[] | select(.name == $port).containerPort)"')
  serves_metrics "$address"
  selector=$(in_release get servicemonitors -l release=prometheus -o json | jq -er ".items[0] | $LABELS")
  port=$(in_release get servicemonitor "$RELEASE" -o jsonpath='{.spec.endpoints[0].port}')
  service=$(in_release get services -l "$selector" -o name)
  wait_for 20 "the Service's endpoints are known" endpoint_of "$service" "$port"
  serves_metrics "$(endpoint_of "$service" "$port")"
  install_chart
  same "" "$(in_release get services -o name)" "the Service, when nobody asks for it"
  same "" "$(monitored_ports --set mode=init)" "monitors in mode init, where nothing listens"
  same "admin-http admin-http" "$(monitored_ports --set mode=init --set repairController.enabled=true)" \
    "monitors in mode init, where only the repair controller listens"
}

# monitored_ports ARGS...: of both monitors, as the chart with these values has them.
monitored_ports() {
  helm template x "$ROOT/installer/chart" --kube-version "$(cluster_version)" --set podMonitor.enabled=true \
    --set serviceMonitor.enabled=true --set pauseImage=x "$@" | sed -n 's/^ *port: //p' | xargs
}

in_release() { kubectl -n "$RELEASE_NAMESPACE" "$@"; }

# A monitor's selector as kubectl takes it.
LABELS='.spec.selector.matchLabels | to_entries | map("\(.key)=\(.value)") | join(",")'

# endpoint_of SERVICE PORT-NAME
endpoint_of() {
  in_release get endpointslices -l "kubernetes.io/service-name=${1#service/}" -o json |
    jq -er --arg port "$2" '.items[0] | "\(.endpoints[0].addresses[0]):\(.ports[] | select(.name == $port).port)"'
}

serves_metrics() { curl -fsS -m 5 "http://$1/metrics" | grep '^evergreen_install_'; }

files_are_private() {
  same "" "$(find "$NET_DIR" -newer "$STATE/kubelet/config.yaml" -type f -perm /077)" "files others may read"
  same "" "$(grep -l eyJhbGci "$NET_DIR"/*.conflist || true)" "conflists with a token"
  same "system:serviceaccount" "$(claim "$(host_token)" .sub | cut -d: -f1,2)" "subject of the token on the node"
  echo "note: $(claim "$(host_token)" .sub), $(claim "$(host_token)" '.["kubernetes.io"] | keys - ["namespace"] | join(", ")')"
}

# tokens_have_one_audience: TokenReview says what they are good for.
tokens_have_one_audience() {
  local token
  for token in "$(host_token)" "$(cat "$(volume_token "$RELEASE")")"; do
    same true "$(review "$token" '[]')" "authenticated for the API server"
    same false "$(review "$token" '["vault"]')" "authenticated for another audience"
  done
  same '["vault"]' "$(helm template x "$ROOT/installer/chart" --kube-version "$(cluster_version)" --set token.audience=vault |
    sed -n 's/^ *audience: \(.*\)/["\1"]/p')" "the volume's audience, when it is set"
}

# review TOKEN AUDIENCES
review() {
  api POST /apis/authentication.k8s.io/v1/tokenreviews \
    "{\"apiVersion\":\"authentication.k8s.io/v1\",\"kind\":\"TokenReview\",\"spec\":{\"token\":\"$1\",\"audiences\":$2}}" |
    jq -r '.status.authenticated // false'
}
