//go:build linux

package reader

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"cloudteam.ztgame.com/network-controller/dev/process"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/why"
	"cloudteam.ztgame.com/network-controller/test/harness"

	// The programs are built by a command, of which go test knows nothing: without the import it would take the results of
	// earlier ones from its cache.
	_ "cloudteam.ztgame.com/network-controller/internal/app"
	_ "cloudteam.ztgame.com/network-controller/internal/kubectl"
	_ "cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/nightly"
)

const (
	// patience is the longest that the demo, or one block of a page, may take.
	patience = 5 * time.Minute
	// settling is how long what a page shows may take to become true: a person is slower than this test.
	settling = 30 * time.Second
)

// pages are read in this order, with one control plane.
var pages = []struct {
	path string
	// alone is true for a page that needs no control plane. These are read beside the others, in a clone of their own: they wait
	// for compilers, and the others for controllers.
	alone bool
	// before is entered before the page is read, to tidy up after others.
	before string
}{
	{path: "docs/tutorial.md"},
	{path: "docs/learn/from-the-notes.md"},
	{path: "docs/learn/README.md"}, {path: "docs/learn/1-crd.md"}, {path: "docs/learn/2-generated-code.md", alone: true},
	{path: "docs/learn/3-informers.md"}, {path: "docs/learn/4-workqueue.md"}, {path: "docs/learn/5-foo.md"},
	{path: "docs/learn/6-exactly-once.md", alone: true}, {path: "docs/learn/7-fix-me.md"}, {path: "docs/learn/8-api-server.md"},
	{path: "docs/learn/9-testing.md", alone: true},
	{path: "docs/foo.md", before: "kubectl create namespace network-controller # as an installation has it"},
	{path: "docs/deployment.md"}, {path: "docs/networkport.md"},
	{path: "docs/network.md", before: "kubectl delete deployments,networkports,networks --all"},
	{path: "docs/securitygroup.md", before: yamlOf + "yaml_of docs/securitygroup.md | kubectl apply -f -"},
	{path: "docs/router.md", before: yamlOf + "yaml_of docs/router.md | kubectl apply -f -"},
	{path: "docs/floatingip.md", before: apart},
	// The last ones, because their classes decide what others may do.
	{path: "docs/classes.md", before: `
		kubectl delete networkclasses --all
		kubectl apply -f - <<<'{"apiVersion": "cloudteam.ztgame.com/v1", "kind": "Network", "metadata": {"name": "lab"},
			"spec": {"cidr": "10.20.0.0/24", "className": "team-b"}}'`},
	{path: "docs/onboard.md", before: "kubectl delete networkclasses --all"},
}

// yamlOf defines a command that prints the first object that a page shows.
const yamlOf = "yaml_of() { awk '/^```yaml$/ {shown = 1; next} /^```/ && shown {exit} shown' \"$1\"; }\n"

// apart has all that follows done in a namespace of its own, whose Pods wait for their ports: a Network that is made there
// has no router yet, whatever other pages left.
const apart = `
	kubectl create namespace apart
	kubectl label namespace apart cloudteam.ztgame.com/networks=enabled
	cp "$KUBECONFIG" "$KUBECONFIG.apart"
	export KUBECONFIG="$KUBECONFIG.apart"
	kubectl config set-context --current --namespace=apart
`

// notRun are what commands begin with that are not run, and why.
var notRun = map[string]string{
	"make run":                      "the test itself does it",
	"hack/generate.sh":              "make verify runs it, which takes minutes",
	"make assets":                   "it is for what comes next",
	"KUBEBUILDER_ASSETS=":           "make test-all runs the end-to-end tests",
	"export KUBECONFIG=":            "the test enters what make run prints",
	"export OS_CLIENT_CONFIG_FILE=": "likewise",
	"export PATH=$PWD/bin:$PATH":    "likewise",
	"kubectl apply -f foo.yaml":     "the page shows no such file",
	"kubectl annotate statefulset":  "the page shows none",
	"kubectl get pod NAME":          "it is for a Pod that waits",
}

// said is what the text around a block says of it.
var said = []struct {
	// page and begins name the block.
	page, begins string
	// prints are among what it prints; nothing is said where it prints nothing at all.
	prints  []string
	nothing bool
	// fails is what a command begins with that fails.
	fails string
}{
	{page: "tutorial", begins: "openstack network list", nothing: true},
	{page: "1-crd", begins: "kubectl delete crd", fails: "kubectl get foos"},
	{page: "2-generated-code", begins: "git status", nothing: true},
	{page: "2-generated-code", begins: "deepcopy()", prints: []string{"types.go", "+	if in.Colour != nil {"}},
	{page: "2-generated-code", begins: "sed", fails: "go vet",
		prints: []string{"*Foo does not implement runtime.Object (missing method DeepCopyObject)"}},
	{page: "3-informers", begins: "sed", fails: "go test ./internal/controller",
		prints: []string{"/a_tombstone_without_the_object", "keys [], want [team/a]"}},
	{page: "4-workqueue", begins: "kubectl patch", prints: []string{"/7 "}}, // the page's numbers
	{page: "4-workqueue", begins: "kubectl events", prints: []string{"from 7 to 2"}},
	{page: "4-workqueue", begins: "sed", fails: "go test ./internal/controller", prints: []string{"keys [team/a], want []"}},
	{page: "5-foo", begins: "kubectl events --for foo/example-foo", prints: []string{`Created Deployment "example-foo"`}},
	{page: "6-exactly-once", begins: "sed", fails: "go test ./internal/controller/managed",
		prints: []string{"want one network with one subnet", "overlaps"}},
	{page: "7-fix-me", begins: "sed -i", fails: "go test ./examples/network-from-the-notes",
		prints: []string{"--- FAIL: TestFaultOneLostAnswerMakesTwoNetworks", `["web ours 10.0.0.1"]`}},
	{page: "8-api-server", begins: `kubectl patch crd foos.samplecontroller.k8s.io --type=json -p '[{"op": "remove"`,
		fails: "kubectl get --raw"},
	{page: "9-testing", begins: "go test ./internal/controller/managed", prints: []string{"--- PASS"}},
	{page: "9-testing", begins: "export KUBEBUILDER_ASSETS", prints: []string{"/what_was_stored_as_v1_reads_as_v2"}},
	{page: "9-testing", begins: "go test ./test/faults", prints: []string{"--- PASS: TestFoos", "killed at"}},
	{page: "9-testing", begins: "sed -i", fails: "go test ./internal/controller/foo -count=1 -run TestStaleCaches",
		prints: []string{"/what_was_scaled_is_not_scaled_again"}},
}

func TestReader(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("KUBEBUILDER_ASSETS is not set; run `make test-all`")
	}
	for _, program := range []string{"bash", "make", "git", "jq", "curl", "pgrep"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("a reader needs %s: %v", program, err)
		}
	}
	clone := cloned(t)
	if _, err := exec.LookPath("kubectl"); err != nil {
		do(t, "../../tools/kubectl", "go", "build", "-trimpath", "-o", filepath.Join(clone, "bin", "kubectl"), ".")
	}
	printed := do(t, clone, "make", "demo")
	t.Run("demo", func(t *testing.T) { showsDemo(t, clone, printed) })
	second := filepath.Join(t.TempDir(), "second")
	do(t, clone, "cp", "-a", ".", second)
	env, tried, metrics := makeRun(t, clone)
	// enter enters commands in a terminal of its own.
	enter := func(commands []string) func(*testing.T) {
		return func(t *testing.T) {
			terminal := open(t, clone, metrics)
			before := append([]string{"export PATH=$PWD/bin:$PATH KUBE_EDITOR=true"}, env...)
			for _, line := range append(before, commands...) {
				if out, failed := terminal.enter(runnable(line)); len(failed) > 0 {
					t.Errorf("%s: %s", line, out)
				}
			}
		}
	}
	t.Run("try it", enter(append(tried, "kubectl delete deployments,networks --all")))
	t.Run("pages", func(t *testing.T) {
		for lane, clone := range map[string]string{"with the control plane": clone, "alone": second} {
			t.Run(lane, func(t *testing.T) {
				t.Parallel()
				for _, page := range pages {
					if page.alone == (clone == second) {
						t.Run(strings.TrimSuffix(strings.TrimPrefix(page.path, "docs/"), ".md"), func(t *testing.T) {
							read(t, clone, page.path, append(slices.Clone(env), page.before), metrics)
						})
					}
				}
			})
		}
	})
	t.Run("messages", func(t *testing.T) {
		enter(append([]string{objectsOfMessages}, append(recommended(t, clone), ofMessages(t, clone)...)...))(t)
	})
}

// objectsOfMessages makes what the commands of messages are about: everything is called "named".
const objectsOfMessages = `
	kubectl delete networkclasses --all
	kubectl create namespace named
	kubectl apply -f - <<-'END'
	{"apiVersion": "v1", "kind": "List", "items": [
		{"apiVersion": "cloudteam.ztgame.com/v1", "kind": "Network", "metadata": {"name": "named", "namespace": "named"},
			"spec": {"cidr": "10.77.0.0/24"}},
		{"apiVersion": "cloudteam.ztgame.com/v1", "kind": "NetworkPort", "metadata": {"name": "named", "namespace": "named"},
			"spec": {"networkName": "named"}},
		{"apiVersion": "cloudteam.ztgame.com/v1", "kind": "FloatingIP", "metadata": {"name": "named", "namespace": "named"},
			"spec": {"externalNetwork": "public"}},
		{"apiVersion": "cloudteam.ztgame.com/v1", "kind": "SecurityGroup", "metadata": {"name": "named", "namespace": "named"},
			"spec": {}},
		{"apiVersion": "cloudteam.ztgame.com/v1", "kind": "NetworkClass", "metadata": {"name": "named"}, "spec": {}},
		{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "named", "namespace": "named"}},
		{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "named", "namespace": "named"},
			"spec": {"selector": {"app": "named"}, "ports": [{"port": 80}]}},
		{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "named"}},
		{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "named", "namespace": "named"}, "spec": {
			"replicas": 0, "selector": {"matchLabels": {"app": "named"}}, "template": {"metadata": {"labels": {"app": "named"}},
			"spec": {"containers": [{"name": "c", "image": "named"}]}}}},
		{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "named", "namespace": "named"},
			"spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "named"}]}}]}
	END
	kubectl apply --server-side --force-conflicts -k config >/dev/null
	kubectl apply -k config/node >/dev/null
	kubectl wait -n named --for=condition=Ready network/named networkport/named securitygroup/named --timeout=1m
`

// formatted are the commands in messages that have names in them, as the code writes them, and the names. A backquote, a
// quote or a word ends a command there.
var formatted = map[string]string{
	"kubectl create namespace %[1]s":               "kubectl create namespace another",
	"kubectl label namespace %s %s=%s":             "kubectl label namespace named cloudteam.ztgame.com/networks=enabled",
	"kubectl label namespace %s %s=%s --overwrite": "kubectl label namespace named a=b --overwrite",
	"kubectl describe networks.%s -n %s %s":        "kubectl describe networks.cloudteam.ztgame.com -n named named",
	"kubectl describe deployment %s":               "kubectl describe deployment named -n named",
	"kubectl describe pod %s -n %s":                "kubectl describe pod named -n named",
	"kubectl delete pod %s -n %s --force":          "kubectl delete pod named -n named --force",
	"kubectl delete pods -n %s":                    "kubectl delete pods -n named -l a=b",
	"kubectl get networkports -n %s -o yaml":       "kubectl get networkports -n named -o yaml",
	"kubectl network why %s/%s -n %s":              "kubectl network why network/named -n named",
	"kubectl network why network/%s -n %s":         "kubectl network why network/named -n named",
	"kubectl network why service/%[2]s -n %[3]s":   "kubectl network why service/named -n named",
	"kubectl describe node ":                       "kubectl describe node named",
}

// ofMessages gives the commands of kubectl in messages that name an object.
func ofMessages(t *testing.T, clone string) []string {
	t.Helper()
	var commands []string
	for _, kind := range []string{why.KindNetwork, why.KindNetworkPort, why.KindFloatingIP, why.KindSecurityGroup} {
		commands = append(commands, why.Commands(why.Object{Kind: kind, Namespace: "named", Name: "named"})...)
	}
	for found := range strings.Lines(do(t, clone, "git", "grep", "-hoE", `kubectl ([a-z-]+ )+[a-z]*[./]?%[][0-9]*s`+
		`(([ /=]| -n | -o | -l )%[][0-9]*s| --[a-z]+| -o yaml)*`, "--", "cmd/*.go", "internal/*.go", ":!*_test.go")) {
		if command := strings.TrimSpace(found); formatted[command] == "" {
			t.Errorf("it is not known how to run %q: add it to formatted", command)
		}
	}
	commands = slices.AppendSeq(commands, maps.Values(formatted))
	commands = slices.DeleteFunc(commands, func(command string) bool { return strings.HasPrefix(command, "openstack ") })
	slices.Sort(commands)
	return slices.Compact(commands)
}

// runnable gives a command that can be run here, and does no more than show whether it is right.
func runnable(command string) string {
	command = strings.ReplaceAll(command, "NAME", "named")
	verb, _, _ := strings.Cut(strings.TrimPrefix(command, "kubectl "), " ")
	switch {
	case strings.HasSuffix(command, " --all"): // the test's own
		return command
	case strings.HasPrefix(command, "kubectl ") && slices.Contains([]string{"create", "label", "annotate", "delete"}, verb):
		return command + " --dry-run=server"
	case strings.HasPrefix(command, "kubectl network doctor"): // it fails because of what it finds
		return command + " || [[ $? == 2 ]]"
	case strings.Contains(command, " logs "): // no kubelet is here
		return strings.Replace(command, " logs ", " get ", 1)
	case strings.Contains(command, " rollout status "):
		return command + " --watch=false"
	case strings.HasSuffix(command, " -w"):
		return strings.TrimSuffix(command, " -w")
	}
	return command
}

// recommended gives the commands that messages of the programs recommend: all that install something, and those to look
// at the cluster that name no object.
func recommended(t *testing.T, clone string) []string {
	t.Helper()
	found := do(t, clone, "git", "grep", "-hoE", `kubectl apply (--server-side )?-[fk] [[:alnum:]./_-]*[[:alnum:]/]|`+
		`"kubectl (get ([a-z]+( -A)?|--raw [a-z0-9/]+)|-n network-[a-z]+ [^"]*)"|kubectl network (adopt|doctor|orphans)\>`, "--", "cmd/*.go", "config/*.go", "internal/*.go", ":!*_test.go")
	commands := strings.Split(strings.TrimSpace(strings.ReplaceAll(found, `"`, "")), "\n")
	slices.Sort(commands)
	if commands = slices.Compact(commands); len(commands) < 5 {
		t.Errorf("only %q are found", commands)
	}
	return commands
}

// showsDemo holds the page of the demo to what it printed.
func showsDemo(t *testing.T, clone, printed string) {
	t.Helper()
	const page = "docs/demo.md"
	all, err := blocks(filepath.Join(clone, page))
	expect.NoError(t, err)
	var shown []string
	for _, block := range all {
		for _, c := range block {
			shown = append(shown, c.shown...)
		}
	}
	if line := missing(shown, printed); line != "" || len(shown) == 0 {
		t.Errorf("%s shows this line, which is not printed, or not there: %s\n%s", page, line, printed)
	}
}

// cloned gives a folder with the files of this repository as they are, in a repository of its own, and of the programs
// that make build builds the one that make demo does not.
func cloned(t *testing.T) string {
	t.Helper()
	clone := t.TempDir()
	t.Setenv("CLONE", clone)
	do(t, "../..", "bash", "-ec", `git ls-files -z --cached --others --exclude-standard |
		while IFS= read -rd '' file; do [[ ! -e $file ]] || printf '%s\0' "$file"; done |
		tar -c --null -T - | tar -x -C "$CLONE"`)
	do(t, clone, "git", "init", "--quiet")
	do(t, clone, "git", "add", "--all")
	do(t, clone, "git", "-c", "user.name=reader", "-c", "user.email=reader@localhost", "commit", "--quiet", "--message=x")
	do(t, "../..", "go", "build", "-trimpath", "-o", filepath.Join(clone, "bin")+"/", "./cmd/kubectl-network")
	return clone
}

// do runs a program in a folder, and gives what it prints.
func do(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	ctx := t.Context()
	if deadline, is := t.Deadline(); is { // what ends after go test's own deadline prints nothing
		before, cancel := context.WithDeadline(ctx, deadline.Add(-time.Minute))
		defer cancel()
		ctx = before
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = 10 * time.Second // for what the program has started
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, output)
	}
	return string(output)
}

var (
	teaches  = regexp.MustCompile(`(?m)^ +\$ ((?:kubectl|openstack) .*|curl (?:.*\\\n)*.*)$`)
	exported = regexp.MustCompile(`(?m)^ +\$ (export (?:KUBECONFIG|OS_CLIENT_CONFIG_FILE)=.*)$`)
	measured = regexp.MustCompile(`(?m)^ +Metrics: (.*)$`)
)

// makeRun does what `make run` does, until the test ends, and gives the lines to enter in a second terminal, the commands
// to try there, and the address of the metrics.
func makeRun(t *testing.T, clone string) (env, tried []string, metrics string) {
	t.Helper()
	var printed process.Buffer
	demo, err := process.Start(process.Program{
		Name: "demo", Path: filepath.Join(clone, "bin", "demo"), Args: []string{"--stay"}, Dir: clone, Output: &printed,
		Orphaned: syscall.SIGTERM, Patience: time.Minute,
	})
	expect.NoError(t, err)
	t.Cleanup(func() {
		if err := demo.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("make run does not stop: %v", err)
		}
	})
	err = harness.Poll(demo.Done(), patience, 100*time.Millisecond, func() error {
		if !strings.Contains(printed.String(), "4. The controller's log") {
			return errors.New("make run is not ready")
		}
		return nil
	})
	text := printed.String()
	if err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	for _, found := range exported.FindAllStringSubmatch(text, -1) {
		env = append(env, found[1])
	}
	_, lesson, _ := strings.Cut(text, "In another terminal, in this folder:")
	_, err = exec.LookPath("openstack")
	for _, found := range teaches.FindAllStringSubmatch(lesson, -1) {
		if !strings.HasPrefix(found[1], "openstack ") || err == nil {
			tried = append(tried, found[1])
		}
	}
	found := measured.FindStringSubmatch(text)
	if len(env) == 0 || found == nil || len(tried) < 5 {
		t.Fatalf("make run does not print what the pages need:\n%s", text)
	}
	return env, tried, found[1]
}

// read does what a page says, in a terminal of its own, after what is entered before.
func read(t *testing.T, clone, page string, before []string, metrics string) {
	t.Helper()
	all, err := blocks(filepath.Join(clone, page))
	expect.NoError(t, err)
	terminal := open(t, clone, metrics)
	for _, line := range append([]string{"export PATH=$PWD/bin:$PATH"}, before...) {
		if out, failed := terminal.enter(line); len(failed) > 0 {
			t.Fatalf("%s: %s", line, out)
		}
	}
	_, err = exec.LookPath("openstack")
	openstack := err == nil
	last := ""
	for _, b := range all {
		for _, c := range b {
			if c.text == "" {
				if err := lacking(c, last); err != nil {
					t.Errorf("%s:%d: of what the last command printed, %v:\n%s", page, c.line, err, last)
				}
				continue
			}
			if strings.HasPrefix(c.text, "openstack ") && !openstack {
				t.Logf("%s:%d: there is no OpenStack client, which is optional", page, c.line)
				break
			}
			if c.text = run(c.text); c.text != "" {
				last = terminal.obey(page, c)
			}
			if strings.Contains(c.text, "sed -i") {
				terminal.compile(page, c)
			}
		}
	}
	if changed, _ := terminal.enter("git diff --stat"); changed != "" {
		t.Errorf("%s does not take back what it changes:\n%s", page, changed)
	}
}

// run gives what of a text is run.
func run(text string) string {
	var left []string
	skipping := false
	for line := range strings.SplitSeq(text, "\n") {
		for begin := range notRun {
			skipping = skipping || strings.HasPrefix(line, begin)
		}
		if !skipping {
			left = append(left, line)
		}
		skipping = skipping && strings.HasSuffix(line, "\\")
	}
	return strings.TrimSpace(strings.Join(left, "\n"))
}

// terminal is a shell that reads commands as a person enters them.
type terminal struct {
	t      *testing.T
	script io.Writer
	out    *bufio.Reader
	number int
}

// open opens a terminal in a folder. A question of a command is answered with what is pasted.
func open(t *testing.T, dir, pasted string) *terminal {
	t.Helper()
	commands, script, err := os.Pipe()
	expect.NoError(t, err)
	printed, screen, err := os.Pipe()
	expect.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	shell := exec.CommandContext(ctx, "bash", "/dev/fd/3")
	shell.Dir = dir
	shell.Stdin = strings.NewReader(strings.Repeat(pasted+"\n", 9))
	shell.Stdout, shell.Stderr = screen, screen
	shell.ExtraFiles = []*os.File{commands}
	// What a command starts in the background ends with the terminal.
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	shell.Cancel = func() error { return syscall.Kill(-shell.Process.Pid, syscall.SIGKILL) }
	expect.NoError(t, shell.Start())
	_ = commands.Close()
	_ = screen.Close()
	t.Cleanup(func() {
		cancel()
		_ = script.Close()
		_ = shell.Wait()
		_ = printed.Close()
	})
	s := &terminal{t: t, script: script, out: bufio.NewReader(printed)}
	s.enter(`set -E -o pipefail; trap 'printf "FAILED %s\n" "${BASH_COMMAND//$'\n'/ }"' ERR
		export PAGER=cat GIT_PAGER=cat GOFLAGS='-trimpath -gcflags=all=-dwarf=false' CGO_ENABLED=0`)
	return s
}

// enter runs a text and gives what it prints, and the commands in it that failed.
func (s *terminal) enter(text string) (printed string, failed []string) {
	s.t.Helper()
	s.number++
	end := fmt.Sprintf("END OF %d", s.number)
	if _, err := fmt.Fprintf(s.script, "%s\nprintf '\\n%%s\\n' '%s'\n", text, end); err != nil {
		s.t.Fatal(err)
	}
	type result struct {
		lines []string
		err   error
	}
	ended := make(chan result, 1)
	go func() {
		var r result
		for {
			line, err := s.out.ReadString('\n')
			line = strings.TrimSuffix(line, "\n")
			if err != nil || line == end {
				r.err = err
				ended <- r
				return
			}
			r.lines = append(r.lines, line)
		}
	}()
	select {
	case r := <-ended:
		if r.err != nil {
			s.t.Fatalf("the shell ended in %q: %v\n%s", text, r.err, strings.Join(r.lines, "\n"))
		}
		lines := slices.DeleteFunc(r.lines, func(line string) bool {
			command, is := strings.CutPrefix(line, "FAILED ")
			if is {
				failed = append(failed, command)
			}
			return is
		})
		return strings.TrimSuffix(strings.Join(lines, "\n"), "\n"), failed
	case <-time.After(patience):
		s.t.Fatalf("it does not end: %s", text)
		return "", nil
	}
}

// obey does what a page says until it prints what the page shows, and gives what it printed. What changes nothing is
// asked again for a while.
func (s *terminal) obey(page string, c command) string {
	s.t.Helper()
	var printed string
	obeyed := func() error {
		began := time.Now()
		var failed []string
		printed, failed = s.enter(c.text)
		s.t.Logf("%s:%d: %s\n$ %s\n%s", page, c.line, nightly.Since(began), c.text, printed)
		return errors.Join(unexpected(page, c, printed, failed), lacking(c, printed))
	}
	var err error
	if asks.MatchString(c.text) {
		err = harness.Poll(nil, settling, 200*time.Millisecond, obeyed)
	} else {
		err = obeyed()
	}
	if err != nil {
		s.t.Errorf("%s:%d: %v\n$ %s\n%s", page, c.line, err, c.text, printed)
	}
	return printed
}

// asks are commands that change nothing.
var asks = regexp.MustCompile(`^(kubectl (get|network (why|tree|plan)|events)|openstack \w+ (list|show)|\S+/neutron\.sh list)( |$)`)

// compile compiles what a page has changed, if it has not taken that back yet.
func (s *terminal) compile(page string, c command) {
	s.t.Helper()
	out, failed := s.enter("git diff --name-only -- '*.go' | xargs -r -n1 dirname | sort -u | sed 's|^|./|' | xargs -r go vet")
	if len(failed) > 0 {
		s.t.Errorf("%s:%d: the code does not compile any more:\n%s", page, c.line, out)
	}
}

// unexpected gives what is other than the text around a block says. Where a page shows what a command prints, it shows
// failures as well.
func unexpected(page string, c command, printed string, failed []string) error {
	var problems []error
	fails := ""
	for _, about := range said {
		if !strings.HasSuffix(page, about.page+".md") || !strings.HasPrefix(c.text, about.begins) {
			continue
		}
		fails = about.fails
		for _, want := range about.prints {
			if !strings.Contains(printed, want) {
				problems = append(problems, fmt.Errorf("it does not print %q", want))
			}
		}
		if about.nothing && c.shown == nil && strings.TrimSpace(printed) != "" {
			problems = append(problems, errors.New("it prints something"))
		}
		if about.fails != "" && len(failed) == 0 {
			problems = append(problems, fmt.Errorf("%s does not fail", about.fails))
		}
	}
	for _, command := range failed {
		if c.shown == nil && (fails == "" || !strings.HasPrefix(command, fails)) {
			problems = append(problems, fmt.Errorf("this fails: %s", command))
		}
	}
	return errors.Join(problems...)
}

// lacking gives what the page shows and the command did not print.
func lacking(c command, printed string) error {
	if line := missing(c.shown, printed); line != "" {
		return fmt.Errorf("the page shows this line, which is not printed: %s", line)
	}
	return nil
}
