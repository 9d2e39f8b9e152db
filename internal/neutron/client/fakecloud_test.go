package client

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client/clienttest"
	"cloudteam.ztgame.com/network-controller/test/virtual"
)

// Secrets of the tests. No error and no printed value may contain them.
const (
	canaryPassword = clienttest.Password
	canaryToken    = clienttest.Token
	canaryBody     = clienttest.Body
)

type (
	endpoint = clienttest.Endpoint
	direct   = clienttest.Direct
)

var (
	answer = clienttest.Answer
	refuse = clienttest.Refuse
	elapse = virtual.Elapse

	checkNoSecrets = clienttest.CheckNoSecrets
)

// noNetworks is a Neutron that stores nothing.
func noNetworks(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodPost:
		answer(w, http.StatusCreated, `{"network": {"id": "made"}}`)
	case strings.Contains(r.URL.Path, "/networks/"):
		refuse(w, http.StatusNotFound, "NetworkNotFound", "Network could not be found.")
	default:
		answer(w, http.StatusOK, `{"networks": [], "extensions": []}`)
	}
}

// fakeCloud is a clienttest.Cloud with its credentials.
type fakeCloud struct {
	*clienttest.Cloud
	t testing.TB
}

func newFakeCloud(t testing.TB, neutron http.HandlerFunc) *fakeCloud {
	t.Helper()
	return &fakeCloud{clienttest.NewCloud(t, neutron), t}
}

// credentials returns the valid credentials of the cloud.
func (f *fakeCloud) credentials() Credentials {
	return passwordCredentials(f.URL+"/v3", canaryPassword)
}

func passwordCredentials(authURL, password string) Credentials {
	return newCredentials("test", gophercloud.AuthOptions{
		IdentityEndpoint: authURL, Username: "u", Password: password, DomainID: "default", AllowReauth: true,
		Scope: &gophercloud.AuthScope{ProjectID: clienttest.ProjectID},
	}, gophercloud.EndpointOpts{}, nil)
}

// cloud returns a client of the fake with a short timeout.
func (f *fakeCloud) cloud(options Options) *Cloud {
	if options.Timeout == 0 {
		options.Timeout = 20 * time.Second
	}
	c := NewCloud(f.credentials(), options)
	f.t.Cleanup(c.Close)
	return c
}

// inBubble returns a fake cloud without sockets, for tests in virtual time.
func inBubble(t testing.TB, neutron http.HandlerFunc, options Options) (*fakeCloud, *Cloud) {
	f := &fakeCloud{clienttest.Unserved(neutron), t}
	if options.Transport == nil {
		options.Transport = direct{Handler: f}
	}
	return f, NewCloud(f.credentials(), options)
}
