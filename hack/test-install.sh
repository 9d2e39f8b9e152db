#!/usr/bin/env bash
# Tests the chart, and the image that `make image` makes: it has to run in containerd, which is installed where it is
# missing (Debian, Ubuntu), and with NIGHTLY=1 a second build has to give the same digest. KUBEBUILDER_ASSETS names the
# programs of a control plane.
# Usage: hack/test-install.sh NAME PLATFORM...     as of hack/image.sh, with VERSION and LDFLAGS
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

go -C tools/image test ./...
# -mod=mod: the product's go.mod, which this module replaces, may have changed.
go -C test/chart test -mod=mod -timeout 20m ./...

first=$(hack/image.sh "$@" | tail -n 1)
if [[ ${NIGHTLY-} ]]; then
  again=$(mktemp -d)
  trap 'rm -rf "$again"' EXIT
  second=$(DIST=$again hack/image.sh "$@" | tail -n 1)
  if [[ $first != "$second" ]]; then
    echo "Two builds of the image gave two digests, $first and $second" >&2
    exit 1
  fi
  cmp dist/network-controller-image.tar "$again/network-controller-image.tar"
  echo "Two builds gave one digest, $first"
fi

missing=
for program in containerd ctr runc; do
  command -v "$program" >/dev/null || missing=1
done
if [[ $missing ]]; then
  apt-get update </dev/null
  apt-get install -y --no-install-recommends containerd runc </dev/null
fi
INSTALL_DIST=$PWD/dist go test -count=1 -timeout 20m ./test/install
