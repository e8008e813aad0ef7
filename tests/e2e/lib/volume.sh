# shellcheck shell=bash
# A projected volume as the kubelet writes it: files in a dated folder, reached through `..data`, which one rename
# moves to the next generation. For runs without a kubelet.

# publish DIRECTORY TOKEN CA-FILE NAMESPACE: the next generation of the volume.
publish() {
  local volume=$1 dated name old
  mkdir -p "$volume"
  dated=$(mktemp -d "$volume/..$(date -u +%Y_%m_%d_%H_%M_%S).XXXXXXXXXX")
  chmod 755 "$dated"
  printf %s "$2" >"$dated/token"
  cp "$3" "$dated/ca.crt"
  printf %s "$4" >"$dated/namespace"
  chmod 644 "$dated"/*
  old=$(readlink "$volume/..data" || true)
  ln -s "${dated##*/}" "$volume/..data_tmp"
  mv -T "$volume/..data_tmp" "$volume/..data"
  for name in token ca.crt namespace; do
    [ -L "$volume/$name" ] || ln -s "..data/$name" "$volume/$name"
  done
  [ -z "$old" ] || rm -rf "${volume:?}/$old"
}
