#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Prints the directory of a control plane's binaries of another Kubernetes version than the pinned one:
#   export KUBEBUILDER_ASSETS=$(hack/kubernetes.sh 1.34)
#
# Takes a minor version or a whole one (v1.34.4), and the components ("all" for more than etcd and kube-apiserver). The
# first time it builds them, which takes 15 minutes of two cores; then they are in dev/controlplane's cache.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The last releases that the module proxy served when this was written. It does not serve all.
case "${1:-}" in
  1.34) version=v1.34.4 ;;
  1.35) version=v1.35.4 ;;
  1.36) version=v1.36.3 ;;
  1.37) exec go run ./dev/controlplane assets --components="${2:-etcd,kube-apiserver}" ;; # the pinned one
  v1.*.*) version=$1 ;;
  *)
    echo "usage: $0 1.34|1.35|1.36|1.37|v1.X.Y [COMPONENTS]" >&2
    exit 2
    ;;
esac
pins=$PWD/dev/controlplane/internal/assets/pins
INTO=$(mktemp -d)
export INTO
trap 'rm -rf "$INTO"' EXIT
"$pins/update.sh" kubernetes "$version"
# The launcher embeds its pins: it is built with those of that version in their place.
printf '{"Replace": {"%s": "%s", "%s": "%s"}}\n' "$pins/kubernetes.mod" "$INTO/kubernetes.mod" \
  "$pins/kubernetes.sum" "$INTO/kubernetes.sum" >"$INTO/overlay.json"
GOFLAGS='' go build -overlay "$INTO/overlay.json" -o "$INTO/controlplane" ./dev/controlplane
env -u KUBEBUILDER_ASSETS "$INTO/controlplane" assets --components="${2:-etcd,kube-apiserver}"
