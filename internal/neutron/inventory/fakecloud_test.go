package inventory

import (
	"net/http"
	"testing"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client/clienttest"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/virtual"
)

const canaryBody = clienttest.Body

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

// fakeCloud is a clienttest.Cloud and how to reach it.
type fakeCloud struct {
	*clienttest.Cloud
	t testing.TB
}

func newFakeCloud(t testing.TB, neutron http.HandlerFunc) *fakeCloud {
	t.Helper()
	return &fakeCloud{clienttest.NewCloud(t, neutron), t}
}

// credentials lead to the cloud with the right password.
func (f *fakeCloud) credentials() client.Credentials {
	f.t.Helper()
	here, err := client.NewConfinement([]string{f.URL}, client.Credentials{}, false)
	expect.NoError(f.t, err)
	secret := map[string][]byte{client.SecretClouds: []byte(f.CloudsYAML())}
	credentials, err := client.SecretCredentials("test", secret, "", here)
	expect.NoError(f.t, err)
	return credentials
}

// cloud is a client of the fake with short deadlines.
func (f *fakeCloud) cloud(options client.Options) *client.Cloud {
	if options.Timeout == 0 {
		options.Timeout = 20 * time.Second
	}
	c := client.NewCloud(f.credentials(), options)
	f.t.Cleanup(c.Close)
	return c
}

// inBubble is a fake cloud without sockets, for tests in virtual time.
func inBubble(t testing.TB, neutron http.HandlerFunc, options client.Options) (*fakeCloud, *client.Cloud) {
	f := &fakeCloud{clienttest.Unserved(neutron), t}
	if options.Transport == nil {
		options.Transport = direct{Handler: f}
	}
	return f, client.NewCloud(f.credentials(), options)
}
