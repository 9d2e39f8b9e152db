package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"cloudteam.ztgame.com/network-controller/dev/process"
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
	*process.Process
	// Kubeconfig is the path of an administrator's.
	Kubeconfig string
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
// repository's path, and dir gets the log. stop MUST be called on what it returns.
func startControlPlane(root, dir, program string, components []string) (*ControlPlane, error) {
	kubeconfig := make(chan string, 1)
	started, err := process.Start(process.Program{
		Name: "controlplane", Path: program,
		Args: []string{
			"up", "--components=" + strings.Join(components, ","), "--crds=" + filepath.Join(root, "config", "crd"),
		},
		Log: filepath.Join(dir, "controlplane.log"),
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
	c := &ControlPlane{Process: started}
	select {
	case c.Kubeconfig = <-kubeconfig:
		return c, nil
	case <-c.Done():
		return nil, c.Died()
	}
}

// stop stops it and returns when it is gone, with an error where that went wrong or it had ended by itself.
func (c *ControlPlane) stop() error {
	if c.Ended() {
		return c.Died()
	}
	if err := c.Stop(context.Background()); err != nil {
		return err
	}
	if code := c.ExitCode(); code != 0 {
		return errors.Join(fmt.Errorf("exit code %d", code), c.Died())
	}
	return nil
}
