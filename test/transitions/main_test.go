// Package transitions takes Networks and NetworkPorts through random sequences of what may happen to them: they are
// declared, edited, deleted and declared again, waited for or not, while others change and delete what is in Neutron.
// However a state is reached, it has to be the one that the same specs lead to directly, but for what is documented
// (rules_test.go); nothing of what was deleted may be left, and then there has to be silence.
//
// The API server is a real one with the CRDs, the controllers are the real ones, with an Inventory that audits many times
// a second, and the cloud is the emulator. Each sequence has namespaces, controllers and a cluster's UID of its own, so
// that one that failed does not disturb the shorter ones that rapid tries after it.
package transitions

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"cloudteam.ztgame.com/network-controller/internal/neutron"
	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned"
	"cloudteam.ztgame.com/network-controller/test/specs"
)

// surroundings are what all sequences share. TestMain sets them, and nothing changes them afterwards.
var surroundings struct {
	// apiServer is an administrator's access without a rate limit; kube and networks are clients with it.
	apiServer *rest.Config
	kube      kubernetes.Interface
	networks  versioned.Interface
	// tenant is the project that the controllers work in; admin may do there what only an administrator may.
	tenant, admin *cloud
	credentials   neutron.Credentials
	// limits are those of all specs: the security groups are the cloud's.
	limits specs.Limits
}

func TestMain(m *testing.M) {
	// What stands on the command line is read later, and wins. A sequence takes a part of a second, where rapid's own
	// values are meant for microseconds.
	for name, value := range map[string]string{
		"rapid.checks": "10", "rapid.steps": "12", "rapid.shrinktime": "2m", "test.parallel": "4",
	} {
		if err := flag.Set(name, value); err != nil {
			panic(err) // package rapid has the flags
		}
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "transitions:", err)
		code = 1
	}
	os.Exit(code)
}

// run runs the tests with an API server and a cloud.
func run(m *testing.M) (code int, err error) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		return 1, fmt.Errorf("KUBEBUILDER_ASSETS names no folder with etcd and kube-apiserver: run `make test`, which " +
			"builds both and sets it")
	}
	// The logs of hundreds of controllers say nothing that the sequence does not.
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)

	env := &envtest.Environment{
		CRDDirectoryPaths: []string{filepath.Join("..", "..", "config", "crd")}, ErrorIfCRDPathMissing: true,
		// envtest's own 20 seconds are too few where other tests compile beside it.
		ControlPlaneStartTimeout: 2 * time.Minute,
	}
	defer func() {
		if stopErr := env.Stop(); stopErr != nil && err == nil {
			err = fmt.Errorf("stopping the API server: %w", stopErr)
		}
	}()
	s := &surroundings
	if s.apiServer, err = env.Start(); err != nil {
		return 1, fmt.Errorf("starting the API server: %w", err)
	}
	s.apiServer.QPS = -1
	if s.kube, err = kubernetes.NewForConfig(s.apiServer); err != nil {
		return 1, err
	}
	if s.networks, err = versioned.NewForConfig(s.apiServer); err != nil {
		return 1, err
	}

	emulator := neutrontest.New(neutrontest.Options{Tenants: []string{"other"}})
	listener, err := emulator.Listen("127.0.0.1:0", nil)
	if err != nil {
		return 1, err
	}
	defer listener.Close()
	dir, err := os.MkdirTemp("", "transitions-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	clouds := filepath.Join(dir, "clouds.yaml")
	if err := os.WriteFile(clouds, []byte(listener.CloudsYAML()), 0o600); err != nil {
		return 1, err
	}
	if err := os.Setenv("OS_CLIENT_CONFIG_FILE", clouds); err != nil {
		return 1, err
	}
	if err := openClouds(context.Background(), clouds); err != nil {
		return 1, fmt.Errorf("making ready the cloud: %w", err)
	}
	return m.Run(), nil
}

// openClouds logs in everywhere, and finds a security group of each project.
func openClouds(ctx context.Context, file string) (err error) {
	s := &surroundings
	if s.credentials, err = neutron.LoadCredentials("tenant"); err != nil {
		return err
	}
	s.limits = specs.Limits{
		Namespaces: []string{homes[0], homes[1]}, MaxMTU: neutrontest.DefaultMaxMTU, Ports: len(portSlots),
	}
	for _, name := range []string{"tenant", "admin", "other"} {
		c, err := openCloud(ctx, file, name)
		if err != nil {
			return err
		}
		group, err := c.defaultGroup(ctx)
		if err != nil {
			return err
		}
		s.limits.SecurityGroups = append(s.limits.SecurityGroups, group)
		switch name {
		case "tenant":
			s.tenant = c
		case "admin":
			s.admin = c
		}
	}
	return nil
}
