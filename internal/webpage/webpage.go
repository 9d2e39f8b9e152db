// Package webpage serves a page of the project's own tools on loopback, so that neither texts of others nor other pages
// in the same browser can do anything with it. Who may see it is for the caller to decide.
package webpage

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

// Protect sets the headers that let a page run its own files alone. Texts of users and clouds cannot become markup, let
// alone a script. images is where its pictures may be from, as in a Content-Security-Policy.
func Protect(header http.Header, images string) {
	for name, value := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src " +
			images + "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
		"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
		"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
		"Cache-Control": "no-store",
	} {
		header.Set(name, value)
	}
}

// Serve serves a listener until the context ends, which is also that of each request.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 1 << 16,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
