#!/usr/bin/env bash
# Runs golangci-lint, which also vets, on this module and on each below it that has code of its own. Arguments are those
# of golangci-lint run. It also checks the workflow, and refuses large files: nearly always a compiled program that was
# added by mistake.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

hack/go-build.sh -o /dev/null -modfile=tools/lint/go.mod tool
lint=(go tool -modfile="$PWD/tools/lint/go.mod" golangci-lint run --allow-parallel-runners)
status=0
"${lint[@]}" "$@" ./... || status=$?
while read -r mod; do
  folder=$(dirname "$mod")
  [[ -n $(find "$folder" -name '*.go' -print -quit) ]] || continue
  quick=()
  case $folder in
    ./tools/kubectl) continue ;; # kubectl's own main, in a few lines
    # Tests that use Helm, CoreDNS or a browser's protocol: what analyses all dependencies takes minutes there.
    ./test/*) quick=(--disable=bodyclose,contextcheck,nilerr,staticcheck,unparam) ;;
  esac
  echo "$folder:"
  # The product's go.mod, which such a module may replace, may have changed.
  (cd "$folder" && "${lint[@]}" --modules-download-mode=mod "${quick[@]}" "$@" ./...) || status=$?
done < <(find . -mindepth 2 -name go.mod | sort)
go tool -modfile="$PWD/tools/workflows/go.mod" actionlint || status=$?
while IFS= read -rd '' file; do
  if (($(stat -c %s "$file") > 1 << 20)); then
    echo "$file has more than 1 MiB: take it out with git rm --cached" >&2
    status=1
  fi
done < <(git ls-files -z)
exit "$status"
