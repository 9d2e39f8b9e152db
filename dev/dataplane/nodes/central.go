// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"cloudteam.ztgame.com/network-controller/dev/process"
)

// Central is OVN's two databases and what translates one to the other, where no Neutron brings them. Switches and ports
// are made by hand.
type Central struct {
	dir      string
	programs []*process.Process
}

// MissingForCentral says why this machine cannot run OVN's databases, with the remedy; empty where it can.
func MissingForCentral() string {
	for _, file := range []string{"ovn-northd", "ovn-nbctl", "ovn-sbctl"} {
		if _, err := exec.LookPath(file); err != nil {
			return "OVN needs " + file + "; run `dev/openstack/openstack up --dataplane`, which installs the packages"
		}
	}
	return ""
}

// StartCentral starts OVN's databases with files and sockets in a folder, which MUST exist.
func StartCentral(dir string) (c *Central, err error) {
	c = &Central{dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Stop(context.Background()))
		}
	}()
	for _, base := range []string{"nb", "sb"} {
		schema := "/usr/share/ovn/ovn-" + base + ".ovsschema"
		file := filepath.Join(dir, base+".db")
		if output, err := exec.Command("ovsdb-tool", "create", file, schema).CombinedOutput(); err != nil {
			return c, fmt.Errorf("making OVN's databases: %w: %s", err, output)
		}
		server, err := c.start("ovn-"+base, "ovsdb-server", file, "--remote=p"+c.remote(base), "--unixctl="+file+".ctl",
			"-vsyslog:off")
		if err != nil {
			return c, err
		}
		if err := await(server, func() error {
			return exec.Command("ovn-"+base+"ctl", "--timeout=10", "--db="+c.remote(base), "init").Run()
		}); err != nil {
			return c, err
		}
	}
	_, err = c.start("ovn-northd", "ovn-northd", "--ovnnb-db="+c.remote("nb"), "--ovnsb-db="+c.remote("sb"),
		"--unixctl="+filepath.Join(dir, "northd.ctl"), "-vsyslog:off")
	return c, err
}

func (c *Central) start(name, program string, args ...string) (*process.Process, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return nil, err
	}
	p, err := process.Start(process.Program{
		Name: name, Path: path, Args: args, Env: append(os.Environ(), "OVN_RUNDIR="+c.dir, "OVS_RUNDIR="+c.dir),
		Log: filepath.Join(c.dir, name+".log"), Patience: stopPatience,
	})
	if err == nil {
		c.programs = append(c.programs, p)
	}
	return p, err
}

func (c *Central) remote(base string) string { return "unix:" + filepath.Join(c.dir, base+".sock") }

// Southbound is the path of the socket that nodes connect to.
func (c *Central) Southbound() string { return filepath.Join(c.dir, "sb.sock") }

// Do runs ovn-nbctl.
func (c *Central) Do(args ...string) error {
	args = append([]string{"--timeout=30", "--db=" + c.remote("nb")}, args...)
	if output, err := exec.Command("ovn-nbctl", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ovn-nbctl %s: %w: %s", strings.Join(args, " "), err, output)
	}
	return nil
}

// Stop ends the databases. Their files stay.
func (c *Central) Stop(ctx context.Context) error {
	var errs []error
	for _, p := range slices.Backward(c.programs) {
		errs = append(errs, p.Stop(ctx))
	}
	return errors.Join(errs...)
}
