#!/usr/bin/env bash
# go build, with its progress shown where it takes longer than a few seconds: the first build on a machine compiles all
# dependencies and would be silent for minutes. Arguments are those of go build. `-modfile=FOLDER/go.mod tool` compiles
# the programs that `go tool` with the same file runs.
set -euo pipefail

packages=() file=()
for argument; do
  case $argument in
  ./* | . | tool) packages+=("$argument") ;;
  -modfile=*) file=("$argument") ;;
  esac
done
what=${packages[*]}
if ((${#file[@]})); then what=$(dirname "${file[0]#-modfile=}"); fi

pause=5 shown=0 compiled=0 total=
go build -v "$@" 2>&1 | while IFS= read -r line; do
  # -v names each package as it is compiled; whatever else comes is for the reader.
  if [[ ! $line =~ ^[a-zA-Z0-9._~/-]+$ ]]; then
    echo "$line" >&2
    continue
  fi
  compiled=$((compiled + 1))
  if ((SECONDS >= shown + pause)); then
    total=${total:-$(go list "${file[@]}" -deps "${packages[@]}" | wc -l)}
    echo "  compiling $what: $compiled of $total packages, ${SECONDS}s" >&2
    shown=$SECONDS
  fi
done
