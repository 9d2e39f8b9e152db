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

// apiClient makes the few calls a launcher needs. A client-go would be the tool for more, at the price of compiling it
// before anything starts.
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
	return &apiClient{&http.Client{Transport: &http.Transport{TLSClientConfig: config}, Timeout: requestTimeout}}, nil
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

// create posts object, as JSON, to url. It returns a *statusError for an answer other than success.
func (a *apiClient) create(ctx context.Context, url string, object any) error {
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	return a.do(ctx, http.MethodPost, url, http.Header{"Content-Type": {"application/json"}}, body, nil)
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
