package app

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	"sigs.k8s.io/yaml"

	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/metric"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

var inTeam = managed.CloudRef{Namespace: "team", Secret: "openstack"}

// deskClerk is a controller that notes which clouds it was woken for.
type deskClerk struct {
	playedUser

	mu    sync.Mutex
	woken map[managed.CloudRef]int
	inUse map[managed.CloudRef]bool
}

func (d *deskClerk) EnqueueIn(ref managed.CloudRef) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.woken[ref]++
}

func (d *deskClerk) CloudsInUse() map[managed.CloudRef]bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.inUse
}

// registryWorld is a registry between an API server that is played and an emulated cloud.
type registryWorld struct {
	*cloudRegistry
	t      *testing.T
	kube   *fake.Clientset
	clerk  *deskClerk
	events *record.FakeRecorder
	// clouds is the emulator's clouds.yaml, and logins counts the log-ins there.
	clouds string
	logins atomic.Int64
	logs   ktesting.Buffer
}

func newRegistryWorld(t *testing.T) *registryWorld {
	t.Helper()
	metric.Register()
	w := &registryWorld{t: t, kube: fake.NewClientset(), events: record.NewFakeRecorder(100)}
	server := neutrontest.New(neutrontest.Options{OnCall: func(c neutrontest.Call) {
		if c.Method == "POST" && strings.HasSuffix(c.Path, "/auth/tokens") {
			w.logins.Add(1)
		}
	}})
	listener := server.Start(t)
	w.clouds = listener.CloudsYAML()
	to, err := client.NewConfinement([]string{listener.URL}, client.Credentials{}, false)
	expect.NoError(t, err)
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	w.logs = logger.GetSink().(ktesting.Underlier).GetBuffer()
	ctx, cancel := context.WithCancel(klog.NewContext(context.WithoutCancel(t.Context()), logger))
	p := &process{
		options: NewOptions(), cluster: "c1", election: alone(), kube: w.kube, recorder: w.events, baseCtx: ctx,
	}
	p.namespaces, err = newNamespaces(p.options, p.kube, p.election.leads)
	expect.NoError(t, err)
	w.cloudRegistry = newCloudRegistry(p, to)
	w.clerk = &deskClerk{woken: map[managed.CloudRef]int{}}
	p.audience.add(w.clerk)
	t.Cleanup(func() {
		cancel()
		if err := p.base.Wait(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// put has the Secret hold a clouds.yaml.
func (w *registryWorld) put(uid types.UID, cloudsYAML string) {
	w.t.Helper()
	secrets := w.kube.CoreV1().Secrets(inTeam.Namespace)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: inTeam.Secret, UID: uid},
		Data:       map[string][]byte{client.SecretClouds: []byte(cloudsYAML)},
	}
	_, err := secrets.Update(w.t.Context(), secret, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = secrets.Create(w.t.Context(), secret, metav1.CreateOptions{})
	}
	expect.NoError(w.t, err)
}

// remove deletes the Secret once it is watched: the fake API server tells a watch only what happens after it began.
func (w *registryWorld) remove() {
	w.t.Helper()
	eventually(w.t, func() error {
		if !slices.ContainsFunc(w.kube.Actions(), func(a clienttesting.Action) bool { return a.Matches("watch", "secrets") }) {
			return errors.New("the Secret is not watched")
		}
		return nil
	})
	err := w.kube.CoreV1().Secrets(inTeam.Namespace).Delete(w.t.Context(), inTeam.Secret, metav1.DeleteOptions{})
	expect.NoError(w.t, err)
}

// await waits for a cloud's Inventory, as one does who is told that it is not there yet: until woken.
func (w *registryWorld) await(ref managed.CloudRef) managed.Inventory {
	w.t.Helper()
	var in managed.Inventory
	eventually(w.t, func() (err error) {
		in, err = w.In(ref, false)
		return err
	})
	return in
}

// awaitProblem waits until it is said why a cloud cannot be used.
func (w *registryWorld) awaitProblem(ref managed.CloudRef, text string) {
	w.t.Helper()
	eventually(w.t, func() error {
		_, err := w.In(ref, false)
		if problem, ok := errors.AsType[*managed.Problem](err); !ok || !problem.Waits || !strings.Contains(problem.State.Message, text) {
			return fmt.Errorf("it is %w, want %q", err, text)
		}
		return nil
	})
}

// only is the emulator's clouds.yaml with one entry.
func (w *registryWorld) only(name string) string {
	w.t.Helper()
	var all struct {
		Clouds map[string]any `json:"clouds"`
	}
	if err := yaml.Unmarshal([]byte(w.clouds), &all); err != nil || all.Clouds[name] == nil {
		w.t.Fatalf("no cloud %q: %v", name, err)
	}
	one, err := yaml.Marshal(map[string]any{"clouds": map[string]any{name: all.Clouds[name]}})
	expect.NoError(w.t, err)
	return string(one)
}

func TestOneSessionForEachSecret(t *testing.T) {
	w := newRegistryWorld(t)
	w.put("uid-1", w.clouds)
	tenant, admin := inTeam, inTeam
	tenant.Entry, admin.Entry = "tenant", "admin"
	// Without it, a busy machine may have read the Secret and the cloud before the first answer.
	asked := make(chan struct{})
	w.kube.PrependReactor("list", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		<-asked
		return false, nil, nil
	})
	if _, err := w.In(tenant, false); !errors.Is(err, managed.ErrNotYet) {
		t.Errorf("at first it is %v", err)
	}
	close(asked)
	theirs, others := w.await(tenant), w.await(admin)
	if theirs == others {
		t.Error("two entries share an Inventory")
	}
	if again := w.await(tenant); again != theirs {
		t.Error("one entry has two Inventories")
	}
	of := func(in managed.Inventory) string {
		t.Helper()
		identity, err := in.Identity(t.Context())
		expect.NoError(t, err)
		return identity.ProjectID
	}
	if of(theirs) == of(others) {
		t.Error("two projects are one")
	}
	expect.Equal(t, int64(2), w.logins.Load(), "log-ins for two clouds")
	expect.Len(t, 2, w.inventories(), "Inventories that are looked through for orphans")
	eventually(w.t, func() error {
		w.clerk.mu.Lock()
		defer w.clerk.mu.Unlock()
		if w.clerk.woken[tenant] == 0 || w.clerk.woken[admin] == 0 {
			return fmt.Errorf("woken: %v", w.clerk.woken)
		}
		return nil
	})
	for _, action := range w.kube.Actions() {
		selector := ""
		switch action := action.(type) {
		case clienttesting.ListActionImpl:
			selector = action.GetListRestrictions().Fields.String()
		case clienttesting.WatchActionImpl:
			selector = action.GetWatchRestrictions().Fields.String()
		default:
			continue
		}
		if selector != "metadata.name=openstack" || action.GetNamespace() != "team" {
			t.Errorf("it asked for %q in %q", selector, action.GetNamespace())
		}
	}
	for _, secret := range regexp.MustCompile(`(?:password|secret): (\S+)`).FindAllStringSubmatch(w.clouds, -1) {
		for _, log := range w.logs.Data() {
			if text := fmt.Sprint(log.Message, log.ParameterKVList, log.WithKVList); strings.Contains(text, secret[1]) {
				t.Errorf("a secret was logged: %s", text)
			}
		}
	}
}

func TestAnIncompleteSecretStallsItsObjects(t *testing.T) {
	w := newRegistryWorld(t)
	w.awaitProblem(inTeam, `there is no Secret "openstack" in this namespace: create it`)
	w.put("uid-1", "clouds: {")
	w.awaitProblem(inTeam, `Secret "openstack" cannot be used: clouds.yaml: line 1 is not valid YAML`)
	w.put("uid-1", w.clouds)
	w.awaitProblem(inTeam, "name one of them in spec.cloud.name")
	w.put("uid-1", w.only("tenant"))
	w.await(inTeam)
}

func TestAForbiddenSecretStallsItsObjects(t *testing.T) {
	w := newRegistryWorld(t)
	w.kube.PrependReactor("list", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(corev1.Resource("secrets"), inTeam.Secret, errors.New("no right"))
	})
	w.awaitProblem(inTeam, "the controller may not read Secret")
}

// deleted opens a session by a Secret in a namespace, and deletes the Secret while objects name it.
func (w *registryWorld) deleted(terminating bool) managed.Inventory {
	w.t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: inTeam.Namespace}}
	if terminating {
		namespace.DeletionTimestamp = new(metav1.Now())
	}
	expect.NoError(w.t, w.kube.Tracker().Add(namespace))
	w.put("uid-1", w.only("tenant"))
	in := w.await(inTeam)
	w.clerk.inUse = map[managed.CloudRef]bool{inTeam: true}
	w.remove()
	w.awaitProblem(inTeam, "there is no Secret")
	w.sweep(w.t.Context())
	return in
}

// gone has the only cloud's Secret be deleted for so long.
func (w *registryWorld) gone(since time.Duration) {
	c := w.onlyCloud()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known.since = time.Now().Add(-since)
}

func TestADeletedSecretServesDeletionsForAWhile(t *testing.T) {
	w := newRegistryWorld(t)
	in := w.deleted(false)
	if still, err := w.In(inTeam, true); err != nil || still != in {
		t.Errorf("for a removal it is %v, %v", still, err)
	}
	expect.Len(t, 1, w.inventories(), "Inventories after a sweep")
	w.gone(closeAfter + time.Second)
	if _, err := w.In(inTeam, true); err == nil || errors.Is(err, managed.ErrNotYet) {
		t.Errorf("after a while it is %v for a removal", err)
	}
	w.sweep(t.Context())
	expect.Empty(t, w.inventories(), "Inventories that are left")
	w.put("uid-1", w.only("tenant"))
	if back := w.await(inTeam); back == in {
		t.Error("a session that had ended is back")
	}
}

// onlyCloud is the only cloud that is open.
func (w *registryWorld) onlyCloud() *secretCloud {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.cloudRegistry.clouds {
		return c
	}
	w.t.Fatal("no cloud is open")
	return nil
}

func TestARecreatedSecretGetsANewSession(t *testing.T) {
	w := newRegistryWorld(t)
	w.put("uid-1", w.only("tenant"))
	in := w.await(inTeam)
	w.remove()
	w.awaitProblem(inTeam, "there is no Secret")
	w.put("uid-2", w.only("tenant"))
	if another := w.await(inTeam); another == in {
		t.Error("two Secrets share a session")
	}
	expect.Equal(t, int64(2), w.logins.Load(), "log-ins for two Secrets")
}

func TestAChangedSecretIsUsedAfterALogIn(t *testing.T) {
	w := newRegistryWorld(t)
	w.put("uid-1", w.only("tenant"))
	in := w.await(inTeam)
	was, err := in.Identity(t.Context())
	expect.NoError(t, err)
	w.put("uid-1", strings.ReplaceAll(w.only("admin"), "password: ", "password: not-"))
	event := <-w.events.Events
	if !strings.Contains(event, "Warning CredentialsRejected") || strings.Contains(event, "not-") {
		t.Errorf("the Event is %q", event)
	}
	if is, err := in.Identity(t.Context()); err != nil || is != was {
		t.Errorf("it leads to %v, %v", is, err)
	}
	w.put("uid-1", w.only("admin"))
	eventually(w.t, func() error {
		if is, err := in.Identity(t.Context()); err != nil || is == was {
			return fmt.Errorf("it leads to %v, %w", is, err)
		}
		return nil
	})
	if again := w.await(inTeam); again != in {
		t.Error("a change has made another session")
	}
}

func TestAnUnusedCloudIsClosed(t *testing.T) {
	w := newRegistryWorld(t)
	w.put("uid-1", w.only("tenant"))
	w.await(inTeam)
	age := func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, c := range w.cloudRegistry.clouds {
			if !c.unnamed.IsZero() {
				c.unnamed = c.unnamed.Add(-closeAfter - time.Second)
			}
		}
	}
	w.clerk.inUse = map[managed.CloudRef]bool{inTeam: true}
	w.sweep(t.Context())
	age()
	w.sweep(t.Context())
	if n := len(w.inventories()); n != 1 {
		t.Fatalf("%d clouds are open, want the one that is named", n)
	}
	w.clerk.inUse = nil
	w.sweep(t.Context())
	age()
	if _, err := w.In(inTeam, false); err != nil { // it is asked for once more
		t.Fatal(err)
	}
	w.sweep(t.Context())
	if n := len(w.inventories()); n != 1 {
		t.Fatalf("%d clouds are open, want the one that was asked for", n)
	}
	age()
	w.sweep(t.Context())
	expect.Empty(t, w.inventories(), "clouds that are open")
	w.await(inTeam)
	if !slices.ContainsFunc(w.logs.Data(), func(l ktesting.LogEntry) bool { return strings.HasPrefix(l.Message, "Closed") }) {
		t.Error("it was not logged")
	}
}

// refs are n clouds of a namespace.
func refs(namespace string, n int) (all []managed.CloudRef) {
	for i := range n {
		all = append(all, managed.CloudRef{Namespace: namespace, Secret: fmt.Sprint("secret", i)})
	}
	return all
}

// refused counts the clouds that are refused for want of a place.
func (w *registryWorld) countRefused(all []managed.CloudRef) (n int) {
	w.t.Helper()
	for _, ref := range all {
		_, err := w.In(ref, false)
		if problem, ok := errors.AsType[*managed.Problem](err); ok && strings.Contains(problem.State.Message, "--max-clouds") {
			if problem.State.Reason != "CredentialsUnavailable" || !problem.Waits {
				w.t.Errorf("the problem is %+v", problem)
			}
			n++
		}
	}
	return n
}

func TestANamespaceOpensAtMostItsShareOfClouds(t *testing.T) {
	w := newRegistryWorld(t)
	w.p.options.MaxClouds = 30
	noisy := refs("noisy", 200)
	expect.Equal(t, 197, w.countRefused(noisy), "refused of 200 clouds of one namespace, which gets a tenth of 30")
	expect.Equal(t, 0, w.countRefused(noisy[:3]), "refused of those that are open")
	expect.Equal(t, 0, w.countRefused(refs("quiet", 3)), "refused clouds of another namespace")
	w.operator = "network-controller"
	expect.Equal(t, 0, w.countRefused(refs("network-controller", 9)), "refused clouds of the operator's")
	for n := range 5 {
		w.countRefused(refs(fmt.Sprint("other", n), 3))
	}
	expect.Equal(t, 1, w.countRefused(refs("last", 1)), "clouds beyond the limit for all that are refused")
	expect.Len(t, 30, w.cloudRegistry.clouds, "clouds that are open")
}

// Orphans in a tenant's cloud are judged apart from those in the operator's clouds.
func TestACloudIsATenantsUnlessItsSecretIsInTheControllersNamespace(t *testing.T) {
	for sentence, c := range map[string]struct{ operator, want string }{
		"a class's Secret is the operator's":       {inTeam.Namespace, ""},
		"a Secret of another namespace is of that": {"network-controller", inTeam.Namespace},
		"no namespace is the controller's":         {"", inTeam.Namespace},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newRegistryWorld(t)
			w.operator = c.operator
			w.put("uid-1", w.clouds)
			ref := inTeam
			ref.Entry = "tenant"
			w.await(ref)
			var got []string
			for _, other := range w.inventories() {
				got = append(got, other.Tenant)
			}
			expect.Equal(t, []string{c.want}, got, "tenants")
		})
	}
}

func TestAClosedCloudFreesItsPlace(t *testing.T) {
	w := newRegistryWorld(t)
	w.p.options.MaxClouds = 10
	all := refs("team", 3)
	w.clerk.inUse = map[managed.CloudRef]bool{all[0]: true, all[1]: true, all[2]: true}
	if n := w.countRefused(all); n != 2 {
		t.Fatalf("%d are refused, want 2", n)
	}
	w.clerk.inUse = map[managed.CloudRef]bool{all[1]: true}
	w.sweep(t.Context()) // notes that nothing uses the first one
	w.sweep(t.Context()) // its Secret does not exist, so there is no session to keep
	w.clerk.mu.Lock()
	woken := w.clerk.woken[all[1]]
	w.clerk.mu.Unlock()
	if woken == 0 {
		t.Error("the objects of the cloud that waits were not enqueued")
	}
	expect.Equal(t, 0, w.countRefused(all[1:2]), "refused although there is a place")
	expect.Empty(t, w.refused, "refusals that are remembered")
}

func TestASecretThatIsReplacedOftenIsTriedSeldom(t *testing.T) {
	w := newRegistryWorld(t)
	w.p.options.MaxClouds = 30 // three for one namespace
	for n := range 20 {
		w.put(types.UID(fmt.Sprint("uid-", n)), w.only("tenant"))
		eventually(w.t, func() error {
			if _, err := w.In(inTeam, false); err != nil && !errors.Is(err, managed.ErrNotYet) {
				return err
			}
			c := w.onlyCloud()
			if known, _ := c.state(); known.uid != types.UID(fmt.Sprint("uid-", n)) {
				return fmt.Errorf("it knows %s", known.uid)
			}
			return nil
		})
		w.remove()
		w.awaitProblem(inTeam, "there is no Secret")
	}
	if n := w.logins.Load(); n > 4 {
		t.Errorf("%d log-ins for 20 Secrets", n)
	}
}

func TestADeletedSecretServesDeletionsAsLongAsItsNamespaceIsDeleted(t *testing.T) {
	w := newRegistryWorld(t)
	in := w.deleted(true)
	w.gone(100 * closeAfter)
	w.sweep(t.Context())
	if still, err := w.In(inTeam, true); err != nil || still != in {
		t.Errorf("for a removal it is %v, %v", still, err)
	}
	if _, err := w.In(inTeam, false); err == nil {
		t.Error("it serves more than removals")
	}
}

// TestASecretIsReadWhileTheCloudsAreCounted holds the lock that the metrics and the controller of orphans hold while they
// look at each cloud.
func TestASecretIsReadWhileTheCloudsAreCounted(t *testing.T) {
	w := newRegistryWorld(t)
	w.put("uid-1", w.only("tenant"))
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.open(inTeam)
	w.cloudRegistry.clouds[inTeam] = c
	eventually(w.t, func() error {
		if !c.mu.TryLock() {
			return errors.New("the Secret's reader holds the cloud and waits for the lock of all clouds")
		}
		defer c.mu.Unlock()
		if c.session == nil {
			return errors.New("its Secret opened no session")
		}
		return nil
	})
}
