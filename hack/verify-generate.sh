#!/usr/bin/env bash
# Fails when generated files are not what the generators give, or a go.mod is not tidy. What it wrote stays, so that
# `git diff` shows what was stale.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# tools/image has a module of its own. That of test/chart follows by -mod=mod.
sums() {
  find pkg charts config/crd docs/{fields,flags,metrics}.md docs/images/demo.svg {,tools/image/}go.{mod,sum} -type f -print0 | sort -z |
    xargs -0 sha256sum
}

before=$(sums)
hack/generate.sh
go mod tidy
(cd tools/image && go mod tidy)
if ! stale=$(diff <(echo "$before") <(sums)); then
  echo "Generated files were stale. They are made anew; commit them:" >&2
  sed -n 's/^[<>] [0-9a-f]*  /  /p' <<<"$stale" | sort -u >&2
  exit 1
fi
