package app

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
	"k8s.io/klog/v2"

	"cloudteam.ztgame.com/network-controller/internal/cli"
	"cloudteam.ztgame.com/network-controller/internal/tracing"
	"cloudteam.ztgame.com/network-controller/internal/version"
)

// exportTimeout limits one request to the collector, and what the end of the process waits for the last spans.
const exportTimeout = 5 * time.Second

// tracesEndpoint is where OpenTelemetry's variables say to send spans; empty for nowhere.
func tracesEndpoint() string {
	if base := os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"); base != "" {
		base = strings.TrimSuffix(base, "/") + "/v1/traces"
		return cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), base)
	}
	return os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
}

// startTracing sends the spans of this process to the collector, until stop. Without an endpoint it does nothing. The
// library reads OTEL_TRACES_SAMPLER by itself.
func startTracing(ctx context.Context, o Options) (stop func(), err error) {
	if o.TracesEndpoint == "" {
		return func() {}, nil
	}
	exporter, err := otlptrace.New(ctx, &collector{
		address: o.TracesEndpoint,
		client:  http.Client{Timeout: exportTimeout},
		logger:  klog.FromContext(ctx),
	})
	if err != nil {
		return nil, fmt.Errorf("making an exporter of traces: %w", err)
	}
	host, _ := os.Hostname() // the Pod's name
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter),
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", program),
			attribute.String("service.version", version.Version),
			attribute.String("service.instance.id", host),
		)),
	)
	// The collector logs what fails from here on.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {}))
	tracing.Use(provider)
	return func() {
		tracing.Use(nil)
		// The context has ended by now.
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), exportTimeout)
		defer cancel()
		_ = provider.Shutdown(last) // logged
	}, nil
}

// isTracesEndpoint reports whether an endpoint is empty or a collector's address.
func isTracesEndpoint(endpoint string) bool {
	address, err := url.Parse(endpoint)
	return endpoint == "" || err == nil && (address.Scheme == "http" || address.Scheme == "https") && address.Host != "" &&
		address.User == nil && address.RawQuery == "" && address.Fragment == ""
}

// collector sends spans by OTLP over HTTP. It implements otlptrace.Client. The library's own clients bring gRPC, also
// for HTTP, which makes the binary 77 % larger; this one and the library, 2 %.
type collector struct {
	address string
	client  http.Client
	logger  klog.Logger
	failing atomic.Bool
}

// Start implements otlptrace.Client.
func (c *collector) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (c *collector) Stop(context.Context) error {
	c.client.CloseIdleConnections()
	return nil
}

// UploadTraces implements otlptrace.Client. Spans that cannot be sent are lost: nothing waits for a collector.
func (c *collector) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	err := c.send(ctx, spans)
	switch {
	case err != nil && !c.failing.Swap(true):
		c.logger.Info("Sending traces failed; spans are lost until the next success", "err", err)
	case err == nil && c.failing.Swap(false):
		c.logger.Info("Traces are sent again")
	}
	return err
}

func (c *collector) send(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	// On the wire, TracesData is an ExportTraceServiceRequest.
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.address, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/x-protobuf")
	request.Header.Set("User-Agent", cli.UserAgent(program))
	answer, err := c.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10)) // so that the connection is used again
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("%s answers HTTP %d", c.address, answer.StatusCode)
	}
	return nil
}
