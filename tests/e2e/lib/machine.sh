# shellcheck shell=bash
# What a machine needs before anything runs on it: root, packages, tools, our own programs. Outside the sandbox.

ROOT=${ROOT:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)}
TOOLS=$ROOT/target/tools
DIST=${EVERGREEN_DIST:-$ROOT/target/dist}
export ROOT TOOLS DIST
for part in report ground packages tools; do
  # shellcheck source=/dev/null
  . "$ROOT/tests/e2e/lib/$part.sh"
done

need_root() {
  [ "$(id -u)" -eq 0 ] || { echo "${0##*/} makes network namespaces: it has to run as root" >&2; exit 1; }
}

# need_languages: what no package of Debian 12 is new enough for.
need_languages() {
  command -v cargo >/dev/null || { echo "missing: cargo 1.95 or later (https://rustup.rs), on the PATH" >&2; exit 1; }
  command -v go >/dev/null || { echo "missing: go 1.26 or later (https://go.dev/doc/install), on the PATH" >&2; exit 1; }
}

# need_machine: root, and the packages every run needs.
need_machine() {
  need_root
  need_languages
  need_packages nft:nftables ip:iproute2 ss:iproute2 jq:jq openssl:openssl curl:curl iptables:iptables cc:gcc \
    nsenter:util-linux setpriv:util-linux sysctl:procps /usr/lib/cni/bridge:containernetworking-plugins
}

# build_ours PACKAGE...: as they are shipped; EVERGREEN_DIST names a folder that has them already.
build_ours() {
  [ -n "${EVERGREEN_DIST:-}" ] || "$ROOT/scripts/build" "$@"
}
