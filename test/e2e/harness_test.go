package e2e

import (
	"net/http"
	"strings"
	"syscall"
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// process is a network-controller that a test has started.
type process struct {
	harness.Controller
}

// forgetLeader is harness.ControlPlane.ReleaseLeases.
func forgetLeader(t *testing.T) {
	t.Helper()
	if err := surroundings.ReleaseLeases(contextOf(t)); err != nil {
		t.Errorf("releasing the Leases: %v", err)
	}
}

// start is harness.Surroundings.Start, of a process that takes part in the election of a leader and whose log shows no
// secret in the end.
func start(t *testing.T, environment []string, arguments ...string) *process {
	t.Helper()
	t.Cleanup(func() { forgetLeader(t) }) // after the process has ended
	var secrets harness.Secrets
	secrets.AddClouds(t, cloudsFile)
	secrets.AddAccount(t, kubeconfig)
	var p harness.Controller
	t.Cleanup(func() {
		if p == nil {
			return // it did not start
		}
		expect.Empty(t, secrets.In(p.Log()), "what the log shows")
	})
	arguments = append(harness.LongLease(), arguments...)
	if virtualTime {
		p = harness.StartVirtual(t, strings.TrimPrefix(environment[0], "OS_CLIENT_CONFIG_FILE="), arguments...)
	} else {
		p = surroundings.Start(t, environment, arguments...)
	}
	return &process{p}
}

// startController runs the binary against the API server and a cloud of cloudsFile, looking for drift every second, or on
// a real Neutron, whose lists take it so long, every few. Ports that no Pod needs any more stay for two.
func startController(t *testing.T, cloud string, more ...string) *process {
	t.Helper()
	audits := "1s"
	if options.OpenStack {
		audits = "5s"
	}
	arguments := append([]string{
		"--kubeconfig", kubeconfig, "--cloud", cloud, "--bind-address", "127.0.0.1:0", "--audit-interval", audits, "-v", "2",
		"--pool-cooldown", "2s",
	}, more...)
	return start(t, []string{"OS_CLIENT_CONFIG_FILE=" + cloudsFile}, arguments...)
}

func (p *process) signal(s syscall.Signal)    { p.Signal(s) }
func (p *process) awaitExit(t *testing.T) int { t.Helper(); return p.AwaitExit(t) }
func (p *process) kill(t *testing.T)          { t.Helper(); p.Kill(t); forgetLeader(t) }

// serve serves an emulator to the test, under a name in virtual time.
func serve(
	t *testing.T, server *neutrontest.Server, name string, middleware func(http.Handler) http.Handler,
) *neutrontest.Listener {
	t.Helper()
	var listener *neutrontest.Listener
	if virtualTime {
		listener = server.Serve(surroundings.Listen(name), middleware)
	} else {
		var err error
		if listener, err = server.Listen("127.0.0.1:0", middleware); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = listener.Close() }) // the process has ended
	return listener
}

// cloud is a second opinion on what is in Neutron.
type cloud struct {
	*harness.Cloud
	t *testing.T
}

type resource = harness.Resource

// open logs in to a cloud of cloudsFile.
func open(t *testing.T, name string) *cloud {
	t.Helper()
	return openFile(t, cloudsFile, name)
}

// openFile is harness.Open.
func openFile(t *testing.T, path, name string) *cloud {
	t.Helper()
	return &cloud{harness.Open(t, path, name), t}
}
