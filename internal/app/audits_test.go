package app

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"cloudteam.ztgame.com/network-controller/internal/cli"
	"cloudteam.ztgame.com/network-controller/internal/metric"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestAuditLogReportsChanges(t *testing.T) {
	down := errors.New("down")
	metric.Register()
	for name, c := range map[string]struct {
		audits    []inventory.Audit
		logs      int // at the verbosity of operators
		recovered int
	}{
		"a good audit that finds nothing is quiet": {[]inventory.Audit{{Networks: 1}, {Networks: 1}}, 0, 0},
		"a move is told":         {[]inventory.Audit{{Networks: 1, Moved: 1}}, 1, 0},
		"a failure is told once": {[]inventory.Audit{{Err: down}, {Err: down}, {Err: down}}, 1, 0},
		"the end of failures is told, and recovers": {
			[]inventory.Audit{{}, {Err: down}, {Err: down}, {}, {}}, 2, 1},
		"each recovery counts": {[]inventory.Audit{{Err: down}, {}, {Err: down}, {}}, 4, 2},
	} {
		t.Run(name, func(t *testing.T) {
			logger := ktesting.NewLogger(t,
				ktesting.NewConfig(ktesting.Verbosity(0), ktesting.BufferLogs(true)))
			recovered := 0
			a := &auditLog{logger: logger, recovered: func() { recovered++ }, first: make(chan struct{})}
			for _, audit := range c.audits {
				a.audited(audit)
			}
			expect.Equal(t, c.recovered, recovered, "how often it recovered")
			lines := logger.GetSink().(ktesting.Underlier).GetBuffer().Data()
			expect.Len(t, c.logs, lines, "lines")
		})
	}
}

// TestRejectedLogInsAreToldWithEachAudit keeps the Event new that kubectl network doctor reads, and tells of no outage.
func TestRejectedLogInsAreToldWithEachAudit(t *testing.T) {
	metric.Register()
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.Verbosity(0), ktesting.BufferLogs(true)))
	told := 0
	a := &auditLog{logger: logger, recovered: func() {}, first: make(chan struct{}), rejected: func(error) { told++ }}
	for _, err := range []error{
		&client.Error{Kind: client.Unauthenticated, Op: client.OpLogin + " to x", Reason: "no"},
		&client.Error{Kind: client.Unauthenticated, Op: client.OpLogin + " to x", Reason: "no"},
		&client.Error{Kind: client.Transient, Op: client.OpLogin + " to x", Reason: "no answer"},
		&client.Error{Kind: client.Unauthenticated, Op: "list ports", Fresh: true, Reason: "not the credentials' fault"},
		nil,
	} {
		a.audited(inventory.Audit{Err: err})
	}
	expect.Equal(t, 2, told, "rejections told")
	for _, entry := range logger.GetSink().(ktesting.Underlier).GetBuffer().Data() {
		if failed := strings.HasPrefix(entry.Message, "Audit failed"); failed != (entry.Type == ktesting.LogError) {
			t.Errorf("%q is logged as %s", entry.Message, entry.Type)
		}
	}
}

func TestAwaitFirst(t *testing.T) {
	for name, audit := range map[string]inventory.Audit{"a good audit": {}, "a failed audit": {Err: errors.New("down")}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &auditLog{logger: klog.Background(), recovered: func() {}, first: make(chan struct{})}
				waited := make(chan struct{})
				go func() { a.awaitFirst(t.Context()); close(waited) }()
				<-time.After(time.Hour)
				select {
				case <-waited:
					t.Error("it did not wait")
				default:
				}
				a.audited(audit)
				<-waited
				a.audited(audit)
				a.awaitFirst(t.Context()) // returns at once from now on
			})
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	(&auditLog{}).awaitFirst(ctx)
}

func TestKubeConfig(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBERNETES_SERVICE_PORT", "")
	for name, c := range map[string]struct {
		options Options
		says    []string
	}{
		"outside a Pod and without flags": {Options{}, []string{"--kubeconfig"}},
		"a kubeconfig that is not there": {
			Options{Kubeconfig: "/nonexistent/kubeconfig"}, []string{"Kubernetes configuration",
				"/nonexistent/kubeconfig"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := kubeConfig(c.options)
			if err == nil {
				t.Fatal("no error")
			}
			for _, part := range c.says {
				expect.ErrorSays(t, err, part)
			}
		})
	}
	config, err := kubeConfig(Options{Master: "http://127.0.0.1:1"})
	expect.NoError(t, err)
	got := []string{config.Host, config.UserAgent}
	if !slices.Equal(got, []string{"http://127.0.0.1:1", cli.UserAgent(program)}) || config.QPS >= 0 {
		t.Errorf("config has %v, QPS %g", got, config.QPS)
	}
}
