package harness

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// AllComponents are the programs of a control plane on which a Deployment's Pods are made, are scheduled to the one
// Node, which runs no containers, and become ready there, and on which what is owned is collected. `make test` builds
// them.
func AllComponents() []string {
	return append(APIComponents(), "kube-controller-manager", "kube-scheduler", "kwok")
}

// APIComponents are the programs of a control plane that stores objects and does nothing about them.
func APIComponents() []string { return []string{"etcd", "kube-apiserver"} }

// ControlPlane is dev/controlplane as a process.
type ControlPlane struct {
	cmd    *exec.Cmd
	stderr Buffer
	// Kubeconfig is the path of an administrator's.
	Kubeconfig string
	// done is closed when it has ended, after err was set.
	done chan struct{}
	err  error
}

// checkAssets returns an error unless the folder that KUBEBUILDER_ASSETS names holds the components: to build those
// that lack takes longer than go test lets a test run.
func checkAssets(components []string) error {
	folder := os.Getenv("KUBEBUILDER_ASSETS")
	for _, name := range components {
		if _, err := os.Stat(filepath.Join(folder, name)); folder == "" || err != nil {
			return fmt.Errorf("KUBEBUILDER_ASSETS=%s names no folder with the programs of a control plane (%s): run "+
				"`make test`, which builds them and sets it", folder, strings.Join(components, ", "))
		}
	}
	return nil
}

// startControlPlane returns once the program, which is dev/controlplane, serves, with config/crd installed. root is the
// repository's path. stop MUST be called on what it returns.
//
// The goroutine MUST be locked to its thread until the tests are over: see dieWithParent.
func startControlPlane(root, program string, components []string) (*ControlPlane, error) {
	c := &ControlPlane{done: make(chan struct{})}
	c.cmd = exec.Command(program, "up", "--components="+strings.Join(components, ","),
		"--crds="+filepath.Join(root, "config", "crd"))
	c.cmd.SysProcAttr = dieWithParent(syscall.SIGTERM)
	c.cmd.Stderr = &c.stderr
	stdout, output, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	c.cmd.Stdout = output
	err = errors.Join(c.cmd.Start(), output.Close())
	if err != nil {
		return nil, fmt.Errorf("starting controlplane: %w", err)
	}
	go func() {
		c.err = c.cmd.Wait()
		close(c.done)
	}()
	line, err := bufio.NewReader(stdout).ReadString('\n')
	path, ok := strings.CutPrefix(strings.TrimSpace(line), "kubeconfig: ")
	if err != nil || !ok {
		return nil, fmt.Errorf("controlplane up printed %q and not the path of a kubeconfig: %w",
			line, errors.Join(err, c.stop()))
	}
	c.Kubeconfig = path
	go func() { _, _ = io.Copy(io.Discard, stdout) }()
	return c, nil
}

// stop stops it and returns when it is gone, with an error where that went wrong or it had ended by itself.
func (c *ControlPlane) stop() error {
	select {
	case <-c.done:
		return c.ended()
	default:
	}
	// An error means that it is gone, which done will tell.
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	// It kills by itself what does not stop.
	timer := time.AfterFunc(Patience, func() { _ = c.cmd.Process.Kill() })
	defer timer.Stop()
	if <-c.done; c.err != nil {
		return c.ended()
	}
	return nil
}

// ended describes how it ended, with what it printed. done MUST be closed.
func (c *ControlPlane) ended() error {
	return fmt.Errorf("the control plane ended (%s):\n%s", c.cmd.ProcessState, c.stderr.String())
}
