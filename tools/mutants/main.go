// Command mutants measures what the tests of a package catch. It changes the package at one place after another, as a
// mistake would: a comparison that is turned round or off by one, an "and" that is an "or", a sum that is a difference,
// a condition that is negated. For each of these mutants it runs the package's tests, which should fail.
//
// All mutants of a package are compiled into one test binary, each behind a switch that an environment variable turns
// on, and which of them each test reaches is noted first. So a mutant costs a run of the tests that reach it, and no
// run of the compiler and the linker, which for a package that needs client-go take longer than its tests.
//
// Usage: mutants [-all] [-sample=N] [-seed=N] PACKAGE...
package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	all := flag.Bool("all", false, "try all mutants, and not a sample")
	sample := flag.Int("sample", 60, "how many mutants of a package to try")
	seed := flag.Int("seed", 1, "which ones: those of a seed stay the same until their lines change")
	flag.Parse()
	if *all {
		*sample = 0
	}
	if err := run(os.Stdout, *sample, *seed, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// outcome is what became of a mutant.
type outcome string

const (
	caught     outcome = "caught"
	notCovered outcome = "not covered"
	lived      outcome = "lived"
)

// run tries mutants of packages, and writes those that no test caught, and a table. A sample of 0 is all of them.
func run(to io.Writer, sample, seed int, patterns []string) error {
	found, err := list(append([]string{"-find"}, patterns...)...)
	if err != nil {
		return err
	}
	var rows strings.Builder
	for _, p := range found {
		mutants, total, err := try(to, p.ImportPath, sample, seed)
		if err != nil {
			return fmt.Errorf("%s: %w", p.ImportPath, err)
		}
		count := map[outcome]int{}
		for _, m := range mutants {
			count[m.outcome]++
		}
		of := fmt.Sprint(len(mutants))
		if len(mutants) < total {
			of += fmt.Sprint(" of ", total)
		}
		share := "–"
		if len(mutants) > 0 {
			share = fmt.Sprintf("%.1f %%", 100*float64(count[caught])/float64(len(mutants)))
		}
		fmt.Fprintf(&rows, "| `%s` | %s | %d | %d | %d | %s |\n", strings.TrimPrefix(p.ImportPath, p.Module.Path+"/"), of,
			count[caught], count[notCovered], count[lived], share)
	}
	_, err = fmt.Fprintf(to, "\n| package | mutants | caught | not covered | lived | share caught |\n"+
		"| --- | ---: | ---: | ---: | ---: | ---: |\n%s", rows.String())
	return err
}

// listed is what `go list` says of a package.
type listed struct {
	ImportPath, Name, Dir, Export string
	GoFiles                       []string
	Module                        *struct{ Path string }
}

func list(args ...string) (packages []listed, err error) {
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Name,Dir,Export,GoFiles,Module"}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	for decoder := json.NewDecoder(bytes.NewReader(out)); decoder.More(); {
		var p listed
		if err := decoder.Decode(&p); err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}
	return packages, nil
}

// try tries mutants of a package, and gives them with the number of all that it has.
func try(to io.Writer, path string, sample, seed int) (tried []*mutant, total int, err error) {
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b := &binaryOf{path: path, program: filepath.Join(dir, "test"), reached: filepath.Join(dir, "reached")}
	mutants, err := b.build(dir)
	if err != nil {
		return nil, 0, err
	}
	tried = draw(mutants, sample, seed)
	reached, err := b.baseline()
	if err != nil {
		return nil, 0, err
	}
	for i, m := range tried {
		if m.outcome = notCovered; len(reached[m.id]) > 0 {
			if m.outcome, err = b.run(m.id, reached[m.id]); err != nil {
				return nil, 0, err
			}
		}
		if m.outcome != caught {
			name, _ := filepath.Rel(b.root, m.at.Filename)
			fmt.Fprintf(to, "%s:%d:%d: %s: %s → %s\n", name, m.at.Line, m.at.Column, m.outcome, oneLine(m.was), oneLine(m.is))
		}
		if i%20 == 19 {
			fmt.Fprintf(os.Stderr, "%s: %d of %d\n", path, i+1, len(tried))
		}
	}
	return tried, len(mutants), nil
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// draw gives a sample of mutants, in the order of the source. Which ones follows from their words, so that the sample
// changes only where the source does.
func draw(mutants []*mutant, sample, seed int) []*mutant {
	if sample == 0 || sample >= len(mutants) {
		return mutants
	}
	rank := func(m *mutant) uint64 {
		sum := sha256.Sum256(fmt.Append(nil, seed, filepath.Base(m.at.Filename), m.was, m.is))
		return binary.BigEndian.Uint64(sum[:])
	}
	byRank := func(a, b *mutant) int { return cmp.Compare(rank(a), rank(b)) }
	drawn := slices.SortedStableFunc(slices.Values(mutants), byRank)
	drawn = drawn[:sample]
	slices.SortFunc(drawn, func(a, b *mutant) int { return cmp.Compare(a.id, b.id) })
	return drawn
}

// binaryOf is the test binary of a package, with all its mutants.
type binaryOf struct {
	path, program, reached string
	// root is the folder that was the current one, and dir the package's.
	root, dir string
	flags     []string
	// took is how long each test takes.
	took map[string]time.Duration
}

// build makes the binary. The changed files lie in folder; the compiler sees them in the place of the package's.
func (b *binaryOf) build(folder string) (mutants []*mutant, err error) {
	if b.root, err = os.Getwd(); err != nil {
		return nil, err
	}
	deps, err := list("-export", "-deps", b.path)
	if err != nil {
		return nil, err
	}
	exports := map[string]string{}
	for _, d := range deps {
		exports[d.ImportPath] = d.Export
	}
	p := deps[len(deps)-1]
	b.dir = p.Dir
	m := &mutator{fset: token.NewFileSet(), info: &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}}
	var files []*ast.File
	var sources [][]byte
	for _, name := range p.GoFiles {
		src, err := os.ReadFile(filepath.Join(p.Dir, name))
		if err != nil {
			return nil, err
		}
		f, err := parser.ParseFile(m.fset, filepath.Join(p.Dir, name), src, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files, sources = append(files, f), append(sources, src)
	}
	config := types.Config{Importer: importer.ForCompiler(m.fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})}
	if _, err := config.Check(p.ImportPath, m.fset, files, m.info); err != nil {
		return nil, err
	}
	overlay := map[string]string{}
	write := func(name string, src []byte) error {
		overlay[filepath.Join(p.Dir, name)] = filepath.Join(folder, name)
		return os.WriteFile(filepath.Join(folder, name), src, 0o600)
	}
	for i, f := range files {
		if ast.IsGenerated(f) {
			continue
		}
		if err := write(p.GoFiles[i], m.file(f, sources[i])); err != nil {
			return nil, err
		}
	}
	if err := write("mutants_switches.go", fmt.Appendf(nil, switches, p.Name, len(m.mutants))); err != nil {
		return nil, err
	}
	text, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(folder, "overlay.json"), text, 0o600); err != nil {
		return nil, err
	}
	return m.mutants, b.compile(filepath.Join(folder, "overlay.json"))
}

func (b *binaryOf) compile(overlay string) error {
	build := exec.Command("go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", overlay, "-o", b.program, b.path)
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	tested, err := list("-test", "-deps", b.path)
	if err != nil {
		return err
	}
	b.flags = []string{"-test.short", "-test.failfast"}
	if slices.ContainsFunc(tested, func(p listed) bool { return p.ImportPath == "pgregory.net/rapid" }) {
		// What fails needs no smaller example, and no file with it. Each run draws the same.
		b.flags = append(b.flags, "-rapid.seed=1", "-rapid.nofailfile", "-rapid.shrinktime=1ns")
	}
	return nil
}

// baseline runs each test without any mutant, and gives the tests that reach each of them.
func (b *binaryOf) baseline() (reached map[int][]string, err error) {
	names, err := b.command(context.Background(), nil, "-test.list=^(Test|Fuzz|Example)").Output()
	if err != nil {
		return nil, fmt.Errorf("listing the tests: %w", err)
	}
	reached, b.took = map[int][]string{}, map[string]time.Duration{}
	for name := range strings.Lines(string(names)) {
		name = strings.TrimSpace(name)
		began := time.Now()
		cmd := b.command(context.Background(), []string{"MUTANTS_REACHED=" + b.reached}, only(name))
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%s fails without a mutant: %w: %s", name, err, out)
		}
		b.took[name] = time.Since(began)
		text, err := os.ReadFile(b.reached)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err := errors.Join(err, os.Remove(b.reached)); err != nil {
			return nil, err
		}
		for word := range strings.FieldsSeq(string(text)) {
			id, err := strconv.Atoi(word)
			if err != nil {
				return nil, err
			}
			reached[id] = append(reached[id], name)
		}
	}
	return reached, nil
}

func only(tests ...string) string { return "-test.run=^(" + strings.Join(tests, "|") + ")$" }

// hang is how much longer than before tests may take with a mutant, which is caught then. It only ends what hangs: the
// machine may be busy.
var hang = time.Minute

// run runs tests with a mutant.
func (b *binaryOf) run(id int, tests []string) (outcome, error) {
	patience := hang
	for _, name := range tests {
		patience += 3 * b.took[name]
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := b.command(ctx, []string{fmt.Sprint("MUTANT=", id)}, only(tests...)).Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return lived, nil
	case errors.As(err, &exit), ctx.Err() != nil:
		return caught, nil
	}
	return "", err
}

// command runs tests in the package's folder, as `go test` does. A mutant that fills the memory ends itself.
func (b *binaryOf) command(ctx context.Context, env []string, flags ...string) *exec.Cmd {
	const most = 8 << 20 // KiB of addresses
	script := fmt.Sprintf(`ulimit -v %d; exec "$@"`, most)
	cmd := exec.CommandContext(ctx, "sh", slices.Concat([]string{"-c", script, "sh", b.program}, b.flags, flags)...)
	cmd.Dir, cmd.Env = b.dir, append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}
