#!/usr/bin/env bash
# go build, with its progress shown where it takes longer than a few seconds: the first build on a machine compiles all
# dependencies and would be silent for minutes. Arguments are those of go build.
set -euo pipefail

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
