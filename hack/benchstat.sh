#!/usr/bin/env bash
# Runs the Go benchmarks some times, keeps what they print in bin/bench.txt, and shows medians and spreads.
# Usage: hack/benchstat.sh COUNT [BASE], where BASE is what an earlier run has kept.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
count=${1:?how often} base=${2:-}

mkdir -p bin
echo "Running each benchmark $count times, for about a second each"
go test -run='^$' -bench=. -benchmem -count="$count" ./internal/... >bin/bench.new || {
  cat bin/bench.new >&2
  exit 1
}
# The older file may be the very one that is written now.
go tool -modfile=tools/bench/go.mod benchstat ${base:+"$base"} bin/bench.new
mv bin/bench.new bin/bench.txt
