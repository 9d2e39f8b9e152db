#!/usr/bin/env bash
# Compiles the programs of the image for each platform into dist/bin, and makes the image of them, with its SBOM and its
# provenance. Two runs at one commit give one digest, which is printed last: nothing of the machine, the folder or the
# time is in the image.
# Usage: VERSION=v1.2.3 LDFLAGS=... hack/image.sh NAME PLATFORM...     with DIST for another folder than dist. BUILDER
# says who runs it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
name=${1:?the name of the image} dist=${DIST:-dist}
shift

rm -rf "$dist/bin"
for platform; do
  folder=$dist/bin/${platform/\//-}
  mkdir -p "$folder"
  echo "Compiling the programs for $platform" >&2
  # Without symbols, which only a debugger reads, they are a third smaller. A panic's trace does not need them.
  CGO_ENABLED=0 GOOS=${platform%/*} GOARCH=${platform#*/} hack/go-build.sh -trimpath -buildvcs=false \
    -ldflags "-s -w ${LDFLAGS:-}" -o "$folder/" ./cmd/network-controller ./cmd/network-agent ./cmd/neutron-port
done
source hack/release-flags.sh
dist=$(realpath "$dist")
cd tools/image
made=$(go run . "${release_flags[@]}" -name="$name" -programs="$dist/bin" -out="$dist")
provenance=$dist/network-controller-image.intoto.json
go run . provenance "${release_flags[@]}" -target=image -builder="${BUILDER:-urn:local:$(id -un)}" \
  -image="$dist/image" "$dist"/network-controller-image.{tar,cdx.json} >"$provenance"
printf '%s\n' "$provenance" "$made"
