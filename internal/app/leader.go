package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	_ "k8s.io/component-base/metrics/prometheus/clientgo/leaderelection" // leader_election_master_status tells who leads
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/neutron"
)

// LeaderElection is how one of several processes is chosen to act. Names and defaults of its flags are those of
// kube-controller-manager.
type LeaderElection struct {
	// Enabled is whether there may be more than one process. Without it, this one acts at once.
	Enabled bool
	// LeaseDuration is how long after a leader's last sign of life another one takes over, in whole seconds.
	LeaseDuration time.Duration
	// RenewDeadline is how long after its last sign of life a leader goes on; it is shorter than LeaseDuration, so that
	// it has ended before another one begins.
	RenewDeadline time.Duration
	// RetryPeriod is between the signs of life. Others look for them, and try to take over, several times as often.
	RetryPeriod time.Duration
	// ResourceName and ResourceNamespace are the Lease's. An empty namespace is the ServiceAccount's in a Pod, and
	// "default" elsewhere.
	ResourceName, ResourceNamespace string
}

func newLeaderElection() LeaderElection {
	return LeaderElection{
		Enabled:       true,
		LeaseDuration: 15 * time.Second,
		RenewDeadline: 10 * time.Second,
		RetryPeriod:   2 * time.Second,
		ResourceName:  "network-controller",
	}
}

func (l *LeaderElection) addFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&l.Enabled, "leader-elect", l.Enabled,
		"Act only while holding a Lease, so that several of these processes can run and one of them takes over when the "+
			"leader ends. False for the only process there is.")
	flags.DurationVar(&l.LeaseDuration, "leader-elect-lease-duration", l.LeaseDuration,
		"How long after the leader's last sign of life another process takes over, in whole seconds.")
	flags.DurationVar(&l.RenewDeadline, "leader-elect-renew-deadline", l.RenewDeadline,
		"How long after its last sign of life a leader may go on writing; less than the lease duration.")
	flags.DurationVar(&l.RetryPeriod, "leader-elect-retry-period", l.RetryPeriod,
		"How long between two signs of life. Others look for them four times as often.")
	flags.StringVar(&l.ResourceName, "leader-elect-resource-name", l.ResourceName,
		"Name of the Lease. Processes that are to replace each other name the same one.")
	flags.StringVar(&l.ResourceNamespace, "leader-elect-resource-namespace", l.ResourceNamespace,
		"Namespace of the Lease. The default is that of the ServiceAccount in a Pod, and \"default\" with --kubeconfig "+
			"or --master.")
}

func (l *LeaderElection) validate() error {
	if !l.Enabled {
		return nil
	}
	var errs []error
	if l.LeaseDuration < time.Second || l.LeaseDuration%time.Second != 0 {
		errs = append(errs, fmt.Errorf("--leader-elect-lease-duration=%s: write whole seconds, at least 1s, as a Lease "+
			"has them", l.LeaseDuration))
	}
	if l.LeaseDuration <= l.RenewDeadline {
		errs = append(errs, fmt.Errorf("--leader-elect-renew-deadline=%s: write less than "+
			"--leader-elect-lease-duration=%s, so that a leader has stopped when the next one starts",
			l.RenewDeadline, l.LeaseDuration))
	}
	if least := time.Duration(secondAttempt * float64(l.RetryPeriod)); l.RetryPeriod <= 0 || l.RenewDeadline <= least {
		errs = append(errs, fmt.Errorf("--leader-elect-retry-period=%s: write more than 0, and less than %s, so that "+
			"--leader-elect-renew-deadline=%s leaves time for a second attempt", l.RetryPeriod,
			time.Duration(float64(l.RenewDeadline)/secondAttempt), l.RenewDeadline))
	}
	if l.ResourceName == "" {
		errs = append(errs, errors.New("--leader-elect-resource-name is empty: name a Lease"))
	}
	return errors.Join(errs...)
}

// namespaceFile is where the kubelet puts the namespace of a Pod's ServiceAccount.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// leaseNamespace is the namespace of the Lease.
func (o *Options) leaseNamespace() (string, error) {
	switch {
	case o.LeaderElection.ResourceNamespace != "":
		return o.LeaderElection.ResourceNamespace, nil
	case o.Kubeconfig != "" || o.Master != "":
		return metav1.NamespaceDefault, nil
	}
	content, err := os.ReadFile(namespaceFile)
	if err != nil {
		return "", fmt.Errorf("finding the namespace of the Lease: %w: give --leader-elect-resource-namespace", err)
	}
	return strings.TrimSpace(string(content)), nil
}

// election chooses one of several processes. It is this process's part in it.
type election struct {
	// elector is nil where there is no election and this process leads from the start.
	elector  *leaderelection.LeaderElector
	watchdog *leaderelection.HealthzAdaptor
	lock     *fencedLock
	// permit, where not nil, gives an error unless this process may write.
	permit func() error

	// leading is closed when this process becomes the leader. since, which may be read from then on, tells when: what
	// another leader did was before. It never becomes the leader twice.
	leading chan struct{}
	since   time.Time
	// following is closed when another process was first seen to lead.
	following chan struct{}
	// over is closed when this process takes part no longer.
	over chan struct{}
}

// watchdogPatience is how long after the end of its lease a leader may be there before it counts as hung; it is
// kube-controller-manager's.
const watchdogPatience = 20 * time.Second

// newPart is a part in an election that was not joined yet.
func newPart() *election {
	return &election{
		leading: make(chan struct{}), following: make(chan struct{}), over: make(chan struct{}),
		watchdog: leaderelection.NewLeaderHealthzAdaptor(watchdogPatience),
	}
}

// alone is the part of a process that leads from the start.
func alone() *election {
	e := newPart()
	e.since = time.Now()
	close(e.leading)
	return e
}

// newElection prepares an election, with a client of its own for the Lease: it waits behind no other requests, and one
// that hangs does not cost the lease. Nothing is sent before run.
func newElection(o Options, config *rest.Config) (*election, error) {
	if !o.LeaderElection.Enabled {
		return alone(), nil
	}
	e := newPart()
	namespace, err := o.leaseNamespace()
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.Timeout = max(time.Second, o.LeaderElection.RenewDeadline/2)
	client, err := coordinationv1.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for Leases: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("reading the host's name, which names this process in the Lease: %w", err)
	}
	// Two processes may run on one host, or in containers of one name.
	return e, e.join(o.LeaderElection, &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: o.LeaderElection.ResourceName},
		Client:     client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())},
	})
}

// looks is how often a standby looks at the lease while a leader shows its life once. The end of a lease is counted
// from the look that showed the last sign of life, and seen at a look, so that the time between them adds twice to what
// a standby takes over after.
const looks = 4

// secondAttempt is how many retry periods after a renewal the next one is tried again at the latest, where its first
// attempt fails at once: half a look late (see fencedLock.write), and one look further. It is more than client-go asks
// for (leaderelection.JitterFactor).
const secondAttempt = 1 + 1.5/looks

// join makes the elector over a lock.
func (e *election) join(o LeaderElection, lock resourcelock.Interface) error {
	fence := &fence{lease: lock.Describe(), term: o.RenewDeadline}
	e.lock = &fencedLock{Interface: lock, fence: fence, period: o.RetryPeriod}
	e.permit = fence.permit
	var err error
	e.elector, err = leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            e.lock,
		LeaseDuration:   o.LeaseDuration,
		RenewDeadline:   o.RenewDeadline,
		RetryPeriod:     o.RetryPeriod / looks,
		Name:            o.ResourceName,
		WatchDog:        e.watchdog,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {
				e.since = time.Now()
				close(e.leading)
			},
			OnNewLeader: func() func(string) {
				var once sync.Once
				return func(identity string) {
					if identity != lock.Identity() {
						once.Do(func() { close(e.following) })
					}
				}
			}(),
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("leader election: %w", err)
	}
	e.watchdog.SetLeaderElection(e.elector)
	return nil
}

// run takes part until ctx is done, and gives the lease up then: whoever acts on it MUST have ended before. It returns
// earlier where the lease is lost.
func (e *election) run(ctx context.Context) {
	if e.elector == nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	e.lock.lost = cancel
	e.elector.Run(ctx)
	e.lock.fence.close()
	close(e.over)
}

// await returns true once this process is the leader, and false when ctx is done before.
func (e *election) await(ctx context.Context) bool {
	select {
	case <-e.leading:
		return true
	case <-ctx.Done():
		return false
	}
}

// leads reports whether this process is, or was, the leader.
func (e *election) leads() bool { return isClosed(e.leading) }

// decided reports whether it is known who leads.
func (e *election) decided() bool { return e.leads() || isClosed(e.following) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// watch returns nil when ctx is done, and an error when the lease is lost before.
func (e *election) watch(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-e.over:
		return fmt.Errorf("the lease %s was lost: %w; start this process again, and it stands by", e.lock.Describe(),
			controller.ErrDeposed)
	}
}

// stand has a cloud looked at once by a process that stands by, and keeps looking once it leads. Where the credentials
// do not work, that shows before they are needed: such a standby is not ready. More than one look is of no use, since
// what a leader creates is decided by lists that began when it led.
func (e *election) stand(ctx context.Context, inventory *neutron.Inventory) {
	select {
	case <-ctx.Done():
	case <-e.leading:
	case <-e.following:
		standby, cancel := context.WithCancel(ctx)
		go func() {
			defer cancel()
			e.await(standby)
		}()
		inventory.Fill(standby)
		cancel()
	}
	if e.await(ctx) {
		inventory.Run(ctx)
	}
}

// guard has a client for Kubernetes write only what the election permits. Reads are not asked about.
func (e *election) guard(config *rest.Config) {
	if e.permit == nil {
		return
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return guarded{next, e.permit} })
}

// guarded is a transport that asks before it writes.
type guarded struct {
	next   http.RoundTripper
	permit func() error
}

// RoundTrip is that of http.RoundTripper.
func (g guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		if err := g.permit(); err != nil {
			if r.Body != nil {
				_ = r.Body.Close() // as http.RoundTripper has it
			}
			return nil, err
		}
	}
	return g.next.RoundTrip(r)
}

// WrappedRoundTripper lets client-go find the transport within.
func (g guarded) WrappedRoundTripper() http.RoundTripper { return g.next }

// fence tells whether this process may write. It is not a flag, which somebody would have to lower in time: a process
// that was stopped, or that the machine gave no time to, asks the clock when it goes on.
type fence struct {
	lease string
	// term is how long a renewal lasts.
	term time.Duration

	mu sync.Mutex
	// renewed is when the request of the last successful renewal began; zero before the first. From then on the others
	// wait for the whole duration of the lease, which is longer than term.
	renewed time.Time
	closed  bool
}

// permit gives nil while this process may write.
func (f *fence) permit() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
		return fmt.Errorf("the lease %s is not this process's any more", f.lease)
	case f.renewed.IsZero():
		return fmt.Errorf("the lease %s is not this process's", f.lease)
	case elapsed(f.renewed, time.Now()) >= f.term:
		return fmt.Errorf("the lease %s was not renewed within %s", f.lease, f.term)
	}
	return nil
}

// renew notes that a renewal succeeded whose request began at that time.
func (f *fence) renew(began time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.renewed = began
}

// close ends it for good.
func (f *fence) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
}

// elapsed is the time between two readings of time.Now, by the clock that went further. The monotonic one (Linux's
// CLOCK_MONOTONIC) goes on while a process is stopped and stands still while its machine sleeps; the other one can be
// set back.
func elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}

// fencedLock opens the fence with each successful renewal, and holds that this process leads for one unbroken term:
// client-go's elector, while it tries to renew, takes a lease that another held meanwhile and let go as if nothing had
// been, and when it gives up a lease that it could not renew, it gives up that of its successor. Only the elector's
// goroutine calls it.
type fencedLock struct {
	resourcelock.Interface
	fence *fence
	// period is between renewals. The elector, which has one period for looks and renewals, asks for more of them.
	period time.Duration
	// lost is called when the term is over.
	lost func()

	// holder is who held the lease when it was last read or written.
	holder string
	// held says whether this process has led; term is the Lease's leaseTransitions then.
	held bool
	term int
	over bool
	// renewed is when the lease was last written.
	renewed time.Time
}

var errTermOver = errors.New("another process may have led since this one did: it leads no more")

// Get is resourcelock.Interface's.
func (l *fencedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	switch {
	case err == nil:
		l.holder = record.HolderIdentity
		if l.held && l.holder != l.Identity() {
			l.end(ctx)
		}
	case apierrors.IsNotFound(err):
		// Who deleted it may have let another lead.
		l.holder = ""
		if l.held {
			l.end(ctx)
		}
	}
	return record, raw, err
}

// Create is resourcelock.Interface's.
func (l *fencedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Create)
}

// Update is resourcelock.Interface's.
func (l *fencedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Update)
}

func (l *fencedLock) write(
	ctx context.Context, record resourcelock.LeaderElectionRecord,
	write func(context.Context, resourcelock.LeaderElectionRecord) error,
) error {
	if record.HolderIdentity != l.Identity() { // it is given up
		l.fence.close()
		if l.over || l.holder != l.Identity() {
			return errTermOver
		}
		return write(ctx, record)
	}
	if l.held && record.LeaderTransitions != l.term {
		l.end(ctx)
	}
	if l.over {
		return errTermOver
	}
	began := time.Now()
	// Between half a look too early and half a look too late, on average at the period.
	if l.held && l.holder == l.Identity() && elapsed(l.renewed, began) < l.period-l.period/looks/2 {
		return nil // renewed not long ago
	}
	if err := write(ctx, record); err != nil {
		return err
	}
	l.holder, l.held, l.term, l.renewed = record.HolderIdentity, true, record.LeaderTransitions, began
	l.fence.renew(began)
	return nil
}

func (l *fencedLock) end(ctx context.Context) {
	if l.over {
		return
	}
	l.over = true
	l.fence.close()
	klog.FromContext(ctx).Info("Lost the lease", "lock", l.Describe(), "holder", l.holder)
	l.lost()
}
