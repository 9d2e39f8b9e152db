#!/usr/bin/env bash
# Runs the fault suite and writes its table into docs/reliability.md, between the two markers. The table is written
# whether all holds or not; the exit code tells.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
page=docs/reliability.md
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

result=0
FAULTS_TABLE="$dir/table" go test -count=1 -timeout 20m ./test/faults || result=$?
[[ -s $dir/table ]] || exit "$result" # it did not come to run
awk -v table="$dir/table" '
  /^<!-- end of the table -->$/ { skip = 0 }
  !skip
  /^<!-- table -->$/ { skip = 1; while ((getline line < table) > 0) print line }
' "$page" >"$dir/page"
cat "$dir/page" >"$page"
exit "$result"
