// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	// requestTimeout bounds one request; the servers are on this machine.
	requestTimeout = 10 * time.Second
	// answerLimit bounds what is read of an answer, in bytes.
	answerLimit = 4 << 20
	// busyRetries and busyPause limit how long a request is repeated that the server answers with 429. kube-apiserver does
	// so while it sets up the storage of a CRD, and names a second as the time to wait; client-go's clients wait as well.
	busyRetries = 10
	busyPause   = time.Second
)

// apiClient makes the few calls that a launcher needs. With client-go, which links for seconds, each test that starts a
// control plane would build it longer than it starts.
type apiClient struct {
	http *http.Client
}

// statusError is an answer of a server that is not a success.
type statusError struct {
	code int
	body string
}

func (e *statusError) Error() string {
	return fmt.Sprintf("the server answered %d: %s", e.code, e.body)
}

// newAPIClient returns a client that trusts ca and shows the certificate of user, if it has one.
func newAPIClient(ca []byte, user keyPair) (*apiClient, error) {
	config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	config.RootCAs.AppendCertsFromPEM(ca)
	if user.certificate != nil {
		pair, err := tls.X509KeyPair(user.certificate, user.key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	// No proxy: it could not reach the loopback address of this machine.
	// With HTTP/2, requests at the same time share a connection.
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	return &apiClient{&http.Client{Transport: transport, Timeout: requestTimeout}}, nil
}

// close ends the connections that are kept alive, so that no server waits for them when it stops.
func (a *apiClient) close() { a.http.CloseIdleConnections() }

// healthy returns nil if a GET of url succeeds.
func (a *apiClient) healthy(ctx context.Context, url string) error {
	return a.get(ctx, url, nil)
}

// get reads the JSON at url into object, or drops it if object is nil. It returns a *statusError for an answer other
// than success.
func (a *apiClient) get(ctx context.Context, url string, object any) error {
	return a.do(ctx, http.MethodGet, url, nil, nil, object)
}

// create posts an object to url. As those that follow, it returns a *statusError for an answer other than success.
func (a *apiClient) create(ctx context.Context, url string, object any) error {
	return a.write(ctx, http.MethodPost, url, "application/json", object)
}

// patch merges the fields of an object into that at url.
func (a *apiClient) patch(ctx context.Context, url string, object any) error {
	return a.write(ctx, http.MethodPatch, url, "application/strategic-merge-patch+json", object)
}

// apply makes the object at url, or gives it the fields of the manifest, which is YAML or JSON.
func (a *apiClient) apply(ctx context.Context, url string, manifest []byte) error {
	return a.do(ctx, http.MethodPatch, url+"?force=true&fieldManager="+fieldManager,
		http.Header{"Content-Type": {"application/apply-patch+yaml"}}, manifest, nil)
}

// delete deletes the object at url.
func (a *apiClient) delete(ctx context.Context, url string, options any) error {
	return a.write(ctx, http.MethodDelete, url, "application/json", options)
}

func (a *apiClient) write(ctx context.Context, method, url, kind string, object any) error {
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	return a.do(ctx, method, url, http.Header{"Content-Type": {kind}}, body, nil)
}

// watch calls each for every event of the watch at url, with what reads the event, until the watch ends or each fails.
func (a *apiClient) watch(ctx context.Context, url string, each func(decode func(any) error) error) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	// Without the timeout for a request.
	response, err := (&http.Client{Transport: a.http.Transport}).Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return &statusError{response.StatusCode, response.Status}
	}
	for events := json.NewDecoder(response.Body); ; {
		if err := each(events.Decode); err != nil {
			return err
		}
	}
}

// do sends a request and reads the JSON of the answer into object, or drops it if object is nil. It repeats the request
// while the server is busy. It returns a *statusError for another answer than success.
func (a *apiClient) do(
	ctx context.Context, method, url string, header http.Header, body []byte, object any,
) error {
	for retry := 0; ; retry++ {
		err := a.send(ctx, method, url, header, body, object)
		answer, ok := errors.AsType[*statusError](err)
		if !ok || answer.code != http.StatusTooManyRequests || retry == busyRetries {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(busyPause):
		}
	}
}

// send is do for one attempt.
func (a *apiClient) send(
	ctx context.Context, method, url string, header http.Header, body []byte, object any,
) error {
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if header != nil {
		request.Header = header
	}
	response, err := a.http.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, answerLimit))
	if err != nil {
		return err
	}
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return &statusError{response.StatusCode, string(bytes.TrimSpace(answer))}
	}
	if object == nil {
		return nil
	}
	return json.Unmarshal(answer, object)
}
