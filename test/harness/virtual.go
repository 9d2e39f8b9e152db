package harness

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/test/simulation"
)

// worlds counts the calls of Virtual.
var worlds atomic.Int64

// Virtual are surroundings without processes and sockets, for one test in a bubble of testing/synctest: the API server
// of package simulation with all kinds and an open class, and an emulator. simulation.Install MUST have been called.
// They end with the test.
func Virtual(t testing.TB) *Surroundings {
	t.Helper()
	root, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	s := &Surroundings{
		ControlPlane: &ControlPlane{Root: root, AdminKubeconfig: filepath.Join(dir, "admin.kubeconfig")},
		Kubeconfig:   filepath.Join(dir, "kubeconfig"), FooKubeconfig: filepath.Join(dir, "foo.kubeconfig"),
		CloudsFile: filepath.Join(dir, "clouds.yaml"),
		Transport:  http.DefaultTransport, world: fmt.Sprint("world-", worlds.Add(1)),
	}
	api, err := simulation.StartAPIServer("api."+s.world, filepath.Join(root, crdFolder), filepath.Join(root, policiesCRD),
		filepath.Join(root, machinesCRD))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Stop)
	for path, account := range map[string]string{
		s.AdminKubeconfig: "admin", s.Kubeconfig: AccountName, s.FooKubeconfig: FooAccountName,
	} {
		config := clientcmdapi.NewConfig()
		config.CurrentContext = "virtual"
		config.Contexts["virtual"] = &clientcmdapi.Context{Cluster: "virtual", AuthInfo: account}
		config.Clusters["virtual"] = &clientcmdapi.Cluster{Server: api.URL()}
		config.AuthInfos[account] = &clientcmdapi.AuthInfo{Token: "token-of-" + account}
		if err := clientcmd.WriteToFile(*config, path); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.connect(); err != nil {
		t.Fatal(err)
	}
	if err := s.installOpenClass(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Emulator = neutrontest.New(neutrontest.Options{
		Zones: []string{"east", "west"},
		// Two Events of one object at one time would have one name.
		Delay: neutrontest.FixedDelay(5 * time.Millisecond),
	})
	listener := s.Emulator.Serve(s.Listen("cloud"), nil)
	t.Cleanup(func() { _ = listener.Close() })
	if err := os.WriteFile(s.CloudsFile, []byte(listener.CloudsYAML()), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// Listen listens under a name in these surroundings. It gives nil where these are not virtual.
func (s *Surroundings) Listen(name string) net.Listener {
	if s.world == "" {
		return nil
	}
	return simulation.Listen(name + "." + s.world)
}

// StartVirtual runs the controller with arguments as Start does, less those of what it cannot serve or log.
func StartVirtual(t testing.TB, clouds string, arguments ...string) *simulation.Process {
	t.Helper()
	kept := []string{"--bind-address="}
	for i := 0; i < len(arguments); i++ {
		switch argument := arguments[i]; {
		case argument == "--bind-address", argument == "-v":
			i++
		case strings.HasPrefix(argument, "--bind-address="), strings.HasPrefix(argument, "-v="), argument == "--profiling":
		default:
			kept = append(kept, argument)
		}
	}
	p, err := simulation.StartProcess(clouds, kept...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill(t)
		if t.Failed() {
			t.Logf("network-controller %s printed:\n%s", strings.Join(kept, " "), p.Log())
		}
	})
	return p
}
