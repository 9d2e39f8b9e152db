package contract

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

const wrongCredentials = "The request you have made requires authentication."

// keystoneRefuses fails the test unless the answer is Keystone's refusal with the status and the beginning of the
// message.
func keystoneRefuses(t *testing.T, a answer, status int, title, message string) {
	t.Helper()
	e, _ := a.body["error"].(object)
	got, _ := e["message"].(string)
	if a.status != status || e["code"] != float64(status) || e["title"] != title || !strings.HasPrefix(got, message) {
		t.Errorf("got %d %s, want %d with title %q and a message that begins with %q", a.status, a.raw, status, title, message)
	}
}

func TestKeystoneTellsItsVersion(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		s := c.tenant
		a, err := s.send("GET", c.authURL, nil, nil)
		expect.NoError(t, err)
		version := a.must(t, http.StatusOK).part(t, "version")
		if got, _ := version["id"].(string); !strings.HasPrefix(got, "v3.") || version["status"] != "stable" {
			t.Errorf("version = %v, want a stable v3", version)
		}
		links, _ := version["links"].([]any)
		expect.Equal(t, []any{object{"rel": "self", "href": c.authURL + "/"}}, links, "links")
		root := strings.TrimSuffix(c.authURL, "/v3") + "/"
		if a, err = s.send("GET", root, nil, nil); err != nil {
			t.Fatal(err)
		}
		a.must(t, http.StatusMultipleChoices).part(t, "versions")
	})
}

func TestPasswordGivesToken(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		s := c.tenant
		before := time.Now().Add(-time.Minute)
		a, err := s.send("POST", c.authURL+"/auth/tokens", s.credentials(), nil)
		expect.NoError(t, err)
		token := a.must(t, http.StatusCreated).part(t, "token")
		if a.header.Get("X-Subject-Token") == "" {
			t.Error("no X-Subject-Token")
		}
		issued, err := time.Parse(time.RFC3339Nano, token["issued_at"].(string))
		if err != nil || issued.Before(before) {
			t.Errorf("issued_at = %v (%v)", token["issued_at"], err)
		}
		expires, err := time.Parse(time.RFC3339Nano, token["expires_at"].(string))
		if err != nil || !expires.After(issued) {
			t.Errorf("expires_at = %v (%v), want later than %v", token["expires_at"], err, issued)
		}
		type endpoint struct{ Service, Interface, Region string }
		got := map[endpoint]bool{}
		for _, service := range token["catalog"].([]any) {
			for _, e := range service.(object)["endpoints"].([]any) {
				e := e.(object)
				got[endpoint{service.(object)["type"].(string), e["interface"].(string), e["region"].(string)}] = true
			}
		}
		for _, service := range []string{"identity", "network"} {
			for _, face := range []string{"public", "internal", "admin"} {
				if !got[endpoint{service, face, "RegionOne"}] {
					t.Errorf("the catalog has no %s endpoint of %s in RegionOne", face, service)
				}
			}
		}

		user := token["user"].(object)
		project := token["project"].(object)
		byID := object{"auth": object{
			"identity": object{"methods": []string{"password"}, "password": object{"user": object{
				"id": id(user), "password": s.config.Auth.Password,
			}}},
			"scope": object{"project": object{"id": id(project)}},
		}}
		if a, err = s.send("POST", c.authURL+"/auth/tokens", byID, nil); err != nil {
			t.Fatal(err)
		}
		a.must(t, http.StatusCreated)
	})
}

func TestKeystoneRefusesToLogIn(t *testing.T) {
	user := func(s *session, change object) object {
		return with(object{"name": s.config.Auth.Username, "password": s.config.Auth.Password,
			"domain": object{"id": "default"}}, change)
	}
	login := func(user object, scope any) object {
		auth := object{"identity": object{"methods": []string{"password"}, "password": object{"user": user}}}
		if scope != nil {
			auth["scope"] = scope
		}
		return object{"auth": auth}
	}
	for name, test := range map[string]struct {
		body    func(c *cloud) any
		status  int
		title   string
		message string
	}{
		"a wrong password": {
			func(c *cloud) any { return login(user(c.tenant, object{"password": "wrong"}), nil) },
			http.StatusUnauthorized, "Unauthorized", wrongCredentials,
		},
		"a user that does not exist": {
			func(c *cloud) any { return login(user(c.tenant, object{"name": "nobody"}), nil) },
			http.StatusUnauthorized, "Unauthorized", wrongCredentials,
		},
		"a domain that does not exist": {
			func(c *cloud) any { return login(user(c.tenant, object{"domain": object{"name": "nowhere"}}), nil) },
			http.StatusUnauthorized, "Unauthorized", wrongCredentials,
		},
		"a project that does not exist": {
			func(c *cloud) any { return login(user(c.tenant, nil), object{"project": object{"id": "nope"}}) },
			http.StatusUnauthorized, "Unauthorized", wrongCredentials,
		},
		"a project in which the user has no role": {
			func(c *cloud) any {
				return login(user(c.tenant, nil), object{"project": object{"id": c.admin.project}})
			},
			http.StatusUnauthorized, "Unauthorized", wrongCredentials,
		},
		"a user name without a domain": {
			func(c *cloud) any { return login(object{"name": "tenant", "password": "x"}, nil) },
			http.StatusBadRequest, "Bad Request", "Expecting to find domain in user.",
		},
		"a project name without a domain": {
			func(c *cloud) any { return login(user(c.tenant, nil), object{"project": object{"name": "tenant"}}) },
			http.StatusBadRequest, "Bad Request", "Expecting to find domain in project.",
		},
		"no method": {
			func(*cloud) any { return object{"auth": object{"identity": object{"methods": []string{}}}} },
			http.StatusUnauthorized, "Unauthorized", wrongCredentials,
		},
		"a body without auth": {
			func(*cloud) any { return object{"a": 1} },
			http.StatusBadRequest, "Bad Request", "Expecting to find auth in request body.",
		},
		"a body that is not JSON": {
			func(*cloud) any { return "x" },
			http.StatusBadRequest, "Bad Request", "Expecting to find valid JSON in request body.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			onEveryCloud(t, func(t *testing.T, c *cloud) {
				a, err := c.tenant.send("POST", c.authURL+"/auth/tokens", test.body(c), nil)
				expect.NoError(t, err)
				keystoneRefuses(t, a, test.status, test.title, test.message)
			})
		})
	}
}

func TestShowAndRevokeToken(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		s := c.tenant
		tokens := c.authURL + "/auth/tokens"
		a, err := s.send("POST", tokens, s.credentials(), nil)
		expect.NoError(t, err)
		mine := a.header.Get("X-Subject-Token")
		ask := func(method, token, subject string) answer {
			t.Helper()
			a, err := s.send(method, tokens, nil, http.Header{"X-Auth-Token": {token}, "X-Subject-Token": {subject}})
			expect.NoError(t, err)
			return a
		}
		ask("GET", mine, mine).must(t, http.StatusOK).part(t, "token")
		ask("HEAD", mine, mine).must(t, http.StatusOK)
		keystoneRefuses(t, ask("GET", mine, c.admin.token), http.StatusForbidden, "Forbidden",
			"You are not authorized to perform the requested action: identity:validate_token.")
		keystoneRefuses(t, ask("GET", c.admin.token, "no-token"), http.StatusNotFound, "Not Found", "")
		ask("GET", c.admin.token, mine).must(t, http.StatusOK)
		ask("DELETE", mine, mine).must(t, http.StatusNoContent)
		keystoneRefuses(t, ask("GET", mine, mine), http.StatusUnauthorized, "Unauthorized", wrongCredentials)
		keystoneRefuses(t, s.do(t, "GET", "/v2.0/networks", nil, "X-Auth-Token", mine),
			http.StatusUnauthorized, "Unauthorized", wrongCredentials)
	})
}

func TestNeutronRequiresToken(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		for _, token := range []string{"", "no-token"} {
			a := c.tenant.do(t, "GET", "/v2.0/networks", nil, "X-Auth-Token", token)
			keystoneRefuses(t, a, http.StatusUnauthorized, "Unauthorized", wrongCredentials)
			if h := a.header.Get("WWW-Authenticate"); !strings.HasPrefix(h, `Keystone uri="http`) {
				t.Errorf("WWW-Authenticate = %q", h)
			}
		}
	})
}
