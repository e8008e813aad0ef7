# shellcheck shell=bash
# Programs built from Go modules, kept in target/tools: only the first run builds. Each folder there is that of a module
# in tests/e2e/tools, which pins what is in it: Kubernetes, Kubernetes 1.34 below it, containerd 2 and its plugins. Those
# that can be built by name and version alone are pinned here: cnitool, because the tests need it and nothing of Kubernetes
# (with the newest libcni, and with the oldest that hands CNI_ARGS on and that Go still builds), and helm, whose own
# requirements do not go together with the others'.

KUBERNETES_HERE=1.36     # what tests/e2e/tools/go.mod pins: the one that runs use unless told otherwise

declare -A BY_VERSION=(
  [cnitool]=github.com/containernetworking/cni/cnitool@v1.3.0
  [cnitool-oldest]=github.com/containernetworking/cni/cnitool@v0.6.0
  [crictl]=sigs.k8s.io/cri-tools/cmd/crictl@v1.34.0
  [helm]=helm.sh/helm/v3/cmd/helm@v3.22.0
)

CARGO_DENY=0.20.2

# need_cargo_deny: built from crates.io, once; it takes some minutes.
need_cargo_deny() {
  [ "$("$TOOLS/cargo-deny/bin/cargo-deny" --version 2>/dev/null)" != "cargo-deny $CARGO_DENY" ] || return 0
  echo "building cargo-deny, once"
  cargo install --quiet --locked cargo-deny --version "$CARGO_DENY" --root "$TOOLS/cargo-deny"
}

# kubernetes_folder VERSION: of the programs of that release.
kubernetes_folder() {
  if [ "$1" = "$KUBERNETES_HERE" ]; then
    echo "$TOOLS"
  elif [ -n "$1" ] && [ -d "$ROOT/tests/e2e/tools/kubernetes-$1" ]; then
    echo "$TOOLS/kubernetes-$1"
  else
    echo "no Kubernetes \"$1\" here: $KUBERNETES_HERE, or one that tests/e2e/tools has a folder for" >&2
    return 1
  fi
}

# need_tools DIRECTORY NAME...: build into DIRECTORY what is not there yet.
need_tools() {
  local into=$1 name
  shift
  for name in "$@"; do
    [ -x "$into/$name" ] || build_tool "$into" "$name"
  done
}

# build_tool DIRECTORY NAME: into a folder beside it first, so that half a build is never found there.
build_tool() {
  local into=$1 name=$2
  command -v go >/dev/null || { echo "building $name needs Go 1.26 or later on the PATH" >&2; return 1; }
  echo "building $name, once"
  mkdir -p "$into/.new"
  if [ -n "${BY_VERSION[$name]:-}" ]; then
    CGO_ENABLED=0 GOBIN=$into/.new go install -ldflags='-s -w' "${BY_VERSION[$name]}"
  else
    build_kubernetes "$into" "$name"
  fi
  mv "$into/.new/${name%-oldest}" "$into/$name"
}

# build_kubernetes DIRECTORY NAME: one of the tools of that folder's module, by the last part of its path.
build_kubernetes() (
  cgo=0
  cd "$ROOT/tests/e2e/tools${1#"$TOOLS"}" || exit
  version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
  minor=${version#v1.}
  # The kubelet's user lookup and plugins want the C library; all others are static.
  [ "$2" != kubelet ] || cgo=1
  # Without a version of its own kube-apiserver would call itself v0.0.0 and refuse to emulate any release.
  CGO_ENABLED=$cgo GOBIN=$1/.new go install -ldflags="-s -w \
    -X k8s.io/component-base/version.gitVersion=$version \
    -X k8s.io/component-base/version.gitMajor=1 \
    -X k8s.io/component-base/version.gitMinor=${minor%%.*}" "$(go list -f '{{.ImportPath}}' tool | grep "/$2\$")"
)

# need_containerd2 DIRECTORY: all of that module.
need_containerd2() (
  [ ! -x "$1/containerd" ] || return 0
  echo "building containerd 2 and its CNI plugins, once"
  cd "$ROOT/tests/e2e/tools/containerd2" || exit
  mkdir -p "$1.new"
  for package in $(go list -f '{{.ImportPath}}' tool); do
    CGO_ENABLED=0 GOBIN=$1.new go install -ldflags='-s -w' "$package"
  done
  mv "$1.new" "$1"
)
