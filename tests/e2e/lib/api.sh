# shellcheck shell=bash
# Talking to the API server: as the administrator, and as whoever holds a token. Needs cluster.sh.

# kubectl ARGS...: as the administrator.
kubectl() { "$KUBERNETES/kubectl" --kubeconfig "$STATE/pki/admin.kubeconfig" "$@"; }

# api METHOD PATH [BODY]: as the administrator; prints the answer, fails unless it is a success.
api() {
  curl -sS --fail-with-body -m 10 -X "$1" --cacert "$STATE/pki/trust.crt" \
    --cert "$STATE/pki/admin.crt" --key "$STATE/pki/admin.key" \
    -H 'Content-Type: application/json' "$API_URL$2" ${3:+-d "$3"}
}

# uid_of PATH: the uid of an object.
uid_of() { api GET "$1" | jq -er .metadata.uid; }

# answer_to TOKEN PATH: the HTTP status a holder of TOKEN gets. The token goes in by stdin: a command line is public.
answer_to() {
  printf 'header = "Authorization: Bearer %s"\n' "$1" |
    curl -s -m 10 -K - -o /dev/null -w '%{http_code}' --cacert "$STATE/pki/trust.crt" "$API_URL$2" || true
}

# mint NAMESPACE ACCOUNT SPEC: a token by TokenRequest, with SPEC as the request's spec.
mint() {
  api POST "/api/v1/namespaces/$1/serviceaccounts/$2/token" \
    "{\"apiVersion\":\"authentication.k8s.io/v1\",\"kind\":\"TokenRequest\",\"spec\":$3}" | jq -er .status.token
}

# bound_to KIND NAME UID [SECONDS]: the spec of a token that lives as long as that object does, at most.
bound_to() {
  printf '{"expirationSeconds":%d,"boundObjectRef":{"apiVersion":"v1","kind":"%s","name":"%s","uid":"%s"}}' \
    "${4:-3600}" "$1" "$2" "$3"
}

# claim TOKEN JQ-PATH: one of the token's claims. header TOKEN JQ-PATH: a field of its header.
claim() { segment "$1" 2 | jq -r "$2"; }
header() { segment "$1" 1 | jq -r "$2"; }

# segment TOKEN NUMBER: one of its parts, decoded.
segment() {
  local text
  text=$(cut -d. -f"$2" <<<"$1" | tr '_-' '/+')
  while [ $((${#text} % 4)) -ne 0 ]; do text+='='; done
  base64 -d <<<"$text"
}

# stale_tokens: how often the server has seen a token past the moment it should have been renewed by, since it started.
stale_tokens() {
  api GET /metrics | awk '$1 == "serviceaccount_stale_tokens_total" { n = $2 } END { print n + 0 }'
}
