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

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
)

// Metrics serve /metrics over TLS, to callers that RBAC allows to get that nonResourceURL.
type Metrics struct {
	// Address is that of --metrics-bind-address; empty to serve nothing.
	Address string
	// CertFile and KeyFile are those of --tls-cert-file and --tls-private-key-file; empty for a self-signed certificate.
	CertFile, KeyFile string
}

// AddFlags adds the flags for the address and the certificate.
func (m *Metrics) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&m.Address, "metrics-bind-address", m.Address,
		"Address that serves /metrics over TLS. Callers send the bearer token of an account that may get the "+
			"nonResourceURL /metrics. The program's own account needs the rights of the ClusterRole system:auth-delegator. "+
			"Empty serves nothing.")
	flags.StringVar(&m.CertFile, "tls-cert-file", m.CertFile,
		"File with the certificate for --metrics-bind-address. It is read again when it changes. The default is a "+
			"self-signed certificate that is made at the start.")
	flags.StringVar(&m.KeyFile, "tls-private-key-file", m.KeyFile, "File with the private key for --tls-cert-file.")
}

// Validate returns an error for flags that do not belong together, with what to write instead.
func (m *Metrics) Validate() (err error) {
	if (m.CertFile == "") != (m.KeyFile == "") {
		err = errors.New("--tls-cert-file and --tls-private-key-file belong together: set both, or none")
	}
	if m.CertFile != "" && m.Address == "" {
		err = errors.Join(err,
			errors.New("--tls-cert-file needs a --metrics-bind-address: set one, or remove --tls-cert-file"))
	}
	return err
}

// Listen opens the address. It returns what serves it until its context is done. host is for a self-signed certificate.
// reviews limits the callers per second that the API server is asked about.
func (m *Metrics) Listen(
	kube kubernetes.Interface, host string, reviews rate.Limit,
) (func(context.Context) error, error) {
	certificate, err := certificates(host, m.CertFile, m.KeyFile)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", m.Address)
	if err != nil {
		return nil, fmt.Errorf("--metrics-bind-address: %w: use another address, or an empty one to serve nothing", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", newAuthorized(kube, reviews, legacyregistry.Handler()))
	server := NewServer(mux)
	server.ReadTimeout, server.WriteTimeout = 10*time.Second, 30*time.Second
	secured := &tls.Config{GetCertificate: certificate, MinVersion: tls.VersionTLS12}
	return func(ctx context.Context) error {
		klog.FromContext(ctx).Info("Serving metrics to callers that RBAC allows", "address", listener.Addr().String(),
			"selfSigned", m.CertFile == "")
		return Serve(ctx, server, tls.NewListener(Limit(listener), secured))
	}, nil
}

// Listen opens the address of --bind-address, for handler, and that of metrics. Either may be empty. It returns what
// serves both until its context is done. The rest is for Metrics.Listen.
func Listen(
	address string, handler http.Handler, m Metrics, kube kubernetes.Interface, host string, reviews rate.Limit,
) (func(context.Context) error, error) {
	var servers []func(context.Context) error
	if address != "" {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return nil, fmt.Errorf("--bind-address: %w: use another address, or an empty one to serve nothing", err)
		}
		servers = append(servers, func(ctx context.Context) error {
			klog.FromContext(ctx).Info("Serving /livez, /readyz and /metrics", "address", listener.Addr().String())
			return Serve(ctx, NewServer(handler), Limit(listener))
		})
	}
	if m.Address != "" {
		serve, err := m.Listen(kube, host, reviews)
		if err != nil {
			return nil, err
		}
		servers = append(servers, serve)
	}
	return func(ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		for _, serve := range servers {
			group.Go(func() error { return serve(ctx) })
		}
		return group.Wait()
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
