#!/usr/bin/env bash
# Fails when generated files are not what the generators give, or a go.mod is not tidy. It generates in a copy: builds
# and tests may run beside it, and what you are writing stays as it is.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# tools/image has its own module. Those of test/chart, test/dns and test/ui follow by -mod=mod.
sums() {
  find pkg charts config/{crd,argocd} docs/{fields,flags,metrics}.md docs/images/demo.svg {,tools/image/}go.{mod,sum} -type f -print0 | sort -z |
    xargs -0 sha256sum
}

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
# All files but those that Git ignores. One that was deleted is still in its list.
git ls-files --cached --others --exclude-standard --deduplicate -z |
  while IFS= read -r -d '' file; do [[ ! -e $file ]] || printf '%s\0' "$file"; done |
  tar --create --null --files-from=- | tar --extract --directory="$copy"

before=$(sums)
cd "$copy"
hack/generate.sh
go mod tidy
(cd tools/image && go mod tidy)
if ! stale=$(diff <(echo "$before") <(sums)); then
  echo "Generated files are stale. Run \`make generate\` (for a go.mod: \`go mod tidy\`), and commit:" >&2
  sed -n 's/^[<>] [0-9a-f]*  /  /p' <<<"$stale" | sort -u >&2
  exit 1
fi
