package neutrontest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/virtual"
)

// client calls a server without a socket.
type client struct {
	server *neutrontest.Server
	token  string
}

func (c *client) call(t testing.TB, method, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "http://cloud"+path, bytes.NewBufferString(body))
	r.Header.Set("X-Auth-Token", c.token)
	w := httptest.NewRecorder()
	c.server.ServeHTTP(w, r)
	return w
}

func login(t testing.TB, s *neutrontest.Server, project string) *client {
	t.Helper()
	lines := strings.Split(s.CloudsYAML(""), "\n")
	password := ""
	for i, line := range lines {
		if line == "  "+project+":" {
			password = strings.TrimPrefix(lines[i+4], "      password: ")
		}
	}
	c := &client{server: s}
	w := c.call(t, "POST", "/identity/v3/auth/tokens", fmt.Sprintf(`{"auth": {
		"identity": {"methods": ["password"],
			"password": {"user": {"name": %[1]q, "domain": {"id": "default"}, "password": %[2]q}}},
		"scope": {"project": {"name": %[1]q, "domain": {"id": "default"}}}}}`, project, password))
	if w.Code != http.StatusCreated {
		t.Fatalf("log in as %s: %d %s", project, w.Code, w.Body)
	}
	c.token = w.Header().Get("X-Subject-Token")
	return c
}

func TestATokenEndsWhenItsTimeIsOver(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	s := neutrontest.New(neutrontest.Options{Now: func() time.Time { return now }, TokenLifetime: time.Minute})
	c := login(t, s, "tenant")
	now = now.Add(time.Minute - time.Second)
	if w := c.call(t, "GET", "/networking/v2.0/networks", ""); w.Code != http.StatusOK {
		t.Errorf("a second before the end: %d", w.Code)
	}
	now = now.Add(time.Second)
	if w := c.call(t, "GET", "/networking/v2.0/networks", ""); w.Code != http.StatusUnauthorized {
		t.Errorf("at the end: %d", w.Code)
	}
	c = login(t, s, "tenant")
	s.RevokeTokens()
	if w := c.call(t, "GET", "/networking/v2.0/networks", ""); w.Code != http.StatusUnauthorized {
		t.Errorf("revoked: %d", w.Code)
	}
}

func TestCallsAreCountedByPattern(t *testing.T) {
	var mu sync.Mutex
	var seen []neutrontest.Call
	s := neutrontest.New(neutrontest.Options{Tenants: []string{"other"}, OnCall: func(c neutrontest.Call) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, c)
	}})
	c := login(t, s, "other")
	s.ResetCalls()
	seen = nil
	c.call(t, "POST", "/networking/v2.0/networks", `{"networks": [{"name": "a"}, {"name": "b"}]}`)
	c.call(t, "GET", "/networking/v2.0/networks?limit=1", "")
	c.call(t, "GET", "/networking/v2.0/networks/nope", "")
	c.call(t, "PUT", "/networking/v2.0/networks/nope/tags", "{}")
	want := map[string]int{
		"POST /v2.0/networks": 1, "GET /v2.0/networks": 1, "GET /v2.0/networks/{id}": 1,
		"PUT /v2.0/networks/{id}/tags": 1,
	}
	expect.Equal(t, want, s.CallCounts(), "counts")
	expect.Equal(t, 1, s.Calls("GET", "/v2.0/networks/{id}"), "how often GET by id was counted")
	project := s.ProjectID("other")
	calls := []neutrontest.Call{
		{Method: "POST", Path: "/v2.0/networks", Items: 2, Bulk: true, Status: 201, Project: project},
		{Method: "GET", Path: "/v2.0/networks", Items: 1, Status: 200, Project: project},
		{Method: "GET", Path: "/v2.0/networks/{id}", Items: 1, Status: 404, Project: project},
		{Method: "PUT", Path: "/v2.0/networks/{id}/tags", Items: 1, Status: 400, Project: project},
	}
	expect.Equal(t, calls, seen, "calls")
}

func TestOneWorkerMakesCallsWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := neutrontest.New(neutrontest.Options{Delay: neutrontest.MeasuredDelay, Workers: 1})
		c := login(t, s, "tenant")
		start := time.Now()
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { c.call(t, "POST", "/networking/v2.0/networks", `{"network": {}}`) })
		}
		wg.Wait()
		if got, want := virtual.Since(start), 3*92*time.Millisecond; got != want {
			t.Errorf("three networks took %v, want %v", got, want)
		}
	})
}

func TestSegmentsRunOut(t *testing.T) {
	c := login(t, neutrontest.New(neutrontest.Options{Segments: 1}), "tenant")
	first := c.call(t, "POST", "/networking/v2.0/networks", `{"network": {}}`)
	w := c.call(t, "POST", "/networking/v2.0/networks", `{"network": {}}`)
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "NoNetworkAvailable") {
		t.Errorf("the second network: %d %s", w.Code, w.Body)
	}
	var body struct{ Network struct{ ID string } }
	expect.NoError(t, json.Unmarshal(first.Body.Bytes(), &body))
	c.call(t, "DELETE", "/networking/v2.0/networks/"+body.Network.ID, "")
	if w := c.call(t, "POST", "/networking/v2.0/networks", `{"network": {}}`); w.Code != http.StatusCreated {
		t.Errorf("after the first one's end: %d %s", w.Code, w.Body)
	}
}

// TestManyClientsAtOnce is for the race detector; every network must be there in the end, too.
func TestManyClientsAtOnce(t *testing.T) {
	s := neutrontest.New(neutrontest.Options{})
	c := login(t, s, "tenant")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 20 {
				name := fmt.Sprintf("n-%d-%d", i, j)
				w := c.call(t, "POST", "/networking/v2.0/networks", fmt.Sprintf(`{"network": {"name": %q}}`, name))
				var body struct{ Network struct{ ID string } }
				if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
					t.Error(err)
					return
				}
				id := body.Network.ID
				c.call(t, "POST", "/networking/v2.0/subnets",
					fmt.Sprintf(`{"subnet": {"network_id": %q, "ip_version": 4, "cidr": "10.0.0.0/24"}}`, id))
				c.call(t, "GET", "/networking/v2.0/networks?limit=5&name="+name, "")
				c.call(t, "PUT", "/networking/v2.0/networks/"+id, `{"network": {"description": "x"}}`)
				if j%2 == 0 {
					c.call(t, "DELETE", "/networking/v2.0/networks/"+id, "")
				}
			}
		})
	}
	wg.Wait()
	var body struct {
		Networks []struct{ Description string }
	}
	expect.NoError(t, json.Unmarshal(c.call(t, "GET", "/networking/v2.0/networks", "").Body.Bytes(), &body))
	if len(body.Networks) != 80 {
		t.Errorf("%d networks are left, want 80", len(body.Networks))
	}
}

// BenchmarkPage cuts pages of 500 out of 50,000 networks of one project.
func BenchmarkPage(b *testing.B) {
	s := neutrontest.New(neutrontest.Options{})
	c := login(b, s, "tenant")
	bulk := `{"networks": [` + strings.Repeat(`{"name": "n"}, `, 499) + `{"name": "n"}]}`
	for range 100 {
		if w := c.call(b, "POST", "/networking/v2.0/networks", bulk); w.Code != http.StatusCreated {
			b.Fatal(w.Code)
		}
	}
	path := "/networking/v2.0/networks?project_id=" + s.ProjectID("tenant") +
		"&fields=id&fields=revision_number&sort_key=id&sort_dir=asc&limit=500"
	for b.Loop() {
		c.call(b, "GET", path, "")
	}
}
