#!/usr/bin/env bash
# Makes every artefact of a release in dist/: the image, archives of the programs, the chart, install.yaml, crds.yaml, the
# kubectl plugin and its manifest, the SBOM, the provenance and SHA256SUMS. It publishes and signs nothing: RELEASE.md
# tells what follows. dist/ is there only if all of them are.
# Usage: VERSION=v1.2.3 LDFLAGS=... hack/release.sh NAME PLATFORM...     as of hack/image.sh; BUILDER says who runs it, and
# DOWNLOADS is the URL below which the files will be.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
name=${1:?the name of the image}

refuse() {
  printf '%s\n' "$@" >&2
  exit 2
}
# Semantic Versioning, without build metadata: the tag of an image cannot have its plus sign.
number='(0|[1-9][0-9]*)' identifier='(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)'
[[ ${VERSION-} =~ ^v$number\.$number\.$number(-$identifier(\.$identifier)*)?$ ]] ||
  refuse "VERSION=${VERSION-} is no version of a release. Write one such as VERSION=v1.2.3 or VERSION=v1.2.3-rc.1."
# The chart has the image's tag from VERSION, and install.yaml has it from the name.
repository=$name
[[ ${name##*/} != *:* ]] || repository=${name%:*} # and not the port of a registry
[[ -n $repository && $name == "$repository:$VERSION" ]] ||
  refuse "IMAGE=$name does not end in the version. Write IMAGE=${repository:-network-controller}:$VERSION."
changes=$(git status --porcelain)
[[ -z $changes ]] ||
  refuse "The working tree has changes that no commit has, so that nobody can build the same:" "$changes" \
    "Commit them, or make the release in a clean clone of the tag."

made=bin/release plugins=$(mktemp -d) chart=$(mktemp -d)
trap 'rm -rf "$made" "$plugins" "$chart"' EXIT
rm -rf dist "$made"
GOVULNCHECK=required hack/govulncheck.sh >&2
digest=$(DIST=$made hack/image.sh "$@" | tail -n 1)
source hack/release-flags.sh
epoch=${release_flags[2]#-epoch=}

# pack ARCHIVE FOLDER... makes an archive that depends on nothing but the files.
pack() {
  local to=$1
  shift
  tar --sort=name --mtime="@$epoch" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX -c "$@" | gzip -n >"$to"
}
for folder in "$made"/bin/*; do
  pack "$made/network-controller_${VERSION}_$(basename "${folder/-/_}").tar.gz" -C "$folder" . -C "$PWD" LICENSE
done

# The plugin runs on its users' computers.
for platform in {darwin,linux,windows}-{amd64,arm64}; do
  echo "Compiling kubectl-network for $platform" >&2
  ending=
  [[ $platform != windows-* ]] || ending=.exe
  CGO_ENABLED=0 GOOS=${platform%-*} GOARCH=${platform#*-} hack/go-build.sh -trimpath -buildvcs=false \
    -ldflags "-s -w ${LDFLAGS:-}" -o "$plugins/$platform/kubectl-network$ending" ./cmd/kubectl-network
done
(cd tools/image && go run . plugin "${release_flags[@]}" -programs="$plugins" -out="../../$made" \
  -from="${DOWNLOADS:-https://cloudteam.ztgame.com/network-controller/releases/download/$VERSION}")

cp -rL charts/network-controller{,-crds} "$chart" # a template of the second is a link to the first
sed -i "s|^version: .*|version: ${VERSION#v}|; s|^appVersion: .*|appVersion: $VERSION|" "$chart"/*/Chart.yaml
sed -i "s|^  repository: .*|  repository: $repository|" "$chart/network-controller/values.yaml"
pack "$made/network-controller-chart_$VERSION.tgz" -C "$chart" network-controller
pack "$made/network-controller-crds-chart_$VERSION.tgz" -C "$chart" network-controller-crds

go run ./tools/chart manifests config "$name" >"$made/install.yaml"
go run ./tools/chart manifests config/node "$name" >"$made/install-node-agent.yaml"
go run ./tools/chart manifests config/crd "$name" >"$made/crds.yaml"

rm "$made/network-controller-image.intoto.json" # that of the release says it, too
files=("$made"/*.{tar,gz,tgz,zip,yaml,json})
(cd tools/image && go run . provenance "${release_flags[@]}" -builder="${BUILDER:-urn:local:$(id -un)}" \
  -image="../../$made/image" "${files[@]/#/../../}") >"$made/provenance.intoto.json"
(cd "$made" && sha256sum -- *.tar *.gz *.tgz *.zip *.yaml *.json >SHA256SUMS)
mv "$made" dist
cat dist/SHA256SUMS
echo "$digest"
