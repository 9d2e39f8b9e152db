#!/usr/bin/env bash
# Runs targets of the Makefile one after another, and all of them whatever fails. Then it prints each one that failed and
# why, in the order in which they ran, and a table of the parts with their minutes.
# Usage: hack/parts.sh 'TARGET' 'VARIABLE=VALUE -j2 TARGET TARGET' ...     each is the arguments of one make
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

logs=$(mktemp -d)
trap 'rm -r "$logs"' EXIT

# summary prints the failures in what a target printed: each failed test with its messages, without the logs of what it
# ran, and the last lines of a package that failed without one; or else the last lines of all. The messages follow the
# line that says so, or with -v the last line === with its name.
summary() {
  echo "::: failed: make $1"
  awk '
    function say(lines) { if (++said <= 60) print substr(lines, 1, 1200) }
    { last[NR % 12] = substr($0, 1, 400) }
    /^=== / { inside = 0; at = $3; next }
    /^ *--- FAIL/ { inside = 1; at = ""; why++; say($0 told[$3]); next }
    /^ *--- (PASS|SKIP)/ { inside = 0; at = ""; next }
    /^(panic:|fatal error:|WARNING: DATA RACE)/ { inside = 0; why++; say($0); next }
    /^ok[ \t]/ { inside = why = 0; since = NR; next }
    /^FAIL[ \t]/ {
      for (i = NR - 11; i < NR && !why && !/ failed\]$/; i++) if (i > since) say(last[i % 12])
      inside = why = 0; since = NR; say($0); next
    }
    /^ *[a-z0-9_]+\.go:[0-9]+: / && !/: [IWEF][0-9]+ [0-9:.]+\]/ { # no line of klog
      if (inside) say($0); else if (at) told[at] = told[at] "\n" substr($0, 1, 400)
    }
    END { exit !said }
  ' "$logs/${1// /_}" || tail -n 20 "$logs/${1// /_}"
}

minutes() { awk -v seconds="$1" 'BEGIN { printf "%.1f", seconds / 60 }'; }

table='' failed=()
for part; do
  read -ra arguments <<<"$part"
  began=$SECONDS result=ok
  echo "::: make $part, after $(minutes "$SECONDS") minutes"
  if ! make "${arguments[@]}" 2>&1 | tee "$logs/${part// /_}"; then
    result=FAILED
    failed+=("$part")
  fi
  table+=$(printf '%-44s %8s  %s' "$part" "$(minutes $((SECONDS - began)))" "$result")$'\n'
done

echo
if ((${#failed[@]})); then
  echo "::: first failed: make ${failed[0]}"
  for part in "${failed[@]}"; do
    summary "$part"
  done
fi
printf '\n%-44s %8s\n%s%-44s %8s\n' part minutes "$table" together "$(minutes "$SECONDS")"
if ((${#failed[@]})); then
  echo "failed: ${failed[*]}"
  exit 1
fi
