# shellcheck shell=bash
# A node's CNI chain run by cnitool, as a container runtime runs it: bridge with host-local, portmap, and
# after them whatever an installer has put into the list. Needs report.sh and ground.sh.

NODE=$STATE/node
BIN_DIR=$NODE/opt/cni/bin
NET_DIR=$NODE/etc/cni/net.d
PRIMARY=$STATE/run/primary.conflist     # the primary CNI's own list, as it writes it
CHAIN=node-net
# Debian's plugins speak 1.0.0; those built with containerd 2 speak 1.1.0, whose runtimes ask for STATUS.
PLUGINS=${CONTAINERD2:-/usr/lib/cni}
CNI_VERSION=$([ -z "${CONTAINERD2:-}" ] && echo 1.0.0 || echo 1.1.0)

# make_node: the directories of a node that has a primary CNI and nothing else.
make_node() {
  rm -rf "$NODE"
  mkdir -p "$BIN_DIR" "$NET_DIR"
  cp "$PLUGINS"/{bridge,host-local,portmap,loopback} "$BIN_DIR/"
  cat >"$NET_DIR/10-node.conflist" <<END
{
  "cniVersion": "$CNI_VERSION",
  "name": "$CHAIN",
  "plugins": [
    {"type": "bridge", "bridge": "node0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
     "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.99.77.0/24"}]],
              "routes": [{"dst": "0.0.0.0/0"}], "dataDir": "$STATE/ipam"}},
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
END
  chmod 600 "$NET_DIR/10-node.conflist"
  cp -p "$NET_DIR/10-node.conflist" "$PRIMARY"
}

# primary_writes FILE: the primary CNI replaces its list by FILE, without our entry.
primary_writes() {
  cp -p "$1" "$NET_DIR/.primary"
  mv "$NET_DIR/.primary" "$NET_DIR/10-node.conflist"
}

# picture: every file, link and folder below the node with mode, owner and digest: to compare before and after.
picture() {
  (
    cd "$NODE" || exit
    find . -printf '%y %m %U:%G %p %l\n' | sort -k 4
    find . -type f -print0 | sort -z | xargs -0 sha256sum
  )
}

# as_before: whether the node is as it was when `before` was set to its picture.
# shellcheck disable=SC2154 # set by the part
as_before() { diff <(echo "$before") <(picture); }

# cni VERB POD: one call of the chain for POD of namespace default, whose network namespace has its name.
# Sets `took` (milliseconds), `reply` (stdout) and `complaint` (stderr); its exit code is cnitool's.
# The runtime's annotations are left out on purpose: the API server has to be asked, so a dead credential shows.
# shellcheck disable=SC2034 # all three are for the caller
cni() {
  local verb=$1 pod=$2 begun status=0
  begun=$(clock)
  reply=$(CNI_PATH=$BIN_DIR NETCONFPATH=$NET_DIR \
    CNI_ARGS="IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=$pod;K8S_POD_INFRA_CONTAINER_ID=$pod" \
    "$TOOLS/cnitool" "$verb" "$CHAIN" "/run/netns/$pod" 2>"$STATE/run/$pod.complaint") || status=$?
  took=$(since "$begun")
  complaint=$(cat "$STATE/run/$pod.complaint")
  return "$status"
}

# address_of_reply: the pod's address, from the last `reply`.
address_of_reply() { jq -er '.ips[0].address | split("/")[0]' <<<"$reply"; }
