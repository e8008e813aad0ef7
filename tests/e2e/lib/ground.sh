# shellcheck shell=bash
# The ground a run stands on: one folder for all state, a sandbox of namespaces around every process, and daemons
# started and stopped by pid. Only the folder and, for a kubelet, cgroups can outlive the sandbox.
#
# The sandbox has a process, mount and network namespace of its own. So ports cannot clash, nothing reaches the
# machine's rules, links or mounts, and the kernel itself ends everything when the first process in it ends,
# however that happens.

# sandbox SCRIPT ARGS...: run SCRIPT in a sandbox with a new state folder in $STATE; remove the folder afterwards.
# Its exit code is the script's. Called outside the sandbox.
sandbox() {
  local status=0
  STATE=$(mktemp -d "${TMPDIR:-/tmp}/evergreen-e2e.XXXXXX")
  export STATE
  # A kubelet sets these for the whole machine.
  kernel_settings=$(sysctl vm.overcommit_memory kernel.panic kernel.panic_on_oops)
  unshare --mount --net --pid --fork --kill-child=KILL --mount-proc bash "$@" &
  sandbox_pid=$!
  trap 'leave_sandbox; exit 130' INT
  trap 'leave_sandbox; exit 143' TERM
  trap 'leave_sandbox' EXIT
  # By this pid the sandbox can be entered from outside.
  wait_for 5 "the sandbox starts" first_process
  first_process >"$STATE/sandbox.pid"
  wait "$sandbox_pid" || status=$?
  trap - INT TERM EXIT
  leave_sandbox
  return "$status"
}

# leave_sandbox: end its first process (the kernel ends the others before that one is reaped), then remove the folder.
leave_sandbox() {
  local first
  trap - EXIT
  # A second signal must not end this half-way.
  trap '' INT TERM
  if first=$(first_process 2>/dev/null); then kill -KILL "$first" 2>/dev/null || true; fi
  wait "$sandbox_pid" 2>/dev/null || true
  release_cgroups
  [ "$kernel_settings" = "$(sysctl vm.overcommit_memory kernel.panic kernel.panic_on_oops)" ] ||
    sysctl --quiet --load - <<<"$kernel_settings"
  rm -rf "$STATE"
  trap - INT TERM
}

# first_process: its pid, seen from outside.
first_process() { tr -d ' ' <"/proc/$sandbox_pid/task/$sandbox_pid/children" | grep .; }

# release_cgroups: remove the control groups a kubelet of this run made, if it made any.
release_cgroups() {
  local name group
  name=${STATE##*/}
  for group in /sys/fs/cgroup/"$name" /sys/fs/cgroup/*/"$name"; do
    [ ! -d "$group" ] || find "$group" -depth -type d -exec rmdir {} + 2>/dev/null || true
  done
}

# settle: the first steps inside the sandbox. What programs keep in fixed places (sockets and namespaces below /run,
# results of libcni below /var/lib, logs of pods below /var/log) is kept in memory of the sandbox's own.
settle() {
  local place
  export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
  mkdir -p "$STATE"/{run,logs}
  for place in /run /var/lib /var/log; do mount -t tmpfs -o mode=755 sandbox "$place"; done
  mkdir /run/netns /run/lock
  ip link set lo up
  trap 'show_logs; echo "stopped at line $LINENO of ${BASH_SOURCE[0]}: $BASH_COMMAND"' ERR
}

# start NAME COMMAND...: a daemon with a clean environment; its output goes to logs/NAME.log.
start() {
  local name=$1
  shift
  env -i PATH="$PATH" HOME=/root "$@" >>"$STATE/logs/$name.log" 2>&1 </dev/null &
  # Not the shell's job any more: it would report how it ended.
  disown $!
  echo $! >"$STATE/run/$name.pid"
}

# alive NAME: whether it still runs.
alive() { [ -d "/proc/$(cat "$STATE/run/$1.pid")" ]; }

# signal NAME SIGNAL
signal() { kill "-$2" "$(cat "$STATE/run/$1.pid")"; }

# stop NAME [SIGNAL]: signal it and wait for its end; after 20 s it is killed.
stop() {
  local pid
  pid=$(cat "$STATE/run/$1.pid")
  kill "-${2:-TERM}" "$pid" 2>/dev/null || true
  timeout 20 tail --pid="$pid" -s 0.05 -f /dev/null || kill -KILL "$pid"
}

# wait_for SECONDS WHAT COMMAND...: until COMMAND succeeds; says WHAT did not come about otherwise.
wait_for() {
  local seconds=$1 what=$2 begun
  shift 2
  begun=$(clock)
  until "$@" >/dev/null 2>&1; do
    if [ "$(since "$begun")" -gt $((seconds * 1000)) ]; then
      echo "waited $seconds s in vain: $what" >&2
      return 1
    fi
    sleep 0.05
  done
}

# show_logs: the end of every log, for a person who looks into a failure.
show_logs() {
  local log
  for log in "$STATE"/logs/*; do
    [ -s "$log" ] || continue
    printf '\n--- %s (last 25 lines)\n' "${log##*/}"
    tail -n 25 "$log" | cut -c1-400
  done
}
