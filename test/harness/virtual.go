package harness

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/simulation"
	"cloudteam.ztgame.com/network-controller/test/specs"
)

// worlds counts the calls of Virtual.
var worlds atomic.Int64

// Virtual are surroundings without processes and sockets, for one test in a bubble of testing/synctest: the API server
// of package simulation with all kinds, and an emulator. Of the options, OpenClass and Tenants count.
// simulation.Install MUST have been called. They end with the test.
func Virtual(t testing.TB, o Options) *Surroundings {
	t.Helper()
	root, err := repository()
	expect.NoError(t, err)
	dir := t.TempDir()
	s := &Surroundings{
		ControlPlane: &ControlPlane{Root: root, AdminKubeconfig: filepath.Join(dir, "admin.kubeconfig")},
		Kubeconfig:   filepath.Join(dir, "kubeconfig"), FooKubeconfig: filepath.Join(dir, "foo.kubeconfig"),
		CloudsFile: filepath.Join(dir, "clouds.yaml"),
		Transport:  http.DefaultTransport, world: fmt.Sprint("world-", worlds.Add(1)),
	}
	api, err := simulation.StartAPIServer("api."+s.world, mayBecome, filepath.Join(root, crdFolder),
		filepath.Join(root, policiesCRD), filepath.Join(root, machinesCRD))
	expect.NoError(t, err)
	t.Cleanup(api.Stop)
	for path, account := range map[string]string{
		s.AdminKubeconfig: "admin", s.Kubeconfig: AccountName, s.FooKubeconfig: FooAccountName,
	} {
		config := clientcmdapi.NewConfig()
		config.CurrentContext = "virtual"
		config.Contexts["virtual"] = &clientcmdapi.Context{Cluster: "virtual", AuthInfo: account}
		config.Clusters["virtual"] = &clientcmdapi.Cluster{Server: api.URL()}
		config.AuthInfos[account] = &clientcmdapi.AuthInfo{Token: "token-of-" + account}
		expect.NoError(t, clientcmd.WriteToFile(*config, path))
	}
	expect.NoError(t, s.connect())
	if o.OpenClass {
		expect.NoError(t, s.installOpenClass(t.Context()))
	}
	s.Emulator = neutrontest.New(neutrontest.Options{
		Tenants: o.Tenants, Zones: []string{"east", "west"},
		// Two Events of one object at one time would have one name.
		Delay: neutrontest.FixedDelay(5 * time.Millisecond),
	})
	listener := s.Emulator.Serve(s.Listen("cloud"), nil)
	t.Cleanup(func() { _ = listener.Close() })
	expect.NoError(t, os.WriteFile(s.CloudsFile, []byte(listener.CloudsYAML()), 0o600))
	return s
}

// mayBecome has the rules for edits that package specs has.
func mayBecome(kind string, was, is *unstructured.Unstructured) bool {
	switch kind {
	case "Network":
		return both(was, is, func(n *cloudteamv1.Network) cloudteamv1.NetworkSpec { return n.Spec }, specs.NetworkMayBecome)
	case "NetworkPort":
		return both(was, is, func(p *cloudteamv1.NetworkPort) cloudteamv1.NetworkPortSpec { return p.Spec },
			specs.NetworkPortMayBecome)
	case "FloatingIP":
		return both(was, is, func(f *cloudteamv1.FloatingIP) cloudteamv1.FloatingIPSpec { return f.Spec },
			specs.FloatingIPMayBecome)
	}
	return true
}

// both asks a rule about the specs of two objects.
func both[T, S any](was, is *unstructured.Unstructured, spec func(*T) S, may func(was, is S) bool) bool {
	specs := make([]S, 0, 2)
	for _, object := range []*unstructured.Unstructured{was, is} {
		typed := new(T)
		if runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed) != nil {
			return false
		}
		specs = append(specs, spec(typed))
	}
	return may(specs[0], specs[1])
}

// Listen listens under a name in these surroundings. It gives nil where these are not virtual.
func (s *Surroundings) Listen(name string) net.Listener {
	if s.world == "" {
		return nil
	}
	return simulation.Listen(name + "." + s.world)
}

// IsVirtual reports whether these are Virtual.
func (s *Surroundings) IsVirtual() bool { return s.world != "" }

// Controller is a network-controller that a test has started, as a process or in virtual time.
type Controller interface {
	Signal(signal syscall.Signal)
	Done() <-chan struct{}
	AwaitExit(t testing.TB) int
	Kill(t testing.TB)
	Log() string
	Get(ctx context.Context, path string) (status int, body string, err error)
}

// StartFor runs the controller with a clouds.yaml, by Start, or by StartVirtual in virtual time.
func (s *Surroundings) StartFor(t testing.TB, clouds string, arguments ...string) Controller {
	t.Helper()
	if s.IsVirtual() {
		return StartVirtual(t, clouds, arguments...)
	}
	return s.Start(t, []string{"OS_CLIENT_CONFIG_FILE=" + clouds}, arguments...)
}

// StartVirtual runs the controller with arguments as Start does, less those of what it cannot serve or log.
func StartVirtual(t testing.TB, clouds string, arguments ...string) *simulation.Process {
	t.Helper()
	kept := []string{"--bind-address="}
	for i := 0; i < len(arguments); i++ {
		switch argument := arguments[i]; {
		case argument == "--bind-address", argument == "-v":
			i++
		case strings.HasPrefix(argument, "--bind-address="), strings.HasPrefix(argument, "-v="):
		default:
			kept = append(kept, argument)
		}
	}
	p, err := simulation.StartProcess(clouds, withControllers(kept)...)
	expect.NoError(t, err)
	t.Cleanup(func() {
		p.Kill(t)
		if t.Failed() {
			t.Logf("network-controller %s printed:\n%s", strings.Join(kept, " "), p.Log())
		}
	})
	return p
}
