package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"cloudteam.ztgame.com/network-controller/internal/redact"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/virtual"
)

// noContent is a Neutron that answers any call as it does a deletion.
func noContent(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

// expire has the token of a client that has logged in expire.
func (f *fakeCloud) expire(c *Cloud) {
	f.t.Helper()
	if _, err := c.Identity(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	f.Revoke()
}

// quoteRequest refuses a request with all that it brought in Keystone's sentence.
func quoteRequest(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	text, err := json.Marshal(fmt.Sprint(r.Header, string(body)))
	if err != nil {
		panic(err) // it is a string
	}
	answer(w, http.StatusUnauthorized, `{"error": {"message": `+string(text)+`}}`)
}

func TestAQuotedTokenIsRedacted(t *testing.T) {
	f := newFakeCloud(t, quoteRequest)
	_, err := listNetworks(t.Context(), f.cloud(Options{}))
	checkNoSecrets(t, err)
	expect.ErrorSays(t, err, redact.Placeholder)
}

func TestFailedLogInSaysWhy(t *testing.T) {
	says := func(status int, body string) func(f *fakeCloud) {
		return func(f *fakeCloud) {
			f.Keystone = func(w http.ResponseWriter, _ *http.Request) { answer(w, status, body) }
		}
	}
	redirects := func(to string, status int) func(f *fakeCloud) {
		return func(f *fakeCloud) { f.Keystone = http.RedirectHandler(to, status).ServeHTTP }
	}
	for name, test := range map[string]struct {
		prepare  func(f *fakeCloud)
		password string
		path     string
		region   string
		kind     Kind
		mention  []string
	}{
		"a wrong password": {
			password: "wrong", kind: Unauthenticated,
			mention: []string{"The request you have made requires authentication", "HTTP 401", "check auth_url, user, password"},
		},
		"an address that is not Keystone's": {path: "/elsewhere/v3", mention: []string{"HTTP 404", "no answer of Keystone: set auth_url"}},
		"a dashboard, with /v3": {
			prepare: says(http.StatusOK, "<html>"+canaryBody),
			mention: []string{"unexpected answer: this is no answer of Keystone: set auth_url", "dashboard", "HTTP 200"},
		},
		"a dashboard that forbids forms of others": {
			prepare: says(http.StatusForbidden, "<html>"+canaryBody),
			kind:    Unauthenticated, mention: []string{"no answer of Keystone: set auth_url", "HTTP 403"},
		},
		"a dashboard": {path: "/page", mention: []string{"unexpected answer: this is no answer of Keystone: set auth_url"}},
		"a dashboard that wants a log-in": {
			prepare: redirects("/auth/login/?next="+canaryToken, http.StatusFound),
			mention: []string{"redirects to http://", "/auth/login/, which is not followed", "HTTP 302"},
		},
		"a token without a project": {
			prepare: func(f *fakeCloud) { f.Unscoped = true }, kind: Invalid, mention: []string{"project_name"},
		},
		"a catalog without Neutron": {
			prepare: func(f *fakeCloud) { f.Endpoints = []endpoint{} }, kind: Invalid,
			mention: []string{"no network service", "public"},
		},
		"a region that is not there": {
			region: "nowhere", kind: Invalid, mention: []string{`region "nowhere"`, "region_name"},
		},
		"a redirect": {
			prepare: redirects("https://keystone.invalid/v3/auth/tokens?x=y", http.StatusTemporaryRedirect),
			mention: []string{"redirects to https://keystone.invalid/v3, which is not followed", "write it as auth_url", "HTTP 307"},
		},
		"an answer that is no token": {prepare: says(http.StatusCreated, canaryBody)},
		"a refusal that quotes the log-in": {
			prepare: func(f *fakeCloud) { f.Keystone = quoteRequest },
			kind:    Unauthenticated, mention: []string{redact.Placeholder, "HTTP 401"},
		},
		"a token without an id": {prepare: says(http.StatusCreated, "{}"), kind: Invalid, mention: []string{"project_name"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeCloud(t, noContent)
			if test.prepare != nil {
				test.prepare(f)
			}
			credentials := passwordCredentials(f.URL+cmp.Or(test.path, "/v3"), cmp.Or(test.password, canaryPassword))
			credentials.endpoint.Region = test.region
			c := NewCloud(credentials, Options{})
			_, err := c.Identity(t.Context())
			checkNoSecrets(t, err)
			got := outcomeOf(t, err)
			if got.Kind != test.kind || got.MaybeDone {
				t.Errorf("it is %v (may be done: %t), want %v: %v", got.Kind, got.MaybeDone, test.kind, err)
			}
			for _, part := range append(test.mention, `log in to cloud "test"`) {
				expect.ErrorSays(t, err, part)
			}
		})
	}
}

func TestKeystoneV2IsRefusedInWords(t *testing.T) {
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusMultipleChoices, fmt.Sprintf(`{"versions": {"values": [{"id": "v2.0", "status": "stable",
			"links": [{"rel": "self", "href": "%s/v2.0/"}]}]}}`, server.URL))
	})
	mux.HandleFunc("/v2.0/tokens", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, `{"access": {"token": {"id": "`+canaryToken+`", "expires": "2099-01-01T00:00:00Z"},
			"serviceCatalog": []}}`)
	})
	credentials := newCredentials("test", gophercloud.AuthOptions{
		IdentityEndpoint: server.URL, Username: "u", Password: canaryPassword, TenantName: "t",
	}, gophercloud.EndpointOpts{}, nil)
	_, err := NewCloud(credentials, Options{}).Identity(t.Context())
	checkNoSecrets(t, err)
	if KindOf(err) != Invalid || !strings.Contains(err.Error(), "/v3") {
		t.Errorf("the error does not say that v3 is needed: %v", err)
	}
}

func TestEndpointIsTheOneThatIsAskedFor(t *testing.T) {
	all := []endpoint{
		{Interface: "admin", Region: "one", RegionID: "one", URL: "http://admin.one.invalid:9696"},
		{Interface: "internal", Region: "one", RegionID: "one", URL: "http://internal.one.invalid:9696"},
		{Interface: "public", Region: "one", RegionID: "one", URL: "http://public.one.invalid:9696"},
		{Interface: "public", Region: "two", RegionID: "two", URL: "http://public.two.invalid/networking/"},
		{Interface: "internal", Region: "two", RegionID: "two", URL: "http://internal.two.invalid/v2.0"},
	}
	for name, test := range map[string]struct {
		region string
		iface  gophercloud.Availability
		want   Identity
	}{
		"public is the default": {region: "one", want: Identity{"http://public.one.invalid:9696/", "one", "project-1"}},
		"a region picks its own": {
			region: "two", want: Identity{"http://public.two.invalid/networking/", "two", "project-1"},
		},
		"an interface picks its own": {
			region: "two", iface: gophercloud.AvailabilityInternal,
			want: Identity{"http://internal.two.invalid/v2.0/", "two", "project-1"},
		},
		"an interface that is in one region alone needs no region": {
			iface: gophercloud.AvailabilityAdmin, want: Identity{"http://admin.one.invalid:9696/", "one", "project-1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeCloud(t, noContent)
			f.Endpoints = all
			credentials := f.credentials()
			credentials.endpoint = gophercloud.EndpointOpts{Region: test.region, Availability: test.iface}
			got, err := NewCloud(credentials, Options{}).Identity(t.Context())
			expect.NoError(t, err)
			expect.Equal(t, test.want, got, "the identity")
		})
	}
}

func TestVersionIsInThePathOnce(t *testing.T) {
	for _, suffix := range []string{"", "/", "/v2.0", "/v2.0/", "/networking", "/networking/v2.0/"} {
		t.Run("endpoint with "+suffix, func(t *testing.T) {
			var path atomic.Value
			f := newFakeCloud(t, func(w http.ResponseWriter, r *http.Request) {
				path.Store(r.URL.Path)
				noContent(w, r)
			})
			f.Endpoints = []endpoint{{Interface: "public", Region: "one", RegionID: "one", URL: f.URL + suffix}}
			expect.NoError(t, call(t.Context(), f.cloud(Options{}), http.MethodDelete))
			want := strings.TrimSuffix(strings.TrimSuffix(suffix, "/"), "/v2.0") + "/v2.0/networks/1"
			expect.Equal(t, want, path.Load(), "path")
		})
	}
}

func TestRedirectDoesNotCarryTheTokenAway(t *testing.T) {
	var reached atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	t.Cleanup(elsewhere.Close)
	for _, status := range []int{301, 302, 303, 307, 308} {
		f := newFakeCloud(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL+"/v2.0/networks/1", status)
		})
		c := f.cloud(Options{})
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
			if err := call(t.Context(), c, method); err == nil || MaybeDone(err) {
				t.Errorf("%s answered with %d: %v", method, status, err)
			}
		}
	}
	expect.Equal(t, int64(0), reached.Load(), "calls went to where they were redirected")
}

func TestManyFirstUsersLogInOnce(t *testing.T) {
	f := newFakeCloud(t, noContent)
	c := f.cloud(Options{})
	var group sync.WaitGroup
	for range 32 {
		group.Go(func() {
			if err := call(t.Context(), c, http.MethodDelete); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	expect.Equal(t, int64(1), f.Logins.Load(), "log-ins")
}

func TestOldTokenIsRenewedOnceAndTheCallRepeatedOnce(t *testing.T) {
	var served atomic.Int64
	f := newFakeCloud(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method == http.MethodPost && len(body) == 0 {
			t.Error("the call was repeated without its body")
		}
		served.Add(1)
		answer(w, okCodes[r.Method][0], "{}")
	})
	c := f.cloud(Options{})
	f.expire(c)
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			if err := call(t.Context(), c, http.MethodPost); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if f.Logins.Load() != 2 || served.Load() != 16 {
		t.Errorf("%d log-ins and %d calls were served, want 2 and 16", f.Logins.Load(), served.Load())
	}
}

func TestFreshTokenThatIsRefusedEndsThere(t *testing.T) {
	var calls atomic.Int64
	f := newFakeCloud(t, func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		answer(w, http.StatusUnauthorized, "")
	})
	c := f.cloud(Options{})
	err := call(t.Context(), c, http.MethodPost)
	got := outcomeOf(t, err)
	want := outcome{Kind: Unauthenticated, Text: "test call: unauthorized: Neutron at " + f.URL + "/ refuses the token that " +
		"Keystone has just issued, so the credentials are right: have the cloud's operator check how Neutron verifies " +
		"tokens, or correct region_name if you mean another Neutron (HTTP 401)"}
	expect.Equal(t, want, got, "the error")
	expect.Equal(t, unanswered, signOf(t.Context(), err), "what it shows of the cloud")
	if calls.Load() != 2 || f.Logins.Load() != 2 {
		t.Errorf("%d calls and %d log-ins, want 2 and 2", calls.Load(), f.Logins.Load())
	}
}

func TestATokenThatCannotBeRenewedAsksForAnother(t *testing.T) {
	f := newFakeCloud(t, noContent)
	c := f.cloud(Options{})
	f.expire(c)
	c.session.Load().renewable = false
	err := call(t.Context(), c, http.MethodPost)
	if got := outcomeOf(t, err); got.Kind != Unauthenticated || !strings.Contains(got.Text, "write a new one") {
		t.Errorf("it is %+v", got)
	}
}

// TestANeutronThatRefusesAllTokensIsAnOutage also keeps Keystone from a log-in for each call.
func TestANeutronThatRefusesAllTokensIsAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := inBubble(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusUnauthorized, "") }, Options{})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go c.Run(ctx)
		var err error
		for range 100 {
			err = call(t.Context(), c, http.MethodPost)
			synctest.Wait()
		}
		if !errors.Is(err, ErrOutage) || !strings.Contains(err.Error(), "the credentials are right") {
			t.Errorf("the last call: %v", err)
		}
		if logins := f.Logins.Load(); logins > 2*suspicious {
			t.Errorf("%d log-ins for 100 calls", logins)
		}
	})
}

func TestCallThatBreaksAfterARenewalMayBeDone(t *testing.T) {
	f := newFakeCloud(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusBadGateway, "") })
	c := f.cloud(Options{})
	f.expire(c)
	got := outcomeOf(t, call(t.Context(), c, http.MethodPost))
	want := outcome{Kind: Transient, Text: "test call: bad gateway (HTTP 502)", MaybeDone: true}
	expect.Equal(t, want, got, "the error")
}

func TestCallsAreCounted(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	f := newFakeCloud(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusConflict, "") })
	c := f.cloud(Options{Called: func(call Call) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, fmt.Sprintf("%s: %t", call.Op, call.Err == nil))
	}})
	_ = call(t.Context(), c, http.MethodDelete)
	expect.Equal(t, []string{"log in: true", "test call: false"}, seen, "calls")
}

// TestFailedLogInsAreNotHammered also holds that a failure stands for a while only.
func TestFailedLogInsAreNotHammered(t *testing.T) {
	for name, renewal := range map[string]bool{"the first log-in": false, "a renewal": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, c := inBubble(t, noContent, Options{})
				if renewal {
					f.expire(c)
				}
				before := f.Logins.Load()
				f.Set(func() {
					f.Keystone = func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusUnauthorized, "") }
				})
				for range 100 {
					if err := call(t.Context(), c, http.MethodDelete); KindOf(err) != Unauthenticated {
						t.Fatalf("got %v", err)
					}
				}
				expect.Equal(t, int64(1), f.Logins.Load()-before, "log-ins with a wrong password at once")
				elapse(loginPause)
				_ = call(t.Context(), c, http.MethodDelete)
				expect.Equal(t, int64(2), f.Logins.Load()-before, "log-ins after the first pause")
				for range 3600 {
					_ = call(t.Context(), c, http.MethodDelete)
					elapse(time.Second)
				}
				if got, most := f.Logins.Load()-before, int64(time.Hour/loginPauseLast)+5; got > most {
					t.Errorf("%d log-ins with a wrong password in an hour, want at most %d", got, most)
				}
				f.Set(func() { f.Keystone = nil })
				elapse(loginPauseLast)
				if err := call(t.Context(), c, http.MethodDelete); err != nil {
					t.Errorf("it does not recover: %v", err)
				}
			})
		})
	}
}

func TestOneCallersLeavingDoesNotCancelTheRenewalOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := inBubble(t, noContent, Options{})
		f.expire(c)
		f.Set(func() {
			f.Keystone = func(w http.ResponseWriter, r *http.Request) {
				elapse(10 * time.Second)
				f.LogIn(w, r)
			}
		})
		leaving, leave := context.WithCancel(t.Context())
		first := make(chan error, 1)
		go func() { first <- call(leaving, c, http.MethodDelete) }()
		synctest.Wait()
		second := make(chan error, 1)
		go func() { second <- call(t.Context(), c, http.MethodDelete) }()
		synctest.Wait()
		began := time.Now()
		leave()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("the one that left got %v", err)
		}
		expect.Equal(t, time.Duration(0), virtual.Since(began), "the one that left was held for")
		if err := <-second; err != nil {
			t.Errorf("the one that stayed got %v", err)
		}
	})
}

func TestWaitingForALogInEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := inBubble(t, noContent, Options{})
		f.Keystone = func(w http.ResponseWriter, r *http.Request) {
			elapse(time.Minute)
			f.LogIn(w, r)
		}
		done := make(chan error, 1)
		go func() {
			_, err := c.Identity(t.Context())
			done <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, err := c.Identity(ctx)
		expect.Equal(t, time.Second, virtual.Since(began), "a caller with a second to wait waited")
		want := outcome{Text: `log in to cloud "test" at http://cloud.invalid/v3: no answer in time`}
		expect.Equal(t, want, outcomeOf(t, err), "the error")
		if err := <-done; err != nil {
			t.Errorf("the log-in failed: %v", err)
		}
	})
}

func TestOneCallersDeadlineIsNoFailedLogInForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := inBubble(t, noContent, Options{})
		f.Keystone = func(w http.ResponseWriter, r *http.Request) {
			elapse(10 * time.Second)
			f.LogIn(w, r)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Identity(ctx); err == nil {
			t.Fatal("a log-in of 10 s passed in one")
		}
		if _, err := c.Identity(t.Context()); err != nil {
			t.Errorf("another got the outcome of a deadline that was not its own: %v", err)
		}
	})
}

func TestSeveralRegionsWithoutAChoiceAreRefused(t *testing.T) {
	// Keystone gives no order for its catalog: to take the first would spread networks over the regions.
	f := newFakeCloud(t, noContent)
	f.Endpoints = []endpoint{
		{Interface: "public", Region: "two", RegionID: "two", URL: "http://two.invalid:9696"},
		{Interface: "public", Region: "one", RegionID: "one", URL: "http://one.invalid:9696"},
	}
	_, err := f.cloud(Options{}).Identity(t.Context())
	if KindOf(err) != Invalid ||
		!strings.Contains(err.Error(), "one, two") || !strings.Contains(err.Error(), "region_name") {
		t.Errorf("the error does not ask to choose one of the regions one, two: %v", err)
	}
}
