package client

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gophercloud/gophercloud/v2"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestIdentityEndpointsMatchSchemeHostPortAndPathSegments(t *testing.T) {
	for sentence, c := range map[string]struct {
		allowed string
		yes, no []string
	}{
		"a URL is a prefix": {
			"https://keystone.test:5000/identity",
			[]string{"https://keystone.test:5000/identity", "https://KEYSTONE.test:5000/identity/v3",
				"https://keystone.test.:5000/identity/"},
			[]string{"http://keystone.test:5000/identity", "https://keystone.test/identity", "https://keystone.test:5000/",
				"https://keystone.test:5000/identity2", "https://keystone.test:5000/identity/../x",
				"https://keystone.test:5000/identity/%2e%2e/x", "https://keystone.test:5000/identity//x",
				"https://u@keystone.test:5000/identity", "https://keystone.test.evil:5000/identity"},
		},
		"a URL without a port has its scheme's": {
			"http://keystone.test",
			[]string{"http://keystone.test/v3", "http://keystone.test:80/v3"},
			[]string{"http://keystone.test:5000/v3", "https://keystone.test:80/v3"},
		},
		"a host is https at any port": {
			"keystone.test",
			[]string{"https://keystone.test/v3", "https://keystone.test:5000/identity/v3"},
			[]string{"http://keystone.test/v3", "https://other.test/v3", "https://x.keystone.test/v3"},
		},
		"a host and port are https at that port": {
			"[fd00::1]:5000", []string{"https://[fd00::1]:5000/v3"}, []string{"https://[fd00::1]/v3"},
		},
		"a star is all that are endpoints": {
			"*", []string{"http://a.test", "https://b.test/v3"}, []string{"ftp://a.test", "https:///v3", "keystone.test"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			confined := confinement(t, false, c.allowed)
			for want, addresses := range map[bool][]string{true: c.yes, false: c.no} {
				for _, address := range addresses {
					u, err := url.Parse(address)
					expect.NoError(t, err)
					expect.Equal(t, want, confined.allows(u), "%s is allowed", address)
				}
			}
		})
	}
	for _, bad := range []string{
		"", "ftp://x", "https://", "keystone.test/v3", "https://u:p@x", "https://x/?q", "https://x/a/../b", "https://x#f",
	} {
		if _, err := NewConfinement([]string{bad}, Credentials{}, false); err == nil ||
			!strings.Contains(err.Error(), "write a URL such as") {
			t.Errorf("%q is taken for an endpoint: %v", bad, err)
		}
	}
}

func TestTheDefaultAllowsOnlyTheOwnIdentityEndpoint(t *testing.T) {
	own := newCredentials("own", gophercloud.AuthOptions{IdentityEndpoint: "https://Own.test:5000/identity/v3"},
		gophercloud.EndpointOpts{}, nil)
	for sentence, c := range map[string]struct {
		own    Credentials
		allows bool
	}{
		"with its server": {own, true}, "without one, none": {Credentials{}, false},
	} {
		confined, err := NewConfinement(nil, c.own, false)
		expect.NoError(t, err)
		for address, want := range map[string]bool{
			"https://own.test:5000/identity/v3": c.allows, "https://own.test:5000/": c.allows,
			"https://own.test/identity/v3": false, "https://other.test:5000/": false,
		} {
			u, err := url.Parse(address)
			expect.NoError(t, err)
			expect.Equal(t, want, confined.allows(u), "%s: %s is allowed", sentence, address)
		}
	}
}

func TestMetadataLinkLocalAndLoopbackAddressesAreRefused(t *testing.T) {
	for address, says := range map[string]string{
		"169.254.169.254": "link-local", "169.254.0.1": "link-local", "fe80::1": "link-local", "fe80::1%eth0": "link-local",
		"::ffff:169.254.169.254": "link-local", "64:ff9b::a9fe:a9fe": "link-local", "2002:a9fe:a9fe::1": "link-local",
		"fd00:ec2::254": "metadata", "fd20:ce::254": "metadata", "100.100.100.200": "metadata", "168.63.129.16": "metadata",
		"64:ff9b::6464:64c8": "metadata", "192.0.0.192": "metadata", "fd00:ec2::250": "metadata",
		"fd00:ec2:1:2::3": "metadata", "64:ff9b:1::a9fe:a9fe": "link-local", "::a9fe:a9fe": "link-local",
		"::ffff:0:a9fe:a9fe": "link-local", "2002:7f00:1::": "loopback", "64:ff9b::7f00:1": "loopback",
		"::ffff:100.100.100.200": "metadata", "2002:a83f:8110::1": "metadata", "64:ff9b::c000:c0": "metadata",
		"0.0.0.0": "unspecified", "::": "unspecified", "224.0.0.1": "multicast", "ff02::1": "multicast",
		"127.0.0.1": "loopback", "::1": "loopback", "::ffff:127.0.0.1": "loopback",
		"10.0.0.1": "", "192.168.1.1": "", "fd00::1": "", "2001:db8::1": "", "64:ff9b::a00:1": "",
	} {
		got := confinement(t, false, "*").refuses(netip.MustParseAddr(address))
		if !strings.Contains(got, says) || (got == "") != (says == "") {
			t.Errorf("%s is refused as %q, want %q", address, got, says)
		}
	}
	for _, local := range []string{"http://localhost:5000", "https://127.0.0.1", "[::1]:5000"} {
		confined := confinement(t, false, local)
		expect.Equal(t, "", confined.refuses(netip.MustParseAddr("127.0.0.1")), "why loopback is refused where the operator allows %s", local)
		if confined.refuses(netip.MustParseAddr("169.254.169.254")) == "" {
			t.Errorf("metadata is to be had where the operator allows %s", local)
		}
	}
}

func TestConfinedCredentialsStayWithHTTPS(t *testing.T) {
	for sentence, c := range map[string]struct {
		endpoint string
		confined bool
		want     string
	}{
		"an http endpoint behind an https Keystone": {"http://neutron.test/", true, "without https"},
		"an endpoint of another scheme":             {"ftp://neutron.test/", true, "without https"},
		"https for both":                            {"https://neutron.test/", true, ""},
		"the operator's own, which have no limits":  {"http://neutron.test/", false, ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			f := newFakeCloud(t, noContent)
			f.Endpoints = []endpoint{{Interface: "public", Region: "r", URL: c.endpoint}}
			cloud := confinedTo(t, "https://keystone.test/v3", "*")
			access := cloud.access.Load()
			access.transport = direct{Handler: f}
			if !c.confined {
				access.credentials.to = nil
			}
			_, err := cloud.Identity(t.Context())
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			checkNoSecrets(t, err)
			if KindOf(err) != Invalid || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestALogInDoesNotLeaveHTTPS(t *testing.T) {
	var sent atomic.Int64
	f := newFakeCloud(t, noContent)
	cloud := confinedTo(t, "https://keystone.test", "*")
	cloud.access.Load().transport = direct{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Scheme == "http" {
			sent.Add(1)
		}
		if r.Method == http.MethodPost {
			f.ServeHTTP(w, r)
			return
		}
		answer(w, http.StatusMultipleChoices, `{"versions": {"values": [{"id": "v3.14", "status": "stable",
			"links": [{"rel": "self", "href": "http://keystone.test/v3/"}]}]}}`)
	})}
	_, err := cloud.Identity(t.Context())
	checkNoSecrets(t, err)
	if KindOf(err) != Invalid || sent.Load() != 0 {
		t.Errorf("%d requests left https: %v", sent.Load(), err)
	}
}

// confinedTo makes a Cloud of a user's credentials at a fake cloud, to which the given endpoints are allowed.
func confinedTo(t *testing.T, authURL string, allowed ...string) *Cloud {
	t.Helper()
	auth := strings.ReplaceAll(passwordAuth, allowedKeystone+"/v3", authURL)
	credentials, err := SecretCredentials("team/x", secretOf(entryOf(auth, "")), "", confinement(t, false, allowed...))
	expect.NoError(t, err)
	return NewCloud(credentials, Options{})
}

func TestConfinedCredentialsReachOnlyAllowedAddresses(t *testing.T) {
	for sentence, c := range map[string]struct {
		prepare func(f *fakeCloud)
		// path is the auth_url's; allowed are endpoints, none for that of the fake cloud.
		path    string
		allowed []string
		// byName has the fake cloud's host named, and not its address.
		byName bool
		kind   Kind
		want   string
	}{
		"to where they may": {path: "/v3"},
		"not to loopback, where any endpoint is allowed and none of those": {
			path: "/v3", allowed: []string{"*"}, kind: Invalid, want: "127.0.0.1 is a loopback address",
		},
		"not by a name that leads to loopback": {
			path: "/v3", allowed: []string{"*"}, byName: true, kind: Invalid, want: "is a loopback address",
		},
		"not where the catalog leads to link-local addresses": {
			path: "/v3", kind: Invalid, want: "169.254.169.254 is a link-local address",
			prepare: func(f *fakeCloud) {
				f.Endpoints = []endpoint{{Interface: "public", Region: "r", URL: "http://169.254.169.254/"}}
			},
		},
		"not where Keystone redirects": {
			path: "/v3", want: "HTTP 307",
			prepare: func(f *fakeCloud) {
				f.Keystone = func(w http.ResponseWriter, r *http.Request) {
					http.Redirect(w, r, "http://other.invalid/v3/auth/tokens", http.StatusTemporaryRedirect)
				}
			},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			f := newFakeCloud(t, noContent)
			if c.prepare != nil {
				c.prepare(f)
			}
			if c.allowed == nil {
				c.allowed = []string{f.URL}
			}
			address := f.URL + c.path
			if c.byName {
				address = strings.ReplaceAll(address, "127.0.0.1", "localhost")
			}
			err := confinedTo(t, address, c.allowed...).Do(t.Context(), Request{
				Op: "delete network", Method: http.MethodDelete, Path: "networks/x",
			})
			if c.want == "" {
				expect.NoError(t, err)
				return
			}
			checkNoSecrets(t, err)
			if got := outcomeOf(t, err); got.Kind != c.kind || got.MaybeDone || !strings.Contains(err.Error(), c.want) {
				t.Errorf("it is %v (may be done: %t), want %v that says %q: %v", got.Kind, got.MaybeDone, c.kind, c.want, err)
			}
		})
	}
}

func TestALogInFollowsNoVersionDocumentToAnotherEndpoint(t *testing.T) {
	elsewhere := newFakeCloud(t, noContent)
	here := newFakeCloud(t, noContent)
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusMultipleChoices, `{"versions": {"values": [{"id": "v3.14", "status": "stable",
			"links": [{"rel": "self", "href": "`+elsewhere.URL+`/v3/"}]}]}}`)
	})
	here.Config.Handler = mux
	_, err := confinedTo(t, here.URL, here.URL).Identity(t.Context())
	checkNoSecrets(t, err)
	if got := outcomeOf(t, err); got.Kind != Invalid || !strings.Contains(err.Error(), "--allowed-identity-endpoints") {
		t.Errorf("it is %v: %v", got.Kind, err)
	}
	expect.Equal(t, int64(0), elsewhere.Logins.Load(), "log-ins that were sent elsewhere")
}
