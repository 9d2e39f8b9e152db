package app

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/neutron"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
)

const (
	// credentialsInterval is how often the files of the credentials are read. They are few and small, and how they are
	// replaced differs: kubelet swaps a symbolic link two levels up for a mounted Secret, editors rename, others write in
	// place. To compare the contents is right for all of them, on every file system; to watch for each of these ways
	// would save nothing, as kubelet itself looks for new Secrets but once a minute.
	credentialsInterval = 5 * time.Second
	// settling is how long files that have changed have to stay as they are before they are used: one that is written in
	// place, or several one after the other, may lead elsewhere while they are not whole.
	settling = time.Second
	// credentialsBackoffLast bounds the pause between log-ins with changed credentials that fail: doubled from
	// credentialsInterval on, since Keystone may lock an account out that gives wrong passwords.
	credentialsBackoffLast = time.Minute
)

// cloudAccess is the way to the cloud, and what watches over it: whether the cloud answers, and whether the
// credentials are still those in the files, or in the Secret.
type cloudAccess struct {
	ref    managed.CloudRef
	cloud  *client.Cloud
	files  credentialsFiles
	logger klog.Logger

	mu sync.Mutex
	// wake are told that what waits for the cloud should be looked at again.
	wake []func()
}

// newOwnCloudAccess makes the way to the process's own cloud.
func newOwnCloudAccess(o Options, permit func() error, logger klog.Logger) (*cloudAccess, error) {
	load := func() (client.Credentials, error) { return client.LoadCredentials(o.Cloud) }
	credentials, err := load()
	if err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	return newCloudAccess(o, managed.CloudRef{}, credentials, load, permit, logger), nil
}

// newCloudAccess makes the way to a cloud with the given credentials, and with what load gives when that is other.
func newCloudAccess(
	o Options, ref managed.CloudRef, credentials client.Credentials, load func() (client.Credentials, error),
	permit func() error, logger klog.Logger,
) *cloudAccess {
	logger.Info("Using the cloud", "cloud", credentials.String())
	a := &cloudAccess{ref: ref, logger: logger}
	a.files = credentialsFiles{
		ref: ref, load: load, used: credentials, look: make(chan struct{}, 1), logger: logger,
		replaced: func() {
			logger.Info("Logged in with the credentials that have changed")
			a.wakeAll()
		},
	}
	a.cloud = client.NewCloud(credentials, client.Options{
		Timeout: o.CloudTimeout, Probe: neutron.Probe, UserAgent: userAgent(), Permit: permit, Outage: a.outage,
		Called: func(c client.Call) {
			countCall(c)
			if c.Op == client.OpLogin && c.Err != nil {
				a.files.lookNow()
			}
		},
	})
	a.files.replace = a.cloud.Replace
	return a
}

// run watches until ctx is done.
func (a *cloudAccess) run(ctx context.Context) {
	var both sync.WaitGroup
	both.Go(func() { a.cloud.Run(ctx) })
	both.Go(func() { a.files.run(ctx) })
	both.Wait()
}

// woken adds a function that is told, from any goroutine, that what waits for the cloud should be looked at again.
func (a *cloudAccess) woken(wake func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wake = append(a.wake, wake)
}

func (a *cloudAccess) wakeAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, wake := range a.wake {
		wake()
	}
}

// outage is client.Options'.
func (a *cloudAccess) outage(o client.Outage) {
	if o.Over.IsZero() {
		outage.WithLabelValues(labelsOf(a.ref)...).Set(1)
		a.logger.Info("The cloud does not answer: calls wait until a probe is answered", "reason", o.Reason,
			"since", o.Since)
		return
	}
	outage.WithLabelValues(labelsOf(a.ref)...).Set(0)
	a.logger.Info("The cloud answers again", "after", o.Over.Sub(o.Since).Round(time.Millisecond))
	a.wakeAll()
}

// credentialsFiles has credentials replaced when their files, or their Secret, change.
type credentialsFiles struct {
	ref     managed.CloudRef
	load    func() (client.Credentials, error)
	replace func(context.Context, client.Credentials) error
	// replaced is told that other credentials are used from now on.
	replaced func()
	// complain, where set, is told why those that have changed cannot be used, once for each reason.
	complain func(error)
	logger   klog.Logger
	// look has a value in it when the files should be looked at out of turn.
	look chan struct{}

	// used are the credentials in use; tried those that could not be used, which are tried again at again. failure is the
	// text of what was last reported.
	used, tried client.Credentials
	again       time.Time
	backoff     time.Duration
	failure     string
}

// lookNow has the files looked at out of turn, because the credentials were refused or the server was not trusted.
func (f *credentialsFiles) lookNow() {
	select {
	case f.look <- struct{}{}:
	default:
	}
}

// run looks at the files until ctx is done.
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

// check replaces the credentials where the files hold others that can be used. Those in use stay until then.
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
		f.logger.Error(err, "The credentials have changed and cannot be used: those from before are used, and these "+
			"tried again")
		if f.complain != nil {
			f.complain(err)
		}
	}
}

// settled reports whether what was found in the files is still there after a moment; not where ctx is done before.
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

// inUse notes that the files hold what is used.
func (f *credentialsFiles) inUse() {
	credentialsOutdated.WithLabelValues(labelsOf(f.ref)...).Set(0)
	f.failure = ""
}
