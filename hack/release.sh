#!/usr/bin/env bash
# Makes every artefact of a release in dist/: the image, archives of the programs, the chart, install.yaml, crds.yaml, the
# kubectl plugin and its manifest, the SBOM, the provenance and SHA256SUMS. It publishes and signs nothing: RELEASE.md
# tells what follows.
# Usage: VERSION=v1.2.3 LDFLAGS=... hack/release.sh NAME PLATFORM...     as of hack/image.sh; BUILDER says who runs it, and
# DOWNLOADS is the URL below which the files will be.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
name=${1:?the name of the image}
[[ ${VERSION:?} =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]] || {
  echo "VERSION=$VERSION: write a version such as v1.2.3" >&2
  exit 2
}
rm -rf dist
digest=$(hack/image.sh "$@" | tail -n 1)
source hack/release-flags.sh
epoch=${release_flags[2]#-epoch=}

# pack ARCHIVE FOLDER... makes an archive that depends on nothing but the files.
pack() {
  local to=$1
  shift
  tar --sort=name --mtime="@$epoch" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX -c "$@" | gzip -n >"$to"
}
for folder in dist/bin/*; do
  pack "dist/network-controller_${VERSION}_$(basename "${folder/-/_}").tar.gz" -C "$folder" . -C "$PWD" LICENSE
done

plugins=$(mktemp -d) chart=$(mktemp -d)
trap 'rm -rf "$plugins" "$chart"' EXIT
# The plugin runs on its users' computers.
for platform in {darwin,linux,windows}-{amd64,arm64}; do
  echo "Compiling kubectl-network for $platform" >&2
  ending=
  [[ $platform != windows-* ]] || ending=.exe
  CGO_ENABLED=0 GOOS=${platform%-*} GOARCH=${platform#*-} hack/go-build.sh -trimpath -buildvcs=false \
    -ldflags "-s -w ${LDFLAGS:-}" -o "$plugins/$platform/kubectl-network$ending" ./cmd/kubectl-network
done
(cd tools/image && go run . plugin "${release_flags[@]}" -programs="$plugins" -out=../../dist \
  -from="${DOWNLOADS:-https://cloudteam.ztgame.com/network-controller/releases/download/$VERSION}")

cp -r charts/network-controller "$chart"
sed -i "s|^version: .*|version: ${VERSION#v}|; s|^appVersion: .*|appVersion: $VERSION|" "$chart/network-controller/Chart.yaml"
sed -i "s|^  repository: .*|  repository: ${name%:*}|" "$chart/network-controller/values.yaml"
pack "dist/network-controller-chart_$VERSION.tgz" -C "$chart" network-controller

go run ./tools/chart manifests config "$name" >dist/install.yaml
go run ./tools/chart manifests config/node "$name" >dist/install-node-agent.yaml
go run ./tools/chart manifests config/crd "$name" >dist/crds.yaml

rm dist/network-controller-image.intoto.json # that of the release says it, too
files=(dist/*.tar dist/*.gz dist/*.tgz dist/*.zip dist/*.yaml dist/*.json)
(cd tools/image && go run . provenance "${release_flags[@]}" -builder="${BUILDER:-urn:local:$(id -un)}" \
  -image=../../dist/image "${files[@]/#/../../}") >dist/provenance.intoto.json
(cd dist && sha256sum -- *.tar *.gz *.tgz *.zip *.yaml *.json >SHA256SUMS)
cat dist/SHA256SUMS
echo "$digest"
