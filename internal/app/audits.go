package app

import (
	"context"
	"sync"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/neutron"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
)

// ofCloud are the labels of what is told of each cloud. They are empty for the process's own, which is a metric
// without them to Prometheus.
var ofCloud = []string{"namespace", "secret", "cloud"}

// labelsOf are the values of ofCloud.
func labelsOf(ref managed.CloudRef) []string { return []string{ref.Namespace, ref.Secret, ref.Entry} }

// forgetCloud has no metric tell of a cloud any more.
func forgetCloud(ref managed.CloudRef) {
	for _, gauge := range []*metrics.GaugeVec{networks, ports, outage, credentialsOutdated, lastAudit} {
		gauge.Delete(map[string]string{"namespace": ref.Namespace, "secret": ref.Secret, "cloud": ref.Entry})
	}
}

var (
	calls = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Name:           "network_controller_cloud_call_duration_seconds",
		Help:           "Calls to Keystone and Neutron, by what was tried and how it ended (ok, or the kind of error).",
		Buckets:        metrics.ExponentialBuckets(0.005, 2, 14),
		StabilityLevel: metrics.ALPHA,
	}, []string{"operation", "result"})
	createItems = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Name:           "network_controller_cloud_create_items",
		Help:           "Resources per call that created some, by what was created. Creates that wait go as one call.",
		Buckets:        []float64{1, 2, 5, 10, 15, 20, 25},
		StabilityLevel: metrics.ALPHA,
	}, []string{"operation"})
	networks = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name:           "network_controller_networks",
		Help:           "Networks in Neutron that bear this cluster's marker, as of the last audit.",
		StabilityLevel: metrics.ALPHA,
	}, ofCloud)
	ports = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name:           "network_controller_ports",
		Help:           "Ports in Neutron that bear this cluster's marker, as of the last audit.",
		StabilityLevel: metrics.ALPHA,
	}, ofCloud)
	outage = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name:           "network_controller_cloud_outage",
		Help:           "1 while the cloud does not answer and calls wait until a probe is answered, else 0.",
		StabilityLevel: metrics.ALPHA,
	}, ofCloud)
	credentialsOutdated = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name: "network_controller_credentials_outdated",
		Help: "1 while the files of the credentials cannot be used as they are, and what they held before is used, " +
			"else 0.",
		StabilityLevel: metrics.ALPHA,
	}, ofCloud)
	lastAudit = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name:           "network_controller_last_audit_timestamp_seconds",
		Help:           "When the last complete audit ended, in seconds since 1970.",
		StabilityLevel: metrics.ALPHA,
	}, ofCloud)
)

// registerMetrics comes before the first value: what is set before is lost.
var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(calls, createItems, networks, ports, outage, credentialsOutdated, lastAudit)
})

// countCall is client.Options.Called.
func countCall(c client.Call) {
	result := "ok"
	if c.Err != nil {
		result = client.KindOf(c.Err).String()
	}
	calls.WithLabelValues(c.Op, result).Observe(c.Duration.Seconds())
	if c.Creates > 0 {
		createItems.WithLabelValues(c.Op).Observe(float64(c.Creates))
	}
}

// auditLog makes logs, metrics and signals of audits.
type auditLog struct {
	ref    managed.CloudRef
	logger klog.Logger
	// recovered is called when an audit succeeds after one that failed.
	recovered func()

	mu     sync.Mutex
	first  chan struct{}
	failed bool
	ended  bool
}

func (a *auditLog) audited(audit neutron.Audit) {
	a.mu.Lock()
	recovered := a.failed && audit.Err == nil
	again := a.failed && audit.Err != nil
	a.failed = audit.Err != nil
	if !a.ended {
		a.ended = true
		close(a.firstLocked())
	}
	a.mu.Unlock()

	switch {
	case again:
		a.logger.V(2).Info("Audit failed again", "err", audit.Err)
	case audit.Err != nil:
		a.logger.Info("Audit failed, the cloud is not looked at until one succeeds", "err", audit.Err)
	default:
		labels := labelsOf(a.ref)
		networks.WithLabelValues(labels...).Set(float64(audit.Networks))
		ports.WithLabelValues(labels...).Set(float64(audit.Ports))
		lastAudit.WithLabelValues(labels...).SetToCurrentTime()
		verbosity := 2
		if recovered || audit.Moved > 0 {
			verbosity = 0
		}
		a.logger.V(verbosity).Info("Audited", "networks", audit.Networks, "ports", audit.Ports, "moved", audit.Moved,
			"took", audit.Duration.Round(time.Millisecond))
	}
	if recovered {
		a.recovered()
	}
}

// begun reports whether the first audit has ended.
func (a *auditLog) begun() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ended
}

// awaitFirst returns when the first audit has ended, however it did, or ctx is done.
func (a *auditLog) awaitFirst(ctx context.Context) {
	a.mu.Lock()
	first := a.firstLocked()
	a.mu.Unlock()
	select {
	case <-first:
	case <-ctx.Done():
	}
}

func (a *auditLog) firstLocked() chan struct{} {
	if a.first == nil {
		a.first = make(chan struct{})
	}
	return a.first
}
