package tracing

import (
	"context"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

// record has Begin record, and gives what was recorded.
func record(t *testing.T) *tracetest.SpanRecorder {
	t.Helper()
	recorder := tracetest.NewSpanRecorder()
	Use(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)))
	t.Cleanup(func() { Use(nil) })
	return recorder
}

func TestOffCostsNothing(t *testing.T) {
	ctx := t.Context()
	callers := []context.Context{ctx, ctx}
	allocations := testing.AllocsPerRun(100, func() {
		ctx, sync := Begin(ctx, "sync")
		ctx, step := Start(ctx, "step")
		_, bulk := Join(ctx, "bulk", callers)
		End(bulk, "transient")
		End(step, "")
		End(sync, "")
	})
	expect.Equal(t, 0.0, allocations, "allocations")
}

// TestASpanNeedsARecordedParent holds that a call outside of a trace makes no trace of its own.
func TestASpanNeedsARecordedParent(t *testing.T) {
	recorder := record(t)
	_, span := Start(t.Context(), "call")
	End(span, "")
	if spans := recorder.Ended(); len(spans) > 0 {
		t.Errorf("recorded %q", spans[0].Name())
	}
}

func TestWhatServesSeveralIsLinkedWithAll(t *testing.T) {
	recorder := record(t)
	first, one := Begin(t.Context(), "first")
	second, two := Begin(t.Context(), "second")
	ctx, bulk := Join(t.Context(), "bulk", []context.Context{t.Context(), first, second, first})
	_, call := Start(ctx, "call")
	End(call, "")
	End(bulk, "")
	End(two, "conflict")
	End(one, "")

	spans := map[string]sdktrace.ReadOnlySpan{}
	for _, span := range recorder.Ended() {
		spans[span.Name()] = span
	}
	is := func(name string) string { return spans[name].SpanContext().SpanID().String() }
	expect.Equal(t, is("first"), spans["bulk"].Parent().SpanID().String(), "the span that bulk is within")
	expect.Equal(t, is("bulk"), spans["call"].Parent().SpanID().String(), "the span that the call is within")
	for from, to := range map[string]string{"bulk": "second", "second": "bulk"} {
		links := spans[from].Links()
		if len(links) != 1 || links[0].SpanContext.SpanID().String() != is(to) {
			t.Errorf("%s has the links %v, want one to %s", from, links, to)
		}
	}
	expect.Equal(t, "conflict", spans["second"].Status().Description, "how the second ended")
}
