# shellcheck shell=bash
# Our own programs, as they are shipped: the static release binaries of scripts/build, and the probe built the same way.

# need_binaries DIRECTORY: evergreen-cni, evergreen-install and evergreen-e2e-probe in DIRECTORY.
need_binaries() {
  local triple
  triple=$(rustc -vV | sed -n 's/host: //p')
  "$ROOT/scripts/build"
  # An explicit target keeps the static flags away from build scripts and macros, which cannot be static.
  (
    cd "$ROOT" || exit
    CARGO_TARGET_DIR=$ROOT/target/probe RUSTFLAGS='-C target-feature=+crt-static' \
      cargo build --quiet --release --locked --target "$triple" -p evergreen-e2e-probe
  )
  install -m 755 "$ROOT/target/probe/$triple/release/evergreen-e2e-probe" "$1/"
}
