package app

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/controller"
	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/metric"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/inventory"
)

// ofCloud are the labels of the metrics of each cloud. They are empty for the process's own cloud; to Prometheus, that
// is a metric without labels.
var ofCloud = []string{"namespace", "secret", "cloud"}

// labelsOf returns the values of ofCloud.
func labelsOf(ref managed.CloudRef) []string { return []string{ref.Namespace, ref.Secret, ref.Entry} }

// forgetCloud deletes the metrics of a cloud.
func forgetCloud(ref managed.CloudRef) {
	for _, gauge := range []*metrics.GaugeVec{networks, ports, outage, credentialsOutdated, lastAudit, disputed} {
		gauge.Delete(map[string]string{"namespace": ref.Namespace, "secret": ref.Secret, "cloud": ref.Entry})
	}
}

var (
	buildInfo = metric.Gauges("network_controller_build_info", "Always 1: the version that runs.", "version", "go_version")
	calls     = metric.Histograms("network_controller_cloud_call_duration_seconds",
		"Duration of calls to Keystone and Neutron, by operation and result (ok, or the kind of error).",
		metrics.ExponentialBuckets(0.005, 2, 14), "operation", "result")
	callsByCloud = metric.Histograms("network_controller_cloud_response_seconds",
		"Duration of calls to Keystone and Neutron, by cloud and result. All clouds of tenants (spec.cloud) count as the "+
			"Secret \"(tenants)\".",
		metrics.ExponentialBuckets(0.02, 4, 7), append(slices.Clone(ofCloud), "result")...)
	createItems = metric.Histograms("network_controller_cloud_create_items",
		"Resources per create call, by operation. Creates that wait are sent together as one bulk call.",
		[]float64{1, 2, 5, 10, 15, 20, 25}, "operation")
	writeWait = metric.Histograms("network_controller_cloud_write_wait_seconds",
		"How long writes waited for others to be sent with, and for their turn, by operation.",
		metrics.ExponentialBuckets(0.001, 4, 9), "operation")
	heldBack = metric.Counters("network_controller_cloud_writes_held_back_total",
		"Steps that the controller did not send, by the gate that held them back.", "gate")
	networks = metric.Gauges("network_controller_networks",
		"Networks in Neutron with this cluster's marker, as of the last audit.", ofCloud...)
	ports = metric.Gauges("network_controller_ports",
		"Ports in Neutron with this cluster's marker, as of the last audit.", ofCloud...)
	outage = metric.Gauges("network_controller_cloud_outage",
		"1 while the cloud does not respond and calls wait for a successful probe (the circuit breaker is open), else 0.",
		ofCloud...)
	credentialsOutdated = metric.Gauges("network_controller_credentials_outdated",
		"1 while the current credentials cannot be used and the previous ones are in use, else 0.", ofCloud...)
	disputed = metric.Gauges("network_controller_identity_disputed",
		"1 while the controller of another cluster with the same UID, such as a restored copy, acts in the project. "+
			"Then this one changes and removes nothing there. Else 0.", ofCloud...)
	lastAudit = metric.Gauges("network_controller_last_audit_timestamp_seconds",
		"End of the last audit that succeeded, in seconds since 1970. A long list may still run then.", ofCloud...)
)

// tenants is the Secret of the calls to all clouds that are not the operator's: a tenant can name new ones for ever,
// and make them slow. No Secret has this name.
const tenants = "(tenants)"

// countCall implements client.Options.Called.
func countCall(ref managed.CloudRef, operators bool, c client.Call) {
	result := cmp.Or(client.Word(c.Err), "ok")
	calls.WithLabelValues(c.Op, result).Observe(c.Duration.Seconds())
	if !operators {
		ref = managed.CloudRef{Secret: tenants}
	}
	callsByCloud.WithLabelValues(append(labelsOf(ref), result)...).Observe(c.Duration.Seconds())
	if c.Creates > 0 {
		createItems.WithLabelValues(c.Op).Observe(float64(c.Creates))
	}
}

// auditLog turns audits into logs, metrics and signals.
type auditLog struct {
	ref    managed.CloudRef
	logger klog.Logger
	// recovered is called when an audit succeeds after a failed one.
	recovered func()
	// succeeded, where set, is called after each audit that succeeds.
	succeeded func()
	// first is closed when the first audit has ended, with or without success. An audit does not wait for ever for a list
	// that hangs.
	first chan struct{}
	// rejected is called after each audit that failed because of the credentials, or of where they lead.
	rejected func(error)
	// failed is whether the last audit failed.
	failed bool
}

// audited implements inventory.Options.Audited. An Inventory makes one audit at a time.
func (a *auditLog) audited(audit inventory.Audit) {
	recovered := a.failed && audit.Err == nil
	again := a.failed && audit.Err != nil
	a.failed = audit.Err != nil
	if !a.begun() {
		close(a.first)
	}

	if e, ok := errors.AsType[*client.Error](audit.Err); ok && e.OfLogin() &&
		(e.Kind == client.Unauthenticated || e.Kind == client.Invalid) {
		a.rejected(audit.Err)
	}
	logger := a.logger
	if id := controller.RequestID(audit.Err); id != "" {
		logger = logger.WithValues("request", id)
	}
	switch {
	case again:
		logger.V(2).Info("Audit failed again", "err", audit.Err)
	case audit.Err != nil:
		logger.Error(audit.Err, "Audit failed; drift of what is not listed is not detected until the next success")
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
	if audit.Err == nil && a.succeeded != nil {
		a.succeeded()
	}
}

// begun reports whether the first audit has ended, with or without success.
func (a *auditLog) begun() bool { return isClosed(a.first) }

// awaitFirst returns when the first audit has ended, with or without success, or when ctx is done.
func (a *auditLog) awaitFirst(ctx context.Context) { awaitClosed(ctx, a.first) }
