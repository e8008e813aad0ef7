# shellcheck shell=bash
# Programs built from Go modules, at the versions pinned in tests/e2e/tools/go.mod, and helm, whose own requirements
# do not go together with those. They are kept in target/tools: only the first run builds.

HELM=helm.sh/helm/v3/cmd/helm@v3.22.0

# need_tools DIRECTORY NAME...: build into DIRECTORY what is not there yet.
need_tools() {
  local into=$1 name
  shift
  for name in "$@"; do
    [ -x "$into/$name" ] || build_tool "$into" "$name"
  done
}

# build_tool DIRECTORY NAME: names the module's tool by the last part of its path.
build_tool() (
  into=$1 name=$2 cgo=0
  command -v go >/dev/null || { echo "building $name needs Go 1.26 or later on the PATH" >&2; return 1; }
  cd "$ROOT/tests/e2e/tools" || exit
  if [ "$name" = helm ]; then package=$HELM; else package=$(go list -f '{{.ImportPath}}' tool | grep "/$name\$"); fi
  version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
  minor=${version#v1.}
  # The kubelet's user lookup and plugins want the C library; all others are static.
  [ "$name" != kubelet ] || cgo=1
  echo "building $name from $package, once"
  mkdir -p "$into/.new"
  # Without a version of its own kube-apiserver would call itself v0.0.0 and refuse to emulate any release.
  CGO_ENABLED=$cgo GOBIN=$into/.new go install -ldflags="-s -w \
    -X k8s.io/component-base/version.gitVersion=$version \
    -X k8s.io/component-base/version.gitMajor=1 \
    -X k8s.io/component-base/version.gitMinor=${minor%%.*}" "$package"
  mv "$into/.new/$name" "$into/$name"
)
