#!/usr/bin/env bash
# Checks the documents, and builds their site into dist/docs. Arguments are tags of earlier releases: the site of each
# goes into a folder of its name there, built by its own programs, and readers choose among all of them on every page.
# DOCS_BASE is the path below which the site will be served, "/" if it is not set.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

go run ./tools/docs
command -v npm >/dev/null || {
  echo "The site needs Node.js 18 or later with npm. The pages in docs/ need nothing." >&2
  exit 1
}

export DOCS_SITE=${DOCS_BASE:-/}
DOCS_VERSIONS="$(git describe --tags --always) $*"
export DOCS_VERSIONS

# build FOLDER BASE builds the site of a clone in FOLDER.
build() (
  cd "$1/tools/docs/site"
  [[ node_modules/.package-lock.json -nt package-lock.json ]] || npm ci --ignore-scripts
  DOCS_BASE=$2 npm run build
)

build . "$DOCS_SITE"
for tag; do
  clone=$(mktemp -d)
  trap 'rm -rf "$clone"' EXIT
  git -c advice.detachedHead=false clone --quiet --shared --branch "$tag" . "$clone"
  site=tools/docs/site
  if cmp -s $site/package-lock.json "$clone/$site/package-lock.json"; then # What it needs is here.
    ln -s "$PWD/$site/node_modules" "$clone/$site/node_modules"
    touch -t 200001010000 "$clone/$site/package-lock.json"
  fi
  build "$clone" "$DOCS_SITE$tag/"
  mv "$clone/dist/docs" "dist/docs/$tag"
  rm -rf "$clone"
done
