//go:build linux

package dataplane

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
)

// envStay asks TestStay to run.
const envStay = "DATAPLANE_STAY"

// TestStay has all parts up until Ctrl-C, for a person to try: `make run-dataplane`.
func TestStay(t *testing.T) {
	if os.Getenv(envStay) == "" {
		t.Skip("for a person: run `make run-dataplane`")
	}
	w := newCluster(t, "the data plane was up for")
	fmt.Printf(`
All is up. Ctrl-C ends it and leaves nothing behind. In another terminal:

  export KUBECONFIG=%s
  kubectl config set-context --current --namespace=%s
  kubectl apply -f config/samples/network.yaml -f dev/dataplane/web.yaml
  kubectl get networks,networkports,pods -o wide

`, surroundings.AdminKubeconfig, w.namespace)
	for _, node := range w.nodes.All {
		fmt.Printf("A shell on %s: %s\n", node.Name, node.Enter())
	}
	stop, release := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	defer release()
	<-stop.Done()
}
