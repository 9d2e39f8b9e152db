// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package cluster starts the programs of a Kubernetes control plane on the loopback address and stops them.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"cloudteam.ztgame.com/network-controller/dev/controlplane/internal/assets"
	"cloudteam.ztgame.com/network-controller/dev/process"
)

const (
	// readyPoll is how often a program that starts is asked whether it serves.
	readyPoll = 50 * time.Millisecond
	// startTries is how often a program is started on new ports when another process took those it was given.
	startTries = 3
)

// Options are what Start needs to know.
type Options struct {
	// Dir receives data, certificates, logs and kubeconfigs. It MUST exist. It may have been used before: the data in
	// it is then served again, with new certificates on new ports. It is refused while another Cluster uses it.
	Dir string
	// Assets is the directory of the binaries, as assets.Cache.Provide returns it.
	Assets string
	// Components are the programs to start, in start order, as assets.ParseComponents returns them.
	Components []assets.Component
	// Early has Start return once kube-apiserver serves, because the others are not in Assets yet. StartOthers starts
	// them.
	Early bool
	// APIServerArgs are further ones for kube-apiserver.
	APIServerArgs []string
	// CRDs are applied once kube-apiserver serves, and served themselves before anything else starts, so that
	// kube-controller-manager knows their kinds from its first moment: its garbage collector looks for new ones every 30
	// seconds, and until then collects nothing that one of them owns.
	CRDs []CRD
	// StartTimeout bounds how long each program may take to serve.
	StartTimeout time.Duration
	// StopTimeout bounds how long each program may take to stop before it is killed.
	StopTimeout time.Duration
	// Log receives a sentence per program.
	Log *log.Logger
}

// validate returns an error if the options name components that cannot run without others.
func (o Options) validate() error {
	for _, needed := range assets.Minimal() {
		if !slices.Contains(o.Components, needed) {
			return fmt.Errorf("a control plane needs %s: add it to --components=%s", needed, assets.Join(o.Components))
		}
	}
	for _, component := range assets.ForContainers() {
		if slices.Contains(o.Components, component) {
			return fmt.Errorf("a control plane has no %s: leave it out of --components=%s, and see dev/dataplane",
				component, assets.Join(o.Components))
		}
	}
	return nil
}

// Cluster is a running control plane. Its methods are safe for concurrent use, except where they say otherwise.
type Cluster struct {
	options Options
	api     *apiClient
	lock    *os.File
	// url and etcdURL are where kube-apiserver and etcd serve.
	url, etcdURL string
	authority    *authority
	admin        keyPair
	// mu guards running while programs start together.
	mu sync.Mutex
	// running are the programs in the order in which they were ready.
	running []*process.Process
	// failed receives at most one error.
	failed chan error
	// stopNode, if set, ends the Node that is played.
	stopNode func()
	playing  sync.WaitGroup
	// stopping is closed when programs may end without that being a failure.
	stopping chan struct{}
}

// Start starts the components and returns when all of them serve, or with Options.Early those of assets.Minimal. On
// failure nothing is left running, and the error says which program did not start, with the end of its log. When ctx
// ends meanwhile, the error is the context's cause. Once Start has returned, ctx has no effect: call Stop.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	if err := options.validate(); err != nil {
		return nil, err
	}
	// The programs run in the directory, where a relative path would mean another place.
	var err error
	if options.Dir, err = filepath.Abs(options.Dir); err != nil {
		return nil, err
	}
	if options.Assets, err = filepath.Abs(options.Assets); err != nil {
		return nil, err
	}
	lock, err := assets.TryLock(filepath.Join(options.Dir, "lock"))
	if errors.Is(err, assets.ErrLocked) {
		return nil, fmt.Errorf("%s is used by another control plane: stop that, or name another --dir", options.Dir)
	}
	if err != nil {
		return nil, err
	}
	c := &Cluster{
		options:  options,
		lock:     lock,
		failed:   make(chan error, 1),
		stopping: make(chan struct{}),
	}
	if err := c.start(ctx); err != nil {
		// Not ctx, which may have ended: what was started has the same time to stop as ever.
		return nil, errors.Join(err, c.Stop(context.WithoutCancel(ctx)))
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	if err := c.prepare(); err != nil {
		return fmt.Errorf("prepare %s: %w", c.options.Dir, err)
	}
	for _, component := range assets.Minimal() {
		if err := c.startTogether(ctx, []assets.Component{component}); err != nil {
			return err
		}
	}
	if err := c.writeKubeconfigs(); err != nil {
		return err
	}
	if err := c.installCRDs(ctx); err != nil {
		return err
	}
	if c.options.Early {
		return nil
	}
	return c.StartOthers(ctx)
}

// StartOthers starts the components that Start left out for Options.Early, and returns when all of them serve, or as
// Start does on failure; the first ones go on then. It MUST have returned before Stop is called.
func (c *Cluster) StartOthers(ctx context.Context) error {
	// They are clients of kube-apiserver and of nothing else, and bear with each other's absence.
	return c.startTogether(ctx, c.clients())
}

// URL is where kube-apiserver serves, for example "https://127.0.0.1:41873".
func (c *Cluster) URL() string { return c.url }

// Kubeconfig is a kubeconfig of a member of system:masters, who may do everything.
func (c *Cluster) Kubeconfig() []byte { return kubeconfig(c.url, c.authority.pem, c.admin) }

// Failed delivers one error if a program ends that was not stopped: which, how, and the end of its log.
func (c *Cluster) Failed() <-chan error { return c.failed }

// Stop stops the programs in the reverse of the order in which they were ready, each bounded by Options.StopTimeout,
// and returns when all are gone. When ctx ends, those that are left are killed at once. The error says which had to be
// killed. Stop MUST be called exactly once.
func (c *Cluster) Stop(ctx context.Context) error {
	close(c.stopping)
	if c.stopNode != nil {
		c.stopNode()
	}
	if c.api != nil {
		c.api.close()
	}
	var errs []error
	for _, p := range slices.Backward(c.running) {
		errs = append(errs, p.Stop(ctx))
	}
	errs = append(errs, c.lock.Close())
	return errors.Join(errs...)
}

// prepare makes the directories and the certificates.
func (c *Cluster) prepare() error {
	for _, dir := range []string{"etcd", "home", "logs", "pki"} {
		if err := os.MkdirAll(c.path(dir), 0o700); err != nil {
			return err
		}
	}
	var err error
	if c.authority, err = newAuthority("network-controller-dev-ca"); err != nil {
		return err
	}
	if c.admin, err = c.authority.client("network-controller-dev-admin", "system:masters"); err != nil {
		return err
	}
	if c.api, err = newAPIClient(c.authority.pem, c.admin); err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(c.pki("ca.crt"), c.authority.pem, 0o600),
		c.writeServerCertificates(), c.writeFrontProxy(), c.keepServiceAccountKey(),
	)
}

func (c *Cluster) writeServerCertificates() error {
	local := []net.IP{net.ParseIP(loopback)}
	for name, sans := range map[string]struct {
		dns []string
		ips []net.IP
	}{
		"etcd":    {dns: []string{"localhost"}, ips: local},
		"serving": {dns: []string{"localhost"}, ips: local},
		"kube-apiserver": {
			dns: []string{
				"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
				"kubernetes.default.svc.cluster.local",
			},
			ips: append(local, net.ParseIP(serviceIP)),
		},
	} {
		pair, err := c.authority.server(name, sans.dns, sans.ips)
		if err != nil {
			return err
		}
		if err := c.writePair(name, pair); err != nil {
			return err
		}
	}
	return nil
}

// writeFrontProxy makes the authority and the certificate with which kube-apiserver vouches for a user to other API
// servers. The authority is another than the clients': who bears a certificate of it may claim to be anybody.
func (c *Cluster) writeFrontProxy() error {
	authority, err := newAuthority("network-controller-dev-front-proxy-ca")
	if err != nil {
		return err
	}
	pair, err := authority.client(frontProxyUser)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(c.pki("front-proxy-ca.crt"), authority.pem, 0o600),
		c.writePair("front-proxy", pair),
	)
}

func (c *Cluster) writePair(name string, pair keyPair) error {
	return errors.Join(
		os.WriteFile(c.pki(name+".crt"), pair.certificate, 0o600),
		os.WriteFile(c.pki(name+".key"), pair.key, 0o600),
	)
}

// keepServiceAccountKey makes the key that signs service accounts' tokens, unless the directory has one: tokens in the
// data that is served again stay valid.
func (c *Cluster) keepServiceAccountKey() error {
	if _, err := os.Stat(c.pki("sa.key")); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	key, err := newServiceAccountKey()
	if err != nil {
		return err
	}
	return os.WriteFile(c.pki("sa.key"), key, 0o600)
}

// writeKubeconfigs writes a kubeconfig for each program that is a client of kube-apiserver.
func (c *Cluster) writeKubeconfigs() error {
	for _, component := range []assets.Component{assets.KubeControllerManager, assets.KubeScheduler} {
		pair, err := c.authority.client("system:" + string(component))
		if err != nil {
			return err
		}
		path := c.path(string(component) + ".kubeconfig")
		if err := os.WriteFile(path, kubeconfig(c.url, c.authority.pem, pair), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// startTogether starts components that do not wait for each other, and returns when all of them serve, or with the
// first error once none of those that failed or were not ready yet is left running.
func (c *Cluster) startTogether(ctx context.Context, components []assets.Component) error {
	// The ports of all are found at once, and so are different.
	var needed int
	for _, component := range components {
		needed += ports(component)
	}
	free, err := freePorts(needed)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var starts sync.WaitGroup
	for _, component := range components {
		mine := free[:ports(component)]
		free = free[len(mine):]
		starts.Go(func() {
			if err := c.startComponent(ctx, component, mine); err != nil {
				cancel(err)
			}
		})
	}
	starts.Wait()
	return context.Cause(ctx)
}

// startComponent starts a program and waits until it serves, on new ports if others took those it was given.
func (c *Cluster) startComponent(ctx context.Context, component assets.Component, given []int) error {
	for try := 1; ; try++ {
		started := time.Now()
		err := c.tryComponent(ctx, component, given)
		if err == nil {
			c.options.Log.Printf("%s ready in %.1fs", component, time.Since(started).Seconds())
			return nil
		}
		if ctx.Err() != nil || try == startTries || !taken(given) {
			return err
		}
		c.options.Log.Printf("%s: another process took its port, starting it again", component)
		if given, err = freePorts(len(given)); err != nil {
			return err
		}
	}
}

func (c *Cluster) tryComponent(ctx context.Context, component assets.Component, ports []int) error {
	if component == assets.Node {
		return c.startNode(ctx)
	}
	name := string(component)
	program := c.program(component, ports)
	p, err := process.Start(process.Program{
		Name: name, Path: filepath.Join(c.options.Assets, name), Args: program.args, Env: c.env(), Dir: c.options.Dir,
		Log: filepath.Join(c.options.Dir, "logs", name+".log"), Patience: c.options.StopTimeout,
	})
	if err != nil {
		return err
	}
	if err := c.awaitReady(ctx, p, program); err != nil {
		return errors.Join(err, p.Stop(context.WithoutCancel(ctx)))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = append(c.running, p)
	go c.watch(p)
	return nil
}

// awaitReady returns nil once the program serves, and an error once it has ended, ctx has ended or time is up.
func (c *Cluster) awaitReady(ctx context.Context, p *process.Process, program program) error {
	var last error
	err := c.poll(ctx, func(ctx context.Context) (bool, error) {
		select {
		case <-p.Done():
			return true, p.Died()
		default:
		}
		last = program.ready(ctx)
		return last == nil, nil
	})
	if errors.Is(err, errSlow) {
		return p.Describe(fmt.Sprintf("was not ready within %s (%v)", c.options.StartTimeout, last))
	}
	return err
}

// errSlow is returned by poll when time is up.
var errSlow = errors.New("not in time")

// poll calls check until it says that it is done, and returns its error. Before that it returns with errSlow when
// Options.StartTimeout is up, with the context's cause when ctx ends, and with what happened when a program ends that
// served already.
func (c *Cluster) poll(ctx context.Context, check func(context.Context) (done bool, err error)) error {
	deadline := time.NewTimer(c.options.StartTimeout)
	defer deadline.Stop()
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-c.failed:
			return err
		case <-deadline.C:
			return errSlow
		case <-tick.C:
		}
		if done, err := check(ctx); done {
			return err
		}
	}
}

// watch reports the end of a program that nobody stopped.
func (c *Cluster) watch(p *process.Process) {
	select {
	case <-c.stopping:
		return
	case <-p.Done():
	}
	select {
	case <-c.stopping:
	case c.failed <- p.Died():
	default:
		// Another one failed first, and is the likelier cause.
	}
}

// env is the environment of every program: almost nothing, as etcd reads variables of the user that would change what
// was asked for, and kube-apiserver would use the user's proxies.
func (c *Cluster) env() []string {
	env := []string{"HOME=" + c.path("home"), "PATH=" + os.Getenv("PATH")}
	for _, name := range []string{"TMPDIR", "TZ", "GOGC", "GOMEMLIMIT", "GOMAXPROCS", "GODEBUG"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// clients are the components that need a kube-apiserver.
func (c *Cluster) clients() []assets.Component {
	return slices.DeleteFunc(slices.Clone(c.options.Components), func(component assets.Component) bool {
		return slices.Contains(assets.Minimal(), component)
	})
}

func (c *Cluster) has(component assets.Component) bool {
	return slices.Contains(c.options.Components, component)
}

func (c *Cluster) path(name string) string { return filepath.Join(c.options.Dir, name) }

func (c *Cluster) pki(name string) string { return filepath.Join(c.options.Dir, "pki", name) }
