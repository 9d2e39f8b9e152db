#!/usr/bin/env bash
# go build, with its progress shown where it takes longer than a few seconds: the first build on a machine compiles all
# dependencies and would be silent for minutes. Arguments are those of go build.
set -euo pipefail

# Compilers are faster if they collect no garbage, where each may have a GiB or more of the memory that is available.
share=$(awk -v cpus="$(getconf _NPROCESSORS_ONLN)" '/^MemAvailable:/ {print int($2 / 1024 / (2 * cpus))}' /proc/meminfo 2>/dev/null || true)
((${share:-0} < 1024)) || [[ ${GOGC:-} ]] || export GOGC=off GOMEMLIMIT=${share}MiB

packages=()
for argument; do [[ $argument == ./* || $argument == . ]] && packages+=("$argument"); done

pause=5 shown=0 compiled=0 total=
go build -v "$@" 2>&1 | while IFS= read -r line; do
  # -v names each package as it is compiled; whatever else comes is for the reader.
  if [[ ! $line =~ ^[a-zA-Z0-9._~/-]+$ ]]; then
    echo "$line" >&2
    continue
  fi
  compiled=$((compiled + 1))
  if ((SECONDS >= shown + pause)); then
    total=${total:-$(go list -deps "${packages[@]}" | wc -l)}
    echo "  compiling ${packages[*]}: $compiled of $total packages, ${SECONDS}s" >&2
    shown=$SECONDS
  fi
done
