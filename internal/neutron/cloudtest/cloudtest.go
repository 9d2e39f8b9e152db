// Package cloudtest opens an emulated Keystone and Neutron for tests, by a clouds.yaml as users do.
package cloudtest

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
)

// Emulated gives a tenant and an administrator of a new emulated cloud, until the test ends. Its clouds.yaml is that of
// OS_CLIENT_CONFIG_FILE from then on. middleware, if not nil, is in front of the cloud.
func Emulated(
	t *testing.T, options neutrontest.Options, middleware func(http.Handler) http.Handler,
) (tenant, admin *client.Cloud) {
	t.Helper()
	listener, err := neutrontest.New(options).Listen("127.0.0.1:0", middleware)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	if err := os.WriteFile(file, []byte(listener.CloudsYAML()), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("OS_CLIENT_CONFIG_FILE", file)
	for name, to := range map[string]**client.Cloud{"tenant": &tenant, "admin": &admin} {
		credentials, err := client.LoadCredentials(name)
		if err != nil {
			t.Fatal(err)
		}
		*to = client.NewCloud(credentials, client.Options{})
	}
	return tenant, admin
}
