package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// leaseDuration is that of the processes under test: short, as some of them are killed and others take over.
const leaseDuration = 3 * time.Second

// electing are the flags by which a process takes part in the election that config/rbac gives the right to.
func electing() []string {
	return []string{
		"--leader-elect-resource-namespace=" + harness.AccountName,
		"--leader-elect-lease-duration=" + leaseDuration.String(), "--leader-elect-renew-deadline=2s",
		"--leader-elect-retry-period=500ms",
	}
}

// forgetLeader deletes the Lease, so that the next test's process need not wait for it to end.
func forgetLeader(t *testing.T) {
	t.Helper()
	err := kube.CoordinationV1().Leases(harness.AccountName).Delete(contextOf(t), harness.AccountName, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Errorf("deleting the Lease: %v", err)
	}
}

// write is a request to Neutron that changes something, as it arrived.
type write struct {
	process, line string
	at            time.Time
}

// watchedCloud is an emulator that notes who writes, and may hold writes up. It tells the processes apart by their
// tokens: the second one logs in under another name of the same host.
type watchedCloud struct {
	t *testing.T
	// files are clouds.yaml files by process.
	files map[string]string

	mu sync.Mutex
	// tokens tell which process a token was given to.
	tokens map[string]string
	writes []write
	// hold, where not nil, is called with each write before it is carried out.
	hold func(w write)
}

func newWatchedCloud(t *testing.T) *watchedCloud {
	t.Helper()
	if emulator == nil {
		t.Skip("the writes that arrive at the emulator are counted")
	}
	c := &watchedCloud{t: t, files: map[string]string{}, tokens: map[string]string{}}
	server := neutrontest.New(neutrontest.Options{})
	listener, err := server.Listen("127.0.0.1:0", func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			process := first
			if strings.HasPrefix(r.Host, "localhost:") {
				process = second
				// The catalog gives the address that was asked, and a Network is pinned to that.
				r.Host = strings.Replace(r.Host, "localhost", "127.0.0.1", 1)
			}
			if r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/v2.0/") {
				c.note(r)
			}
			next.ServeHTTP(w, r)
			if token := w.Header().Get("X-Subject-Token"); token != "" {
				c.mu.Lock()
				c.tokens[token] = process
				c.mu.Unlock()
			}
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	for process, address := range map[string]string{
		first: listener.URL, second: strings.Replace(listener.URL, "127.0.0.1", "localhost", 1),
	} {
		c.files[process] = filepath.Join(t.TempDir(), "clouds.yaml")
		if err := os.WriteFile(c.files[process], []byte(server.CloudsYAML(address)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// start starts a process.
func (c *watchedCloud) start(name string) *process {
	c.t.Helper()
	return start(c.t, []string{"OS_CLIENT_CONFIG_FILE=" + c.files[name]}, "--kubeconfig", kubeconfig, "--cloud", "tenant",
		"--controllers=network", "--bind-address", "127.0.0.1:0", "--audit-interval", "1s", "-v", "2")
}

// note notes a write that has arrived, and returns when it may go on.
func (c *watchedCloud) note(r *http.Request) {
	c.mu.Lock()
	w := write{c.tokens[r.Header.Get("X-Auth-Token")], r.Method + " " + r.URL.Path, time.Now()}
	c.writes = append(c.writes, w)
	hold := c.hold
	c.mu.Unlock()
	if hold != nil {
		hold(w)
	}
}

func (c *watchedCloud) setHold(hold func(write)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hold = hold
}

// of gives the writes of a process, oldest first.
func (c *watchedCloud) of(process string) []write {
	c.mu.Lock()
	defer c.mu.Unlock()
	var writes []write
	for _, w := range c.writes {
		if w.process == process {
			writes = append(writes, w)
		}
	}
	return writes
}

// awaitPrinted waits until a process has printed a text.
func awaitPrinted(t *testing.T, p *process, text string) {
	t.Helper()
	eventually(t, func() error {
		if !strings.Contains(p.output.String(), text) {
			return fmt.Errorf("it does not print %q:\n%s", text, p.output.String())
		}
		return nil
	})
}

// awaitHealthy waits until a process answers 200 at a path of its --bind-address, which it prints, and returns what it
// answers.
func awaitHealthy(t *testing.T, p *process, path string) {
	t.Helper()
	eventually(t, func() error {
		_, after, _ := strings.Cut(p.output.String(), `address="`)
		address, _, ok := strings.Cut(after, `"`)
		if !ok {
			return errors.New("it does not say where it serves")
		}
		answer, err := http.Get("http://" + address + path)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", path, answer.Status)
		}
		return nil
	})
}

// Of the two processes of the tests below, the first leads.
const (
	first  = "first"
	second = "second"
	// leadingText is what client-go prints when a lease is had.
	leadingText = "Successfully acquired lease"
)

// startTwo starts two processes. When it returns, the first leads and the second is ready to.
func (c *watchedCloud) startTwo() (leader, standby *process) {
	c.t.Helper()
	leader = c.start(first)
	awaitPrinted(c.t, leader, leadingText)
	standby = c.start(second)
	awaitHealthy(c.t, standby, "/readyz")
	awaitHealthy(c.t, standby, "/livez")
	return leader, standby
}

// oneEach holds that Neutron has one network and one subnet for each of the names, and no others.
func (c *watchedCloud) oneEach(names ...string) {
	c.t.Helper()
	cloud := openFile(c.t, c.files[first], "tenant")
	for _, name := range names {
		cloud.one("networks", "name="+name)
	}
	if n := len(cloud.list("networks", "")); n != len(names) {
		c.t.Errorf("there are %d networks, want %d", n, len(names))
	}
	if n := len(cloud.list("subnets", "")); n != len(names) {
		c.t.Errorf("there are %d subnets, want %d", n, len(names))
	}
}

func TestAStandbyIsReadyAndDoesNothing(t *testing.T) {
	c := newWatchedCloud(t)
	_, standby := c.startTwo()
	namespace := newNamespace(t)
	name := unique(t, namespace)
	apply(t, namespace, name, example())
	awaitReady(t, namespace, name)
	remove(t, namespace, name)
	if writes := c.of(second); len(writes) > 0 {
		t.Errorf("the standby wrote %v", writes)
	}
	if strings.Contains(standby.output.String(), leadingText) {
		t.Error("both lead")
	}
}

func TestAStandbyTakesOverFromALeaderThatIsKilled(t *testing.T) {
	c := newWatchedCloud(t)
	leader, standby := c.startTwo()
	namespace := newNamespace(t)
	name := unique(t, namespace)
	apply(t, namespace, name, example())
	awaitReady(t, namespace, name)
	leader.kill(t)
	cloud := openFile(t, c.files[first], "tenant")
	cloud.update("networks", cloud.one("networks", "name="+name).id(), resource{"admin_state_up": false})
	later := name + "-later"
	apply(t, namespace, later, example())
	awaitReady(t, namespace, later)
	eventually(t, func() error {
		if up := cloud.one("networks", "name="+name)["admin_state_up"]; up != true {
			return errors.New("the drift stays")
		}
		return nil
	})
	c.oneEach(name, later)
	if !strings.Contains(standby.output.String(), leadingText) {
		t.Error("the standby does not say that it leads")
	}
	remove(t, namespace, name)
	remove(t, namespace, later)
}

// TestALeaderThatIsToldToStopHandsOver stops the leader while a create of its is held up: that one is finished, and only
// then does the other one write.
func TestALeaderThatIsToldToStopHandsOver(t *testing.T) {
	c := newWatchedCloud(t)
	leader, standby := c.startTwo()
	held, proceed := make(chan struct{}), make(chan struct{})
	var once sync.Once
	c.setHold(func(w write) {
		if w.process == first && strings.HasPrefix(w.line, http.MethodPost) {
			once.Do(func() {
				close(held)
				<-proceed
			})
		}
	})
	namespace := newNamespace(t)
	names := make([]string, 20)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%d", unique(t, namespace), i)
		apply(t, namespace, names[i], example())
	}
	<-held
	leader.signal(syscall.SIGTERM)
	// Longer than a lease: it is renewed while the leader drains.
	awaitPrinted(t, leader, "Draining")
	<-time.After(leaseDuration + 2*time.Second)
	if strings.Contains(standby.output.String(), leadingText) {
		t.Error("the standby leads while the leader drains")
	}
	stopped := time.Now()
	close(proceed)
	if code := leader.awaitExit(t); code != 0 {
		t.Errorf("after SIGTERM it exits with %d, want 0", code)
	}
	awaitPrinted(t, standby, leadingText)
	t.Logf("the standby leads %s after the leader's last create was answered", time.Since(stopped))
	for _, name := range names {
		awaitReady(t, namespace, name)
	}
	c.oneEach(names...)
	of1, of2 := c.of(first), c.of(second)
	if len(of1) == 0 || len(of2) == 0 || !of1[len(of1)-1].at.Before(of2[0].at) {
		t.Errorf("the writes of the two overlap: %v, then %v", of1, of2)
	}
	for _, name := range names {
		remove(t, namespace, name)
	}
}

// TestAStoppedLeaderWritesNoMore stops the leader, as SIGSTOP does, while creates of its are under way, and lets it go on
// after another one has taken over.
func TestAStoppedLeaderWritesNoMore(t *testing.T) {
	c := newWatchedCloud(t)
	leader, standby := c.startTwo()
	held, proceed := make(chan struct{}), make(chan struct{})
	var once sync.Once
	c.setHold(func(w write) {
		if w.process == first && strings.HasPrefix(w.line, http.MethodPost) {
			once.Do(func() { close(held) })
			<-proceed
		}
	})
	namespace := newNamespace(t)
	names := make([]string, 30)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%d", unique(t, namespace), i)
		apply(t, namespace, names[i], example())
	}
	<-held
	leader.signal(syscall.SIGSTOP)
	// What is under way is carried out, and its answers wait for the leader: it would go on with the subnets.
	c.setHold(nil)
	close(proceed)
	awaitPrinted(t, standby, leadingText)
	for _, name := range names {
		awaitReady(t, namespace, name)
	}
	before := len(c.of(first))
	leader.signal(syscall.SIGCONT)
	if code := leader.awaitExit(t); code != 1 {
		t.Errorf("it exits with %d, want 1", code)
	}
	if !strings.Contains(leader.output.String(), "was lost") {
		t.Error("it does not say that the lease was lost")
	}
	if writes := c.of(first); len(writes) != before {
		t.Errorf("it wrote when it went on: %v", writes[before:])
	}
	c.oneEach(names...)
	for _, name := range names {
		remove(t, namespace, name)
	}
}
