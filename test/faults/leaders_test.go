package faults

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/proxy"
)

// Names of the processes of a world. All but a standby are the leader, to the proxies.
const (
	leader  = "leader"
	standby = "standby"
)

// standbyHost is the name of loopback by which a standby calls the proxies, which tells its calls from the leader's.
const standbyHost = "localhost"

// leaseDuration is short, as scenarios wait for its end, and long enough for a machine that has other things to do: a
// leader that comes too late for a renewal would be replaced before the scenario replaces it.
const leaseDuration = 12 * time.Second

// callerByHost names the process that calls a proxy.
func callerByHost(c proxy.Call) string {
	if strings.HasPrefix(c.Request.Host, standbyHost+":") {
		return standby
	}
	return leader
}

// callerOfNeutron names the process that Keystone gave a call's token to. The catalog names one address of Neutron to
// all, as a Network is pinned to it.
func (w *world) callerOfNeutron(c proxy.Call) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.callers[c.Request.Header.Get("X-Auth-Token")]
}

// elect has the processes elect a leader, by a Lease in the world's own namespace, to which the ServiceAccount has there
// the rights that config/rbac gives it in its own.
func (w *world) elect() {
	w.t.Helper()
	var role rbacv1.Role
	var binding rbacv1.RoleBinding
	for file, object := range map[string]any{"lease_role.yaml": &role, "lease_role_binding.yaml": &binding} {
		content, err := os.ReadFile(filepath.Join(w.around.Root, "config", "rbac", file))
		if err == nil {
			err = yaml.UnmarshalStrict(content, object)
		}
		expect.NoError(w.t, err)
	}
	role.Namespace, binding.Namespace = w.namespace, w.namespace
	rbac := w.around.Kube.RbacV1()
	harness.Create(w.t, rbac.Roles(w.namespace), &role)
	harness.Create(w.t, rbac.RoleBindings(w.namespace), &binding)
	w.arguments = append(slices.Clip(w.arguments),
		"--leader-elect", "--leader-elect-resource-namespace="+w.namespace,
		"--leader-elect-lease-duration="+leaseDuration.String(), "--leader-elect-renew-deadline=9s",
		"--leader-elect-retry-period=500ms")
}

// holder is who has the Lease, and when it was last renewed.
func (w *world) holder() (identity string, renewed time.Time, err error) {
	lease, err := w.around.Kube.CoordinationV1().Leases(w.namespace).Get(w.t.Context(), harness.AccountName,
		metav1.GetOptions{})
	if err != nil {
		return "", time.Time{}, err
	}
	if lease.Spec.HolderIdentity != nil {
		identity = *lease.Spec.HolderIdentity
	}
	if lease.Spec.RenewTime != nil {
		renewed = lease.Spec.RenewTime.Time
	}
	return identity, renewed, nil
}

// startStandby waits until the process that runs leads, and then starts another. It returns when that one is ready and
// alive, with both of them and the leader's name in the Lease.
func (w *world) startStandby() (lead, follow *running, identity string) {
	w.t.Helper()
	lead = w.process.Load()
	w.await(func() (err error) {
		if identity, _, err = w.holder(); err == nil && identity == "" {
			err = fmt.Errorf("nobody leads")
		}
		return err
	})
	w.startWith(w.forStandby(w.kubeconfig, w.kube), w.forStandby(w.clouds, w.keystone))
	follow = w.process.Load()
	for _, path := range []string{"/readyz", "/livez"} {
		if virtualTime {
			break // it serves nothing
		}
		w.await(func() error {
			status, body, err := follow.Get(w.t.Context(), path)
			if err == nil && status != http.StatusOK {
				err = fmt.Errorf("%s of the standby: %d %s", path, status, body)
			}
			return err
		})
	}
	return lead, follow, identity
}

// forStandby copies a file that names a proxy's address, for a standby, and gives the copy's path.
func (w *world) forStandby(path string, p *proxy.Proxy) string {
	w.t.Helper()
	content, err := os.ReadFile(path)
	expect.NoError(w.t, err)
	host := p.URL().Host
	text := strings.ReplaceAll(string(content), host, standbyHost+":"+p.URL().Port())
	// The proxy's certificate is for the address.
	text = strings.ReplaceAll(text, "    server: https://", "    tls-server-name: 127.0.0.1\n    server: https://")
	other := filepath.Join(w.t.TempDir(), filepath.Base(path))
	expect.NoError(w.t, os.WriteFile(other, []byte(text), 0o600))
	return other
}

// awaitSuccessor waits until another than the one of the given identity has the Lease.
func (w *world) awaitSuccessor(identity string) {
	w.t.Helper()
	w.await(func() error {
		now, _, err := w.holder()
		if err == nil && (now == "" || now == identity) {
			err = fmt.Errorf("the Lease is %q's, who was %q before", now, identity)
		}
		return err
	})
}

// awaitRenewals waits until the leader of the given identity has renewed the Lease for longer than it lasts.
func (w *world) awaitRenewals(identity string) {
	w.t.Helper()
	var first time.Time
	w.await(func() error {
		now, renewed, err := w.holder()
		if err != nil {
			return err
		}
		if now != identity {
			w.t.Fatalf("the Lease is %q's, and %q has not ended yet", now, identity)
		}
		if first.IsZero() {
			first = renewed
		}
		if !renewed.After(first.Add(leaseDuration)) {
			return fmt.Errorf("the Lease was renewed from %s to %s only", first, renewed)
		}
		return nil
	})
}

// writesOf are the writes of one of the processes, by the API that they were sent to, oldest first.
func (w *world) writesOf(caller string) map[string][]proxy.Entry {
	writes := map[string][]proxy.Entry{}
	for api, p := range map[string]*proxy.Proxy{"Neutron": w.neutron, "Kubernetes": w.kube} {
		for _, e := range p.Writes() {
			if e.Caller == caller {
				writes[api] = append(writes[api], e)
			}
		}
	}
	return writes
}

// holdNoOverlap holds that the leader's last write came before the standby's first, over both APIs, and that both wrote.
func (w *world) holdNoOverlap() {
	w.t.Helper()
	byTime := func(a, b proxy.Entry) int { return a.At.Compare(b.At) }
	led, took := w.writesOf(leader), w.writesOf(standby)
	for _, api := range []string{"Neutron", "Kubernetes"} {
		if len(led[api]) == 0 || len(took[api]) == 0 {
			w.t.Errorf("writes to %s: %d of the leader, %d of the standby; both should have written", api, len(led[api]),
				len(took[api]))
			return
		}
	}
	last := slices.MaxFunc(slices.Concat(led["Neutron"], led["Kubernetes"]), byTime)
	first := slices.MinFunc(slices.Concat(took["Neutron"], took["Kubernetes"]), byTime)
	if !last.At.Before(first.At) {
		w.t.Errorf("the leader's last write (%s) came after the standby's first (%s)", last, first)
	}
}

// createByLeader chooses the calls of the leader that create a network.
func createByLeader(c proxy.Call) bool {
	return c.Caller == leader && c.Method == http.MethodPost && c.Shape == "/v2.0/networks"
}

// leaders are faults of processes of which one leads and another stands by.
func leaders() map[string]scenario {
	all := map[string]scenario{
		"a standby writes nothing, and takes over where the leader is killed in the middle of a create": {
			live: func(w *world) {
				lead, _, _ := w.startStandby()
				w.createNetworks()
				expect.Empty(w.t, w.writesOf(standby), "written by the standby")
				w.neutron.Break(is(http.MethodPost, "/v2.0/ports"), 1, proxy.After(func(x *proxy.Exchange) {
					lead.Signal(syscall.SIGKILL)
					<-lead.Done()
					x.Reset()
				}))
				w.restOfLife()
			},
			check: (*world).holdNoOverlap,
		},
		"the leader gets SIGTERM under load: it finishes its creates while it leads, and the logs of the two do not overlap": {
			live: (*world).lifeWithHandOver,
		},
		"the leader is stopped (SIGSTOP) while its creates are carried out, replaced, and continued: it stops writing": {
			live: (*world).lifeWithStoppedLeader,
		},
		"the leader is stopped (SIGSTOP) in a create that arrives only after its successor's: the older network stays": {
			mayDouble: true,
			live:      (*world).lifeWithLateCreate,
		},
	}
	for sentence, s := range all {
		s.prepare, s.process = (*world).elect, true
		check := s.check
		s.check = func(w *world) {
			w.holdNoDispute()
			if check != nil {
				check(w)
			}
		}
		all[sentence] = s
	}
	return all
}

// holdNoDispute holds that no leader took another one of its own cluster for a restored copy's.
func (w *world) holdNoDispute() {
	w.t.Helper()
	for _, p := range w.processes {
		if strings.Contains(p.Log(), "Another controller acts") {
			w.t.Error("a change of leaders looks like a restored cluster")
		}
	}
}

// load is how many further Networks there are where a leader is under load.
const load = 20

func (w *world) createLoad() {
	w.t.Helper()
	for i := range load {
		w.createNetwork(w.namespace, fmt.Sprint("more-", i), fmt.Sprintf("10.%d.0.0/24", 10+i), "none")
	}
}

func (w *world) removeLoad() {
	w.t.Helper()
	for i := range load {
		w.awaitNetwork(w.namespace, fmt.Sprint("more-", i))
		w.deleteNetwork(w.namespace, fmt.Sprint("more-", i))
	}
	for i := range load {
		w.awaitNetworkGone(w.namespace, fmt.Sprint("more-", i))
	}
}

// lifeWithHandOver begins with a leader that is told to stop with creates under way, one of which takes longer than a
// lease lasts.
func (w *world) lifeWithHandOver() {
	w.t.Helper()
	lead, _, identity := w.startStandby()
	release := make(chan struct{})
	held := w.neutron.Break(createByLeader, 1, proxy.Hold(release))
	w.createLoad()
	w.awaitHits(held, 1)
	lead.Signal(syscall.SIGTERM)
	w.awaitRenewals(identity)
	expect.Empty(w.t, w.writesOf(standby), "the standby wrote before the leader had ended")
	close(release)
	expect.Equal(w.t, 0, lead.AwaitExit(w.t), "the exit code after SIGTERM")
	w.awaitSuccessor(identity)
	w.removeLoad()
	w.holdNoOverlap()
	w.life()
}

// lifeWithStoppedLeader begins with a leader that is stopped while creates of its are under way. They are carried out,
// and their answers wait for it: without an election, it would go on with the subnets.
func (w *world) lifeWithStoppedLeader() {
	w.t.Helper()
	lead, _, identity := w.startStandby()
	release := make(chan struct{})
	held := w.neutron.Break(createByLeader, 0, proxy.Hold(release))
	w.createLoad()
	w.awaitHits(held, 1)
	lead.Signal(syscall.SIGSTOP)
	close(release)
	w.awaitSuccessor(identity)
	w.removeLoad()
	w.createNetworks()
	w.continueDeposed(lead)
	w.restOfLife()
}

// continueDeposed has a stopped leader go on that was replaced meanwhile, and holds that it ends and writes nothing.
func (w *world) continueDeposed(lead *running) {
	w.t.Helper()
	before := w.writesOf(leader)
	lead.Signal(syscall.SIGCONT)
	expect.Equal(w.t, 1, lead.AwaitExit(w.t), "the exit code, deposed")
	for api, now := range w.writesOf(leader) {
		expect.Empty(w.t, now[len(before[api]):], "it wrote to %s when it went on", api)
	}
}

// lifeWithLateCreate begins with a leader that is stopped while a create of its is on its way, which arrives when its
// successor has made the network.
func (w *world) lifeWithLateCreate() {
	w.t.Helper()
	lead, _, identity := w.startStandby()
	release, arrived := make(chan struct{}), make(chan struct{})
	held := w.neutron.Break(createByLeader, 1, func(x *proxy.Exchange) {
		defer close(arrived)
		proxy.Hold(release)(x)
	})
	w.createNetwork(w.namespace, "a", cidrA, gatewayA)
	w.awaitHits(held, 1)
	lead.Signal(syscall.SIGSTOP)
	w.awaitSuccessor(identity)
	was := w.awaitNetwork(w.namespace, "a").Status.NetworkID
	// Neutron's times are whole seconds, and of two that are of one the lower id counts as the older.
	successors := w.cloud.One("networks", "id="+was)["created_at"]
	w.await(func() error {
		if now := time.Now().UTC().Format(time.RFC3339); now <= successors.(string) {
			return fmt.Errorf("the late create would be of %s, too", now)
		}
		return nil
	})
	close(release)
	<-arrived
	w.await(func() error {
		if all := w.ours()["networks"]; len(all) != 1 || all[0].ID() != was {
			return fmt.Errorf("want network %s alone, have %v", was, all)
		}
		return nil
	})
	w.continueDeposed(lead)
	w.life()
}
