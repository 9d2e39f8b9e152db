//go:build unix

package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/config/crd"
	"cloudteam.ztgame.com/network-controller/dev/process"
	"cloudteam.ztgame.com/network-controller/internal/inspect"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// How long parts may take. What a healthy machine does in seconds gets a minute, so that a busy one does too.
const (
	// planePatience is for the first start, which downloads and compiles Kubernetes.
	planePatience = 45 * time.Minute
	startPatience = time.Minute
	stepPatience  = time.Minute
)

// emulatorCloud is the emulator's cloud that the demo uses: that of an ordinary user.
const emulatorCloud = "tenant"

// What the first steps say.
const (
	standing   = "A complete Kubernetes control plane, without containers, and a cloud."
	installing = "CRDs define Networks and NetworkPorts. A policy makes Pods wait for their ports."
	whole      = "Kubernetes: a complete control plane on this machine, with one Node that runs no containers"
)

// auditPolicy has kube-apiserver log who asks for objects of this project, for readers of docs/learn.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  resources: [{group: cloudteam.ztgame.com}, {group: samplecontroller.k8s.io}]
`

// surroundings are a Kubernetes control plane, a cloud and the controller, and what is needed to speak to them.
type surroundings struct {
	options options
	n       *narrator
	// root is the repository's root, bin the folder of the programs.
	root, bin string
	// dir holds data and logs; temporary says that it goes after a success.
	dir       string
	temporary bool

	kubeconfig string
	// fronted is the controller's kubeconfig, which leads through a proxy; empty without --stay.
	fronted string
	// complete is closed when all parts of the control plane serve: the story begins with its API server.
	complete chan struct{}
	// gateDue says that the admission policy was applied when nothing could create Pods yet.
	gateDue bool
	cluster *cluster
	cloud   *cloud
	// real says that the cloud is not the emulator; cloudName names it.
	real      bool
	cloudName string
	// cloudsFile is the emulator's clouds.yaml.
	cloudsFile string
	// health is the address of the controller's /readyz and /metrics.
	health     string
	controller *process.Process
	// shown gets the controller's log too; nil without --stay.
	shown io.Writer
	// inspection is the address of the controller's stream of events; empty without --stay.
	inspection atomic.Value
	// inspectToken is the token of that stream.
	inspectToken string
	// starts is how often the controller was started.
	starts   int
	emulator *process.Process

	// processes are in the order in which they were started.
	processes []*process.Process
	// warned says that the user was told what stays in the cloud.
	warned bool
	// fail ends the context of all steps, because a program ended.
	fail context.CancelCauseFunc
}

// newSurroundings finds the programs and makes the folder. Nothing is started.
func newSurroundings(o options, n *narrator, fail context.CancelCauseFunc) (*surroundings, error) {
	s := &surroundings{options: o, n: n, fail: fail, complete: make(chan struct{})}
	s.real = o.cloud != ""
	executable, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s.bin = filepath.Dir(executable)
	s.root = filepath.Dir(s.bin)
	for _, path := range []string{
		filepath.Join(s.bin, "controlplane"), filepath.Join(s.bin, "network-controller"),
		filepath.Join(s.bin, "neutron-emulator"), s.crdDir(), s.admissionDir(),
	} {
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("%w: run make build in the repository's root, and bin/demo from there", err)
		}
	}
	if o.dir == "" {
		s.temporary = true
		s.dir, err = os.MkdirTemp("", "network-controller-demo-")
		return s, err
	}
	if s.dir, err = filepath.Abs(o.dir); err != nil {
		return nil, err
	}
	return s, os.MkdirAll(s.dir, 0o700)
}

// planeDir is where the control plane keeps its data.
func (s *surroundings) planeDir() string { return filepath.Join(s.dir, "controlplane") }

// start starts the control plane and the cloud.
func (s *surroundings) start(ctx context.Context) error {
	// Credentials that do not work are told before minutes are spent on a build.
	if s.real {
		if err := s.enterCloud(ctx); err != nil {
			return err
		}
	}
	if err := s.claimDir(); err != nil {
		return err
	}
	if err := s.startControlPlane(ctx); err != nil {
		return err
	}
	if !s.real {
		return s.startEmulator(ctx)
	}
	return nil
}

// claimDir holds the folder against the cloud that it was used with, since the Networks in it are of that cloud alone.
// The emulator is another cloud each time: with it, the API server's data begins again.
func (s *surroundings) claimDir() error {
	const emulator = "the emulator"
	identity := emulator
	if s.real {
		identity = s.cloud.identity
	}
	path := filepath.Join(s.dir, "cloud")
	content, err := os.ReadFile(path)
	switch was := strings.TrimSpace(string(content)); {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(s.planeDir()); err == nil {
			return fmt.Errorf("%s exists and does not say of which cloud it is: name another --dir", s.planeDir())
		}
		return os.WriteFile(path, []byte(identity+"\n"), 0o600)
	case err != nil:
		return err
	case was != identity:
		return fmt.Errorf("%s was used with %s, and this is %s: name another --dir", s.dir, was, identity)
	case was == emulator:
		return os.RemoveAll(s.planeDir())
	}
	return nil
}

// run starts one of the programs beside this one. Should it end before it is stopped, the steps end.
func (s *surroundings) run(p process.Program) (*process.Process, error) {
	p.Path = filepath.Join(s.bin, p.Name)
	if p.Log == "" {
		p.Log = filepath.Join(s.dir, p.Name+".log")
	}
	started, err := process.Start(p)
	if err == nil {
		s.processes = append(s.processes, started)
		started.OnFailure(s.fail)
	}
	return started, err
}

// crdDir is where the CRDs are.
func (s *surroundings) crdDir() string { return filepath.Join(s.root, "config", "crd") }

// admissionDir is where the admission policy is.
func (s *surroundings) admissionDir() string { return filepath.Join(s.root, "config", "admission") }

// startControlPlane starts every part of Kubernetes that makes Pods of a Deployment, and collects what is owned. The
// CRDs are there before the garbage collector starts, which looks for new ones every 30 seconds only. It returns when
// the API server serves. The other parts may still be fetched or built then; awaitComplete waits for them.
func (s *surroundings) startControlPlane(ctx context.Context) error {
	up := []string{"up", "--components=all", "--early", "--crds=" + s.crdDir(), "--dir=" + s.planeDir()}
	if s.options.stay {
		path := filepath.Join(s.dir, "audit-policy.yaml")
		if err := os.WriteFile(path, []byte(auditPolicy), 0o600); err != nil {
			return err
		}
		up = append(up, "--kube-apiserver-arg=--audit-policy-file="+path,
			"--kube-apiserver-arg=--audit-log-path="+filepath.Join(s.planeDir(), "logs", "audit.log"))
	}
	s.n.command("bin/controlplane " + strings.Join(up, " ") + " &")
	const prefix = "kubeconfig: "
	ready := make(chan string, 1)
	_, err := s.run(process.Program{
		Name: "controlplane", Args: up,
		Line: func(line string) {
			path, found := strings.CutPrefix(line, prefix)
			switch {
			case found:
				ready <- path
			case line == "complete":
				close(s.complete)
			case !s.isComplete():
				s.n.detail(line)
			}
		},
		// Its parts have ten seconds each. Asked by SIGTERM, it stops them and a build that is under way.
		Patience: 30 * time.Second, Orphaned: syscall.SIGTERM,
	})
	if err != nil {
		return err
	}
	timer := time.NewTimer(planePatience)
	defer timer.Stop()
	select {
	case s.kubeconfig = <-ready:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return fmt.Errorf("expected within %s: bin/controlplane up prints the path of a kubeconfig", planePatience)
	}
	if s.cluster, err = newCluster(s.kubeconfig); err != nil {
		return err
	}
	return await(ctx, startPatience, "the API server has the namespace default", func(ctx context.Context) error {
		_, err := s.cluster.kube.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{})
		return err
	})
}

// isComplete says whether all parts of the control plane serve.
func (s *surroundings) isComplete() bool {
	select {
	case <-s.complete:
		return true
	default:
		return false
	}
}

// awaitComplete waits until all parts of the control plane serve, and until the admission policy is in force. It says
// so unless that was said before. A part that cannot be fetched or built ends ctx.
func (s *surroundings) awaitComplete(ctx context.Context) error {
	if !s.isComplete() {
		s.n.say("The rest of the control plane is still being fetched or built. This continues when it serves.")
	}
	timer := time.NewTimer(planePatience)
	defer timer.Stop()
	select {
	case <-s.complete:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return fmt.Errorf("expected within %s: bin/controlplane up says that the control plane is complete", planePatience)
	}
	if !s.gateDue {
		return nil
	}
	s.gateDue = false
	s.n.good(whole)
	return s.awaitGate(ctx)
}

// awaitGate waits until the admission policy is in force.
func (s *surroundings) awaitGate(ctx context.Context) error {
	expected := "a Pod that declares networks is created with the gate " + cloudteamv1.SchedulingGate
	if err := await(ctx, startPatience, expected, s.cluster.gated); err != nil {
		return err
	}
	s.n.good("Pods that declare networks wait for their ports before they are scheduled")
	return nil
}

// enterCloud logs in to the cloud of --cloud.
func (s *surroundings) enterCloud(ctx context.Context) error {
	var err error
	s.cloud, s.cloudName, err = openNamed(ctx, s.options.cloud)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (s *surroundings) startEmulator(ctx context.Context) error {
	s.cloudsFile = filepath.Join(s.dir, "clouds.yaml")
	// The file says that the emulator serves: an old one must not.
	if err := os.Remove(s.cloudsFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	args := []string{"--clouds-yaml=" + s.cloudsFile}
	if s.options.neutron != "" {
		args = append(args, "--neutron="+s.options.neutron)
	}
	if s.options.habits != "" {
		args = append(args, "--habits="+s.options.habits)
	}
	s.n.command("bin/neutron-emulator " + strings.Join(args, " ") + " &")
	var err error
	s.emulator, err = s.run(process.Program{
		Name: "neutron-emulator", Args: args, Env: withoutCloud(os.Environ()),
		Patience: 5 * time.Second,
	})
	if err != nil {
		return err
	}
	err = await(ctx, startPatience, "the emulator writes "+s.cloudsFile, func(context.Context) error {
		_, err := os.Stat(s.cloudsFile)
		return err
	})
	if err != nil {
		return err
	}
	s.cloud, err = openEmulator(ctx, s.cloudsFile, emulatorCloud)
	s.cloudName = "the emulator"
	return err
}

// introduce says which API server and which cloud there are, and how to point kubectl and openstack at them.
func (s *surroundings) introduce() {
	if s.isComplete() {
		s.n.good(whole)
	} else {
		s.n.good("Kubernetes: an API server on this machine. The rest of the control plane is fetched or built meanwhile")
	}
	s.n.command(s.exportKube())
	s.n.good("Neutron: %s, %s", s.cloudName, s.cloud.identity)
	s.n.command(s.exportCloud())
}

func (s *surroundings) exportKube() string { return "export KUBECONFIG=" + s.kubeconfig }

// exportCloud points the OpenStack client and the plugin of kubectl at the cloud.
func (s *surroundings) exportCloud() string {
	file := os.Getenv("OS_CLIENT_CONFIG_FILE")
	switch {
	case !s.real:
		return "export OS_CLIENT_CONFIG_FILE=" + s.cloudsFile + " OS_CLOUD=" + emulatorCloud
	case s.options.cloud == environmentCloud:
		return "export OS_AUTH_URL=" + os.Getenv("OS_AUTH_URL") + "   # and your other OS_ variables"
	case file != "":
		return "export OS_CLIENT_CONFIG_FILE=" + file + " OS_CLOUD=" + s.options.cloud
	}
	return "export OS_CLOUD=" + s.options.cloud
}

// lose has the emulator lose the next answer to a create.
func (s *surroundings) lose() { s.emulator.Signal(syscall.SIGUSR1) }

// withoutCloud leaves out of an environment what would name another cloud.
func withoutCloud(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(variable string) bool {
		return strings.HasPrefix(variable, "OS_")
	})
}

// installCRDs applies config/crd, as it is done in any cluster. In this one the control plane serves them already.
func (s *surroundings) installCRDs(ctx context.Context) error {
	s.n.command(crd.Install)
	s.n.command(crd.InstallFoos)
	names, err := s.cluster.applyFolder(ctx, s.crdDir())
	for _, name := range names {
		s.n.good("%s", name)
	}
	return or(ctx, err)
}

// installPolicy applies config/admission, as it is done in any cluster, and waits until it is in force. Where the
// control plane is not complete, awaitComplete does that: no Pod has a service account before.
func (s *surroundings) installPolicy(ctx context.Context) error {
	s.n.command("kubectl apply -k config/admission")
	if _, err := s.cluster.applyFolder(ctx, s.admissionDir()); err != nil {
		return or(ctx, err)
	}
	namespace, label := metav1.NamespaceDefault, cloudteamv1.LabelNetworks+"="+cloudteamv1.LabelNetworksEnabled
	s.n.command("kubectl label namespace " + namespace + " " + label)
	if err := s.cluster.labelNamespace(ctx, namespace); err != nil {
		return or(ctx, err)
	}
	if s.gateDue = !s.isComplete(); s.gateDue {
		return nil
	}
	return s.awaitGate(ctx)
}

// install installs what the controller needs in a cluster, and starts it.
func (s *surroundings) install(ctx context.Context) error {
	if err := s.installCRDs(ctx); err != nil {
		return err
	}
	if err := s.installPolicy(ctx); err != nil {
		return err
	}
	return s.startController(ctx)
}

// startController starts the controller and waits until its caches are filled.
func (s *surroundings) startController(ctx context.Context) error {
	address, err := freeAddress()
	if err != nil {
		return err
	}
	s.health = "http://" + address
	// There is one, and it is not to wait for the lease of one that was killed.
	args := []string{
		"--kubeconfig=" + cmp.Or(s.fronted, s.kubeconfig), "--leader-elect=false",
		"--audit-interval=" + s.options.auditInterval.String(),
		// A minute of ports that no Pod needs would have the reader wait.
		"--pool-cooldown=1s",
	}
	env := os.Environ()
	if s.options.stay {
		inspection, err := freeAddress()
		if err != nil {
			return err
		}
		s.inspection.Store("http://" + inspection)
		s.inspectToken = cmp.Or(s.inspectToken, rand.Text())
		args, env = append(args, "--inspect-address="+inspection), append(env, inspect.EnvToken+"="+s.inspectToken)
	}
	if s.real && s.options.cloud != environmentCloud {
		args = append(args, "--cloud="+s.options.cloud)
	}
	if !s.real {
		args = append(args, "--cloud="+emulatorCloud)
		env = append(withoutCloud(env), "OS_CLIENT_CONFIG_FILE="+s.cloudsFile)
	}
	s.n.command("bin/network-controller " + strings.Join(args, " ") + " &")
	args = append(args, "--bind-address="+address)
	// A controller that was killed keeps its log.
	s.starts++
	log := ""
	if s.starts > 1 {
		log = filepath.Join(s.dir, fmt.Sprintf("network-controller-%d.log", s.starts))
	}
	s.controller, err = s.run(process.Program{
		Name: "network-controller", Args: args, Env: env, Log: log, Output: s.shown, Patience: 20 * time.Second,
	})
	if err != nil {
		return err
	}
	err = await(ctx, startPatience, "the controller's /readyz answers 200", func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.health+"/readyz", nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("it answers %s", answer.Status)
		}
		return nil
	})
	if err == nil {
		s.n.good("its caches of Kubernetes and Neutron are synced")
		s.n.say("log: %s", s.controller.Log)
	}
	return err
}

// freeAddress is an address of loopback whose port is free now.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("finding a free port: %w", err)
	}
	return listener.Addr().String(), listener.Close()
}

// stop stops everything, what was started last first, and at once when ctx is done.
func (s *surroundings) stop(ctx context.Context) error {
	var errs []error
	for _, p := range slices.Backward(s.processes) {
		errs = append(errs, p.Stop(ctx))
	}
	return errors.Join(errs...)
}

// logs are the paths of the logs of what was started.
func (s *surroundings) logs() []string {
	if len(s.processes) == 0 {
		return nil // a folder that is kept may hold those of another run
	}
	var paths []string
	for _, p := range slices.Backward(s.processes) {
		paths = append(paths, p.Log)
	}
	parts, _ := filepath.Glob(filepath.Join(s.planeDir(), "logs", "*.log"))
	return append(paths, parts...)
}

// end stops everything and tells how the whole ended. A temporary folder goes, unless something failed and there are
// logs that may say why. err is how the steps ended, and tidied how what followed them did. It returns nil after a
// success, errInterrupted where the steps were interrupted and the rest went well, and else what failed.
func (s *surroundings) end(hurry context.Context, err, tidied error) error {
	stopped := s.stop(hurry)
	if hurry.Err() != nil {
		stopped = nil // killing was what the second signal asked for
	}
	failed := errors.Join(tidied, stopped)
	if !errors.Is(err, errInterrupted) {
		failed = errors.Join(err, failed)
	}
	logs := s.logs()
	if failed != nil {
		s.n.bad(failed)
		if len(logs) > 0 {
			s.n.say("\nThe logs are kept:\n  %s", strings.Join(logs, "\n  "))
		}
	}
	if s.temporary && (failed == nil || len(logs) == 0) {
		if removeErr := os.RemoveAll(s.dir); removeErr != nil {
			s.n.bad(removeErr)
			failed = errors.Join(failed, removeErr)
		}
	}
	if failed == nil {
		return err
	}
	return failed
}

// or is the context's cause where it has ended, else err.
func or(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
