#!/usr/bin/env bash
# Runs the benchmark program and writes its tables into docs/benchmarks.md: against the emulator, and against the real
# Keystone and Neutron of dev/openstack where they are up. KUBEBUILDER_ASSETS names a folder with the programs of a
# control plane, as `make bench` sets it. Arguments are for the benchmark program, such as --fleet=1000.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
page=docs/benchmarks.md

mkdir -p bin
go build -o bin/bench ./test/bench
bin/bench --write="$page" "$@"
if dev/openstack/openstack status >/dev/null 2>&1; then
  dev/openstack/openstack run -- bin/bench --cloud=openstack --write="$page" "$@"
else
  echo "No real Neutron is up: its table in $page is left as it was. Start one with dev/openstack/openstack up"
fi
