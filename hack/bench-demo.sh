#!/usr/bin/env bash
# Measure `make demo` as a newcomer sees it, and print a table for test/bench/results: in a fresh clone of the commit that
# is checked out, from source, with empty caches of Go's builds and modules and of the control plane. It takes about half
# an hour, 8 GB of disk, and the Go module proxy. --keep-modules uses this machine's cache of modules, and so measures no
# downloads. Packets are left out, since they need root and OVN. --warm uses all of this machine's caches: to try this command in a minute.
set -euo pipefail
cd "$(dirname "$0")/.."

caches=(GOCACHE GOMODCACHE CONTROLPLANE_CACHE)
case ${1-} in
  "") ;;
  --keep-modules) caches=(GOCACHE CONTROLPLANE_CACHE) ;;
  --warm) caches=() ;;
  *) echo "unknown argument $1: --keep-modules or --warm" >&2; exit 2 ;;
esac
if [[ -e /usr/local/kubebuilder/bin/kube-apiserver && ${1-} != --warm ]]; then
  echo "/usr/local/kubebuilder/bin has programs that would be used: move it away" >&2
  exit 1
fi

dir=$(mktemp -d)
# Go makes its cache of modules read-only.
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
git clone --quiet . "$dir/clone"
for cache in ${caches[@]+"${caches[@]}"}; do
  mkdir "$dir/$cache"
  export "$cache=$dir/$cache"
done
unset KUBEBUILDER_ASSETS
export XDG_DATA_HOME=$dir CONTROLPLANE_RELEASES=off

# What the table has: the text of a line, and what it is the first of.
marks=(
  "network-controller. What happens now" "the first line"
  "network-controller: one Network" "the first line of the story: the project is built"
  "3. Apply" "the first Network is applied: the API server and the controller run"
  "8. Lose" "the last step that needs no Pods"
  "9. Run Pods" "the step with Pods, which waits for the rest of the control plane"
  "11. Delete a Pod" "all Pods of that step run"
  "All steps succeeded" "the end"
)
began=${EPOCHREALTIME/./}
cd "$dir/clone"
make demo DEMOFLAGS=--skip=packets 2>&1 | {
  next=0 table=
  while IFS= read -r line; do
    printf '%s\n' "$line" >&2
    for ((i = next; i < ${#marks[@]}; i += 2)); do
      if [[ $line == "${marks[i]}"* ]]; then
        now=${EPOCHREALTIME/./}
        table+=$(printf '| %s | %d.%d |' "${marks[i + 1]}" $(((now - began) / 1000000)) $(((now - began) / 100000 % 10)))$'\n'
        next=$((i + 2))
        break
      fi
    done
  done
  printf '\n| to | seconds |\n| --- | --- |\n%s' "$table"
}
# In a subshell it would have no children. Its second line is theirs.
times >"$dir/times"
echo "CPU time, user and system: $(tail -n 1 "$dir/times"). $(nproc) CPUs; load average at the end: $(cut -d ' ' -f 1 /proc/loadavg)."
