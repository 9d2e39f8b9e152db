package app

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	_ "k8s.io/component-base/metrics/prometheus/clientgo/leaderelection" // serves leader_election_master_status

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
)

// LeaderElection configures which of several processes acts. The flags have kube-controller-manager's names and
// defaults, and their texts say what each is for.
type LeaderElection struct {
	Enabled                                   bool
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
	// ResourceName and ResourceNamespace name the Lease. The default is the same in and out of a Pod, so that a process on
	// a laptop and one in the cluster do not both lead.
	ResourceName, ResourceNamespace string
}

func newLeaderElection() LeaderElection {
	return LeaderElection{
		Enabled:       true,
		LeaseDuration: 15 * time.Second,
		RenewDeadline: 10 * time.Second,
		RetryPeriod:   2 * time.Second,

		ResourceName:      "network-controller",
		ResourceNamespace: "network-controller",
	}
}

func (l *LeaderElection) addFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&l.Enabled, "leader-elect", l.Enabled,
		"Act only while holding a Lease. Several processes can then run, and a standby takes over when the leader ends. "+
			"Use false only for a single process.")
	flags.DurationVar(&l.LeaseDuration, "leader-elect-lease-duration", l.LeaseDuration,
		"How long after the leader's last renewal a standby takes over, in whole seconds.")
	flags.DurationVar(&l.RenewDeadline, "leader-elect-renew-deadline", l.RenewDeadline,
		"How long after its last renewal the leader may write. Must be less than the lease duration.")
	flags.DurationVar(&l.RetryPeriod, "leader-elect-retry-period", l.RetryPeriod,
		"How often the leader renews the Lease, and how often a standby tries to acquire it.")
	flags.StringVar(&l.ResourceName, "leader-elect-resource-name", l.ResourceName,
		"Name of the Lease. Processes that replace each other use the same name. With --namespace, that namespace is "+
			"added to it, after a hyphen.")
	flags.StringVar(&l.ResourceNamespace, "leader-elect-resource-namespace", l.ResourceNamespace,
		"Namespace of the Lease, in and out of the cluster. It has to exist.")
}

func (l *LeaderElection) validate(found *findings) {
	if !l.Enabled {
		return
	}
	found.require(l.LeaseDuration >= time.Second && l.LeaseDuration%time.Second == 0,
		"--leader-elect-lease-duration=%s: write whole seconds, at least 1s; a Lease stores whole seconds", l.LeaseDuration)
	found.require(l.LeaseDuration > l.RenewDeadline, "--leader-elect-renew-deadline=%s: write less than "+
		"--leader-elect-lease-duration=%s, so that a leader stops before the next one starts",
		l.RenewDeadline, l.LeaseDuration)
	// client-go's own check.
	attempt := time.Duration(leaderelection.JitterFactor * float64(l.RetryPeriod))
	found.require(l.RetryPeriod > 0 && l.RenewDeadline > attempt, "--leader-elect-retry-period=%s: write more than 0 and "+
		"less than %s, so that --leader-elect-renew-deadline=%s leaves time for a second attempt", l.RetryPeriod,
		time.Duration(float64(l.RenewDeadline)/leaderelection.JitterFactor), l.RenewDeadline)
	found.require(l.ResourceName != "", "--leader-elect-resource-name is empty: name a Lease")
	found.require(l.ResourceNamespace != "", "--leader-elect-resource-namespace is empty: name a namespace")
}

// leaseName is the name of the Lease. Processes of different namespaces do not replace each other.
func (o *Options) leaseName() string {
	if o.Namespace == "" {
		return o.LeaderElection.ResourceName
	}
	return o.LeaderElection.ResourceName + "-" + o.Namespace
}

// checkNamespace returns an error if the namespace of the Lease does not exist. Without it, the process would wait for
// ever to lead. Who may not read the namespace is not told.
func (l *LeaderElection) checkNamespace(ctx context.Context, kube kubernetes.Interface) error {
	if !l.Enabled {
		return nil
	}
	_, err := kube.CoreV1().Namespaces().Get(ctx, l.ResourceNamespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("the namespace %[1]s of the Lease does not exist: run `kubectl create namespace %[1]s`, or name "+
			"another one in --leader-elect-resource-namespace", l.ResourceNamespace)
	}
	return nil
}

// election decides whether this process acts: client-go's leader election, and the permit that each write needs.
type election struct {
	// elector is nil without leader election; the process then leads from the start.
	elector  *leaderelection.LeaderElector
	watchdog *leaderelection.HealthzAdaptor
	lock     *timedLock

	// name is a random text of this process.
	name string

	// leading is closed when this process becomes the leader, which happens at most once. since, which may be read
	// from then on, is when.
	leading chan struct{}
	since   time.Time
	// following is closed when another process is first seen to lead.
	following chan struct{}
	// over is closed when run returns.
	over chan struct{}
}

// newElection prepares the election. It sends no request before run.
func newElection(o Options, config *rest.Config) (*election, error) {
	if !o.LeaderElection.Enabled {
		return alone(), nil
	}
	lock, err := newLeaseLock(o, config)
	if err != nil {
		return nil, err
	}
	return newElectionOver(o.LeaderElection, lock)
}

// alone is the election of a process that leads from the start.
func alone() *election {
	e := &election{watchdog: newWatchdog(), leading: make(chan struct{}), since: time.Now()}
	close(e.leading)
	return e
}

// newLeaseLock makes the lock with its own client: a renewal waits behind no other request, and one that hangs
// leaves time for another before the deadline.
func newLeaseLock(o Options, config *rest.Config) (resourcelock.Interface, error) {
	config = rest.CopyConfig(config)
	config.Timeout = max(time.Second, o.LeaderElection.RenewDeadline/2)
	leases, err := coordinationv1.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for Leases: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("reading the hostname, which identifies this process in the Lease: %w", err)
	}
	return &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: o.LeaderElection.ResourceNamespace, Name: o.leaseName()},
		Client:    leases,
		// The UID tells apart two processes on one host, or in containers of one name.
		LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())},
	}, nil
}

// newWatchdog makes the check behind /livez, with kube-controller-manager's tolerance: it fails while a leader is
// still there 20 seconds after its lease expired.
func newWatchdog() *leaderelection.HealthzAdaptor {
	return leaderelection.NewLeaderHealthzAdaptor(20 * time.Second)
}

// newElectionOver makes an election over a lock.
func newElectionOver(o LeaderElection, lock resourcelock.Interface) (*election, error) {
	e := &election{
		watchdog: newWatchdog(),
		lock:     &timedLock{Interface: lock, deadline: o.RenewDeadline},
		name:     string(uuid.NewUUID()),
		leading:  make(chan struct{}), following: make(chan struct{}), over: make(chan struct{}),
	}
	var follow sync.Once
	var err error
	e.elector, err = leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            e.lock,
		LeaseDuration:   o.LeaseDuration,
		RenewDeadline:   o.RenewDeadline,
		RetryPeriod:     o.RetryPeriod,
		Name:            o.ResourceName,
		WatchDog:        e.watchdog,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {
				e.since = time.Now()
				close(e.leading)
			},
			OnNewLeader: func(identity string) {
				if identity != lock.Identity() {
					follow.Do(func() { close(e.following) })
				}
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("leader election: %w", err)
	}
	e.watchdog.SetLeaderElection(e.elector)
	return e, nil
}

// run takes part in the election until ctx is done, and then releases the lease: the controllers MUST have stopped
// before. It returns earlier when the lease is lost.
func (e *election) run(ctx context.Context) {
	if e.elector == nil {
		return
	}
	e.elector.Run(ctx)
	close(e.over)
}

// watch returns nil when ctx is done, and an error when the lease is lost first. The process then exits: what it
// remembers may be out of date, and it starts again as a standby.
func (e *election) watch(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-e.over:
		return fmt.Errorf("lost the lease %s: %w; start this process again as a standby", e.lock.Describe(),
			controller.ErrDeposed)
	}
}

// await returns true once this process is the leader, and false when ctx is done first.
func (e *election) await(ctx context.Context) bool { return awaitClosed(ctx, e.leading) }

// leads reports whether this process is, or was, the leader.
func (e *election) leads() bool { return isClosed(e.leading) }

// decided reports whether the leader is known.
func (e *election) decided() bool { return e.leads() || isClosed(e.following) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// awaitClosed waits until a channel is closed. It returns false if ctx is done first.
func awaitClosed(ctx context.Context, c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	case <-ctx.Done():
		return false
	}
}

// audit audits a cloud once while this process is a standby, and periodically once it leads. The standby's one audit
// shows that the credentials work before they are needed: without it, a standby is not ready. Further audits would
// have no use, because a new leader trusts only lists that began after it became the leader.
func (e *election) audit(ctx context.Context, inventory *inventory.Inventory) {
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

// permit returns an error unless this process may write. Every write to Neutron and Kubernetes asks right before it is
// sent. The clock decides and not only the elector's view, because a process that was stopped (SIGSTOP, a node without
// CPU time) wakes with an outdated view.
func (e *election) permit() error {
	switch {
	case e.elector == nil:
		return nil
	case !e.elector.IsLeader():
		return fmt.Errorf("this process does not hold the lease %s", e.lock.Describe())
	case e.lock.expired(time.Now()):
		return e.lock.errExpired()
	}
	return nil
}

// term implements inventory.Options.Term. The Lease counts its holders.
func (e *election) term() (term inventory.Term, leads bool) {
	if e.elector == nil || e.permit() != nil {
		return inventory.Term{}, false
	}
	number, stale := e.lock.taken()
	return inventory.Term{
		Lease: e.lock.Describe(), Number: number, Holder: e.name, Stale: stale,
	}, true
}

// guard makes the clients of a configuration ask for the permit before each write. Reads need none.
func (e *election) guard(config *rest.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return client.Permitted{RoundTripper: next, Permit: e.permit}
	})
}

// timedLock records when the lease was last renewed, and refuses to renew or release it after the deadline. Another
// process may have led since then, but client-go's elector would take a released lease again as if nothing had
// happened, and on giving up would release the lease of its successor. With each attempt refused, the elector gives up
// and the process exits.
type timedLock struct {
	resourcelock.Interface
	deadline time.Duration

	mu sync.Mutex
	// renewed is when the request of the last successful renewal began; zero before the first. Other processes count
	// the lease duration from a later time.
	renewed time.Time
	// number is how many have held the lease until then.
	number int
	// lastRead is the Lease's last renewal by another process. stale is true if that was long ago when this process took
	// the Lease.
	lastRead time.Time
	stale    bool
}

// staleAfter is how old a Lease's last renewal is if its cluster, or the controller, was not there for long. A restart,
// a failover and an upgrade take less.
const staleAfter = 10 * time.Minute

// Get implements resourcelock.Interface.
func (l *timedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil && record.HolderIdentity != l.Identity() {
		l.mu.Lock()
		l.lastRead = record.RenewTime.Time
		l.mu.Unlock()
	}
	return record, raw, err
}

// Create implements resourcelock.Interface.
func (l *timedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Create)
}

// Update implements resourcelock.Interface.
func (l *timedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Update)
}

func (l *timedLock) write(
	ctx context.Context, record resourcelock.LeaderElectionRecord,
	write func(context.Context, resourcelock.LeaderElectionRecord) error,
) error {
	began := time.Now()
	if l.expired(began) {
		return l.errExpired()
	}
	if err := write(ctx, record); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.renewed.IsZero() {
		l.stale = !l.lastRead.IsZero() && elapsed(l.lastRead, began) > staleAfter
	}
	l.renewed, l.number = began, record.LeaderTransitions+1
	return nil
}

// taken gives how many have held the lease, this process included, and whether nobody had renewed it for long when this
// process took it.
func (l *timedLock) taken() (holders int, wasStale bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.number, l.stale
}

// expired reports whether the deadline has passed since the last renewal. It is false before the first.
func (l *timedLock) expired(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.renewed.IsZero() && elapsed(l.renewed, now) >= l.deadline
}

func (l *timedLock) errExpired() error {
	return fmt.Errorf("the lease %s was not renewed within %s", l.Describe(), l.deadline)
}

// elapsed is the time between two readings of time.Now, by the clock that advanced further. Linux's monotonic clock
// advances while a process is stopped but not while the machine sleeps; the wall clock can be set back.
func elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}
