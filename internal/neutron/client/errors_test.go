package client

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/gophercloud/gophercloud/v2"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

// outcome is what a test holds of an *Error.
type outcome struct {
	Kind      Kind
	Text      string
	MaybeDone bool
	Wait      time.Duration
}

func outcomeOf(t *testing.T, err error) outcome {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("not an *Error: %#v", err)
	}
	return outcome{e.Kind, e.Error(), e.MaybeDone, e.Wait}
}

// call sends one request of the method.
func call(ctx context.Context, c *Cloud, method string) error {
	r := Request{Op: "test call", Method: method, Path: "networks/1"}
	if method == http.MethodPost || method == http.MethodPut {
		r.Body = map[string]any{"network": map[string]any{"name": "n"}}
	}
	return c.Do(ctx, r)
}

func neutronBody(kind, message string) string {
	return fmt.Sprintf(`{"NeutronError": {"type": %q, "message": %q, "detail": ""}}`, kind, message)
}

func TestNeutronsRefusalsBecomeKinds(t *testing.T) {
	for name, test := range map[string]struct {
		method string
		status int
		is     string
		want   Kind
	}{
		"a quota that is full waits for capacity":                    {"POST", 409, "OverQuota", Capacity},
		"addresses that are used up are no quota":                    {"POST", 409, "IpAddressGenerationFailure", Exhausted},
		"subnets that are for others are the spec's fault":           {"POST", 409, "IpAddressGenerationFailureNoMatchingSubnet", Invalid},
		"an address that is another port's is taken":                 {"POST", 409, "IpAddressAlreadyAllocated", Taken},
		"an address that is in use is taken":                         {"PUT", 409, "IpAddressInUse", Taken},
		"a MAC that is in use is taken":                              {"POST", 409, "MacAddressInUse", Taken},
		"an address outside its subnet is the spec's fault":          {"POST", 400, "InvalidIpForSubnet", Invalid},
		"a security group that is not there is the spec's fault":     {"POST", 404, "SecurityGroupNotFound", Invalid},
		"a network that is gone when a port is made":                 {"POST", 404, "NetworkNotFound", NotFound},
		"a subnet that is gone when a port is made":                  {"POST", 404, "SubnetNotFound", NotFound},
		"a port that a router has is in use":                         {"DELETE", 409, "ServicePortInUse", InUse},
		"a port with a floating IP of another project":               {"DELETE", 409, "FipAssociated", InUse},
		"a port that carries a trunk is in use":                      {"DELETE", 409, "PortInUseAsTrunkParent", InUse},
		"a port that is part of a trunk is in use":                   {"DELETE", 409, "PortInUseAsSubPort", InUse},
		"segments that are used up wait for capacity":                {"POST", 503, "NoNetworkAvailable", Capacity},
		"a network that is in use":                                   {"DELETE", 409, "NetworkInUse", InUse},
		"a subnet that is in use":                                    {"DELETE", 409, "SubnetInUse", InUse},
		"a gateway in the pools is the spec's fault":                 {"PUT", 409, "GatewayConflictWithAllocationPools", Invalid},
		"a revision that moved":                                      {"PUT", 412, "RevisionNumberConstraintFailed", Conflict},
		"a conflict of an unknown type passes":                       {"PUT", 409, "Something", Transient},
		"a bad request is the spec's fault":                          {"POST", 400, "InvalidInput", Invalid},
		"what the policy forbids":                                    {"POST", 403, "PolicyNotAuthorized", Forbidden},
		"a segment that is another network's is the spec's fault":    {"POST", 409, "VlanIdInUse", Invalid},
		"an availability zone that is missing is no missing network": {"POST", 404, "AvailabilityZoneNotFound", Invalid},
		"a network that others use cannot be taken back":             {"PUT", 409, "InvalidSharedSetting", InUse},
		"a resource that is gone":                                    {"GET", 404, "NetworkNotFound", NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeCloud(t, func(w http.ResponseWriter, _ *http.Request) {
				answer(w, test.status, neutronBody(test.is, "Its words."))
			})
			err := call(t.Context(), f.cloud(Options{}), test.method)
			want := outcome{Kind: test.want, Text: "test call: Its words (" + test.is + ")"}
			expect.Equal(t, want, outcomeOf(t, err), "the error")
		})
	}
}

func TestAnswersBecomeErrors(t *testing.T) {
	const html = "<html><body>" + canaryBody + "</body></html>"
	const foreign = ": this is no answer of Neutron, which the catalog has at URL: check region_name and interface, or " +
		"have the cloud's operator check what answers there"
	for name, test := range map[string]struct {
		method string
		status int
		// header has lines, and want's text begins with the operation.
		header, body string
		want         outcome
	}{
		"a server error with Neutron's words may have been carried out": {
			"POST", 500, "", neutronBody("HTTPInternalServerError", "Request Failed."),
			outcome{Transient, "Request Failed (HTTPInternalServerError)", true, 0},
		},
		"a server error of a read changes nothing": {
			"GET", 500, "", html, outcome{Transient, "internal server error (HTTP 500)", false, 0},
		},
		"a proxy's page is not quoted": {"PUT", 502, "", html, outcome{Transient, "bad gateway (HTTP 502)", true, 0}},
		"too many requests wait as long as is asked": {
			"POST", 429, "Retry-After: 17", "", outcome{Throttled, "too many requests (HTTP 429)", false, 17 * time.Second},
		},
		"a gateway may write a date, by its own clock": {
			"POST", 429, "Retry-After: Sun, 01 Mar 2026 12:00:17 GMT\nDate: Sun, 01 Mar 2026 12:00:00 GMT", "",
			outcome{Throttled, "too many requests (HTTP 429)", false, 17 * time.Second},
		},
		"a date that has passed is no wait": {
			"POST", 429, "Retry-After: Sun, 01 Mar 2020 12:00:17 GMT", "",
			outcome{Throttled, "too many requests (HTTP 429)", false, 0},
		},
		"too large is a throttle where it asks to wait": {
			"POST", 413, "Retry-After: 3", "", outcome{Throttled, "request entity too large (HTTP 413)", false, 3 * time.Second},
		},
		"too large is none where it does not": {
			"POST", 413, "", "", outcome{Transient, "request entity too large (HTTP 413)", false, 0},
		},
		"unavailable may ask to wait, too": {
			"GET", 503, "Retry-After: 5", "", outcome{Transient, "service unavailable (HTTP 503)", false, 5 * time.Second},
		},
		"a negative wait is none": {
			"GET", 429, "Retry-After: -5", "", outcome{Throttled, "too many requests (HTTP 429)", false, 0},
		},
		"Keystone's form is read": {
			"GET", 403, "", `{"error": {"code": 403, "title": "Forbidden", "message": "Not you."}}`,
			outcome{Forbidden, "Not you (HTTP 403)", false, 0},
		},
		"an error that is a string is not quoted": {
			"POST", 400, "", `{"NeutronError": "` + canaryBody + `"}`,
			outcome{Transient, "bad request" + foreign + " (HTTP 400)", true, 0},
		},
		"a body that breaks off is not quoted": {
			"POST", 409, "", `{"NeutronError": {"type": "OverQuota", "message": "` + canaryBody,
			outcome{Transient, "conflict" + foreign + " (HTTP 409)", true, 0},
		},
		"line breaks and control characters are taken out": {
			"POST", 400, "", `{"NeutronError": {"type": "Bad\r\nType", "message": "a\r\n\tb\u0000\u001b[31mc\u007f"}}`,
			outcome{Invalid, "a b [31mc (Bad Type)", false, 0},
		},
		"a proxy that forbids judges nothing": {
			"POST", 403, "", html, outcome{Transient, "forbidden" + foreign + " (HTTP 403)", true, 0},
		},
		"a page of another server": {
			"POST", 200, "", html, outcome{Transient, "unexpected answer" + foreign + " (HTTP 200)", true, 0},
		},
		"a redirect is not followed": {
			"GET", 302, "Location: https://other.invalid:9696/x?y", "", outcome{Transient, "Neutron at URL redirects to " +
				"https://other.invalid:9696, which is not followed: have the cloud's operator register that address in the " +
				"catalog (HTTP 302)", false, 0},
		},
		"a redirect to nowhere": {"GET", 302, "", "", outcome{Transient, "found" + foreign + " (HTTP 302)", false, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeCloud(t, func(w http.ResponseWriter, _ *http.Request) {
				for line := range strings.Lines(test.header) {
					key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
					w.Header().Set(key, value)
				}
				answer(w, test.status, test.body)
			})
			err := call(t.Context(), f.cloud(Options{}), test.method)
			test.want.Text = "test call: " + strings.ReplaceAll(test.want.Text, "URL", f.URL+"/")
			expect.Equal(t, test.want, outcomeOf(t, err), "the error")
		})
	}
}

func TestLongSentenceIsCutBetweenCharacters(t *testing.T) {
	f := newFakeCloud(t, func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusBadRequest, "InvalidInput", "x"+strings.Repeat("é", 1<<20))
	})
	err := call(t.Context(), f.cloud(Options{}), http.MethodPost)
	if err == nil || len(err.Error()) > maxReason+100 {
		t.Fatalf("%d bytes of error", len(err.Error()))
	}
	if !utf8.ValidString(err.Error()) {
		t.Errorf("a character was cut in two: %q", err)
	}
}

// breakConnection cuts the connection of a request without an answer.
func breakConnection(t testing.TB, w http.ResponseWriter, reset bool) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok && reset {
		if err := tcp.SetLinger(0); err != nil {
			t.Error(err)
		}
	}
	_ = conn.Close()
}

func TestALostConnectionMakesAWriteMaybeDone(t *testing.T) {
	for name, test := range map[string]struct {
		handle func(t testing.TB, w http.ResponseWriter, r *http.Request)
		// texts are the reasons that it may have.
		texts []string
	}{
		"the connection is reset after the request was read": {
			handle: func(t testing.TB, w http.ResponseWriter, r *http.Request) {
				_, _ = io.ReadAll(r.Body)
				breakConnection(t, w, true)
			},
			texts: []string{"test call: connection lost: connection reset by peer"},
		},
		"the connection is closed without an answer": {
			handle: func(t testing.TB, w http.ResponseWriter, r *http.Request) {
				_, _ = io.ReadAll(r.Body)
				breakConnection(t, w, false)
			},
			texts: []string{"test call: the answer broke off"},
		},
		"the answer breaks off": {
			handle: func(_ testing.TB, w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Length", "1000")
				w.WriteHeader(okCodes[r.Method][0])
				_, _ = w.Write([]byte(`{"net`))
			},
			texts: []string{"test call: the answer broke off"},
		},
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
			if method == http.MethodDelete && name == "the answer breaks off" {
				continue // 204 has no body that could break off
			}
			t.Run(name+"/"+method, func(t *testing.T) {
				f := newFakeCloud(t, func(w http.ResponseWriter, r *http.Request) { test.handle(t, w, r) })
				c := f.cloud(Options{})
				for range 3 {
					got := outcomeOf(t, call(t.Context(), c, method))
					want := outcome{Kind: Transient, Text: got.Text, MaybeDone: method != http.MethodGet}
					expect.Equal(t, want, got, "the error")
					expect.Contains(t, strings.Join(test.texts, "\n"), got.Text, "the texts, one of which it is")
				}
			})
		}
	}
}

func TestACallWithoutAnAnswerInTimeMayBeDone(t *testing.T) {
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, c := inBubble(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, Options{Timeout: time.Minute})
				defer c.Close()
				got := outcomeOf(t, call(t.Context(), c, method))
				want := outcome{Kind: Transient, Text: "test call: no answer in time", MaybeDone: method != http.MethodGet}
				expect.Equal(t, want, got, "the error")
			})
		})
	}
}

func TestAnUnsentWriteIsNotMaybeDone(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	expect.NoError(t, err)
	address := closed.Addr().String()
	expect.NoError(t, closed.Close())
	for name, test := range map[string]struct{ base, text string }{
		"nobody listens": {
			"http://" + address + "/v2.0/", "test call: connecting to " + address + ": connection refused",
		},
		"the name is not known": {"http://neutron.invalid/v2.0/", "test call: looking up host neutron.invalid: "},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeCloud(t, nil)
			c := f.cloud(Options{})
			if _, err := c.Identity(t.Context()); err != nil {
				t.Fatal(err)
			}
			c.session.Load().base = test.base
			var texts []string
			for range 2 {
				got := outcomeOf(t, call(t.Context(), c, http.MethodPost))
				if got.MaybeDone || got.Kind != Transient || !strings.HasPrefix(got.Text, test.text) {
					t.Errorf("got %+v, want a transient error that was not carried out: %s", got, test.text)
				}
				texts = append(texts, got.Text)
			}
			expect.Equal(t, texts[1], texts[0], "the text of another attempt")
		})
	}
}

func TestCallEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := newFakeCloud(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	c := f.cloud(Options{})
	if _, err := c.Identity(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := call(ctx, c, http.MethodGet)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the error is not context.Canceled: %v", err)
	}
	expect.Equal(t, "test call: canceled", outcomeOf(t, err).Text, "the text")
}

func TestErrorsHoldNoSecrets(t *testing.T) {
	for name, handle := range map[string]http.HandlerFunc{
		"a page that repeats the request's headers": func(w http.ResponseWriter, r *http.Request) {
			answer(w, http.StatusBadGateway, "<html>"+r.Header.Get("X-Auth-Token")+canaryBody)
		},
		"an answer of the wrong type": func(w http.ResponseWriter, r *http.Request) {
			answer(w, okCodes[r.Method][0], `{"network": "`+canaryBody+`"}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeCloud(t, handle)
			c := f.cloud(Options{})
			_, err := Get[listed](t.Context(), c, "get network", networkList, nil, "1")
			checkNoSecrets(t, err)
		})
	}
}

func TestForeignErrorsAreTransient(t *testing.T) {
	for name, err := range map[string]error{"nil": nil, "another": errors.New("x"), "a context's": context.Canceled} {
		if KindOf(err) != Transient || IsNotFound(err) || IsConflict(err) || MaybeDone(err) {
			t.Errorf("%s is %v", name, KindOf(err))
		}
	}
	wrapped := fmt.Errorf("around: %w", &Error{Kind: NotFound, MaybeDone: true})
	if KindOf(wrapped) != NotFound || !IsNotFound(wrapped) || !MaybeDone(wrapped) {
		t.Error("an error of ours is not found in another")
	}
}

func TestAKeystoneErrorIsNoNeutronError(t *testing.T) {
	// Every status that Neutron would mean something by, from whatever stands in Keystone's place.
	const page = "<html>default backend</html>"
	for _, status := range []int{400, 401, 403, 404, 409, 412, 413, 429, 500, 502, 503} {
		for _, body := range []string{
			page, `{"error": {"message": "Could not find it."}}`,
			neutronBody("NetworkNotFound", "Network could not be found."),
		} {
			f := newFakeCloud(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusNoContent, "") })
			login := f.cloud(Options{})
			c := f.cloud(Options{})
			if _, err := c.Identity(t.Context()); err != nil {
				t.Fatal(err)
			}
			f.Revoke()
			f.Set(func() { f.Keystone = func(w http.ResponseWriter, _ *http.Request) { answer(w, status, body) } })

			_, loginErr := login.Identity(t.Context())
			deleteErr := call(t.Context(), c, http.MethodDelete)
			for what, err := range map[string]error{"logging in": loginErr, "deleting with an old token": deleteErr} {
				if err == nil {
					t.Errorf("%s: Keystone's %d passed for success (%s)", what, status, body)
					continue
				}
				want := map[int]Kind{400: Invalid, 401: Unauthenticated, 403: Unauthenticated, 429: Throttled}[status]
				if status == http.StatusBadRequest && body == page { // nobody that knows log-ins has judged this one
					want = Transient
				}
				if got := outcomeOf(t, err); got.Kind != want || got.MaybeDone {
					t.Errorf("%s: Keystone's %d gives %v (may be done: %t), want %v and not done: %v",
						what, status, got.Kind, got.MaybeDone, want, err)
				}
			}
		}
	}
}

func TestA404FromAProxyIsNotNotFound(t *testing.T) {
	// A proxy that lost its backends answers 404, too. A network must not pass for deleted for it.
	for _, body := range []string{"", "default backend - 404", "<html>Not Found</html>", "{}", `{"NeutronError": {}}`} {
		f := newFakeCloud(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusNotFound, body) })
		c := f.cloud(Options{})
		err := call(t.Context(), c, http.MethodGet)
		if IsNotFound(err) || KindOf(err) != Transient {
			t.Errorf("a read that is answered with 404 and %q is %v", body, KindOf(err))
		}
		err = call(t.Context(), c, http.MethodDelete)
		if err == nil || IsNotFound(err) {
			t.Errorf("a delete that is answered with 404 and %q passes for done: %v", body, err)
		}
	}
}

func TestSuccessOfAnotherKindMayHaveBeenCarriedOut(t *testing.T) {
	for _, test := range []struct {
		method string
		status int
	}{{"POST", 200}, {"POST", 202}, {"POST", 204}, {"PUT", 201}, {"PUT", 202}, {"DELETE", 200}, {"DELETE", 202}} {
		f := newFakeCloud(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, test.status, "") })
		got := outcomeOf(t, call(t.Context(), f.cloud(Options{}), test.method))
		if got.Kind != Transient || !got.MaybeDone {
			t.Errorf("%s answered with %d: %+v, want a transient error that may have been carried out",
				test.method, test.status, got)
		}
	}
}

func TestHugeRetryAfterIsAnHour(t *testing.T) {
	for _, seconds := range []string{"3601", "9223372036", "9223372037", "9223372036854775807"} {
		expect.Equal(t, time.Hour, retryAfter(http.Header{"Retry-After": {seconds}}), "Retry-After: %s", seconds)
	}
}

func TestStatusWithoutANameHasAReason(t *testing.T) {
	f := newFakeCloud(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, 499, "") })
	got := outcomeOf(t, call(t.Context(), f.cloud(Options{}), http.MethodGet))
	if want := "test call: unexpected answer: this is no answer of Neutron"; !strings.HasPrefix(got.Text, want) {
		t.Errorf("text is %q, want %q", got.Text, want)
	}
}

func TestSentenceOfOthersIsOnePrintableLine(t *testing.T) {
	for in, want := range map[string]string{
		"a\u0085b\u2028c\u2029d": "a b c d",
		"a\u009b31mb":            "a 31mb",
		"gnp\u202e.exe":          "gnp .exe",
		"zero\u200bwidth":        "zero width",
		" . ":                    "",
		"naïve Größe 網路":         "naïve Größe 網路",
	} {
		expect.Equal(t, want, OneLine(in), "what becomes of %q", in)
	}
}

func TestAnswerThatIsNoHTTPIsNotQuoted(t *testing.T) {
	for name, raw := range map[string]string{
		"another protocol":    canaryBody + " 2.0\r\n\r\n",
		"no status":           "HTTP/1.1 " + canaryBody + "\r\n\r\n",
		"a header of no form": "HTTP/1.1 200 OK\r\n" + canaryBody + "\r\n\r\n",
		"a length of no form": "HTTP/1.1 200 OK\r\nContent-Length: " + canaryBody + "\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeCloud(t, func(w http.ResponseWriter, _ *http.Request) {
				conn, _, err := w.(http.Hijacker).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.WriteString(conn, raw)
				_ = conn.Close()
			})
			checkNoSecrets(t, call(t.Context(), f.cloud(Options{}), http.MethodGet))
		})
	}
}

// selfSigned makes a certificate for 127.0.0.1 that is valid for the given time.
func selfSigned(t *testing.T, notBefore, notAfter time.Time) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	expect.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: notBefore, NotAfter: notAfter, IPAddresses: []net.IP{{127, 0, 0, 1}},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	expect.NoError(t, err)
	parsed, err := x509.ParseCertificate(der)
	expect.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func TestExpiredCertificateGivesOneTextAtAllTimes(t *testing.T) {
	day := 24 * time.Hour
	noon := time.Date(2020, 5, 6, 12, 0, 0, 0, time.UTC)
	certificate, pool := selfSigned(t, noon.Add(-day), noon)
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)

	var texts []string
	for _, now := range []time.Time{noon.Add(day), noon.Add(2 * day)} {
		credentials := passwordCredentials(server.URL+"/v3", canaryPassword)
		credentials.tls = &tls.Config{RootCAs: pool, Time: func() time.Time { return now }}
		c := NewCloud(credentials, Options{})
		_, err := c.Identity(t.Context())
		texts = append(texts, outcomeOf(t, err).Text)
	}
	expect.Equal(t, texts[1], texts[0], "the text at another time")
	if !strings.Contains(texts[0], "expired") || !strings.Contains(texts[0], "2020-05-06T12:00:00Z") {
		t.Errorf("the text does not say when the certificate expired: %s", texts[0])
	}
}

// TestUnknownAuthorityNamesTheRemedy has credentials that trust another CA of the same name than the server's.
func TestUnknownAuthorityNamesTheRemedy(t *testing.T) {
	now := time.Now()
	certificate, _ := selfSigned(t, now.Add(-time.Hour), now.Add(time.Hour))
	_, other := selfSigned(t, now.Add(-time.Hour), now.Add(time.Hour))
	const untrusted = ": certificate signed by unknown authority: "
	for name, test := range map[string]struct {
		ofSecret bool
		want     string
	}{
		"the operator's credentials": {want: untrusted + "set cloud.ca of the chart, or cacert in clouds.yaml, to the " +
			"certificate of the CA that signed it"},
		"a Secret's credentials": {true, untrusted + "put the certificate of the CA that signed it into the key cacert of " +
			"the Secret"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeCloud(t, noContent)
			server := httptest.NewUnstartedServer(f)
			server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
			server.Config.ErrorLog = log.New(io.Discard, "", 0)
			server.StartTLS()
			t.Cleanup(server.Close)
			cloud := func(authURL string) *Cloud {
				credentials := passwordCredentials(authURL, canaryPassword)
				credentials.tls = &tls.Config{RootCAs: other}
				if test.ofSecret {
					credentials.to = confinement(t, false, server.URL, f.URL)
				}
				c := NewCloud(credentials, Options{})
				t.Cleanup(c.Close)
				return c
			}
			_, err := cloud(server.URL + "/v3").Identity(t.Context())
			if got := outcomeOf(t, err); !strings.HasSuffix(got.Text, test.want) {
				t.Errorf("Keystone: got %q, want it to end with %q", got.Text, test.want)
			}
			f.Endpoints = []endpoint{{Interface: "public", Region: "one", RegionID: "one", URL: server.URL}}
			err = call(t.Context(), cloud(f.credentials().auth().IdentityEndpoint), http.MethodPost)
			want := outcome{Kind: Transient, Text: "test call" + test.want}
			expect.Equal(t, want, outcomeOf(t, err), "Neutron")
		})
	}
}

func TestCallsDoNotShareOneConnection(t *testing.T) {
	// A connection of HTTP/2 carries all calls: once it hangs, they all do, and the texts of its errors number streams.
	var protocol atomic.Value
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protocol.Store(r.Proto)
		http.NotFound(w, r)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	credentials := passwordCredentials(server.URL+"/v3", canaryPassword)
	credentials.tls = server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	credentials.tls.NextProtos = nil
	if _, err := NewCloud(credentials, Options{}).Identity(t.Context()); err == nil {
		t.Fatal("a log-in with 404 passed")
	}
	expect.Equal(t, "HTTP/1.1", protocol.Load(), "the protocol of the call")
}

// endless answers with the status and a body that has no end. It counts the bytes that the client took.
func endless(w http.ResponseWriter, status int, taken *atomic.Int64) {
	w.WriteHeader(status)
	chunk := []byte(strings.Repeat(" ", 1<<20))
	for {
		n, err := w.Write(chunk)
		taken.Add(int64(n))
		if err != nil {
			return
		}
	}
}

func TestAnswerWithoutEndIsCutOff(t *testing.T) {
	const most = 1 << 20
	// Sockets and buffers hold some of what is not read.
	const taken = most + 32<<20
	for name, test := range map[string]struct{ login, call int }{
		"a success": {call: http.StatusOK},
		"a refusal": {call: http.StatusInternalServerError},
		"a log-in":  {login: http.StatusCreated},
	} {
		t.Run(name, func(t *testing.T) {
			var bytes atomic.Int64
			f := newFakeCloud(t, func(w http.ResponseWriter, _ *http.Request) { endless(w, test.call, &bytes) })
			if test.login != 0 {
				f.Keystone = func(w http.ResponseWriter, _ *http.Request) { endless(w, test.login, &bytes) }
			}
			c := f.cloud(Options{})
			limited := c.access.Load().transport.(bounded)
			limited.bytes = most
			c.access.Load().transport = limited
			_, err := Get[listed](t.Context(), c, "get network", networkList, nil, "1")
			if got := outcomeOf(t, err); strings.Contains(got.Text, "no answer in time") {
				t.Errorf("the answer was read until the time was up: %s", got.Text)
			}
			if test.call != http.StatusInternalServerError && !strings.Contains(err.Error(), "larger than the limit of 1 MiB") {
				t.Errorf("it does not name the limit: %v", err)
			}
			if bytes.Load() > taken {
				t.Errorf("%d bytes were taken", bytes.Load())
			}
		})
	}
}

// TestAnErrorHasTheIDOfItsRequest takes only what looks like OpenStack's ids: it is for conditions and logs.
func TestAnErrorHasTheIDOfItsRequest(t *testing.T) {
	const id = "req-0b5c2a2e-3c1c-4b52-9d4e-0a0b0c0d0e0f"
	for header, want := range map[string]string{
		id: id, "": "", "req-1": "", "secret " + id: "", id + "\tforged": "",
	} {
		e := translate("create network", http.MethodPost, gophercloud.ErrUnexpectedResponseCode{
			Actual: http.StatusConflict, Body: []byte(neutronBody("OverQuota", "full")),
			ResponseHeader: http.Header{"X-Openstack-Request-Id": {header}},
		})
		if e.RequestID() != want || strings.Contains(e.Error(), "req-") {
			t.Errorf("%q: the id %q, want %q; the text is %s", header, e.RequestID(), want, e)
		}
	}
}
