#!/usr/bin/env bash
# Build what the demo needs, in the order in which it needs it, and run it. Arguments are those of bin/demo. LDFLAGS are
# the project's.
#
# Two builds run beside each other. That of the control plane's programs is its own process, which downloads while
# the project is compiled. bin/demo begins with the project, etcd and kube-apiserver, and waits for the other programs
# where it needs them. If one cannot be made, bin/demo ends with the error.
set -euo pipefail
cd "$(dirname "$0")/.."

cat <<'END'
network-controller. What happens now:
 1. Build the project. At the same time, fetch the programs of a Kubernetes control plane, or build them.
    The first time this takes 5 to 20 minutes on two cores, and seconds later.
 2. Start an API server, a cloud (emulated, or yours with CLOUD=NAME), and the controller.
 3. Show what the controller does there, each step with the command for it. Ctrl-C stops everything.

END

mkdir -p bin
# Without C the binaries are static. `make build` has the same flags, and so the same build cache.
export CGO_ENABLED=0
build() { hack/go-build.sh -trimpath -gcflags=all=-dwarf=false -ldflags "$LDFLAGS" -o bin/ "$@"; }

build ./dev/controlplane
# Behind a pipe it prints whole lines, and rewrites none among those of others.
nice bin/controlplane assets --components=all 2> >(cat >&2) >/dev/null &
trap 'kill %1 2>/dev/null || true; wait || true' EXIT

programs=(./cmd/network-controller ./cmd/neutron-emulator ./dev/demo)
# Only root sees packets, which need the agent and the CNI plugin.
((EUID)) || programs+=(./cmd/network-agent ./cmd/neutron-port)
# Who stays follows the tutorial, which needs the plugin for kubectl.
[[ " $* " != *" --stay "* ]] || programs+=(./cmd/...)
build "${programs[@]}"

bin/demo "$@"
