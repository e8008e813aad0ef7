# shellcheck shell=bash
# What a run says: one short line for each thing seen, and the totals. Touches nothing but stdout and its own counters.

passed=0
failed=0

# heading TEXT: what happens next.
heading() { printf '\n%s\n' "$1"; }

# pass TEXT [MILLISECONDS] / fail TEXT [MILLISECONDS]: one line, counted.
pass() {
  passed=$((passed + 1))
  printf '  ok    %8s  %s\n' "${2:+$2 ms}" "$1"
}

fail() {
  failed=$((failed + 1))
  printf '  FAIL  %8s  %s\n' "${2:+$2 ms}" "$1"
}

# expect WANTED SEEN TEXT [MILLISECONDS]: passes when both are the same; a failure shows both. A wanted number is shown.
expect() {
  if [ "$1" = "$2" ]; then
    if [[ $1 =~ ^[0-9]+$ ]]; then pass "$3: $1" "${4:-}"; else pass "$3" "${4:-}"; fi
  else
    fail "$3: wanted '$1', saw '$2'" "${4:-}"
  fi
}

# totals: the last line, and the verdict as exit code.
totals() {
  printf '\n%d passed, %d failed\n' "$passed" "$failed"
  [ "$failed" -eq 0 ]
}

# clock: microseconds, to measure with. since CLOCK: milliseconds gone by.
clock() { echo "${EPOCHREALTIME/[.,]/}"; }
since() { echo $((($(clock) - $1) / 1000)); }
