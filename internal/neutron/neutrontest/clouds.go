package neutrontest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// AuthURL gives the auth_url of a server that is reached under the given address ("http://127.0.0.1:4711").
func AuthURL(base string) string { return strings.TrimSuffix(base, "/") + identityPrefix + "/v3" }

// CloudsYAML gives the text of a clouds.yaml by which OpenStack's clients find the server under the given address. Its
// clouds are "admin" and "tenant", who log in with passwords; one for each of [Options.Tenants]; and for every one of
// them another with the suffix "-credential", who logs in with an application credential.
func (s *Server) CloudsYAML(base string) string {
	var b strings.Builder
	b.WriteString("clouds:\n")
	for _, u := range s.identity.users {
		fmt.Fprintf(&b, `  %[1]s:
    auth:
      auth_url: %[2]s
      username: %[1]s
      password: %[3]s
      project_name: %[1]s
      user_domain_name: %[4]s
      project_domain_name: %[4]s
    region_name: %[5]s
    identity_api_version: 3
`, u.name, AuthURL(base), u.password, domainName, regionName)
	}
	for _, u := range s.identity.users {
		fmt.Fprintf(&b, `  %s-credential:
    auth_type: v3applicationcredential
    auth:
      auth_url: %s
      application_credential_id: %s
      application_credential_secret: %s
    region_name: %s
    identity_api_version: 3
`, u.name, AuthURL(base), u.id, u.secret, regionName)
	}
	return b.String()
}

// Listener is a Server that listens on a TCP address.
type Listener struct {
	// URL is the address of the server, "http://127.0.0.1:4711".
	URL string

	server *Server
	http   *http.Server
	done   chan struct{} // closed when serving has ended
	failed chan error    // holds at most the one error for which serving ended of itself
}

// Listen serves the cloud on a TCP address, such as "127.0.0.1:0" for a free port of loopback. middleware, unless nil,
// is between the socket and the server: a place for tests to break calls. The caller must Close the Listener.
func (s *Server) Listen(address string, middleware func(http.Handler) http.Handler) (*Listener, error) {
	socket, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s (choose another address, or port 0 for a free one): %w", address, err)
	}
	return s.Serve(socket, middleware), nil
}

// Serve is Listen on a listener that there is.
func (s *Server) Serve(socket net.Listener, middleware func(http.Handler) http.Handler) *Listener {
	var handler http.Handler = s
	if middleware != nil {
		handler = middleware(s)
	}
	l := &Listener{
		URL: "http://" + socket.Addr().String(), server: s, http: &http.Server{Handler: handler},
		done: make(chan struct{}), failed: make(chan error, 1),
	}
	go func() {
		defer close(l.done)
		if err := l.http.Serve(socket); !errors.Is(err, http.ErrServerClosed) {
			l.failed <- err
		}
	}()
	return l
}

// AuthURL gives the auth_url under which clients log in.
func (l *Listener) AuthURL() string { return AuthURL(l.URL) }

// CloudsYAML gives the text of a clouds.yaml for this address; see [Server.CloudsYAML].
func (l *Listener) CloudsYAML() string { return l.server.CloudsYAML(l.URL) }

// Failed receives the error if serving ends of itself.
func (l *Listener) Failed() <-chan error { return l.failed }

// Close cuts all connections and returns when nothing is served any longer.
func (l *Listener) Close() error {
	err := l.http.Close()
	<-l.done
	return err
}

// Start serves the cloud on a free port of loopback until the test ends.
func (s *Server) Start(t interface {
	Helper()
	Fatalf(format string, args ...any)
	Cleanup(func())
}) *Listener {
	t.Helper()
	l, err := s.Listen("127.0.0.1:0", nil)
	if err != nil {
		t.Fatalf("start the emulated cloud: %v", err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// AddExternalNetwork adds an external network of the project admin, with a subnet: floating IPs and the outer addresses
// of routers come from it.
func (s *Server) AddExternalNetwork(name string, prefix netip.Prefix) error {
	post := func(collection, singular string, object map[string]any) (id string, err error) {
		body, err := json.Marshal(map[string]any{singular: object})
		if err != nil {
			return "", err
		}
		made := &answer{header: make(http.Header)}
		r, err := http.NewRequest(http.MethodPost, "/v2.0/"+collection, bytes.NewReader(body))
		if err != nil {
			return "", err
		}
		req := &request{r, made, &caller{s.ProjectID("admin"), true}, &Call{}}
		if err := s.kinds[collection].create(req); err != nil {
			return "", err
		}
		var answer map[string]struct{ ID string }
		err = json.Unmarshal(made.body, &answer)
		return answer[singular].ID, err
	}
	network, err := post("networks", "network", map[string]any{"name": name, "router:external": true})
	if err != nil {
		return err
	}
	_, err = post("subnets", "subnet", map[string]any{
		"network_id": network, "cidr": prefix.String(), "ip_version": 4, "enable_dhcp": false,
	})
	return err
}
