package batch

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"go.opentelemetry.io/otel/trace"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/tracing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

// TestABulkIsLinkedWithItsCallers holds that a trace of each create that went in one call leads to that call, and that
// of a create which went alone has the call itself.
func TestABulkIsLinkedWithItsCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recorder := tracetest.NewSpanRecorder()
		tracing.Use(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)))
		defer tracing.Use(nil)
		var s server
		s.Fails = func(names []string) *client.Error {
			if len(names) == 3 {
				return &client.Error{Kind: client.Invalid, Status: 400} // it is split: one, and two together
			}
			return nil
		}
		b := New(Options{Post: func(
			ctx context.Context, op string, of client.Collection, bodies []map[string]any,
		) ([]json.RawMessage, error) {
			ctx, span := tracing.Start(ctx, fmt.Sprint("POST of ", len(bodies)))
			defer span.End()
			return s.Post(ctx, op, of, bodies)
		}})
		var all sync.WaitGroup
		for i := range 3 {
			all.Go(func() {
				ctx, span := tracing.Begin(t.Context(), "sync")
				defer span.End()
				if err := createNamed(ctx, b, fmt.Sprint(i)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()

		children := map[trace.SpanID][]string{}
		byID := map[trace.SpanID]sdktrace.ReadOnlySpan{}
		for _, span := range recorder.Ended() {
			byID[span.SpanContext().SpanID()] = span
			children[span.Parent().SpanID()] = append(children[span.Parent().SpanID()], span.Name())
		}
		// of counts the syncs whose trace, or a link of it, has the call.
		of := map[string]int{}
		for id, span := range byID {
			if span.Name() != "sync" {
				continue
			}
			own := map[string]bool{}
			for _, child := range children[id] {
				own[child] = true
			}
			for _, link := range span.Links() {
				own[byID[link.SpanContext.SpanID()].Name()] = true
				for _, child := range children[link.SpanContext.SpanID()] {
					own[child] = true
				}
			}
			for at := range byID {
				if byID[at].Parent().SpanID() == id {
					for _, child := range children[at] {
						own[child] = true
					}
				}
			}
			for name := range own {
				of[name]++
			}
		}
		want := map[string]int{"bulk": 3, "POST of 3": 3, "POST of 2": 2, "POST of 1": 1}
		expect.Equal(t, fmt.Sprint(want), fmt.Sprint(of), "syncs by where their traces lead")
	})
}
