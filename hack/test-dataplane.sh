#!/usr/bin/env bash
# Runs the tests of the data plane, beside the Neutron that `dev/openstack/openstack run --dataplane` has brought up. With
# -short, it leaves out what takes long: failures, the chart, Neutron's Open vSwitch agents, and trunks of a node that is
# its own virtual machine.
# The Makefile sets KUBEBUILDER_ASSETS, DATAPLANE_ASSETS and, without -short, DATAPLANE_KERNEL.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# `export NAME="$(command)"` goes on when the command fails. What it prints is above.
: "${DATAPLANE_ASSETS:?has no folder: run bin/controlplane assets --components=kubelet,multus to see why}"
if [[ ! ${1-} && $(uname -m) == x86_64 ]]; then
  : "${DATAPLANE_KERNEL:?has no folder: run dev/dataplane/kernel to see why}"
fi

# All packages are installed by now: no test of a node may be skipped for want of one.
export DATAPLANE_OPENSTACK=1 NODETEST=1
short=${1-} status=0
run() { go test -v -count=1 -p 1 -timeout 60m ${short:+"$short"} "$@" || status=1; }

# The first compares the machine's settings, which a kubelet changes. None runs beside another: they have deadlines.
run ./dev/dataplane/nodes
[[ $short ]] || run ./dev/dataplane/vm
run ./internal/node/...
run -run '^TestAgentAtTheAPIServer$' ./test/integration

# Neutron with its own agents is another cloud, for one of the tests. It is not left behind.
if [[ ! $short ]]; then
  folder=$(dirname "$OS_CLIENT_CONFIG_FILE")
  ovs() { OPENSTACK_DIR=$folder-ovs dev/openstack/openstack "$1" --dataplane=ovs --release="$(<"$folder/release")"; }
  trap 'ovs down' EXIT
  clouds=$(ovs up)
  export DATAPLANE_OVS_CLOUDS=${clouds#*=}
fi
run ./test/dataplane
exit "$status"
