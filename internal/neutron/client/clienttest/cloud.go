// Package clienttest provides a cloud for tests: a Keystone that accepts one password, and a test's handler instead of
// Neutron. It imports no other package below internal/neutron, so that the tests of package client can use it.
package clienttest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Secrets of the tests. No error and no printed value may contain them.
const (
	Password = "canary-password"
	Token    = "canary-token"
	// Body is for answers that must not be quoted.
	Body = "canary-body"
)

// ProjectID is the project that tokens are scoped to.
const ProjectID = "project-1"

// Endpoint is one entry of the network service in a catalog.
type Endpoint struct {
	ID        string `json:"id"`
	Interface string `json:"interface"`
	Region    string `json:"region"`
	RegionID  string `json:"region_id"`
	URL       string `json:"url"`
}

// Cloud serves a Keystone, a test's handler below /v2.0/, and a page for people below /page.
type Cloud struct {
	*httptest.Server

	mu sync.Mutex
	// Neutron answers the requests below /v2.0/ that have a valid token.
	Neutron http.HandlerFunc
	// Keystone, if set, answers log-ins instead of LogIn.
	Keystone http.HandlerFunc
	// Endpoints are those of the network service; nil means one public endpoint at this server.
	Endpoints []Endpoint
	// Unscoped omits the project from tokens.
	Unscoped bool
	// Valid is the valid token. Each log-in replaces it.
	Valid string
	// Logins counts the attempts to log in.
	Logins atomic.Int64
}

// NewCloud serves a cloud until the test ends.
func NewCloud(t testing.TB, neutron http.HandlerFunc) *Cloud {
	t.Helper()
	c := &Cloud{Neutron: neutron}
	c.Server = httptest.NewServer(c)
	t.Cleanup(func() {
		c.CloseClientConnections()
		c.Close()
	})
	return c
}

// Unserved returns a cloud without sockets, for tests in virtual time. Direct is its transport.
func Unserved(neutron http.HandlerFunc) *Cloud {
	return &Cloud{Neutron: neutron, Server: &httptest.Server{URL: "http://cloud.invalid"}}
}

// Set changes the cloud while it serves.
func (c *Cloud) Set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

// Revoke invalidates the last token.
func (c *Cloud) Revoke() { c.Set(func() { c.Valid = "" }) }

// CloudsYAML returns a clouds.yaml whose only entry has the credentials of the cloud.
func (c *Cloud) CloudsYAML() string {
	return `{"clouds": {"test": {"auth": {"auth_url": "` + c.URL + `/v3", "username": "u", "password": "` + Password +
		`", "user_domain_id": "default", "project_id": "` + ProjectID + `"}}}}`
}

// ServeHTTP implements http.Handler.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	neutron, keystone, valid := c.Neutron, c.Keystone, c.Valid
	c.mu.Unlock()
	switch {
	case r.URL.Path == "/v3/auth/tokens" && r.Method == http.MethodPost:
		c.Logins.Add(1)
		if keystone != nil {
			keystone(w, r)
			return
		}
		c.LogIn(w, r)
	case strings.Contains(r.URL.Path, "/v2.0/"):
		if valid == "" || r.Header.Get("X-Auth-Token") != valid {
			Answer(w, http.StatusUnauthorized, `{"error":{"code":401,"title":"Unauthorized",`+
				`"message":"The request you have made requires authentication."}}`)
			return
		}
		neutron(w, r)
	case strings.HasPrefix(r.URL.Path, "/page"):
		_, _ = w.Write([]byte("<html>" + Body))
	default:
		http.NotFound(w, r)
	}
}

// LogIn answers a log-in like Keystone.
func (c *Cloud) LogIn(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Auth struct {
			Identity struct {
				Password struct {
					User struct {
						Password string `json:"password"`
					} `json:"user"`
				} `json:"password"`
			} `json:"identity"`
		} `json:"auth"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		Answer(w, http.StatusBadRequest, `{"error":{"message":"no JSON"}}`)
		return
	}
	if body.Auth.Identity.Password.User.Password != Password {
		Answer(w, http.StatusUnauthorized, `{"error":{"code":401,"title":"Unauthorized",`+
			`"message":"The request you have made requires authentication."}}`)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Valid = Token + strconv.FormatInt(c.Logins.Load(), 10)
	endpoints := c.Endpoints
	if endpoints == nil {
		endpoints = []Endpoint{{Interface: "public", Region: "one", RegionID: "one", URL: c.URL}}
	}
	token := map[string]any{
		"expires_at": "2099-01-01T00:00:00.000000Z",
		"catalog": []any{
			map[string]any{"type": "identity", "name": "keystone", "endpoints": []Endpoint{}},
			map[string]any{"type": "network", "name": "neutron", "endpoints": endpoints},
		},
	}
	if !c.Unscoped {
		token["project"] = map[string]any{
			"id": ProjectID, "name": "p", "domain": map[string]any{"id": "default", "name": "Default"},
		}
	}
	w.Header().Set("X-Subject-Token", c.Valid)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(map[string]any{"token": token})
}

// Answer writes a JSON answer.
func Answer(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body))
}

// Refuse writes an error like Neutron.
func Refuse(w http.ResponseWriter, status int, kind, message string) {
	body, _ := json.Marshal(map[string]any{
		"NeutronError": map[string]any{"type": kind, "message": message, "detail": ""},
	})
	Answer(w, status, string(body))
}

// Direct is a transport that serves requests without a network. So a handler that waits does so in the bubble of
// testing/synctest.
type Direct struct{ http.Handler }

// RoundTrip implements http.RoundTripper.
func (d Direct) RoundTrip(r *http.Request) (*http.Response, error) {
	served := make(chan *http.Response, 1)
	request := r.Clone(r.Context())
	if request.Body == nil {
		request.Body = http.NoBody
	}
	go func() {
		recorder := httptest.NewRecorder()
		d.ServeHTTP(recorder, request)
		served <- recorder.Result()
	}()
	select {
	case response := <-served:
		return response, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// CheckNoSecrets checks that there is an error, and that no format prints a secret from it.
func CheckNoSecrets(t testing.TB, err error) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, canary := range []string{Password, Token, Body} {
		for _, format := range []string{"%v", "%+v", "%#v"} {
			if text := fmt.Sprintf(format, err); strings.Contains(text, canary) {
				t.Errorf("%s shows %s: %s", format, canary, text)
			}
		}
	}
}
