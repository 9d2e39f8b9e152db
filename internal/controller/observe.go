package controller

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/inspect"
	"cloudteam.ztgame.com/network-controller/internal/tracing"
)

// observation is what the log, the metrics and a trace say of one sync.
type observation struct {
	loop   *Loop
	key    cache.ObjectName
	logger klog.Logger
	span   trace.Span
	began  time.Time
}

// observe begins the observation of a sync of a key. The sync is to be called with the returned context.
func (l *Loop) observe(ctx context.Context, key cache.ObjectName) (context.Context, *observation) {
	o := &observation{loop: l, key: key, logger: klog.FromContext(ctx).WithValues("object", key.String())}
	ctx, o.span = tracing.Begin(ctx, "sync "+l.name)
	if o.span.IsRecording() {
		o.logger = o.logger.WithValues("trace", o.span.SpanContext().TraceID())
		o.span.SetAttributes(tracing.Controller.String(l.name), tracing.Namespace.String(key.Namespace),
			tracing.Name.String(key.Name), tracing.Failures.Int(l.queue.NumRequeues(key)))
	}
	if inspect.On() != nil {
		ctx = inspect.With(ctx, inspect.ObjectOf(l.name, key.Namespace, key.Name))
	}
	return klog.NewContext(ctx, o.logger), o
}

// starts says that the sync has a processor and is called.
func (o *observation) starts() {
	o.began = time.Now()
	activeWorkers.WithLabelValues(o.loop.name).Inc()
}

// returns says that the sync has returned.
func (o *observation) returns() {
	activeWorkers.WithLabelValues(o.loop.name).Dec()
	reconcileTime.WithLabelValues(o.loop.name).Observe(time.Since(o.began).Seconds())
}

// ends says how the sync ended, and when its key returns.
func (o *observation) ends(how outcome, err error) {
	failed := ""
	if how.result == resultError {
		failed = how.result
		o.logFailure(how, err)
	}
	reconciles.WithLabelValues(o.loop.name, how.result).Inc()
	tracing.End(o.span, failed)
}

// logFailure logs a failure as an error if it is the first, the second, the fourth and so on of its key: each doubles
// the pause.
func (o *observation) logFailure(how outcome, err error) {
	if how.pause == 0 {
		o.logger.V(2).Info("Sync was canceled")
		return
	}
	reconcileErrors.WithLabelValues(o.loop.name).Inc()
	failures := o.loop.queue.NumRequeues(o.key)
	logger := o.logger.WithValues("failures", failures, "in", how.pause)
	if id := RequestID(err); id != "" {
		logger = logger.WithValues("request", id)
	}
	if failures > 0 && failures&(failures-1) == 0 {
		logger.Error(err, "Sync failed, will try again")
		return
	}
	logger.V(2).Info("Sync failed again", "err", err)
}
