// SPDX-License-Identifier: Apache-2.0

package assets

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// stopGrace is how long an interrupted go command may take to remove its temporary files before it is killed.
const stopGrace = 5 * time.Second

// stageFolders are the folders of kwok's module whose Stages are played: a Node becomes ready at once and renews its
// lease, a Pod runs as soon as it is bound, a Job's Pod completes, a deleted Pod goes. They are what kwok itself names
// its fast set (kustomize/stage/fast/kustomization.yaml).
var stageFolders = []string{
	"kustomize/stage/node/fast",
	"kustomize/stage/node/heartbeat-with-lease",
	"kustomize/stage/pod/fast",
}

// build builds components of one pin into dir with the go command, in a module made of the pinned go.mod and go.sum. It
// is one build for all: they share most of their packages, which are then read and compared once.
//
// A module of its own, and not `go install path@version`, because that refuses a module whose go.mod has replace lines,
// as Kubernetes' has, and because only a go.sum of ours makes a build repeatable and checked.
func (m Machine) build(ctx context.Context, components []Component, dir string, progress *progress) (err error) {
	pin := components[0].recipe().pin
	g, remove, err := m.module(pin)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	packages := make([]string, len(components))
	for i, c := range components {
		packages[i] = c.recipe().pkg
	}
	flags := []string{"-trimpath", "-ldflags=" + pin.ldflags()}
	progress.phase("reading the packages to build")
	total := 0
	// Only what the build cache lacks will be named by `go build -v`, so only that is counted.
	list := slices.Concat([]string{"list", "-deps"}, flags, []string{"-f={{if .Stale}}{{.ImportPath}}{{end}}"}, packages)
	if err := g.run(ctx, list, func(string) { total++ }, progress.downloaded); err != nil {
		return err
	}
	progress.phase("compiling")
	progress.expect(total)
	// With a directory, go build names each program after its package's path, which suits Kubernetes' alone.
	output := filepath.Join(dir, string(components[0]))
	if len(components) > 1 {
		output = dir + string(filepath.Separator)
	}
	command := slices.Concat([]string{"build", "-v"}, flags, []string{"-o=" + output}, packages)
	if err := g.run(ctx, command, func(string) {}, progress.compiled); err != nil {
		return err
	}
	if pin == &kwokPin {
		return g.writeStages(ctx, pin.module, filepath.Join(dir, StagesFile))
	}
	return nil
}

// writeStages writes the file of Stages into dir, without kwok: of its module, which the Go module proxy serves and the
// pinned go.sum checks.
func (m Machine) writeStages(ctx context.Context, dir string) (err error) {
	g, remove, err := m.module(&kwokPin)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	quiet := func(string) bool { return false }
	if err := g.run(ctx, []string{"mod", "download", kwokPin.module}, func(string) {}, quiet); err != nil {
		return err
	}
	return g.writeStages(ctx, kwokPin.module, filepath.Join(dir, StagesFile))
}

// module makes the temporary module of a pin. remove MUST be called.
func (m Machine) module(p *pin) (g goCommand, remove func() error, err error) {
	if _, err := exec.LookPath("go"); err != nil {
		return g, nil, errors.New("there is no go command on PATH: install Go from your distribution or " +
			"https://go.dev/dl, or set " + EnvAssets + " to a directory that holds the binaries")
	}
	dir, err := os.MkdirTemp("", "controlplane-build-")
	if err != nil {
		return g, nil, err
	}
	remove = func() error { return os.RemoveAll(dir) }
	for name, content := range map[string][]byte{"go.mod": p.gomod(), "go.sum": p.gosum()} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return g, nil, errors.Join(err, remove())
		}
	}
	return goCommand{dir: dir, env: m.buildEnv()}, remove, nil
}

// buildEnv is the environment of the go command: the caller's, save what would make a build differ between machines.
func (m Machine) buildEnv() []string {
	return append(os.Environ(),
		// Static binaries run on any machine and need no C compiler.
		"CGO_ENABLED=0",
		"GOOS="+m.GOOS, "GOARCH="+m.GOARCH,
		// The module stands alone, wherever the temporary directory is.
		"GOWORK=off",
		// In place of the caller's flags, which may ask for the race detector or for a vendor directory.
		"GOFLAGS=-mod=readonly",
	)
}

// goCommand runs the go command in one module.
type goCommand struct {
	dir string
	env []string
}

// run runs the go command and hands its output over line by line, stdout and stderr apart; the functions are called
// one at a time. notice may decline a line by returning false: it is then part of the error, should the command fail.
// When ctx ends, the command is interrupted with all its compilers.
func (g goCommand) run(ctx context.Context, args []string, line func(string), notice func(string) bool) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = g.dir, g.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = stopGrace
	stdout := &lineWriter{line: line}
	var rest bytes.Buffer
	stderr := &lineWriter{line: func(s string) {
		if !notice(s) {
			rest.WriteString(s + "\n")
		}
	}}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err := cmd.Run()
	stdout.flush()
	stderr.flush()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("go %s: %w\n%s", args[0], err, strings.TrimSpace(rest.String()))
	}
	return nil
}

// writeStages writes the Stages of stageFolders, read from kwok's module, as one YAML stream.
func (g goCommand) writeStages(ctx context.Context, module, path string) error {
	var root string
	ignore := func(string) bool { return false }
	err := g.run(ctx, []string{"list", "-m", "-f={{.Dir}}", module}, func(s string) { root = s }, ignore)
	if err != nil {
		return err
	}
	var stream bytes.Buffer
	for _, folder := range stageFolders {
		files, err := filepath.Glob(filepath.Join(root, folder, "*.yaml"))
		if err != nil {
			return err
		}
		stages := 0
		for _, file := range files {
			// The list of the others, not one of them.
			if filepath.Base(file) == "kustomization.yaml" {
				continue
			}
			content, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			stream.WriteString("---\n")
			stream.Write(bytes.TrimSpace(content))
			stream.WriteString("\n")
			stages++
		}
		if stages == 0 {
			return fmt.Errorf("%s has no Stages in %s: look where this version of kwok keeps them", module, folder)
		}
	}
	return os.WriteFile(path, stream.Bytes(), 0o644)
}

// lineWriter calls line for every line written to it. It is for one writer at a time.
type lineWriter struct {
	line    func(string)
	partial []byte
}

var _ io.Writer = (*lineWriter)(nil)

func (w *lineWriter) Write(p []byte) (int, error) {
	w.partial = append(w.partial, p...)
	for {
		advance, token, err := bufio.ScanLines(w.partial, false)
		if err != nil || advance == 0 {
			return len(p), err
		}
		if len(token) > 0 {
			w.line(string(token))
		}
		w.partial = w.partial[advance:]
	}
}

// flush hands over a last line that has no end.
func (w *lineWriter) flush() {
	if len(w.partial) > 0 {
		w.line(string(w.partial))
		w.partial = nil
	}
}
