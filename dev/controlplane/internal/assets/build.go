// SPDX-License-Identifier: Apache-2.0

//go:build unix

package assets

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// stopGrace is how long an interrupted go command may take to remove its temporary files before it is killed.
	stopGrace = 5 * time.Second
	// progressPace is how often a build says how far it is.
	progressPace = 10 * time.Second
)

// goBuild builds programs of a recipe into dir with the go command, in a module made of the pinned go.mod and go.sum.
// It is one build for all: they share most of their packages, which are then read and compared once.
//
// Its own module, and not `go install path@version`, because that refuses a module whose go.mod has replace lines,
// as Kubernetes' has, and because only a go.sum of ours makes a build repeatable and checked.
func (k *Cache) goBuild(ctx context.Context, r recipe, components []Component, dir string) (err error) {
	if _, err := exec.LookPath("go"); err != nil {
		return fmt.Errorf("there is no go command on PATH: install Go from your distribution or https://go.dev/dl, or "+
			"set %s to a directory that holds the programs", EnvAssets)
	}
	module, err := os.MkdirTemp("", "controlplane-build-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(module)) }()
	for file, content := range map[string][]byte{"go.mod": pinned(r.pin + ".mod"), "go.sum": pinned(r.pin + ".sum")} {
		if err := os.WriteFile(filepath.Join(module, file), content, 0o600); err != nil {
			return err
		}
	}
	what, started := fmt.Sprintf("%s %s", Join(components), r.version()), time.Now()
	k.Log.Printf("%s: building from source (minutes the first time)", what)
	var packages []string
	for _, c := range components {
		packages = append(packages, r.packages[c])
	}
	// With a directory, go build names each program after its package's path, which suits Kubernetes' alone.
	output := filepath.Join(dir, string(components[0]))
	if len(components) > 1 {
		output = dir + string(filepath.Separator)
	}
	// The Makefile has the same flags for compilers, so that a package that the project needs, too, is compiled once.
	flags := []string{"-trimpath", "-gcflags=all=-dwarf=false", "-ldflags=" + r.ldflags()}
	g := goCommand{dir: module}
	var shown sync.WaitGroup
	built := make(chan struct{})
	shown.Go(func() {
		tick := time.NewTicker(progressPace)
		defer tick.Stop()
		for {
			select {
			case <-built:
				return
			case <-tick.C:
				k.Log.Printf("%s: %s, %s", what, &g, time.Since(started).Round(time.Second))
			}
		}
	})
	err = g.run(ctx, slices.Concat([]string{"list", "-deps"}, flags, packages)...)
	if err == nil {
		g.total.Store(g.packages.Swap(0))
		err = g.run(ctx, slices.Concat([]string{"build", "-v", "-o=" + output}, flags, packages)...)
	}
	close(built)
	shown.Wait()
	if err == nil {
		k.Log.Printf("%s: built in %s", what, time.Since(started).Round(time.Second))
	}
	return err
}

// goCommand runs the go command in one module, and counts what it announces.
type goCommand struct {
	dir string
	// total is the number of packages that a program consists of, once that is known.
	downloads, packages, total atomic.Int64
}

// String says how far the command is.
func (g *goCommand) String() string {
	if total := g.total.Load(); total != 0 {
		return fmt.Sprintf("compiled %d of at most %d packages", g.packages.Load(), total)
	}
	return fmt.Sprintf("downloaded %d modules", g.downloads.Load())
}

// run runs the go command. Its error has what the command says. When ctx ends, the command is interrupted with all its
// compilers.
func (g *goCommand) run(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.WaitDelay = g.dir, stopGrace
	cmd.Env = append(os.Environ(),
		// Static programs run on any machine and need no C compiler. hack/demo.sh builds the project so, too.
		"CGO_ENABLED=0", "GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH,
		// The module stands alone, wherever the temporary directory is.
		"GOWORK=off",
		// In place of the caller's flags, which may ask for the race detector or for a vendor directory.
		"GOFLAGS=-mod=readonly",
	)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return err
	}
	var rest []string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		switch line := lines.Text(); {
		case strings.HasPrefix(line, "go: downloading "):
			g.downloads.Add(1)
		case strings.ContainsAny(line, " \t"):
			rest = append(rest, line)
		default: // the path of a package
			g.packages.Add(1)
		}
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", args[0], err, strings.Join(rest, "\n"))
	}
	return nil
}
