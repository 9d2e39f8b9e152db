#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Moves a pin to another version:
#   update.sh kubernetes v1.37.1 | etcd v3.7.0 | multus v4.3.0
#
# Writes <pin>.mod and <pin>.sum beside this script (or to the folder that INTO names), complete enough to build with
# -mod=readonly, and nothing else.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
project=$here/../../../../../go.mod

pin=${1:-}
version=${2:-}
# Where packages are to be shared with: a module that these require has at least the same version here.
shared=()
case "$pin" in
  kubernetes)
    module=k8s.io/kubernetes
    tools=(k8s.io/kubernetes/cmd/kube{-apiserver,-controller-manager,-scheduler,let})
    # Kubernetes of another minor version keeps its own.
    grep -q "k8s.io/api v0\.$(cut -d . -f 2 <<<"$version")\." "$project" && shared=("$project" "$here/etcd.mod")
    ;;
  etcd)
    module=go.etcd.io/etcd/server/v3
    tools=("$module")
    shared=("$project" "$here/kubernetes.mod")
    ;;
  multus)
    module=gopkg.in/k8snetworkplumbingwg/multus-cni.v4
    tools=("$module/cmd/multus")
    ;;
  *)
    echo "usage: $0 kubernetes|etcd|multus VERSION" >&2
    exit 2
    ;;
esac
: "${version:?"say which version"}"

export GOWORK=off GOFLAGS=-mod=mod
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
# On failure the reason is in the JSON, and nothing on standard error.
if ! download=$(go mod download -json "$module@$version"); then
  sed -n 's/.*"Error": "\(.*\)".*/\1/p' <<<"$download" | sed 's/\\[nt]/ /g' >&2
  echo "$module $version cannot be had from $(go env GOPROXY): choose another version; nothing was changed" >&2
  exit 1
fi
gomod=$(sed -n 's/.*"GoMod": "\(.*\)".*/\1/p' <<<"$download")
{
  echo "module cloudteam.ztgame.com/network-controller/dev/controlplane/$pin"
  echo
  sed -n '/^go /p' "$gomod"
  echo
  printf 'tool (\n'
  printf '\t%s\n' "${tools[@]}"
  printf ')\n\nrequire (\n\t%s %s\n' "$module" "$version"
  # Kubernetes replaces its staging modules by folders of its repository, which its module does not contain, and requires
  # v0.0.0 of them. Their releases are v0.X.Y for v1.X.Y.
  sed -n "/k8s\.io\/sample-/!s|^\t\(k8s\.io/[^ ]*\) => ./staging/.*|\t\1 ${version/#v1./v0.}|p" "$gomod"
  ((${#shared[@]})) && sed -n '/^\t[^ ]* v/p' "${shared[@]}"
  printf ')\n'
  # Nothing imports the samples, and the module proxy does not serve all of their versions.
  sed -n 's|^\t\(k8s\.io/sample-[^ ]*\) => ./staging/.*|exclude \1 v0.0.0|p' "$gomod"
} >go.mod
# What is required twice gets the higher version.
go mod tidy
mv go.mod "${INTO:-$here}/$pin.mod"
mv go.sum "${INTO:-$here}/$pin.sum"
echo "$pin is at $version" >&2
