package monitoring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/yaml"

	"cloudteam.ztgame.com/network-controller/dev/process"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// TestAlertsFireAfterTheirTime runs alerts_test.yaml, which holds the thresholds and the durations.
func TestAlertsFireAfterTheirTime(t *testing.T) {
	if os.Getenv("MONITORING") == "" {
		t.Skip("it needs promtool: run make test-monitoring")
	}
	dir := t.TempDir()
	rules := readRules(t)
	for _, group := range rules.Groups {
		for i := range group.Rules {
			group.Rules[i].Annotations = nil // the other test reads them
		}
	}
	write(t, filepath.Join(dir, "rules.yaml"), rules)
	tests, err := os.ReadFile(filepath.Join(folder, "alerts_test.yaml"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "alerts_test.yaml"), tests, 0o600)
	}
	expect.NoError(t, err)
	command := exec.CommandContext(t.Context(), "promtool", "test", "rules", "alerts_test.yaml")
	command.Dir = dir
	if output, err := command.CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s", err, output)
	}
}

func write(t *testing.T, path string, value any) {
	t.Helper()
	content, err := yaml.Marshal(value)
	if err == nil {
		err = os.WriteFile(path, content, 0o600)
	}
	expect.NoError(t, err)
}

// quick gives the rules with durations and thresholds for a test of a minute.
func quick(t *testing.T) groups {
	t.Helper()
	content, err := json.Marshal(readRules(t))
	expect.NoError(t, err)
	text := string(content)
	for _, change := range [][2]string{
		{` \u003e 600`, ` \u003e 10`}, {` \u003e 300`, ` \u003e 3`}, {`[6h]`, `[15s]`}, {`[15m]))`, `[15s]))`},
		{`[15s])) \u003e 20`, `[15s])) \u003e 3`}, {`silence_seconds) \u003e 20`, `silence_seconds) \u003e 2`},
	} {
		if !strings.Contains(text, change[0]) {
			t.Fatalf("no rule has %q: %s", change[0], text)
		}
		text = strings.ReplaceAll(text, change[0], change[1])
	}
	text = regexp.MustCompile(`"for":"[0-9a-z]+"`).ReplaceAllString(text, `"for":"1s"`)
	var rules groups
	expect.NoError(t, json.Unmarshal([]byte(text), &rules))
	return rules
}

// world is what the test breaks and watches.
type world struct {
	t         *testing.T
	namespace string
	// clouds is the controller's clouds.yaml. down has the cloud cut connections, and ill refuse lists. While hung is not
	// nil, the cloud accepts calls and does not answer them.
	clouds    string
	good      []byte
	down, ill atomic.Bool
	hung      atomic.Pointer[chan struct{}]
	cloud     *harness.Cloud
	// metrics is where the controller serves its metrics, and prometheus where Prometheus answers.
	// standby is where another replica does.
	metrics, prometheus, standby string
	// controller runs, and first ran first.
	controller, first *harness.Process
	ports             int
	// pace says when the next port may be made.
	pace <-chan time.Time
}

// alert is how to make an alert fire, and how to clear it.
type alert struct {
	name string
	// provoke is called again and again until the alert fires.
	provoke func()
	mend    func()
	// summary is what the alert says.
	summary string
}

func TestEveryAlertFiresAndClearsAndEveryPanelHasData(t *testing.T) {
	if surroundings == nil {
		t.Skip("it needs Prometheus: run make test-monitoring")
	}
	w := newWorld(t)
	began := time.Now()
	w.scrapesAStandby()
	w.network("full", "10.5.0.0/28")
	w.network("drifts", "10.6.0.0/24")
	w.pod("served", "drifts")
	harness.Await(t, surroundings, surroundings.Kube.CoreV1().Pods(w.namespace), "served", harness.Ungated)
	w.awaitSample(`network_controller_subnet_addresses_used{network="full"} == 0`)
	orphan, admin := harness.Resource{}, harness.Open(t, w.clouds, "admin")
	for _, together := range [][]alert{
		{
			{"NetworkSubnetAlmostFull", w.fill, w.empty, "of the IPv4 addresses of Network " + w.namespace + "/full are in use"},
			{"NetworkSubnetFillsSoon", w.fill, func() {}, "will have no IPv4 address left in "},
			{"NetworkPodsWaiting", func() {
				w.fill()
				if w.ports == addresses {
					w.pod("waits", "full")
				}
			}, func() { w.removePod("waits") }, "the oldest for "},
			{"NetworkOrphansWithheld", func() {
				if len(orphan) == 0 {
					orphan = w.orphan()
				}
			}, func() { w.cloud.Remove("networks", orphan.ID()) }, "1 orphans"},
			{"NetworkCredentialsOutdated", func() { w.setPassword("wrong") }, func() { w.setPassword("") }, "credentials"},
			{"NetworkDriftStorm", w.drift, func() {}, "Networks were changed in Neutron"},
			{"NetworkQuotaAlmostFull", func() {
				admin.PutQuotas(w.cloud.Project, map[string]int{"subnet": 2})
			}, func() { admin.PutQuotas(w.cloud.Project, map[string]int{"subnet": -1}) }, "of the quota "},
			{"NetworkObjectsNotReady", func() {
				admin.PutQuotas(w.cloud.Project, map[string]int{"security_group": 0})
				_, err := surroundings.Networks.CloudteamV1().SecurityGroups(w.namespace).Create(t.Context(),
					&cloudteamv1.SecurityGroup{ObjectMeta: metav1.ObjectMeta{Name: "one-more"}}, metav1.CreateOptions{})
				w.unlessExists(err)
			}, func() {
				admin.PutQuotas(w.cloud.Project, map[string]int{"security_group": -1})
			}, "SecurityGroups are not Ready (QuotaExceeded)"},
		},
		{{"NetworkIdentityDisputed", w.dispute, func() {}, "one UID"}},
		{{"NetworkAuditStale", func() { w.ill.Store(true) }, func() { w.ill.Store(false) }, "cannot be listed."}},
		{{"NetworkCloudOutage", func() { w.down.Store(true); w.network("meanwhile", "10.7.0.0/24") },
			func() { w.down.Store(false) }, "does not respond."}},
		{{"NetworkCloudOutage", w.hang, func() { close(*w.hung.Swap(nil)) }, "does not respond."}},
		{{"NetworkControllerNoLeader", w.stop, w.start, "No network-controller leads."}},
	} {
		w.fire(together)
	}
	w.everyAlertWasTried()
	panels := w.panels(began)
	if path := os.Getenv("MONITORING_DRAW"); path != "" {
		if err := os.WriteFile(path, []byte(draw(panels, began, time.Now())), 0o644); err != nil { //nolint:gosec // a picture
			t.Error(err)
		}
	}
	w.logIsJSON()
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		t: t, pace: time.Tick(time.Second), metrics: harness.FreeAddress(t), standby: harness.FreeAddress(t),
		prometheus: harness.FreeAddress(t),
	}
	listener, err := surroundings.Emulator.Listen("127.0.0.1:0", func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			ours, hung := strings.Contains(r.UserAgent(), "network-controller"), w.hung.Load()
			switch {
			case ours && w.down.Load():
				panic(http.ErrAbortHandler)
			case ours && hung != nil:
				select {
				case <-*hung:
				case <-r.Context().Done():
				}
				panic(http.ErrAbortHandler)
			case ours && w.ill.Load() && r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/v2.0/"):
				rw.Header().Set("X-Openstack-Request-Id", "req-"+string(uuid.NewUUID()))
				rw.WriteHeader(http.StatusForbidden)
				fmt.Fprint(rw, `{"NeutronError": {"type": "PolicyNotAuthorized", "message": "no", "detail": ""}}`)
			default:
				next.ServeHTTP(rw, r)
			}
		})
	})
	expect.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	dir := t.TempDir()
	w.clouds, w.good = filepath.Join(dir, "clouds.yaml"), []byte(listener.CloudsYAML())
	w.setPassword("")
	w.cloud = harness.Open(t, w.clouds, "tenant")

	made := harness.Create(t, surroundings.Kube.CoreV1().Namespaces(), harness.Namespace("monitoring-"))
	w.namespace = made.Name
	surroundings.AwaitGate(t, w.namespace)
	w.startPrometheus(dir)
	w.start()
	return w
}

func (w *world) start() {
	if w.controller != nil && !w.controller.Ended() {
		return
	}
	w.controller = w.replica(w.metrics)
	if w.first == nil {
		w.first = w.controller
	}
}

// replica starts a process that serves its metrics at an address.
func (w *world) replica(metrics string) *harness.Process {
	w.t.Helper()
	return surroundings.Start(w.t, []string{"OS_CLIENT_CONFIG_FILE=" + w.clouds},
		append(harness.LongLease(), "--kubeconfig", surroundings.Kubeconfig, "--cloud", "tenant", "--bind-address", "",
			"--metrics-bind-address", metrics, "--audit-interval", "1s", "--orphan-grace", "1s", "--orphan-max-share", "0",
			"--logging-format", "json", "-v", "2")...)
}

// scrapesAStandby holds that a process without the Lease serves its metrics, too.
func (w *world) scrapesAStandby() {
	w.t.Helper()
	w.awaitSample(`leader_election_master_status{instance="` + w.metrics + `"} == 1`)
	standby := w.replica(w.standby)
	w.awaitSample(`leader_election_master_status{instance="` + w.standby + `"} == 0`)
	standby.Signal(syscall.SIGTERM)
	standby.AwaitExit(w.t)
}

// awaitSample waits until an expression has a value.
func (w *world) awaitSample(expr string) {
	w.t.Helper()
	w.eventually(func() error {
		var answer struct{ Result []any }
		err := w.ask("query", url.Values{"query": {expr}}, &answer)
		if err == nil && len(answer.Result) == 0 {
			err = fmt.Errorf("%s has no value", expr)
		}
		return err
	})
}

// eventually polls until check gives nil. It waits longer than other tests: a scrape that takes more than its second, on
// a busy machine, is one that Prometheus does without, and then alerts begin anew.
func (w *world) eventually(check func() error) {
	w.t.Helper()
	expect.NoError(w.t, harness.Poll(nil, 3*harness.Patience, 50*time.Millisecond, check))
}

// hang has the cloud accept calls and answer none.
func (w *world) hang() {
	w.hung.CompareAndSwap(nil, new(make(chan struct{})))
}

func (w *world) stop() {
	if !w.controller.Ended() {
		w.controller.Signal(syscall.SIGTERM)
		w.controller.AwaitExit(w.t)
	}
}

// startPrometheus has Prometheus scrape the controller with the token of an account that may.
func (w *world) startPrometheus(dir string) {
	t := w.t
	t.Helper()
	const account = "prometheus"
	harness.Create(t, surroundings.Kube.CoreV1().ServiceAccounts(w.namespace),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}})
	harness.Create(t, surroundings.Kube.RbacV1().ClusterRoleBindings(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "prometheus-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "network-controller-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: w.namespace, Name: account}},
	})
	token, err := surroundings.Kube.CoreV1().ServiceAccounts(w.namespace).CreateToken(
		t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	expect.NoError(t, err)
	write(t, filepath.Join(dir, "rules.yaml"), quick(t))
	config := filepath.Join(dir, "prometheus.yaml")
	write(t, config, map[string]any{
		"global":     map[string]any{"scrape_interval": "1s", "evaluation_interval": "1s"},
		"rule_files": []string{"rules.yaml"},
		"scrape_configs": []any{map[string]any{
			"job_name": "network-controller", "scheme": "https", "honor_labels": true,
			"tls_config":     map[string]any{"insecure_skip_verify": true},
			"authorization":  map[string]any{"credentials": token.Status.Token},
			"static_configs": []any{map[string]any{"targets": []string{w.metrics, w.standby}}},
		}},
	})
	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Fatalf("%v: install Debian's package prometheus", err)
	}
	output := &process.Buffer{}
	p, err := process.Start(process.Program{
		Name: "prometheus", Path: program, Output: output, Args: []string{
			"--config.file=" + config, "--storage.tsdb.path=" + filepath.Join(dir, "data"),
			"--web.listen-address=" + w.prometheus, "--log.level=warn",
		},
	})
	expect.NoError(t, err)
	t.Cleanup(func() {
		p.Signal(syscall.SIGKILL)
		<-p.Done()
		if t.Failed() {
			t.Log("prometheus printed:\n" + output.String())
		}
	})
}

// ask gets an answer of Prometheus' API.
func (w *world) ask(path string, query url.Values, into any) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet,
		"http://"+w.prometheus+"/api/v1/"+path+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	var body struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(answer.Body).Decode(&body); err != nil {
		return err
	}
	if body.Status != "success" {
		return errors.New(body.Error)
	}
	return json.Unmarshal(body.Data, into)
}

// firing returns the summaries of the alerts that fire, by name.
func (w *world) firing() (map[string]string, error) {
	var answer struct {
		Alerts []struct {
			Labels, Annotations map[string]string
			State               string
		}
	}
	err := w.ask("alerts", nil, &answer)
	all := map[string]string{}
	for _, a := range answer.Alerts {
		if a.State == "firing" {
			all[a.Labels["alertname"]] += a.Annotations["summary"] + "\n"
		}
	}
	return all, err
}

// fire provokes alerts until each has fired, mends what it broke, and waits until all have cleared.
func (w *world) fire(together []alert) {
	w.t.Helper()
	fired := map[string]bool{}
	w.eventually(func() error {
		for _, a := range together {
			if !fired[a.name] {
				a.provoke()
			}
		}
		firing, err := w.firing()
		if err != nil {
			return err
		}
		var missing []string
		for _, a := range together {
			summary := firing[a.name]
			if strings.Contains(summary, "<error") {
				w.t.Fatalf("%s says %q", a.name, summary)
			}
			// On a slow machine, it may fire for another object before.
			fired[a.name] = fired[a.name] || strings.Contains(summary, a.summary)
			if !fired[a.name] {
				missing = append(missing, fmt.Sprintf("%s (it says %q, want %q)", a.name, summary, a.summary))
			}
		}
		if len(missing) > 0 {
			return fmt.Errorf("%s did not fire", strings.Join(missing, ", "))
		}
		return nil
	})
	for _, a := range together {
		a.mend()
	}
	w.eventually(func() error {
		firing, err := w.firing()
		if err == nil && len(firing) > 0 {
			err = fmt.Errorf("they still fire: %v", firing)
		}
		return err
	})
	for _, a := range together {
		tried[a.name] = true
	}
}

// tried are the alerts that have fired and cleared.
var tried = map[string]bool{}

// untried are alerts about a panic, and about what kube-state-metrics and the agents of nodes say. promtool alone tests them.
var untried = []string{"NetworkSyncPanics", "NetworkAgentsMissing", "NetworkPlugFailed"}

func (w *world) everyAlertWasTried() {
	w.t.Helper()
	for _, group := range readRules(w.t).Groups {
		for _, r := range group.Rules {
			if !tried[r.Alert] && !slices.Contains(untried, r.Alert) {
				w.t.Errorf("nothing provokes %s", r.Alert)
			}
		}
	}
}

func (w *world) network(name, cidr string) {
	w.t.Helper()
	n := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Spec.CIDR = cidr
	_, err := surroundings.Networks.CloudteamV1().Networks(w.namespace).Create(w.t.Context(), n, metav1.CreateOptions{})
	w.unlessExists(err)
}

// unlessExists fails the test for an error other than that an object exists already.
func (w *world) unlessExists(err error) {
	w.t.Helper()
	if err != nil && !strings.Contains(err.Error(), "already exists") {
		w.t.Fatal(err)
	}
}

// pod creates a Pod that waits for its port on a Network.
func (w *world) pod(name, network string) {
	w.t.Helper()
	_, err := surroundings.Kube.CoreV1().Pods(w.namespace).Create(
		w.t.Context(), harness.PodOn(name, network), metav1.CreateOptions{})
	w.unlessExists(err)
}

func (w *world) removePod(name string) {
	w.t.Helper()
	err := surroundings.Kube.CoreV1().Pods(w.namespace).Delete(w.t.Context(), name,
		metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	expect.NoError(w.t, err)
}

// addresses are how many the Network full has.
const addresses = 13

// fill creates one more port on the Network full, each second until it has no address left. The port has its address
// then: a Pod that comes next takes none.
func (w *world) fill() {
	w.t.Helper()
	if w.ports == addresses {
		return
	}
	select {
	case <-w.pace:
	default:
		return
	}
	port := &cloudteamv1.NetworkPort{ObjectMeta: metav1.ObjectMeta{Name: "p" + strconv.Itoa(w.ports)}}
	port.Spec.NetworkName = "full"
	api := surroundings.Networks.CloudteamV1().NetworkPorts(w.namespace)
	harness.Create(w.t, api, port)
	harness.Await(w.t, surroundings, api, port.Name, harness.Ready)
	w.ports++
}

func (w *world) empty() {
	w.t.Helper()
	api := surroundings.Networks.CloudteamV1().NetworkPorts(w.namespace)
	for n := range w.ports {
		harness.Delete(w.t, api, "p"+strconv.Itoa(n))
	}
}

// orphan creates a network with this cluster's marker and without an object.
func (w *world) orphan() harness.Resource {
	w.t.Helper()
	system := harness.Get(w.t, surroundings.Kube.CoreV1().Namespaces(), "kube-system")
	return w.cloud.Create("networks", harness.Resource{
		"name": "orphan", "description": fmt.Sprintf("[owner=%s/%s]", system.UID, uuid.NewUUID()),
	})
}

// drift renames the network of the Network drifts.
func (w *world) drift() {
	w.t.Helper()
	n := harness.Get(w.t, surroundings.Networks.CloudteamV1().Networks(w.namespace), "drifts")
	if n.Status.NetworkID != "" {
		w.cloud.Update("networks", n.Status.NetworkID, harness.Resource{"name": "renamed by hand"})
	}
}

// dispute writes the term of another leader into Neutron.
func (w *world) dispute() {
	w.t.Helper()
	for _, record := range w.cloud.List("subnetpools", "") {
		if description, _ := record["description"].(string); strings.Contains(description, "[term=") {
			w.cloud.Update("subnetpools", record.ID(), harness.Resource{"description": "Copy. [term=99/copy]"})
		}
	}
}

// setPassword writes clouds.yaml, with a password that is wrong unless it is empty.
func (w *world) setPassword(wrong string) {
	w.t.Helper()
	content := w.good
	if wrong != "" {
		content = regexp.MustCompile(`(?m)^(\s*"?password"?:).*$`).ReplaceAll(content, []byte("${1} "+wrong))
	}
	if was, err := os.ReadFile(w.clouds); err == nil && string(was) == string(content) {
		return
	}
	expect.NoError(w.t, os.WriteFile(w.clouds, content, 0o600))
}

// drawn is a panel with its data.
type drawn struct {
	panel
	lines []series
}

// series is one line of a panel.
type series struct {
	name   string
	times  []float64
	values []float64
}

// panels asks for the data of each panel since a time, as Grafana would.
func (w *world) panels(since time.Time) (all []drawn) {
	w.t.Helper()
	for _, p := range readPanels(w.t) {
		d := drawn{panel: p}
		for _, target := range p.Targets {
			expr := strings.NewReplacer("$__rate_interval", "5s", "$job", ".+", "$namespace", ".*").Replace(target.Expr)
			lines, err := w.series(expr, target.Legend, since)
			if err != nil || len(lines) == 0 {
				w.t.Errorf("panel %q: %s has no data (%v)", p.Title, expr, err)
			}
			d.lines = append(d.lines, lines...)
		}
		all = append(all, d)
	}
	return all
}

func (w *world) series(expr, legend string, since time.Time) (lines []series, err error) {
	var answer struct {
		Result []struct {
			Metric map[string]string
			Values [][2]any
		}
	}
	err = w.ask("query_range", url.Values{
		"query": {expr}, "start": {strconv.FormatInt(since.Unix(), 10)},
		"end": {strconv.FormatInt(time.Now().Unix(), 10)}, "step": {"1s"},
	}, &answer)
	for _, result := range answer.Result {
		line := series{name: regexp.MustCompile(`{{\w+}}`).ReplaceAllStringFunc(legend, func(label string) string {
			return result.Metric[strings.Trim(label, "{}")]
		})}
		for _, v := range result.Values {
			at, _ := v[0].(float64)
			text, _ := v[1].(string)
			if value, err := strconv.ParseFloat(text, 64); err == nil && value == value {
				line.times, line.values = append(line.times, at), append(line.values, value)
			}
		}
		if len(line.values) > 0 {
			lines = append(lines, line)
		}
	}
	slices.SortFunc(lines, func(a, b series) int { return strings.Compare(a.name, b.name) })
	return lines, err
}

// logIsJSON holds that each line of the log is a JSON object, and that one names the request that failed.
func (w *world) logIsJSON() {
	w.t.Helper()
	lines := strings.Split(strings.TrimSpace(w.controller.Output.String()), "\n")
	if !strings.Contains(w.first.Output.String(), `"request":"req-`) {
		w.t.Error("the log names no request that failed")
	}
	for _, line := range lines {
		var entry struct {
			TS  float64 `json:"ts"`
			Msg string  `json:"msg"`
		}
		if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.TS == 0 || entry.Msg == "" {
			w.t.Errorf("no JSON log line: %s (%v)", line, err)
		}
	}
	if len(lines) < 5 {
		w.t.Errorf("only %d lines", len(lines))
	}
}
