# shellcheck shell=bash
# Cases: each a function whose every command has to succeed. One line per case, a table of all at the end. Needs report.sh.

table=()

# run_case TITLE FUNCTION [ARGS...]: in a subshell, so that one case's variables and failure stay its own. What it said is shown
# when it fails, and which command was the first to.
run_case() {
  local title=$1 begun seconds status=0 said=$STATE/run/case
  shift
  begun=$(clock)
  # Not in a condition: there `set -e` would be ignored, and a failed step would go unnoticed.
  set +e
  trap - ERR
  (
    set -Ee
    trap 'echo "failed: $BASH_COMMAND (line $LINENO)"' ERR
    "$@"
  ) >"$said" 2>&1
  status=$?
  set -e
  seconds=$(awk -v ms="$(since "$begun")" 'BEGIN { printf "%.1f", ms / 1000 }')
  if [ "$status" -eq 0 ]; then
    pass "$title" "$(since "$begun")"
    sed -n 's/^note: /                  /p' "$said"
    table+=("pass|$seconds|$title")
  else
    fail "$title" "$(since "$begun")"
    tail -n 15 "$said" | sed 's/^/                  /'
    table+=("FAIL|$seconds|$title")
  fi
}

# same WANTED SEEN WHAT
same() {
  [ "$1" = "$2" ] || { printf '%s: wanted "%s", saw "%s"\n' "$3" "$1" "$2"; return 1; }
}

# show_table: result, seconds, case. With ROWS set they go to that file instead, for who shows the tables of several runs.
show_table() {
  if [ -n "${ROWS:-}" ]; then
    printf '%s\n' "${table[@]}" >>"$ROWS"
  else
    printf '\n'
    printf '%s\n' "${table[@]}" | awk -F'|' '{ printf "%-4s %7s s  %s\n", $1, $2, $3 }'
  fi
}
