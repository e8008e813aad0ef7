# shellcheck shell=bash
# The README's section on installing, its commands run as they stand there. Only what is in capitals and what the README
# says is to be set is put in: a registry, and where this node keeps its plugins and networks. In the registry's place the
# node takes the archive itself.
# shellcheck disable=SC2034,SC2154 # variables that functions of lib/ read and set

readme() {
  heading "The README's commands"
  before=$(picture)
  run_case "installed as the README says, pods join; removed as it says, the node is as it was" readme_commands
}

readme_commands() {
  local command
  commands_of_readme >"$STATE/run/readme"
  [ "$(wc -l <"$STATE/run/readme")" -ge 5 ]
  stand_ins
  grep -v 'helm uninstall' "$STATE/run/readme" | while read -r command; do as_user "$command"; done
  wait_for 20 "our entry is in the chain" in_chain
  RELEASE_NAMESPACE=linkerd-cni installer_ready_is True
  # Whatever the chart's defaults are, one pod is enough to say that they are good.
  make_pod readme meshed
  ready readme
  is_meshed readme
  as_user "$(grep 'helm uninstall' "$STATE/run/readme")"
  wait_for 60 "the installer's pod has gone" no_pod_in linkerd-cni
  as_before
  is_meshed readme
  remove readme
  kubectl delete namespace linkerd-cni
}

# commands_of_readme: the indented lines of the section.
commands_of_readme() {
  awk '/^## /{ within = /^## Install on a cluster/ } within && sub(/^    /, "")' "$ROOT/README.md" | sed 's/REGISTRY/localhost/g'
}

# as_user COMMAND: in the top folder, with the stand-ins first on the PATH.
as_user() {
  echo "\$ $1"
  (cd "$ROOT" && PATH=$STATE/user:$PATH bash -e -c "$1") </dev/null
}

# stand_ins: kubectl and helm that know this cluster, helm also this node's folders; and a skopeo that brings an archive to
# the node.
stand_ins() {
  local user=$STATE/user
  mkdir -p "$user"
  printf '#!/bin/sh\nexec "%s" --kubeconfig "%s" "$@"\n' "$KUBERNETES/kubectl" "$STATE/pki/admin.kubeconfig" >"$user/kubectl"
  cat >"$user/helm" <<END
#!/bin/sh
export HELM_CACHE_HOME=$STATE/helm HELM_CONFIG_HOME=$STATE/helm HELM_DATA_HOME=$STATE/helm
export KUBECONFIG=$STATE/pki/admin.kubeconfig
[ "\$1" != install ] || set -- "\$@" --set destCNIBinDir=$BIN_DIR --set destCNINetDir=$NET_DIR
exec "$TOOLS/helm" "\$@"
END
  cat >"$user/skopeo" <<END
#!/bin/sh
exec ctr -a "$RUNTIME" -n k8s.io images import --snapshotter "$(snapshotter)" "\${2#oci-archive:}"
END
  chmod 755 "$user"/*
}
