// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package cluster starts the programs of a Kubernetes control plane on the loopback address and stops them.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"cloudteam.ztgame.com/network-controller/dev/controlplane/internal/assets"
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
	// FeatureGates and RuntimeConfig are handed to kube-apiserver's flags of those names, if they are not empty.
	FeatureGates, RuntimeConfig string
	// StartTimeout bounds how long each program may take to serve.
	StartTimeout time.Duration
	// StopTimeout bounds how long each program may take to stop before it is killed.
	StopTimeout time.Duration
	// Log receives a sentence per program.
	Log assets.Log
}

// validate returns an error if the options name components that cannot run without others.
func (o Options) validate() error {
	for _, needed := range assets.Minimal() {
		if !slices.Contains(o.Components, needed) {
			return fmt.Errorf("a control plane needs %s: add it to --components=%s", needed, assets.Join(o.Components))
		}
	}
	return nil
}

// Cluster is a running control plane. Its methods are safe for concurrent use, except where they say otherwise.
type Cluster struct {
	options Options
	api     *apiClient
	lock    *assets.FileLock
	// url and etcdURL are where kube-apiserver and etcd serve.
	url, etcdURL string
	ca           []byte
	admin        keyPair
	// running are the programs in start order.
	running []*process
	// failed receives at most one error.
	failed chan error
	// stopping is closed when programs may end without that being a failure.
	stopping chan struct{}
}

// Start starts the components and returns when all of them serve. On failure nothing is left running, and the error
// says which program did not start, with the end of its log. When ctx ends meanwhile, the error is the context's cause.
// Once Start has returned, ctx has no effect: call Stop.
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
	for _, component := range c.options.Components {
		if err := c.startComponent(ctx, component); err != nil {
			return err
		}
		if component == assets.KubeAPIServer {
			if err := c.writeKubeconfigs(); err != nil {
				return err
			}
		}
	}
	return nil
}

// URL is where kube-apiserver serves, for example "https://127.0.0.1:41873".
func (c *Cluster) URL() string { return c.url }

// Kubeconfig is a kubeconfig of a member of system:masters, who may do everything.
func (c *Cluster) Kubeconfig() []byte { return kubeconfig(c.url, c.ca, c.admin) }

// Failed delivers one error if a program ends that was not stopped: which, how, and the end of its log.
func (c *Cluster) Failed() <-chan error { return c.failed }

// Stop stops the programs in the reverse of the order in which they were started, each bounded by Options.StopTimeout,
// and returns when all are gone. When ctx ends, those that are left are killed at once. The error says which had to be
// killed. Stop MUST be called exactly once.
func (c *Cluster) Stop(ctx context.Context) error {
	close(c.stopping)
	if c.api != nil {
		c.api.close()
	}
	var errs []error
	for _, p := range slices.Backward(c.running) {
		errs = append(errs, p.stop(ctx, c.options.StopTimeout))
	}
	errs = append(errs, c.lock.Unlock())
	return errors.Join(errs...)
}

// prepare makes the directories and the certificates.
func (c *Cluster) prepare() error {
	for _, dir := range []string{"etcd", "home", "logs", "pki"} {
		if err := os.MkdirAll(c.path(dir), 0o700); err != nil {
			return err
		}
	}
	authority, err := newAuthority("network-controller-dev-ca", time.Now)
	if err != nil {
		return err
	}
	c.ca = authority.pem
	if c.admin, err = authority.client("network-controller-dev-admin", "system:masters"); err != nil {
		return err
	}
	if c.api, err = newAPIClient(c.ca, c.admin); err != nil {
		return err
	}
	if err := os.WriteFile(c.pki("ca.crt"), c.ca, 0o600); err != nil {
		return err
	}
	if err := c.writeServerCertificates(authority); err != nil {
		return err
	}
	if err := c.writeFrontProxy(); err != nil {
		return err
	}
	for component, user := range map[assets.Component]struct {
		name   string
		groups []string
	}{
		assets.KubeControllerManager: {name: "system:kube-controller-manager"},
		assets.KubeScheduler:         {name: "system:kube-scheduler"},
		assets.Kwok:                  {name: "kwok", groups: []string{"system:masters"}},
	} {
		pair, err := authority.client(user.name, user.groups...)
		if err != nil {
			return err
		}
		if err := c.writePair(string(component), pair); err != nil {
			return err
		}
	}
	return c.keepServiceAccountKey()
}

func (c *Cluster) writeServerCertificates(authority *authority) error {
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
		pair, err := authority.server(name, sans.dns, sans.ips)
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
	authority, err := newAuthority("network-controller-dev-front-proxy-ca", time.Now)
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

// writeKubeconfigs writes a kubeconfig for each client of kube-apiserver among the components.
func (c *Cluster) writeKubeconfigs() error {
	for _, component := range c.options.Components {
		if slices.Contains(assets.Minimal(), component) {
			continue
		}
		var pair keyPair
		var err error
		if pair.certificate, err = os.ReadFile(c.pki(string(component) + ".crt")); err != nil {
			return err
		}
		if pair.key, err = os.ReadFile(c.pki(string(component) + ".key")); err != nil {
			return err
		}
		path := c.path(string(component) + ".kubeconfig")
		if err := os.WriteFile(path, kubeconfig(c.url, c.ca, pair), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// startComponent starts a program and waits until it serves, on new ports if others were taken meanwhile.
func (c *Cluster) startComponent(ctx context.Context, component assets.Component) error {
	for try := 1; ; try++ {
		started := time.Now()
		ports, err := freePorts(ports(component))
		if err != nil {
			return fmt.Errorf("find a free port: %w", err)
		}
		err = c.tryComponent(ctx, component, ports)
		if err == nil {
			c.options.Log.Printf("%s ready in %.1fs", component, time.Since(started).Seconds())
			return nil
		}
		if ctx.Err() != nil || try == startTries || !taken(ports) {
			return err
		}
		c.options.Log.Printf("%s: another process took its port, starting it again", component)
	}
}

func (c *Cluster) tryComponent(ctx context.Context, component assets.Component, ports []int) error {
	name := string(component)
	program := c.program(component, ports)
	if component == assets.Kwok {
		if err := c.createNode(ctx); err != nil {
			return err
		}
	}
	p, err := startProcess(name, filepath.Join(c.options.Assets, name), program.args, c.env(),
		c.options.Dir, filepath.Join(c.options.Dir, "logs", name+".log"))
	if err != nil {
		return err
	}
	if err := c.awaitReady(ctx, p, program); err != nil {
		return errors.Join(err, p.stop(context.WithoutCancel(ctx), c.options.StopTimeout))
	}
	c.running = append(c.running, p)
	go c.watch(p)
	return nil
}

// awaitReady returns nil once the program serves, and an error once it has ended, ctx has ended or time is up.
func (c *Cluster) awaitReady(ctx context.Context, p *process, program program) error {
	deadline := time.NewTimer(c.options.StartTimeout)
	defer deadline.Stop()
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	var last error
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-p.done:
			return p.died()
		case err := <-c.failed:
			// It needs one that has ended.
			return err
		case <-deadline.C:
			return p.describe(fmt.Sprintf("was not ready within %s (%v)", c.options.StartTimeout, last))
		case <-tick.C:
		}
		if last = program.ready(ctx); last == nil {
			return nil
		}
	}
}

// watch reports the end of a program that nobody stopped.
func (c *Cluster) watch(p *process) {
	select {
	case <-c.stopping:
		return
	case <-p.done:
	}
	select {
	case <-c.stopping:
	case c.failed <- p.died():
	default:
		// Another one failed first, and is the likelier cause.
	}
}

// env is the environment of every program: almost nothing, as etcd and kwok read variables and files of the user that
// would change what was asked for, and kube-apiserver would use the user's proxies.
func (c *Cluster) env() []string {
	env := []string{"HOME=" + c.path("home"), "PATH=" + os.Getenv("PATH")}
	for _, name := range []string{"TMPDIR", "TZ", "GOGC", "GOMEMLIMIT", "GOMAXPROCS", "GODEBUG"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

func (c *Cluster) has(component assets.Component) bool {
	return slices.Contains(c.options.Components, component)
}

func (c *Cluster) path(name string) string { return filepath.Join(c.options.Dir, name) }

func (c *Cluster) pki(name string) string { return filepath.Join(c.options.Dir, "pki", name) }
