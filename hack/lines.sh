#!/usr/bin/env bash
# Counts the hand-written lines of Go of the product, by package: without tests and their fakes, generated code, the
# emulator, dev/, examples/ and tools/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

git ls-files '*.go' |
  grep -vE '_test\.go$|/zz_generated|^pkg/client/|^(dev|examples|tools|test|cmd/neutron-emulator)/|/(neutron|plan|controller|client|batch|cloud|node|metric|exporting)test/' |
  while read -r file; do echo "$(dirname "$file") $(wc -l <"$file")"; done |
  awk '{lines[$1] += $2; total += $2}
       END {for (p in lines) printf "%6d %s\n", lines[p], p | "sort -k2"; close("sort -k2"); printf "%6d together\n", total}'
