package client

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestReplaceTakesEffectForLaterCalls(t *testing.T) {
	f := newFakeCloud(t, noNetworks)
	c := NewCloud(passwordCredentials(f.URL+"/v3", "old"), Options{})
	if _, err := c.Identity(t.Context()); KindOf(err) != Unauthenticated {
		t.Fatalf("got %v", err)
	}
	expect.NoError(t, c.Replace(t.Context(), f.credentials()))
	t.Cleanup(c.Close)
	// The failure from before does not stand.
	if _, err := listNetworks(t.Context(), c); err != nil {
		t.Error(err)
	}
	f.Revoke()
	if _, err := listNetworks(t.Context(), c); err != nil {
		t.Errorf("the token is not renewed with them: %v", err)
	}
}

func TestRefusedCredentialsReplaceNothing(t *testing.T) {
	f := newFakeCloud(t, noNetworks)
	c := f.cloud(Options{})
	for range 5 {
		if err := c.Replace(t.Context(), passwordCredentials(f.URL+"/v3", "wrong")); KindOf(err) != Unauthenticated {
			t.Fatalf("got %v", err)
		}
		if _, err := listNetworks(t.Context(), c); err != nil {
			t.Errorf("those in use were lost: %v", err)
		}
		f.Revoke()
	}
}

func TestReplaceClosesIdleConnections(t *testing.T) {
	var mu sync.Mutex
	open := map[string]bool{}
	f := newFakeCloud(t, noNetworks)
	seen := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(open)
	}
	inner := f.Config.Handler
	f.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		open[r.RemoteAddr] = true
		mu.Unlock()
		inner.ServeHTTP(w, r)
	})
	c := f.cloud(Options{})
	if _, err := listNetworks(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if _, err := listNetworks(t.Context(), c); err != nil || seen() != 1 {
		t.Fatalf("%d connections, %v", seen(), err)
	}
	expect.NoError(t, c.Replace(t.Context(), f.credentials()))
	if _, err := listNetworks(t.Context(), c); err != nil || seen() != 2 {
		t.Errorf("%d connections, want one of the old credentials and one of the new, %v", seen(), err)
	}
}

// TestAChangedCABundleIsDetectedAndUsed has the server's certificate trusted only after the file was rewritten.
func TestAChangedCABundleIsDetectedAndUsed(t *testing.T) {
	f := newFakeCloud(t, noNetworks)
	secure := httptest.NewTLSServer(f)
	t.Cleanup(secure.Close)
	f.Endpoints = []endpoint{{Interface: "public", Region: "one", RegionID: "one", URL: secure.URL}}
	dir := t.TempDir()
	bundle := filepath.Join(dir, "ca.pem")
	write := func(path string, content []byte) {
		expect.NoError(t, os.WriteFile(path, content, 0o600))
	}
	write(filepath.Join(dir, "clouds.yaml"), fmt.Appendf(nil, "clouds: {c: {cacert: %s, auth: {auth_url: %s/v3, "+
		"username: u, password: %s, project_id: project-1, user_domain_name: d}}}", bundle, secure.URL, canaryPassword))
	t.Setenv("OS_CLIENT_CONFIG_FILE", filepath.Join(dir, "clouds.yaml"))
	foreign, _ := pemPair(t)
	write(bundle, foreign)
	load := func() Credentials {
		credentials, err := LoadCredentials("c")
		expect.NoError(t, err)
		return credentials
	}
	first := load()
	if !first.SameAs(load()) {
		t.Error("files that have not changed are taken for others")
	}
	c := NewCloud(first, Options{})
	if _, err := c.Identity(t.Context()); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Fatalf("got %v", err)
	}
	write(bundle, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}))
	second := load()
	if first.SameAs(second) {
		t.Error("a rewritten CA bundle is taken for the same")
	}
	expect.NoError(t, c.Replace(t.Context(), second))
	t.Cleanup(c.Close)
	if _, err := listNetworks(t.Context(), c); err != nil {
		t.Error(err)
	}
}

func TestAChangeInEachFileIsDetected(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		expect.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	entry := "clouds: {c: {auth: {auth_url: http://k.invalid/v3, username: u, project_id: p, user_domain_name: d}}}"
	write("clouds.yaml", entry)
	write("secure.yaml", "clouds: {c: {auth: {password: one}}}")
	t.Setenv("OS_CLIENT_CONFIG_FILE", filepath.Join(dir, "clouds.yaml"))
	last, err := LoadCredentials("c")
	expect.NoError(t, err)
	for name, content := range map[string]string{
		"clouds.yaml": strings.Replace(entry, "project_id: p", "project_id: q", 1), "secure.yaml": "clouds: {c: {auth: {password: two}}}",
	} {
		write(name, content)
		next, err := LoadCredentials("c")
		expect.NoError(t, err)
		if next.SameAs(last) {
			t.Errorf("a change of %s goes unnoticed", name)
		}
		last = next
	}
	if (Credentials{}).SameAs(Credentials{}) {
		t.Error("credentials from nowhere are the same")
	}
}
