// Package harness is what the tests stand on that run the network-controller binary as a user would start it: a real
// Kubernetes control plane, a cloud, a kubeconfig with exactly the rights of config/rbac, the binary, and a second
// opinion on what is in Neutron, which comes from gophercloud's own client and not from the project's.
//
// Only tests import it.
package harness

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	// The binary under test is built by a command, of which go test knows nothing: without the import it would take the
	// results of an earlier binary from its cache.
	_ "cloudteam.ztgame.com/network-controller/internal/app"
	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
)

// Options say what Run sets up.
type Options struct {
	// Components are the programs of the control plane, of those that KUBEBUILDER_ASSETS names a folder with. One that
	// suites share has all of them.
	Components []string
	// Own says why the suite starts a control plane where the run has one that suites share (EnvShared). Empty has the
	// suite use that.
	Own string
	// APIServerArgs are further ones for kube-apiserver.
	APIServerArgs []string
	// OpenStack is true for the real Keystone and Neutron whose clouds "admin" and "tenant" are in the file that
	// OS_CLIENT_CONFIG_FILE names, and false for the emulator.
	OpenStack bool
	// OpenClass has the default NetworkClass allow everything. Without it there is no class.
	OpenClass bool
	// Policies has the API server serve MultiNetworkPolicies, as a shared one does.
	Policies bool
	// Machines has the API server serve KubeVirt's virtual machines, as a shared one does. Nothing runs them: see Machine.
	Machines bool
	// Tenants are clouds of the emulator beside admin and tenant, each with its own project.
	Tenants []string
	// Programs are built ones, for who calls Run more than once. Nil has Run build them.
	Programs *Programs
}

// Programs are the paths of what Run runs.
type Programs struct {
	// Controller is network-controller, and ControlPlane is dev/controlplane.
	Controller, ControlPlane string
}

// Build builds the programs of the repository that the working directory is in, into dir.
func Build(dir string) (*Programs, error) {
	return programsIn(dir), build(dir, "./cmd/network-controller", "./dev/controlplane")
}

func programsIn(dir string) *Programs {
	return &Programs{
		Controller: filepath.Join(dir, "network-controller"), ControlPlane: filepath.Join(dir, "controlplane"),
	}
}

// build builds packages of the repository into dir, without C as the Makefile does, also where the race detector needs
// it: so the cache has most of it.
func build(dir string, packages ...string) error {
	root, err := repository()
	if err != nil {
		return err
	}
	cmd := exec.Command("go", append([]string{"build", "-o", dir + string(filepath.Separator)}, packages...)...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the programs under test: %w\n%s", err, output)
	}
	return nil
}

// Surroundings are what the controller runs in. Nothing exported changes once Run has made them, and they are safe for
// concurrent use.
type Surroundings struct {
	*ControlPlane
	// Binary is the path of the network-controller under test.
	Binary string
	// Kubeconfig is the path of one of the ServiceAccount that config/rbac defines.
	Kubeconfig string
	// FooKubeconfig is the path of one of the ServiceAccount that config/foo defines.
	FooKubeconfig string
	// CloudsFile is a clouds.yaml with the clouds admin and tenant, whose networks may ask for the zones east and west.
	CloudsFile string
	// Emulator is nil where the cloud is a real one.
	Emulator *neutrontest.Server

	// Transport is what clients use by themselves in virtual time; nil elsewhere.
	Transport http.RoundTripper

	// controlPlane is the path of dev/controlplane.
	controlPlane string
	// world is the end of the names at which virtual ones listen; see Virtual.
	world string
}

// Exit ends a suite's process with what Run gives. TestMain calls it last.
func Exit(code int, err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code) //nolint:forbidigo // TestMain ends with it
}

// Run sets the surroundings up, has them used, and takes them down. It returns what use does, and an error where
// anything else failed.
func Run(o Options, use func(*Surroundings) (code int, err error)) (code int, err error) {
	dir, err := os.MkdirTemp("", "network-controller-test-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	var s *Surroundings
	var release func() error
	if shared := os.Getenv(EnvShared); shared != "" && o.Own == "" && !o.OpenStack {
		s, release, err = borrow(context.Background(), shared)
	} else {
		// What is in a real cloud outlives a suite, and bears the UID of the suite's cluster.
		s, err = startSurroundings(o, dir)
	}
	if err != nil {
		return 1, err
	}
	if release == nil {
		release = s.stop
	}
	defer func() { err = errors.Join(err, release()) }()
	if o.Programs != nil {
		s.Binary = o.Programs.Controller
	}

	if o.OpenClass {
		if err := s.installOpenClass(context.Background()); err != nil {
			return 1, err
		}
	}
	if o.OpenStack {
		s.CloudsFile = os.Getenv("OS_CLIENT_CONFIG_FILE")
		return use(s)
	}
	s.Emulator = neutrontest.New(neutrontest.Options{Tenants: o.Tenants, Zones: []string{"east", "west"}})
	listener, err := s.Emulator.Listen("127.0.0.1:0", nil)
	if err != nil {
		return 1, err
	}
	defer listener.Close()
	s.CloudsFile = filepath.Join(dir, "clouds.yaml")
	if err := os.WriteFile(s.CloudsFile, []byte(listener.CloudsYAML()), 0o600); err != nil {
		return 1, err
	}
	return use(s)
}

// startSurroundings starts a control plane and installs what the controllers need. dir gets its files. The caller MUST
// call stop.
func startSurroundings(o Options, dir string) (*Surroundings, error) {
	if err := checkAssets(o.Components); err != nil {
		return nil, err
	}
	programs := o.Programs
	if programs == nil {
		var err error
		if programs, err = Build(dir); err != nil {
			return nil, err
		}
	}
	s := &Surroundings{Binary: programs.Controller, controlPlane: programs.ControlPlane}
	crds := []string{crdFolder}
	if o.Policies {
		crds = append(crds, policiesCRD)
	}
	if o.Machines {
		crds = append(crds, machinesCRD)
	}
	var err error
	s.ControlPlane, err = startControlPlane(dir, programs.ControlPlane, o.Components, o.APIServerArgs, "", crds...)
	if err != nil {
		return nil, err
	}
	if err := s.installRights(context.Background(), dir); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

// repository finds the repository's root above the folder that go test runs a package's tests in.
func repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("there is no go.mod above the working directory: run the tests with go test")
		}
		dir = parent
	}
}

// installRights installs what the controllers need of config, and writes their kubeconfigs.
func (s *Surroundings) installRights(ctx context.Context, dir string) error {
	if err := s.Install(ctx, "config/manager", "config/rbac", "config/admission", "config/foo"); err != nil {
		return err
	}
	s.Kubeconfig, s.FooKubeconfig = filepath.Join(dir, accountFile), filepath.Join(dir, fooFile)
	err := errors.Join(
		s.WriteAccountKubeconfig(ctx, s.Kubeconfig, AccountName),
		s.WriteAccountKubeconfig(ctx, s.FooKubeconfig, FooAccountName),
	)
	if err != nil {
		return fmt.Errorf("making the controllers' kubeconfigs: %w", err)
	}
	return nil
}

// AccountName is the name of the controller's ServiceAccount, and of its namespace.
const AccountName = "network-controller"

// FooAccountName is the name of the ServiceAccount of the controller of Foos, and of its Lease.
const FooAccountName = "foo-controller"

// tokenLife is longer than the tests may take.
const tokenLife = 4 * time.Hour

// WriteAccountKubeconfig writes a kubeconfig with a token of a ServiceAccount in the controller's namespace.
func (s *Surroundings) WriteAccountKubeconfig(ctx context.Context, path, account string) error {
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(tokenLife.Seconds()))},
	}
	answer, err := s.Kube.CoreV1().ServiceAccounts(AccountName).CreateToken(ctx, account, request,
		metav1.CreateOptions{})
	if err != nil {
		return err
	}
	config, err := clientcmd.LoadFromFile(s.AdminKubeconfig)
	if err != nil {
		return err
	}
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: answer.Status.Token}
	}
	return clientcmd.WriteToFile(*config, path)
}

// Eventually polls until check gives nil, and fails the test with its last error when Patience (three times that with a
// real cloud) or the control plane ends.
func (s *Surroundings) Eventually(t testing.TB, check func() error) {
	t.Helper()
	patience, pause := Patience, 50*time.Millisecond
	if s.Emulator == nil {
		// It serves one call at a time, and looking whether it has done its work keeps it from that. On a machine that is
		// busy with other suites, a Network and a port with a floating IP took it more than three minutes.
		patience, pause = 3*Patience, 500*time.Millisecond
	}
	s.eventually(t, patience, pause, check)
}
