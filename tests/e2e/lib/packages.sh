# shellcheck shell=bash
# Debian packages a run needs. Installs what is missing, and only that.

# need_packages COMMAND:PACKAGE...: a command may be a path (plugins are not on the PATH).
need_packages() {
  local pair missing=()
  for pair in "$@"; do
    command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  echo "installing: ${missing[*]}"
  command -v apt-get >/dev/null || { echo "no apt-get here: please install ${missing[*]}" >&2; return 1; }
  apt-get update -qq
  # The services that come with some of them are not wanted: each run starts its own.
  RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}
