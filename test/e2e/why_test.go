package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/text"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/why"
	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// trouble is a namespace in which a test brings objects to a Reason.
type trouble struct {
	*testing.T
	// ns is the namespace, and net the name of a Network that Neutron has no other of.
	ns, net string
	// clouds is the clouds.yaml, tenant is the project of the controller's own credentials, and admin another one.
	clouds        string
	tenant, admin *cloud
	// faulty are files like clouds, by the fault of Neutron behind them. Each is for the project of that name.
	faulty map[string]string
}

// reasonCase is a Reason, and what `kubectl network why` has to say about it.
type reasonCase struct {
	// bring brings the controller to say the Reason.
	bring func(w *trouble)
	// ask is the object of the question, as KIND NAME.
	ask string
	// chain is a regular expression of the links' objects and reasons; empty if nothing is wrong. NS and NET stand for
	// the names.
	chain string
	// says is a part of the remedy, which a condition's message has where why adds only commands; of the summary if nothing
	// is wrong; or of a warning.
	says string
}

// elsewhere are the Reasons to which no case brings the controller: why, and the test that does, and asks.
var elsewhere = map[string]struct{ because, file, test string }{
	cloudteamv1.ReasonPending: {"it ends by itself, whenever Neutron answers",
		"internal/controller/managed/status_test.go", "TestANewObjectThatWaitsSaysSo"},
	cloudteamv1.ReasonPlugFailed: {"a node's agent says it, and no Node has one here",
		"test/integration/agent_test.go", "TestAgentAtTheAPIServer"},
	cloudteamv1.ReasonPlanned: {"only a controller that starts with --report-only says it",
		"test/chart/release_test.go", "TestRelease"},
	cloudteamv1.ReasonPlugged: {"a node's agent says it, and no Node has one here",
		"test/dataplane/kubelets_test.go", "TestPodsOnKubelets"},
}

// TestWhyNamesTheCauseOfEachReason brings the real controller to each Reason of the API, and asks `kubectl network why`
// about it.
func TestWhyNamesTheCauseOfEachReason(t *testing.T) {
	if options.OpenStack {
		t.Skip("a real cloud has no such faults")
	}
	cases := reasonCases()
	for _, reason := range apiReasons(t) {
		_, here := cases[reason]
		other, there := elsewhere[reason]
		switch {
		case here == there:
			t.Errorf("Reason %s is in both tables or in none: bring the controller to it here, or say which test does", reason)
		case there:
			content, err := os.ReadFile(filepath.Join("..", "..", other.file))
			if err != nil || !strings.Contains(string(content), "func "+other.test+"(") {
				t.Errorf("%s has no %s, which reaches Reason %s: %v", other.file, other.test, reason, err)
			}
		}
	}
	all := map[string]furtherCase{}
	for reason, c := range cases {
		all[reason] = furtherCase{reason: reason, reasonCase: c}
	}
	for sentence, c := range floatingIPCases() {
		c.leaves = true
		all[sentence] = c
	}
	for sentence, c := range all {
		t.Run(sentence, func(t *testing.T) {
			if c.reason == cloudteamv1.ReasonReconcileFailed { // by an admission policy
				withProcesses(t)
				c.askOnce(t)
				return
			}
			inTime(t, c.askOnce)
		})
	}
}

// askOnce brings a controller to the Reason, and asks.
func (c furtherCase) askOnce(t *testing.T) {
	clouds, faulty, endpoints := faultyClouds(t)
	makeExternal(openFile(t, clouds, "admin"))
	start(t, []string{"OS_CLIENT_CONFIG_FILE=" + clouds}, "--kubeconfig", kubeconfig, "--cloud", "tenant",
		"--bind-address", "127.0.0.1:0", "--audit-interval", "1s", "--pool-cooldown", "2s", "--binding-cloud=admin",
		"--allowed-identity-endpoints="+strings.Join(endpoints, ","))
	ns := newNamespace(t)
	w := &trouble{T: t, ns: ns, net: unique(t, ns), clouds: clouds, faulty: faulty,
		tenant: openFile(t, clouds, "tenant"), admin: openFile(t, clouds, "admin")}
	if c.leaves {
		t.Cleanup(w.leave) // the external networks can go then
	}
	c.bring(w)
	w.holds(c.reason, c.reasonCase)
}

// holds asks until the answer is right.
func (w *trouble) holds(reason string, c reasonCase) {
	w.Helper()
	kind, name, _ := strings.Cut(w.named(c.ask), " ")
	want := regexp.MustCompile("^" + w.named(c.chain) + "$")
	var a why.Answer
	var printed strings.Builder
	defer func() {
		if w.Failed() || testing.Verbose() {
			w.Logf("kubectl network why %s/%s:\n%s", kind, name, printed.String())
		}
	}()
	eventually(w.T, func() (err error) {
		cluster := &ask.Cluster{Kubernetes: kube, Networks: networks}
		if a, err = why.Explain(w.Context(), cluster, ask.New(kind, w.ns, name), time.Now()); err != nil {
			return err
		}
		printed.Reset()
		if err := why.Print(&printed, a, text.Style{}, time.Now()); err != nil {
			return err
		}
		links := make([]string, 0, len(a.Chain))
		told := a.Summary + a.Remedy + strings.Join(a.Warnings, " ")
		said := strings.Contains(strings.Join(a.Warnings, " "), reason)
		for _, l := range a.Chain {
			links, told = append(links, l.Object.String()+" "+l.Reason), told+" "+l.Message
			said = said || l.Reason == reason
		}
		if chain := strings.Join(links, " > "); !want.MatchString(chain) {
			return fmt.Errorf("the chain is %q, want %q", chain, want)
		}
		if !said && c.chain != "" {
			return fmt.Errorf("no link has the Reason %s: %+v", reason, a)
		}
		if !strings.Contains(told, c.says) {
			return fmt.Errorf("the answer lacks %q: %s", c.says, told)
		}
		return nil
	})
	expect.Empty(w, a.Notes, "notes, though an administrator may read all")
	if c.chain != "" && a.Remedy+a.Cause().Message == "" {
		w.Error("there is no remedy")
	}
	for _, command := range a.Commands {
		if strings.Contains(command, "NAME") || strings.Contains(command, "ADDRESS") || strings.Contains(command, "-n  ") {
			w.Errorf("the command %q is not filled in", command)
		}
	}
}

func (w *trouble) named(text string) string {
	return strings.NewReplacer("NS", w.ns, "NET", w.net).Replace(text)
}

// network creates the Network, after changes of the example.
func (w *trouble) network(changes ...func(*cloudteamv1.NetworkSpec)) {
	w.Helper()
	spec := example()
	for _, change := range changes {
		change(&spec)
	}
	apply(w.T, w.ns, w.net, spec)
}

// ready is network, and waits until it is Ready. It gives the id.
func (w *trouble) ready(changes ...func(*cloudteamv1.NetworkSpec)) string {
	w.Helper()
	w.network(changes...)
	return awaitReady(w.T, w.ns, w.net).Status.NetworkID
}

// secret has the namespace's Secret lead to a project of a clouds.yaml.
func (w *trouble) secret(file, project string, change func(map[string]any)) {
	w.Helper()
	putSecret(w.T, w.ns, harness.CloudsOf(w.T, file, project, change))
}

// at is network by credentials of the namespace, for a Neutron with a fault.
func (w *trouble) at(fault string, changes ...func(*cloudteamv1.NetworkSpec)) {
	w.Helper()
	grant(w.T, w.ns)
	w.secret(w.faulty[fault], fault, nil)
	w.network(append(changes, inSecret)...)
}

func inSecret(s *cloudteamv1.NetworkSpec) {
	s.Cloud = &cloudteamv1.CloudReference{SecretName: secretName}
}

// oneAddress leaves a Network one address for ports.
func oneAddress(s *cloudteamv1.NetworkSpec) {
	s.AllocationPools = []cloudteamv1.AllocationPool{{Start: "192.168.0.10", End: "192.168.0.10"}}
}

func imports(id string) func(*cloudteamv1.NetworkSpec) {
	return func(s *cloudteamv1.NetworkSpec) { s.Import = &cloudteamv1.NetworkImport{ID: id} }
}

// class makes a NetworkClass of the namespace's name, and gives what has a Network use it.
func (w *trouble) class(spec cloudteamv1.NetworkClassSpec) func(*cloudteamv1.NetworkSpec) {
	w.Helper()
	classes := networks.CloudteamV1().NetworkClasses()
	class := &cloudteamv1.NetworkClass{ObjectMeta: metav1.ObjectMeta{Name: w.ns}, Spec: spec}
	harness.Create(w.T, classes, class)
	w.Cleanup(func() { harness.Delete(w.T, classes, w.ns) })
	return func(s *cloudteamv1.NetworkSpec) { s.ClassName = w.ns }
}

// pod creates the Pod "bare", after changes.
func (w *trouble) pod(declares string, changes ...func(*corev1.Pod)) {
	w.Helper()
	pod := harness.PodOn("bare", declares)
	for _, change := range changes {
		change(pod)
	}
	harness.Create(w.T, kube.CoreV1().Pods(w.ns), pod)
}

// refuseAllocations has an admission policy of somebody else refuse what the controller writes on the Pods.
func (w *trouble) refuseAllocations() {
	w.Helper()
	policies := kube.AdmissionregistrationV1()
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: w.ns}}
	policy.Spec.MatchConstraints = &admissionv1.MatchResources{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: w.ns}},
		ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
			Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
		}}},
	}
	policy.Spec.Validations = []admissionv1.Validation{{
		Expression: "!('" + cloudteamv1.AnnotationAllocations + "' in object.metadata.?annotations.orValue({}))",
	}}
	harness.Create(w.T, policies.ValidatingAdmissionPolicies(), policy)
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: w.ns}}
	binding.Spec.PolicyName = w.ns
	binding.Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Deny}
	harness.Create(w.T, policies.ValidatingAdmissionPolicyBindings(), binding)
	w.Cleanup(func() {
		harness.Delete(w.T, policies.ValidatingAdmissionPolicyBindings(), w.ns)
		harness.Delete(w.T, policies.ValidatingAdmissionPolicies(), w.ns)
	})
	eventually(w.T, func() error {
		probe := harness.PodOn("probe", w.net)
		probe.Annotations[cloudteamv1.AnnotationAllocations] = "[]"
		_, err := kube.CoreV1().Pods(w.ns).Create(w.Context(), probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil {
			return errors.New("the policy is not enforced yet")
		}
		return nil
	})
}

// onHost has a Pod of a Network on a Node that attaches ports and has a name in Neutron. No kubelet runs there.
func (w *trouble) onHost(host string) {
	w.Helper()
	name := "node-of-" + w.ns
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
		cloudteamv1.AnnotationDataplane: "ovn", cloudteamv1.AnnotationDataplaneHost: host,
	}}}
	harness.Create(w.T, kube.CoreV1().Nodes(), node)
	w.Cleanup(func() { harness.Delete(w.T, kube.CoreV1().Nodes(), name) })
	awaitGate(w.T, w.ns)
	w.ready()
	w.pod(w.net, func(p *corev1.Pod) { p.Spec.SchedulerName = "nobody" })
	harness.Await(w.T, surroundings, kube.CoreV1().Pods(w.ns), "bare", harness.Ungated)
	err := kube.CoreV1().Pods(w.ns).Bind(w.Context(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: "bare"}, Target: corev1.ObjectReference{Kind: "Node", Name: name},
	}, metav1.CreateOptions{})
	expect.NoError(w, err)
}

// handMade makes a network and a subnet in Neutron as example() declares them, under names of their own, and removes
// them when the test ends.
func handMade(t *testing.T, c *cloud, name string, more resource) (network, subnet string) {
	t.Helper()
	body := resource{"name": name}
	maps.Copy(body, more)
	network = c.Create("networks", body).ID()
	t.Cleanup(func() { _, _ = c.Client.Delete(contextOf(t), c.Client.ServiceURL("networks", network), nil) })
	subnet = c.Create("subnets", resource{
		"network_id": network, "name": name + "-subnet", "description": "by hand", "ip_version": 4,
		"cidr": "192.168.0.0/16",
	}).ID()
	return network, subnet
}

// faultyClouds serves an emulator with projects of its own: without a fault, and with one each. It gives the
// clouds.yaml of the first, those of the others by the name of the project, and the addresses of all.
func faultyClouds(t *testing.T) (clouds string, faulty map[string]string, endpoints []string) {
	var forgetful neutrontest.Habits
	expect.NoError(t, forgetful.Set(neutrontest.EmptyDescriptions))
	faults := map[string]func(w http.ResponseWriter, r *http.Request, next http.Handler){
		"down": func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			http.Error(w, "no server is available", http.StatusServiceUnavailable)
		},
		"throttled": func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			w.Header().Set("Retry-After", "300")
			http.Error(w, "too many requests", http.StatusTooManyRequests)
		},
		// It says yes to a change, and does not make it.
		"stubborn": func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if r.Method == http.MethodPut {
				r.Method = http.MethodGet
			}
			next.ServeHTTP(w, r)
		},
		"forgetful": func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			forgetful.Wrap(next).ServeHTTP(w, r)
		},
		// Somebody else is always faster.
		"raced": func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if r.Method == http.MethodPut {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusPreconditionFailed)
				_, _ = w.Write([]byte(`{"NeutronError":{"type":"RevisionNumberConstraintFailed",` +
					`"message":"Constrained to 1, but current revision is 2","detail":""}}`))
				return
			}
			next.ServeHTTP(w, r)
		},
		// The leader of another cluster with the same UID writes over each word of this one's.
		"disputed": func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if strings.Contains(r.URL.Path, "/subnetpools") && r.Method != http.MethodGet {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					http.Error(w, err.Error(), http.StatusBadRequest)
					return
				}
				body = regexp.MustCompile(`\[term=([0-9]+)/[^\]]*\]`).ReplaceAll(body, []byte("[term=$1/another-cluster]"))
				r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			}
			next.ServeHTTP(w, r)
		},
	}
	server := neutrontest.New(neutrontest.Options{
		Tenants: append(slices.Collect(maps.Keys(faults)), "poor", "inward"), DeadHosts: []string{"dead"},
	})
	dir := t.TempDir()
	at := func(name string, middleware func(http.Handler) http.Handler) string {
		listener := serve(t, server, name, middleware)
		endpoints = append(endpoints, listener.URL)
		file := filepath.Join(dir, name+".yaml")
		expect.NoError(t, os.WriteFile(file, []byte(listener.CloudsYAML()), 0o600))
		return file
	}
	clouds, faulty = at("clouds", nil), map[string]string{}
	for name, fault := range faults {
		faulty[name] = at(name, func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.Contains(r.URL.Path, "/v2.0/") {
					fault(w, r, next)
					return
				}
				next.ServeHTTP(w, r)
			})
		})
	}
	for name, quota := range map[string]string{"poor": "network", "inward": "floatingip"} {
		faulty[name] = clouds
		openFile(t, clouds, "admin").PutQuotas(openFile(t, clouds, name).Project, map[string]int{quota: 0})
	}
	return clouds, faulty, endpoints
}

// apiReasons are the constants of the API whose names begin with Reason.
func apiReasons(t *testing.T) (reasons []string) {
	files, err := filepath.Glob("../../pkg/apis/cloudteam/v1/*.go")
	expect.NoError(t, err)
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		expect.NoError(t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(spec.Names[0].Name, "Reason") {
				reasons = append(reasons, strings.Trim(spec.Values[0].(*ast.BasicLit).Value, `"`))
			}
			return true
		})
	}
	if len(reasons) < 40 {
		t.Fatalf("the Reasons are not found any more: %v", reasons)
	}
	return reasons
}
