// Command controlplane starts one control plane, runs a command whose suites share it (package harness), and stops it.
// The exit code is the command's.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"cloudteam.ztgame.com/network-controller/test/harness"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: controlplane COMMAND [ARGUMENT...]")
		os.Exit(2)
	}
	harness.Exit(harness.Share(func() (int, error) { return run(os.Args[1], os.Args[2:]...) }))
}

// run runs the command to its end, also when a signal comes: the control plane is stopped after it.
func run(name string, arguments ...string) (code int, err error) {
	cmd := exec.Command(name, arguments...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	go func() {
		for s := range signals {
			if s == syscall.SIGTERM { // a terminal sends the other one to both
				_ = cmd.Process.Signal(s)
			}
		}
	}()
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		return 1, err
	}
	if code := cmd.ProcessState.ExitCode(); code >= 0 {
		return code, nil
	}
	return 1, nil // a signal ended it
}
