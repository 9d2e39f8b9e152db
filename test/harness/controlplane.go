package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"cloudteam.ztgame.com/network-controller/dev/process"
	clientset "cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// node is the component that is no program: dev/controlplane plays it.
const node = "node"

// AllComponents are the components of a control plane on which a Deployment's Pods are made, are scheduled to the one
// Node, which runs no containers, and become ready there, and on which what is owned is collected. `make test` builds
// them.
func AllComponents() []string {
	return append(APIComponents(), "kube-controller-manager", "kube-scheduler", node)
}

// APIComponents are the programs of a control plane that stores objects and does nothing about them.
func APIComponents() []string { return []string{"etcd", "kube-apiserver"} }

// crdFolder is the folder of the CRDs in the repository.
const crdFolder = "config/crd"

// ControlPlane is dev/controlplane as a process, as a rule with config/crd installed. Its fields do not change, and
// they are safe for concurrent use.
type ControlPlane struct {
	// Root is the repository's path.
	Root string
	// AdminKubeconfig is the path of an administrator's kubeconfig. Admin is the same access without a rate limit, and
	// Kube and Networks are clients with it.
	AdminKubeconfig string
	Admin           *rest.Config
	Kube            kubernetes.Interface
	Networks        clientset.Interface

	// process is nil where another process has started it.
	process *process.Process
	waits   waits
}

// RunControlPlane starts a control plane for one suite, has it used, and stops it: for who plays the controllers of
// Kubernetes, or changes what the API server serves. It returns what use does, and an error where anything else failed.
func RunControlPlane(components []string, use func(*ControlPlane) (code int, err error)) (code int, err error) {
	dir, err := os.MkdirTemp("", "network-controller-test-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	if err := checkAssets(components); err != nil {
		return 1, err
	}
	if err := build(dir, "./dev/controlplane"); err != nil {
		return 1, err
	}
	c, err := startControlPlane(dir, filepath.Join(dir, "controlplane"), components, nil, "", crdFolder)
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	return use(c)
}

// checkAssets returns an error unless the folder that KUBEBUILDER_ASSETS names holds the components: to build those
// that lack takes longer than go test lets a test run.
func checkAssets(components []string) error {
	folder := os.Getenv("KUBEBUILDER_ASSETS")
	for _, name := range components {
		if _, err := os.Stat(filepath.Join(folder, name)); folder == "" || err != nil && name != node {
			return fmt.Errorf("KUBEBUILDER_ASSETS=%s names no folder with the programs of a control plane (%s): run "+
				"`make test`, which builds them and sets it", folder, strings.Join(components, ", "))
		}
	}
	return nil
}

// StartControlPlane starts another control plane that stores objects. data is a folder: what a control plane that has
// stopped left there is served again. Stop or the end of the test stops it.
func (s *Surroundings) StartControlPlane(t testing.TB, data string) *ControlPlane {
	t.Helper()
	return s.startAnother(t, data, crdFolder)
}

// StartEmptyControlPlane starts another control plane that stores objects, without CRDs. The end of the test stops it.
func (s *Surroundings) StartEmptyControlPlane(t testing.TB) *ControlPlane {
	t.Helper()
	return s.startAnother(t, "")
}

func (s *Surroundings) startAnother(t testing.TB, data string, crds ...string) *ControlPlane {
	t.Helper()
	c, err := startControlPlane(t.TempDir(), s.controlPlane, APIComponents(), nil, data, crds...)
	expect.NoError(t, err)
	t.Cleanup(func() {
		if !c.process.Ended() {
			c.Stop(t)
		}
	})
	return c
}

// Stop stops a control plane that the test has started.
func (c *ControlPlane) Stop(t testing.TB) {
	t.Helper()
	expect.NoError(t, c.stop())
}

// HasBetaPolicies reports whether the kube-apiserver of KUBEBUILDER_ASSETS has mutating admission policies as beta,
// which is off by default: Kubernetes 1.34 and 1.35.
func HasBetaPolicies() (bool, error) {
	said, err := exec.Command(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kube-apiserver"), "--version").Output()
	if err != nil {
		return false, fmt.Errorf("asking kube-apiserver for its version: %w", err)
	}
	version := strings.TrimPrefix(string(said), "Kubernetes ")
	return strings.HasPrefix(version, "v1.34.") || strings.HasPrefix(version, "v1.35."), nil
}

// startControlPlane returns once the program, which is dev/controlplane, serves. dir gets the log. data is the folder
// of what it stores; empty for one that goes with it. crds are folders of the repository. The caller MUST call stop.
func startControlPlane(
	dir, program string, components, apiServerArgs []string, data string, crds ...string,
) (*ControlPlane, error) {
	root, err := repository()
	if err != nil {
		return nil, err
	}
	args := []string{"up", "--components=" + strings.Join(components, ","), "--dir=" + data}
	for _, folder := range crds {
		args = append(args, "--crds="+filepath.Join(root, folder))
	}
	beta, err := HasBetaPolicies()
	if err != nil {
		return nil, err
	}
	if beta {
		apiServerArgs = append([]string{
			"--feature-gates=MutatingAdmissionPolicy=true", "--runtime-config=admissionregistration.k8s.io/v1beta1=true",
		}, apiServerArgs...)
	}
	for _, arg := range apiServerArgs {
		args = append(args, "--kube-apiserver-arg="+arg)
	}
	kubeconfig := make(chan string, 1)
	started, err := process.Start(process.Program{
		Name: "controlplane", Path: program, Args: args, Log: filepath.Join(dir, "controlplane.log"),
		Line: func(line string) {
			if path, found := strings.CutPrefix(line, "kubeconfig: "); found {
				kubeconfig <- path
			}
		},
		// It kills by itself what does not stop.
		Patience: Patience, Orphaned: syscall.SIGTERM,
	})
	if err != nil {
		return nil, err
	}
	c := &ControlPlane{Root: root, process: started}
	select {
	case c.AdminKubeconfig = <-kubeconfig:
	case <-started.Done():
		return nil, started.Died()
	}
	if err := c.connect(); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return c, nil
}

func (c *ControlPlane) connect() (err error) {
	if c.Admin, err = clientcmd.BuildConfigFromFlags("", c.AdminKubeconfig); err != nil {
		return err
	}
	c.Admin.QPS = -1
	if c.Kube, err = kubernetes.NewForConfig(c.Admin); err != nil {
		return err
	}
	c.Networks, err = clientset.NewForConfig(c.Admin)
	return err
}

// stop stops it and returns when it is gone, with an error where that went wrong or it had ended by itself.
func (c *ControlPlane) stop() error {
	if c.process.Ended() {
		return c.process.Died()
	}
	if err := c.process.Stop(context.Background()); err != nil {
		return err
	}
	if c.process.ExitCode() != 0 {
		return c.process.Died()
	}
	return nil
}
