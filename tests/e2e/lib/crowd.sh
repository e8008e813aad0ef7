# shellcheck shell=bash
# A crowd of callers in the background, what the API server counts meanwhile, and many ADDs at once. Needs cluster.sh,
# api.sh, chain.sh and pods.sh; $CROWD_DIR is a folder of its own for all of it.
# shellcheck disable=SC2154 # what `cni` sets

CROWD=$DIST/evergreen-e2e-crowd
CROWD_DIR=$STATE/crowd
# More of them than any priority level serves and queues of one flow together.
CALLERS=1000

# crowd_asks ACCOUNT NAMESPACE [ARGS...]: the holder of ACCOUNT's token, very many times over, wants the large pod of
# NAMESPACE and takes three seconds to read it; who is sent away comes back after one, whatever it was told.
crowd_asks() {
  crowd_program "$1" "/api/v1/namespaces/$2/pods/large?resourceVersion=0" --callers "$CALLERS" --apart 3 \
    --hold 3000 --pause 1000 >"$CROWD_DIR/report" 2>>"$STATE/logs/crowd.log" &
  crowd_job=$!
}

# crowd_program ACCOUNT PATH ARGS...: until the crowd is to go.
crowd_program() {
  local account=$1 path=$2
  shift 2
  rm -f "$CROWD_DIR/over"
  "$CROWD" --server "$NODE_IP:$API_PORT" --ca "$STATE/pki/trust.crt" --token "$CROWD_DIR/$account.token" \
    --path "$path" --until "$CROWD_DIR/over" "$@"
}

# crowd_goes: and leaves its report.
crowd_goes() {
  touch "$CROWD_DIR/over"
  wait "$crowd_job" || fail "the crowd broke down: see crowd.log"
}

# reported JQ-PATH: what the crowd says of itself.
reported() { jq -r "$1" "$CROWD_DIR/report"; }

# counted METRIC LABELS: one of the server's apiserver_flowcontrol_* figures, summed over what LABELS (text of the line) fits;
# 0 when there is none yet.
counted() {
  api GET /metrics | awk -v name="apiserver_flowcontrol_$1{" -v labels="$2" \
    'index($0, name) == 1 && index($0, labels) { n += $NF } END { printf "%d\n", n }'
}

# mean_wait SCHEMA: milliseconds between a request's arrival and its seat, of all of that FlowSchema that were served so far.
mean_wait() {
  api GET /metrics | awk -v name=apiserver_flowcontrol_request_wait_duration_seconds_ \
    -v labels="{execute=\"true\",flow_schema=\"$1\"," '
    index($0, name "sum" labels) { sum += $NF }
    index($0, name "count" labels) { count += $NF }
    END { printf "%.0f\n", count ? 1000 * sum / count : 0 }'
}

# at_least NUMBER METRIC LABELS: for waiting.
at_least() { [ "$(counted "$2" "$3")" -ge "$1" ]; }

# flow_is_full SCHEMA: the 6 queues of 50 that are dealt to one flow hold all they can, and some were sent away.
flow_is_full() {
  at_least 295 current_inqueue_requests "flow_schema=\"$1\"" &&
    at_least 100 rejected_requests_total "flow_schema=\"$1\""
}

# adds_at_once COUNT: ADD of as many meshed pods, all at the same time. Sets `fine`, `median` and `slowest` (milliseconds of the
# whole chain), `refused` (429s that ADDs have met which went well after all) and `words` (of each that failed, a line).
# shellcheck disable=SC2034 # for the caller
adds_at_once() {
  local n jobs=() times
  rm -f "$CROWD_DIR"/add-* "$CROWD_DIR"/words-*
  for n in $(seq "$1"); do ip netns add "pod-$n"; done
  for n in $(seq "$1"); do
    one_of_many "pod-$n" &
    jobs+=($!)
  done
  wait "${jobs[@]}"
  mapfile -t times < <(sort -n "$CROWD_DIR"/add-*)
  median=${times[${#times[@]} / 2]}
  slowest=${times[-1]}
  words=$(cat "$CROWD_DIR"/words-* 2>/dev/null || true)
  fine=$(($1 - $(grep -c . <<<"$words" || true)))
  refused=$(cat "$STATE"/run/pod-*.complaint | grep -c class=TooManyRequests || true)
  jobs=()
  for n in $(seq "$1"); do
    end_of_many "pod-$n" &
    jobs+=($!)
  done
  wait "${jobs[@]}"
}

# one_of_many POD: its ADD, then how long it took and, when it failed or there are no rules, why. In a subshell.
one_of_many() {
  if ! cni add "$1"; then
    tr '\n' ' ' <<<"$1: $complaint $reply" >"$CROWD_DIR/words-$1"
  elif [ "${MESHED:-yes}" = yes ] && [ -z "$(inside "$1" nft list tables)" ]; then
    echo "$1: ADD succeeded, but there are no rules" >"$CROWD_DIR/words-$1"
  fi
  [ ! -e "$CROWD_DIR/words-$1" ] || echo >>"$CROWD_DIR/words-$1"
  echo "$took" >"$CROWD_DIR/add-$1"
}

end_of_many() {
  cni del "$1" || fail "DEL of $1: $complaint"
  ip netns del "$1"
}
