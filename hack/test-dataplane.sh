#!/usr/bin/env bash
# Runs the tests of the data plane, beside the Neutron that `dev/openstack/openstack run --dataplane` has brought up. With
# -short, it leaves out what takes long: failures, the chart, Neutron's Open vSwitch agents, and trunks of a node that is
# a virtual machine of its own.
# The Makefile sets KUBEBUILDER_ASSETS, DATAPLANE_ASSETS and DATAPLANE_KERNEL.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# `export NAME="$(command)"` goes on when the command fails. What it prints is above.
: "${DATAPLANE_ASSETS:?has no folder: run bin/controlplane assets --components=kubelet,multus to see why}"
if [[ $(uname -m) == x86_64 ]]; then
  : "${DATAPLANE_KERNEL:?has no folder: run dev/dataplane/kernel to see why}"
fi

# All packages are installed by now: no test of a node may be skipped for want of one.
export DATAPLANE_OPENSTACK=1 NODETEST_REQUIRED=1
short=${1-}
run() { go test -v -count=1 -timeout 30m ${short:+"$short"} "$@"; }

# It compares the machine's settings, which a kubelet changes. So it does not run beside one.
run ./dev/dataplane/nodes

# Neutron with its own agents is another cloud, for one of the tests. It is not left behind.
ovs() { OPENSTACK_DIR=$(dirname "$OS_CLIENT_CONFIG_FILE")-ovs dev/openstack/openstack "$1" --dataplane=ovs; }
log=$(mktemp) beside=
cleanup() {
  [[ ! $beside ]] || kill "$beside" 2>/dev/null || true
  rm -f "$log"
  [[ $short ]] || ovs down
}
trap cleanup EXIT
if [[ ! $short ]]; then
  clouds=$(ovs up)
  export DATAPLANE_OVS_CLOUDS=${clouds#*=}
fi

# What needs no Neutron runs beside what waits for Neutron and for kubelets most of the time, and leaves these the CPUs.
{
  renice -n 10 -p "$BASHPID" >/dev/null
  [[ $short ]] || run ./dev/dataplane/vm
  run -p 1 ./internal/node/...
  run -run '^TestAgentAtTheAPIServer$' ./test/integration
} >"$log" 2>&1 &
beside=$!
status=0
run ./test/dataplane || status=$?
wait "$beside" || status=$?
cat "$log"
exit "$status"
