// Package tracing records what the process does as spans of OpenTelemetry, for an operator who asks where the time of a
// sync went. It is off until Use. Off, it allocates nothing.
//
// A span MUST have only names of objects, numbers and words of this project's own: no id of a resource, no text of a
// server, and nothing of a request's body or headers.
package tracing

import (
	"context"
	"slices"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Scope names the instrumentation in each span.
const Scope = "cloudteam.ztgame.com/network-controller"

// The attributes of spans.
const (
	Controller = attribute.Key("controller")
	Kind       = attribute.Key("k8s.kind")
	Namespace  = attribute.Key("k8s.namespace.name")
	Name       = attribute.Key("k8s.name")
	Generation = attribute.Key("k8s.generation")
	// Reason is why a sync acts, as far as it is known.
	Reason = attribute.Key("reason")
	// Failures is how many syncs of the object failed in a row before this one.
	Failures = attribute.Key("failures")
	// Steps is the number of steps of a plan, Creates the number of resources that a call creates, and Moved the number
	// of objects whose resources an audit found changed.
	Steps   = attribute.Key("steps")
	Creates = attribute.Key("creates")
	Moved   = attribute.Key("moved")
	// Operation names a call to the cloud, as in the metrics.
	Operation = attribute.Key("operation")
	// Method, Template and Status are HTTP's; Template is the path without ids. Request is the id that the cloud gave to
	// the request.
	Method   = attribute.Key("http.request.method")
	Template = attribute.Key("url.template")
	Status   = attribute.Key("http.response.status_code")
	Request  = attribute.Key("openstack.request_id")
	// Failure is the kind of the error with which a span ended.
	Failure = attribute.Key("error.type")
	// Gate is what held back a step that was not sent.
	Gate = attribute.Key("gate")
)

// tracer starts the spans without a parent; nil while tracing is off.
var tracer atomic.Pointer[trace.Tracer]

// none records nothing.
var none = trace.SpanFromContext(context.Background())

// Use makes Begin record spans with the provider's tracer, or, with nil, no longer.
func Use(provider trace.TracerProvider) {
	if provider == nil {
		tracer.Store(nil)
		return
	}
	tracer.Store(new(provider.Tracer(Scope)))
}

// Begin starts a span without a parent. The caller MUST end it.
func Begin(ctx context.Context, name string) (context.Context, trace.Span) {
	t := tracer.Load()
	if t == nil {
		return ctx, none
	}
	return (*t).Start(ctx, name, trace.WithNewRoot())
}

// Start starts a span within the context's, if that is recorded. The caller MUST end it.
func Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, none
	}
	return parent.TracerProvider().Tracer(Scope).Start(ctx, name, options...)
}

// Join starts a span for work that serves several callers. It is within the first recorded one of their spans. It and
// the others' spans link to each other. base gives the values of the returned context.
func Join(base context.Context, name string, callers []context.Context) (context.Context, trace.Span) {
	if tracer.Load() == nil {
		return base, none
	}
	var recorded []trace.Span
	for _, caller := range callers {
		if span := trace.SpanFromContext(caller); span.IsRecording() && !slices.Contains(recorded, span) {
			recorded = append(recorded, span)
		}
	}
	if len(recorded) == 0 {
		return trace.ContextWithSpan(base, none), none
	}
	links := make([]trace.Link, len(recorded)-1)
	for i, other := range recorded[1:] {
		links[i] = trace.Link{SpanContext: other.SpanContext()}
	}
	ctx, span := Start(trace.ContextWithSpan(base, recorded[0]), name, trace.WithLinks(links...))
	for _, other := range recorded[1:] {
		other.AddLink(trace.Link{SpanContext: span.SpanContext()})
	}
	return ctx, span
}

// End ends a span. failure is the kind of its error, a word of this project; empty if it succeeded.
func End(span trace.Span, failure string) {
	if failure != "" && span.IsRecording() {
		span.SetStatus(codes.Error, failure)
		span.SetAttributes(Failure.String(failure))
	}
	span.End()
}
