//go:build linux

// Package openstack has the tests of the script that need no cloud.
package openstack

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

// called gives what the script prints, and its exit status. Its folder is somebody else's, so it cannot start a cloud.
func called(t *testing.T, args ...string) (string, int) {
	t.Helper()
	folder := t.TempDir()
	expect.NoError(t, os.WriteFile(filepath.Join(folder, "theirs"), nil, 0o600))
	cmd := exec.CommandContext(t.Context(), "./openstack", args...)
	cmd.Env = append(os.Environ(), "OPENSTACK_DIR="+folder)
	printed, err := cmd.CombinedOutput()
	if exit := (&exec.ExitError{}); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(printed), cmd.ProcessState.ExitCode()
}

func TestEachCommandHasHelp(t *testing.T) {
	for command, about := range map[string]string{
		"up": "install what is missing", "down": "remove the data", "status": "exits 0 when both answer",
		"run": "with OS_CLIENT_CONFIG_FILE set", "costs": "where a port's time goes", "selftest": "up twice", "help": "this text",
	} {
		for _, args := range [][]string{
			{command, "--help"}, {command, "-h"}, {command, "--dataplane", "--release=21", "--help"}, {"help", command},
		} {
			printed, status := called(t, args...)
			if status != 0 || strings.Contains(printed, "openstack: ") || !strings.HasPrefix(printed, "Usage: dev/openstack/openstack "+command) ||
				!strings.Contains(printed, about) {
				t.Errorf("%q: status %d, %s", args, status, printed)
			}
		}
	}
	for _, args := range [][]string{{}, {"help"}, {"--help"}, {"-h"}} {
		printed, status := called(t, args...)
		if status != 0 || strings.Contains(printed, "openstack: ") || !strings.Contains(printed, "as root. `up`\n") {
			t.Errorf("%q: status %d, %s", args, status, printed)
		}
	}
}

func TestUnknownArgumentsAreRefused(t *testing.T) {
	const options = " [--dataplane | --dataplane=ovs] [--release=21|26|29]"
	for args, says := range map[string]string{
		"up --realese=26":          "up does not take '--realese=26'; write: dev/openstack/openstack up" + options + "\n",
		"up --release 26":          "up does not take '--release'; write",
		"up --release=":            "--release takes 21, 26 or 29, not ''",
		"up --release=22":          "--release takes 21, 26 or 29, not '22'",
		"up --dataplane=ovn":       "up does not take '--dataplane=ovn'; write",
		"up --dataplane now":       "up does not take 'now'; write",
		"up --keep":                "up does not take '--keep'; write",
		"down --all":               "down does not take '--all'; write: dev/openstack/openstack down" + options + " [--keep]\n",
		"down --keep --dataplane":  "down does not take '--dataplane'; write: dev/openstack/openstack down" + options + " [--keep]\n",
		"status -v":                "status does not take '-v'; write",
		"selftest quick":           "selftest does not take 'quick'; write",
		"run":                      "run takes a command; write: dev/openstack/openstack run" + options + " -- COMMAND",
		"run --":                   "run takes a command; write",
		"run --dataplan -- true":   "run does not take '--dataplan'; write",
		"costs --rouds=2":          "costs does not take '--rouds=2'; write",
		"help start":               "'start' is not a command",
		"start":                    "'start' is not a command",
		"--dataplane up":           "'--dataplane' is not a command; options are behind the command",
		"help up down":             "help does not take 'down'; write: dev/openstack/openstack help [COMMAND]\n",
		"run --release=21 -- true": "was not made by this script", // arguments that it takes
		"run true":                 "was not made by this script",
		"down --keep":              "was not made by this script",
	} {
		printed, status := called(t, strings.Fields(args)...)
		if status == 0 || !strings.Contains(printed, says) {
			t.Errorf("%s: status %d, want %q in\n%s", args, status, says, printed)
		}
	}
}
