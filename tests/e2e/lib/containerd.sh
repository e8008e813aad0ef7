# shellcheck shell=bash
# The two configurations of containerd, on stdout. In both oom scores are left alone, because setting them needs a right
# that a machine which is itself a container often lacks. Needs chain.sh.

RUNTIME=$STATE/run/containerd.sock

# containerd1_config: for the version of Debian 12.
containerd1_config() {
  cat <<END
version = 2
root = "$STATE/containerd/root"
state = "$STATE/run/containerd"
[grpc]
  address = "$RUNTIME"
[plugins."io.containerd.internal.v1.opt"]
  path = "$STATE/containerd/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "$BIN_DIR"
    conf_dir = "$NET_DIR"
    max_conf_num = 1
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "$(snapshotter)"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
END
}

# containerd2_config: the same for version 2, which asks every plugin of a list of version 1.1.0 for its STATUS.
containerd2_config() {
  cat <<END
version = 4
root = "$STATE/containerd/root"
state = "$STATE/run/containerd"
imports = []
disabled_plugins = ["io.containerd.nri.v1.nri", "io.containerd.differ.v1.erofs", "io.containerd.snapshotter.v1.erofs"]
[plugins."io.containerd.server.v1.grpc"]
  address = "$RUNTIME"
[plugins."io.containerd.server.v1.ttrpc"]
  address = "$RUNTIME.ttrpc"
[plugins."io.containerd.internal.v1.opt"]
  path = "$STATE/containerd/opt"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "$(snapshotter)"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "localhost/pause:1"
[plugins."io.containerd.cri.v1.runtime"]
  disable_apparmor = true
  restrict_oom_score_adj = true
  enable_unprivileged_ports = false
  enable_unprivileged_icmp = false
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["$BIN_DIR"]
    conf_dir = "$NET_DIR"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    runtime_path = "$CONTAINERD2/containerd-shim-runc-v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      BinaryName = "$(command -v runc)"
      SystemdCgroup = false
END
}

# snapshotter: overlayfs where the folder's file system can carry one.
snapshotter() {
  local try=$STATE/run/overlay
  mkdir -p "$try"/{lower,upper,work,merged}
  if mount -t overlay -o "lowerdir=$try/lower,upperdir=$try/upper,workdir=$try/work" overlay "$try/merged" 2>/dev/null; then
    umount "$try/merged"
    echo overlayfs
  else
    echo native
  fi
}

# loaded_chain: the types of the plugins in the network that containerd has loaded, when its last load went well: what it
# uses, whatever the directory holds by now. It reads the directory only when one of its watches wakes it.
loaded_chain() {
  "$TOOLS/crictl" --runtime-endpoint "unix://$RUNTIME" info 2>/dev/null |
    jq -cer 'select(.lastCNILoadStatus == "OK") | [.cniconfig.Networks[-1].Config.Plugins[].Network.type] | join(",")'
}

# has_loaded TYPES: for waiting.
has_loaded() { [ "$(loaded_chain)" = "$1" ]; }
