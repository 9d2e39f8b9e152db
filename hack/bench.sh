#!/usr/bin/env bash
# Runs the benchmark program and writes what it measures into test/bench/results and docs/benchmarks.md: against the
# emulator, and against the real Keystone and Neutron of dev/openstack where they are up. KUBEBUILDER_ASSETS names a folder
# with the programs of a control plane, as `make bench` sets it. Arguments are for the benchmark program, such as
# --networks=1000.
#
# Usage: bench.sh [arguments]
#        bench.sh smoke          measures a very small everything on the emulator, and fails if that cannot be measured
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
page=docs/benchmarks.md

mkdir -p bin
go build -o bin/bench ./test/bench
if [[ ${1-} == smoke ]]; then
  bin/bench --rounds=1 --networks=5 --replicas=2 --idle=10s --lease-duration=3s --controller-flag=--pool-cooldown=1s
  bin/bench --cloud=sizing --sizes=3 --delay=none --idle=10s
  exit
fi
bin/bench --write="$page" "$@"
if dev/openstack/openstack status >/dev/null 2>&1; then
  dev/openstack/openstack run -- bin/bench --cloud=openstack --write="$page" "$@"
else
  echo "No real Neutron is up: its column in $page is left as it was. Start one with dev/openstack/openstack up"
fi
