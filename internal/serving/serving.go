// Package serving serves health and metrics where all can connect: it bounds what a caller costs, and lets RBAC decide
// who reads metrics.
package serving

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
)

// Metrics serve /metrics over TLS, to callers that RBAC allows to get that nonResourceURL.
type Metrics struct {
	// Address is that of --metrics-bind-address.
	Address string
	// CertFile and KeyFile are those of --tls-cert-file and --tls-private-key-file; empty for a self-signed certificate
	// for Host.
	CertFile, KeyFile, Host string
	// Reviews limits the callers per second that the API server is asked about.
	Reviews rate.Limit
}

// Listen opens the address. It returns what serves it until its context is done.
func (m Metrics) Listen(kube kubernetes.Interface) (func(context.Context) error, error) {
	certificate, err := certificates(m.Host, m.CertFile, m.KeyFile)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", m.Address)
	if err != nil {
		return nil, fmt.Errorf("--metrics-bind-address: %w: use another address, or an empty one to serve nothing", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", newAuthorized(kube, m.Reviews, legacyregistry.Handler()))
	server := NewServer(mux)
	server.ReadTimeout, server.WriteTimeout = 10*time.Second, 30*time.Second
	secured := &tls.Config{GetCertificate: certificate, MinVersion: tls.VersionTLS12}
	return func(ctx context.Context) error {
		klog.FromContext(ctx).Info("Serving metrics to callers that RBAC allows", "address", listener.Addr().String(),
			"selfSigned", m.CertFile == "")
		return Serve(ctx, server, tls.NewListener(Limit(listener), secured))
	}, nil
}

// NewServer makes a server that bounds what a connection costs.
func NewServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 30 * time.Second, MaxHeaderBytes: 16 << 10,
		// Anybody can fill the log with broken handshakes.
		ErrorLog: log.New(io.Discard, "", 0),
	}
}

// Serve serves a listener until ctx is done.
func Serve(ctx context.Context, server *http.Server, listener net.Listener) error {
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	select {
	case err := <-done:
		return fmt.Errorf("serving health and metrics: %w", err)
	case <-ctx.Done():
	}
	if err := server.Close(); err != nil {
		return fmt.Errorf("closing the server of health and metrics: %w", err)
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
