# shellcheck shell=bash
# Certificates and keys of a cluster, by openssl, all in $STATE/pki: authorities that can follow one another, what
# they issue, and the keys service account tokens are signed with.

# authority NAME: NAME.crt and NAME.key.
authority() {
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj "/CN=$1" \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign \
    -keyout "$STATE/pki/$1.key" -out "$STATE/pki/$1.crt" 2>/dev/null
}

# issue AUTHORITY NAME SUBJECT USAGE [ALTNAMES]: USAGE is serverAuth or clientAuth.
issue() {
  local ca=$1 name=$2 subject=$3 usage=$4 names=${5:-} dir=$STATE/pki
  {
    echo "keyUsage=critical,digitalSignature"
    echo "extendedKeyUsage=$usage"
    [ -z "$names" ] || echo "subjectAltName=$names"
  } >"$dir/$name.ext"
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "$subject" \
    -keyout "$dir/$name.key" -out "$dir/$name.csr" 2>/dev/null
  openssl x509 -req -in "$dir/$name.csr" -CA "$dir/$ca.crt" -CAkey "$dir/$ca.key" -CAcreateserial -days 3650 \
    -extfile "$dir/$name.ext" -out "$dir/$name.crt" 2>/dev/null
  rm "$dir/$name.csr" "$dir/$name.ext"
}

# signing_key NAME: a key pair for service account tokens.
signing_key() {
  openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out "$STATE/pki/$1.key" 2>/dev/null
  openssl pkey -in "$STATE/pki/$1.key" -pubout -out "$STATE/pki/$1.pub"
}

# client_kubeconfig NAME SERVER AUTHORITY-FILE: for the certificate NAME.
client_kubeconfig() {
  local dir=$STATE/pki
  cat >"$dir/$1.kubeconfig" <<END
apiVersion: v1
kind: Config
clusters: [{name: cluster, cluster: {server: "$2", certificate-authority: "$3"}}]
users: [{name: user, user: {client-certificate: "$dir/$1.crt", client-key: "$dir/$1.key"}}]
contexts: [{name: context, context: {cluster: cluster, user: user}}]
current-context: context
END
}
