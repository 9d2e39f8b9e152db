package client

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"cloudteam.ztgame.com/network-controller/internal/inspect"
	"cloudteam.ztgame.com/network-controller/internal/tracing"
)

// trace starts the span of a call. It shows neither ids nor the query, which may have names of others' resources.
func (r Request) trace(ctx context.Context) (context.Context, trace.Span) {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return tracing.Start(ctx, "")
	}
	path := template(r.Path)
	ctx, span := tracing.Start(ctx, r.Method+" "+path, trace.WithSpanKind(trace.SpanKindClient))
	span.SetAttributes(tracing.Operation.String(r.Op), tracing.Method.String(r.Method), tracing.Template.String(path))
	if r.Creates > 0 {
		span.SetAttributes(tracing.Creates.Int(r.Creates))
	}
	return ctx, span
}

// word matches the elements of paths that are Neutron's own, such as qos and add_router_interface. Ids have digits.
var word = regexp.MustCompile(`^[a-z]+([-_][a-z]+)*$`)

// template returns a path below /v2.0/ with {id} for each id.
func template(path string) string {
	elements := strings.Split(path, "/")
	for i, element := range elements {
		if !word.MatchString(element) {
			elements[i] = "{id}"
		}
	}
	return "/v2.0/" + strings.Join(elements, "/")
}

// noteAnswer adds to the span of a call what its answer tells.
func noteAnswer(span trace.Span, status int, request string) {
	if !span.IsRecording() || status == 0 {
		return
	}
	span.SetAttributes(tracing.Status.Int(status))
	if request != "" {
		span.SetAttributes(tracing.Request.String(request))
	}
}

// recordSent records a request, for package inspect: as a span, without ids.
func (r Request) recordSent(ctx context.Context) {
	recorder := inspect.On()
	if recorder == nil {
		return
	}
	e := inspect.Event{Stage: inspect.Neutron, What: inspect.Sends, Objects: inspect.Of(ctx), Code: inspect.Here(),
		Facts: []any{r.Method, template(r.Path)}}
	switch {
	case r.Creates > 1:
		e.Why, e.Facts = "bulk", append(e.Facts, r.Creates)
	case r.Revision != nil:
		e.Why, e.Facts = "if", append(e.Facts, *r.Revision)
	}
	recorder.Record(e)
}

// recordAnswer records the end of a request.
func (r Request) recordAnswer(ctx context.Context, began time.Time, err error) {
	recorder := inspect.On()
	if recorder == nil {
		return
	}
	e := inspect.Event{Stage: inspect.Neutron, What: inspect.Answers, Objects: inspect.Of(ctx), Code: inspect.Here(),
		Facts: []any{inspect.Milliseconds(time.Since(began))}}
	if refusal, ok := errors.AsType[*Error](err); ok && refusal.Status != 0 {
		e.Why, e.Facts = "refused", append(e.Facts, refusal.Status)
	} else if err != nil {
		e.Why, e.Facts = "silent", append(e.Facts, Word(err))
	}
	if MaybeDone(err) {
		e.Why += " unknown"
	}
	recorder.Record(e)
}

// endTrace ends the span of a call.
func endTrace(span trace.Span, err error) {
	if refusal, ok := errors.AsType[*Error](err); ok {
		noteAnswer(span, refusal.Status, refusal.Request)
	}
	tracing.End(span, Word(err))
}
