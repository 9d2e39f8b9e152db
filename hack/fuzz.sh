#!/usr/bin/env bash
# Runs each fuzz target of the module, one after another, for the given time each.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
time=${1:-60s}

grep -rl --include='*_test.go' '^func Fuzz' internal test | xargs -n1 dirname | sort -u | while read -r package; do
  grep -rhoE --include='*_test.go' '^func Fuzz\w+' "$package" | sed 's/func //' | sort -u | while read -r target; do
    echo "== $package $target"
    go test "./$package" -run '^$' -fuzz "^$target\$" -fuzztime "$time"
  done
done
