package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// collector receives spans as a collector of OpenTelemetry does (OTLP over HTTP).
type collector struct {
	*httptest.Server
	mu    sync.Mutex
	spans []*tracepb.Span
	// of are the texts that say which process sent them.
	of []string
	// odd are requests that it does not understand.
	odd []string
}

func startCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var data tracepb.TracesData
		c.mu.Lock()
		defer c.mu.Unlock()
		if err := proto.Unmarshal(body, &data); err != nil || r.URL.Path != "/v1/traces" ||
			r.Header.Get("Content-Type") != "application/x-protobuf" {
			c.odd = append(c.odd, fmt.Sprint(r.Method, " ", r.URL, " ", err))
			http.Error(w, "?", http.StatusBadRequest)
			return
		}
		for _, resource := range data.ResourceSpans {
			c.of = append(c.of, prototext.Format(resource.Resource))
			for _, scope := range resource.ScopeSpans {
				c.spans = append(c.spans, scope.Spans...)
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// traced is a span and what is within it.
type traced struct {
	*tracepb.Span
	within []*traced
}

// says is an attribute as text.
func (s *traced) says(key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			if number, ok := a.Value.Value.(*commonpb.AnyValue_IntValue); ok {
				return strconv.FormatInt(number.IntValue, 10)
			}
			return a.Value.GetStringValue()
		}
	}
	return ""
}

// find gives the spans of a name at any depth.
func (s *traced) find(name string) (found []*traced) {
	for _, child := range s.within {
		if child.Name == name {
			found = append(found, child)
		}
		found = append(found, child.find(name)...)
	}
	return found
}

// roots gives the spans that are within none, in the order of their beginnings.
func (c *collector) roots() (roots []*traced) {
	c.mu.Lock()
	defer c.mu.Unlock()
	byID := map[string]*traced{}
	slices.SortFunc(c.spans, func(a, b *tracepb.Span) int {
		return int(int64(a.StartTimeUnixNano) - int64(b.StartTimeUnixNano))
	})
	for _, span := range c.spans {
		byID[string(span.SpanId)] = &traced{Span: span}
	}
	for _, span := range c.spans {
		child := byID[string(span.SpanId)]
		if parent := byID[string(span.ParentSpanId)]; parent != nil {
			parent.within = append(parent.within, child)
		} else {
			roots = append(roots, child)
		}
	}
	return roots
}

// TestTraces holds what an operator sees of a Network's life in traces: why each sync ran, what it planned, and each
// call to Neutron with the id under which Neutron's own log has it. The log is in JSON and leads to the trace.
func TestTraces(t *testing.T) {
	withProcesses(t)
	collected := startCollector(t)
	namespace := newNamespace(t)
	name := unique(t, namespace)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collected.URL)
	p := startController(t, "tenant", "--controllers=network,networkport", "--logging-format=json")
	apply(t, namespace, name, example())
	id := awaitReady(t, namespace, name).Status.NetworkID
	remove(t, namespace, name)
	p.signal(syscall.SIGTERM) // it sends its last spans before it ends
	expect.Equal(t, 0, p.awaitExit(t), "the exit code")

	expect.Empty(t, collected.odd, "requests that the collector did not understand")
	applied := 0
	for line := range strings.Lines(p.Log()) {
		var record struct{ Msg, Trace, Object string }
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Errorf("the log has a line that is not JSON: %s", line)
		}
		if record.Msg == "Applied step" && len(record.Trace) == 32 && record.Object == namespace+"/"+name {
			applied++
		}
	}
	if applied == 0 {
		t.Error("no line of a step has the id of its trace")
	}
	var syncs, audits []*traced
	for _, root := range collected.roots() {
		switch {
		case root.Name == "audit":
			audits = append(audits, root)
		case root.Name == "sync network" && root.says("k8s.name") == name && root.says("k8s.namespace.name") == namespace:
			syncs = append(syncs, root)
		case strings.HasPrefix(root.Name, "sync "):
		default:
			t.Errorf("%q is within no span", root.Name)
		}
	}
	if !slices.ContainsFunc(audits, func(a *traced) bool { return len(a.find("GET /v2.0/networks")) > 0 }) {
		t.Error("no trace of an audit lists the networks")
	}
	request := regexp.MustCompile(`^req-[0-9a-f-]{36}$`)
	// one gives the only call of an operation within a sync for a reason. What it is within has the step's name.
	one := func(reason, step, call, status string) {
		t.Helper()
		for _, sync := range syncs {
			if sync.says("reason") != reason {
				continue
			}
			for _, taken := range sync.find(step) {
				for _, sent := range taken.find(call) {
					if sent.says("http.response.status_code") != status || !request.MatchString(sent.says("openstack.request_id")) {
						t.Errorf("%s says %v", call, sent.Attributes)
					}
					if sync.says("k8s.kind") != "Network" || sync.says("k8s.generation") == "" || sync.says("failures") != "0" {
						t.Errorf("the sync says %v", sync.Attributes)
					}
					if !slices.ContainsFunc(sync.find("plan"), func(p *traced) bool { return p.says("steps") > "0" }) {
						t.Error("the sync has no plan with steps")
					}
					return
				}
			}
		}
		t.Errorf("no sync for the reason %q has a step %q with a call %q", reason, step, call)
	}
	one("new generation", "create network", "POST /v2.0/networks", "201")
	one("new generation", "create subnet", "POST /v2.0/subnets", "201")
	one("deletion", "delete network", "DELETE /v2.0/networks/{id}", "204")

	var secrets harness.Secrets
	secrets.AddClouds(t, cloudsFile)
	secrets.AddAccount(t, kubeconfig)
	secrets.Add("the network's id", id)
	var text strings.Builder
	for _, span := range collected.spans {
		text.WriteString(prototext.Format(span))
	}
	expect.Empty(t, secrets.In(text.String()), "what the spans show")
	if of := strings.Join(collected.of, ""); !strings.Contains(of, `"network-controller"`) {
		t.Errorf("the spans are of %s", of)
	}
}
