package app

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/cli"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
)

const (
	// credentialsInterval is how often the credentials' files are read. They are few and small. Comparing their contents
	// works for every way to replace them: the kubelet swaps a symbolic link two levels up, editors rename, others write
	// in place. Watching would not help, because the kubelet updates mounted Secrets only once a minute.
	credentialsInterval = 5 * time.Second
	// settling is how long changed files must stay the same before they are used: files that are written in place, or one
	// after the other, may be incomplete.
	settling = time.Second
	// credentialsBackoffLast limits the exponential backoff, from credentialsInterval, between failed logins with changed
	// credentials: Keystone may lock an account after wrong passwords.
	credentialsBackoffLast = time.Minute
)

// cloudAccess is a cloud, with the watch over its outages and over changes of its credentials in files or a Secret.
type cloudAccess struct {
	ref    managed.CloudRef
	cloud  *client.Cloud
	files  credentialsFiles
	quotas quotaReader
	logger klog.Logger
	// wake enqueues the objects in the cloud when they can continue.
	wake func()
}

// newCloudAccess opens a cloud with credentials, and replaces them when load returns others.
func (p *process) newCloudAccess(
	ref managed.CloudRef, credentials client.Credentials, load func() (client.Credentials, error), logger klog.Logger,
) *cloudAccess {
	logger.Info("Using the cloud", "cloud", credentials.String())
	a := &cloudAccess{ref: ref, logger: logger, wake: func() { p.audience.wake(ref) }}
	a.files = credentialsFiles{
		ref: ref, load: load, used: credentials, look: make(chan struct{}, 1), logger: logger,
		replaced: func() {
			logger.Info("Logged in with changed credentials")
			a.wake()
		},
	}
	memory, operators := p.memory, ref.Namespace == "" || ref.Namespace == p.classes.Namespace()
	if operators {
		memory = nil
	}
	var transport http.RoundTripper
	if p.options.Dial != nil {
		transport = &http.Transport{DialContext: p.options.Dial}
	}
	a.cloud = client.NewCloud(credentials, client.Options{
		Transport: transport, Memory: memory, Tenant: ref.Namespace,
		Timeout: p.options.CloudTimeout, Probe: inventory.Probe, UserAgent: cli.UserAgent(program), Permit: p.permit,
		Outage: a.outage,
		Called: func(c client.Call) {
			countCall(ref, operators, c)
			if c.Op == client.OpLogin && c.Err != nil {
				a.files.lookNow()
			}
		},
	})
	a.files.replace = a.cloud.Replace
	a.quotas = quotaReader{cloud: a.cloud, audited: make(chan struct{}, 1)}
	for _, gauge := range []*metrics.GaugeVec{outage, credentialsOutdated, disputed} {
		gauge.WithLabelValues(labelsOf(ref)...).Set(0)
	}
	return a
}

// permit is the election's, but with --report-only it permits no write at all.
func (p *process) permit() error {
	if p.options.Policies.Plan {
		return errReportOnly
	}
	return p.election.permit()
}

var errReportOnly = errors.New("nothing is written to Neutron: the controller runs with --report-only")

// run watches for outages, changed credentials and quotas until ctx is done.
func (a *cloudAccess) run(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() { a.cloud.Run(ctx) })
	all.Go(func() { a.files.run(ctx) })
	all.Go(func() { a.quotas.run(ctx) })
	all.Wait()
}

// quotaAudits is the number of audits after which the quotas are read again.
const quotaAudits = 10

// quotaReader reads the quotas of a cloud's project rarely, and only if its audits succeed.
type quotaReader struct {
	cloud *client.Cloud
	// audited has a value after an audit.
	audited chan struct{}
	// found are the quotas; nil if the cloud does not say.
	found atomic.Pointer[[]inventory.Quota]
}

// note notes that an audit succeeded.
func (q *quotaReader) note() {
	select {
	case q.audited <- struct{}{}:
	default:
	}
}

// run reads the quotas after the first audit and after each quotaAudits, until ctx is done.
func (q *quotaReader) run(ctx context.Context) {
	for audits := 0; ; audits++ {
		select {
		case <-ctx.Done():
			return
		case <-q.audited:
		}
		if audits%quotaAudits > 0 {
			continue
		}
		found, err := inventory.Quotas(ctx, q.cloud)
		if err != nil {
			klog.FromContext(ctx).V(2).Info("The cloud says no quotas", "err", err)
		}
		q.found.Store(&found)
	}
}

// outage implements client.Options.Outage.
func (a *cloudAccess) outage(o client.Outage) {
	if o.Over.IsZero() {
		outage.WithLabelValues(labelsOf(a.ref)...).Set(1)
		a.logger.Info("The cloud does not respond; calls wait for a successful probe", "reason", o.Reason,
			"since", o.Since)
		return
	}
	outage.WithLabelValues(labelsOf(a.ref)...).Set(0)
	a.logger.Info("The cloud responds again", "after", o.Over.Sub(o.Since).Round(time.Millisecond))
	a.wake()
}

// credentialsFiles replaces credentials when their files, or their Secret, change.
type credentialsFiles struct {
	ref     managed.CloudRef
	load    func() (client.Credentials, error)
	replace func(context.Context, client.Credentials) error
	// replaced is called when other credentials are in use.
	replaced func()
	// admit, where set, reports whether other credentials may be tried now.
	admit func() bool
	// complain, where set, is called once for each reason why changed credentials cannot be used.
	complain func(error)
	logger   klog.Logger
	// look triggers a check before the next interval.
	look chan struct{}

	// used are the credentials in use. tried are the ones that failed, which are retried at again. failure is the last
	// reported error.
	used, tried client.Credentials
	again       time.Time
	backoff     time.Duration
	failure     string
}

// lookNow triggers a check, because the cloud refused the credentials or its certificate is not trusted.
func (f *credentialsFiles) lookNow() {
	select {
	case f.look <- struct{}{}:
	default:
	}
}

// run checks the files periodically until ctx is done.
func (f *credentialsFiles) run(ctx context.Context) {
	tick := time.NewTicker(credentialsInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-f.look:
		}
		f.check(ctx)
	}
}

// check replaces the credentials when the files have others that work. Until then, the old ones stay in use.
func (f *credentialsFiles) check(ctx context.Context) {
	found, err := f.load()
	switch {
	case err != nil:
		f.tried = client.Credentials{}
		f.failed(err)
		return
	case found.SameAs(f.used):
		f.tried = client.Credentials{}
		f.inUse()
		return
	case !found.SameAs(f.tried):
		if !f.settled(ctx, found) {
			f.lookNow()
			return
		}
		f.tried, f.backoff = found, 0
	case time.Now().Before(f.again):
		return
	}
	if f.admit != nil && !f.admit() {
		f.again = time.Now().Add(credentialsInterval)
		return
	}
	if err := f.replace(ctx, found); err != nil {
		if ctx.Err() == nil {
			f.backoff = min(max(2*f.backoff, credentialsInterval), credentialsBackoffLast)
			f.again = time.Now().Add(f.backoff)
			f.failed(err)
		}
		return
	}
	f.used, f.tried = found, client.Credentials{}
	f.inUse()
	f.replaced()
}

// failed reports why the files cannot be used, once for each reason.
func (f *credentialsFiles) failed(err error) {
	credentialsOutdated.WithLabelValues(labelsOf(f.ref)...).Set(1)
	if text := err.Error(); text != f.failure {
		f.failure = text
		f.logger.Error(err, "The changed credentials cannot be used; using the previous ones and retrying periodically")
		if f.complain != nil {
			f.complain(err)
		}
	}
}

// settled reports whether the files have the same credentials after a moment. It returns false when ctx is done first.
func (f *credentialsFiles) settled(ctx context.Context, found client.Credentials) bool {
	moment := time.NewTimer(settling)
	defer moment.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-moment.C:
	}
	again, err := f.load()
	return err == nil && again.SameAs(found)
}

// inUse notes that the credentials in the files are in use.
func (f *credentialsFiles) inUse() {
	credentialsOutdated.WithLabelValues(labelsOf(f.ref)...).Set(0)
	f.failure = ""
}
