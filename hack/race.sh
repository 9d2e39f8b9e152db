#!/usr/bin/env bash
# Runs `go test` with the arguments, under the race detector. The detector dies of a fault of its own at times, in any
# test (golang/go#78156). The packages in which it did run once more. Where a test fails, or there is a race, nothing is
# repeated.
set -uo pipefail

said=$(mktemp)
trap 'rm -f "$said"' EXIT
go test "$@" 2>&1 | tee "$said"
status=${PIPESTATUS[0]}
if ((status == 0)) || grep -qE '^ *--- FAIL|WARNING: DATA RACE|^panic: |\[(build|setup) failed\]' "$said"; then
  exit "$status"
fi
mapfile -t packages < <(awk -F'\t' '$1 == "FAIL" && NF > 1 {print $2}' "$said")
deaths=$(grep -cE '^ThreadSanitizer: CHECK failed|^runtime\.racegostart' "$said")
if ((${#packages[@]} == 0 || deaths < ${#packages[@]})); then
  exit "$status"
fi
options=() module=$(go list -m)
for argument; do
  [[ $argument == ./* || $argument == "$module"/* ]] || options+=("$argument")
done
printf 'the race detector itself died, and no test failed: once more for %s\n' "${packages[*]}" >&2
go test "${options[@]}" "${packages[@]}"
