#!/usr/bin/env bash
# Runs the fault suite, keeps its results in test/faults/results with a page of each scenario, and writes those of each
# group into docs/reliability.md, beside the last ones of the other cloud. They are kept whether all holds or not: see the
# exit code.
#
# Usage: reliability.sh emulator
#        reliability.sh openstack     installs and starts a real Keystone and Neutron, and stops them at the end
# A second argument, as go test's -run, has those scenarios tried again alone, and keeps the results of the others.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=test/faults/results
run=(go test -count=1 -timeout 40m ./test/faults)
case ${1-} in
  emulator) cloud=emulator ;;
  openstack)
    was_up=0; dev/openstack/openstack status >/dev/null 2>&1 && was_up=1
    dev/openstack/openstack up
    # Without what Debian puts around Neutron's own version: "2:21.0.0-7".
    version=$(dpkg-query -W -f '${Version}' neutron-common)
    version=${version#*:}
    cloud="Neutron ${version%-*}"
    export FAULTS_OPENSTACK=1
    run=(dev/openstack/openstack run -- "${run[@]}")
    ;;
  *)
    echo "usage: $0 emulator|openstack" >&2
    exit 2
    ;;
esac
if [[ -n ${2-} ]]; then
  run+=(-run "$2")
  export FAULTS_AGAIN=1
fi
fresh=$(mktemp)
[[ -z ${2-} || ! -e $folder/$1.jsonl ]] || cat "$folder/$1.jsonl" >"$fresh"
trap 'rm -f "$fresh"; if [[ ${was_up-1} == 0 ]]; then dev/openstack/openstack down --keep; fi' EXIT

result=0
FAULTS_RESULTS=$fresh FAULTS_CLOUD=$cloud FAULTS_VERSION=$(git describe --tags --always --dirty 2>/dev/null || true) \
  "${run[@]}" || result=$?
[[ -s $fresh ]] || exit "$result" # it did not come to run
cat "$fresh" >"$folder/$1.jsonl"
go run ./test/faults/results/page docs/reliability.md "$folder"
exit "$result"
