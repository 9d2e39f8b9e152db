package faults

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/proxy"
)

// rotations are changes of the credentials while the controller runs. It is never started anew for them.
func rotations() map[string]scenario {
	return map[string]scenario{
		"the password is changed in Keystone and then in clouds.yaml": {live: (*world).lifeWithNewPassword},
		"clouds.yaml breaks and is mended: what it held before is used meanwhile": {live: func(w *world) {
			w.createNetworks()
			good := w.readClouds()
			w.replaceClouds([]byte("clouds: {"))
			w.awaitLog("cannot be used")
			w.createPort("p", "a", addressP, macP)
			w.createPort("q", "b", addressQ, macQ)
			w.awaitPort("p")
			w.replaceClouds(good)
			w.restOfLife()
		}},
		"Keystone's certificate is replaced and then the CA bundle": {
			process: true, // TLS takes sockets
			prepare: (*world).trustKeystoneAlone,
			live:    (*world).lifeWithNewCertificate,
		},
		"clouds.yaml changes to another project, and back: nothing is written there": {
			live: (*world).lifeWithOtherProject,
		},
	}
}

// lifeWithNewPassword has the password changed behind the controller's back.
func (w *world) lifeWithNewPassword() {
	w.t.Helper()
	w.createNetworks()
	secret := w.auth(cloudName)["password"].(string)
	const changed = "changed-by-the-fault-suite"
	w.keystone.Break(func(c proxy.Call) bool { return bytes.Contains(c.Body, []byte(secret)) }, 0,
		refuse(http.StatusUnauthorized))
	// The cloud itself knows the old one alone.
	w.keystone.Break(func(c proxy.Call) bool { return bytes.Contains(c.Body, []byte(changed)) }, 0,
		func(x *proxy.Exchange) {
			x.Body = bytes.ReplaceAll(x.Body, []byte(changed), []byte(secret))
			proxy.Change(func(*proxy.Answer) {})(x)
		})
	w.revokeToken()
	w.createPort("p", "a", addressP, macP)
	w.createPort("q", "b", addressQ, macQ)
	w.awaitPortReason("p", cloudteamv1.ConditionStalled, cloudteamv1.ReasonCredentialsRejected)
	w.setAuth(cloudName, "password", changed)
	w.awaitPort("p")
	w.restOfLife()
}

// revokeToken has Neutron refuse the token that the controller shows next.
func (w *world) revokeToken() {
	var revoked string
	w.neutron.Break(func(c proxy.Call) bool {
		token := c.Request.Header.Get("X-Auth-Token")
		if revoked == "" {
			revoked = token
		}
		return token == revoked
	}, 0, refuse(http.StatusUnauthorized))
}

// trustKeystoneAlone puts a proxy that serves TLS in front of Keystone's, and has clouds.yaml name the certificate that
// it has now.
func (w *world) trustKeystoneAlone() {
	front := proxy.Start(proxy.Options{
		Target: w.keystone.URL(), TLS: true, Shape: func(path string) string { return path },
		Reads: func(proxy.Call) bool { return true },
	})
	w.t.Cleanup(front.Close)
	w.secureKeystone = front
	w.writeBundle()
	address, err := url.Parse(w.auth(cloudName)["auth_url"].(string))
	expect.NoError(w.t, err)
	address.Scheme, address.Host = front.URL().Scheme, front.URL().Host
	w.changeClouds(func(clouds map[string]any) {
		clouds[cloudName].(map[string]any)["cacert"] = w.bundle()
		authOf(clouds, cloudName)["auth_url"] = address.String()
	})
}

func (w *world) lifeWithNewCertificate() {
	w.t.Helper()
	w.createNetworks()
	w.secureKeystone.Renew()
	w.revokeToken()
	w.createPort("p", "a", addressP, macP)
	w.createPort("q", "b", addressQ, macQ)
	w.awaitPortReason("p", cloudteamv1.ConditionReconciling, cloudteamv1.ReasonCloudUnavailable)
	w.writeBundle()
	w.awaitPort("p")
	w.restOfLife()
}

// lifeWithOtherProject has clouds.yaml lead to the administrator's project for a while.
func (w *world) lifeWithOtherProject() {
	w.t.Helper()
	w.createNetworks()
	good := w.readClouds()
	w.changeClouds(func(clouds map[string]any) { clouds[cloudName] = clouds["admin"] })
	w.awaitStalled("a", cloudteamv1.ReasonCloudMismatch)
	writes := len(w.neutron.Writes())
	w.editA()
	harness.Await(w.t, w, w.api().Networks(w.namespace), w.name("a"), func(a *cloudteamv1.Network) error {
		if a.Status.ObservedGeneration != a.Generation {
			return fmt.Errorf("generation %d was not looked at", a.Generation)
		}
		return nil
	})
	w.awaitSilence()
	expect.Empty(w.t, w.neutron.Writes()[writes:], "it wrote to another project")
	w.replaceClouds(good)
	w.awaitNetwork(w.namespace, "a")
	w.restOfLife()
}

func (w *world) awaitLog(text string) {
	w.t.Helper()
	w.await(func() error {
		if !strings.Contains(w.process.Load().Log(), text) {
			return fmt.Errorf("the log does not say %q", text)
		}
		return nil
	})
}

func (w *world) readClouds() []byte {
	w.t.Helper()
	content, err := os.ReadFile(w.clouds)
	expect.NoError(w.t, err)
	return content
}

// replaceClouds replaces clouds.yaml at once, as a mounted Secret is.
func (w *world) replaceClouds(content []byte) {
	w.t.Helper()
	w.replaceFile(w.clouds, content)
}

func (w *world) replaceFile(path string, content []byte) {
	w.t.Helper()
	next := path + ".next"
	expect.NoError(w.t, errors.Join(os.WriteFile(next, content, 0o600), os.Rename(next, path)))
}

func (w *world) parseClouds() map[string]any {
	w.t.Helper()
	var file map[string]map[string]any
	expect.NoError(w.t, yaml.Unmarshal(w.readClouds(), &file))
	return file["clouds"]
}

func (w *world) changeClouds(change func(clouds map[string]any)) {
	w.t.Helper()
	clouds := w.parseClouds()
	change(clouds)
	content, err := yaml.Marshal(map[string]any{"clouds": clouds})
	expect.NoError(w.t, err)
	w.replaceClouds(content)
}

func authOf(clouds map[string]any, cloud string) map[string]any {
	return clouds[cloud].(map[string]any)["auth"].(map[string]any)
}

func (w *world) auth(cloud string) map[string]any {
	w.t.Helper()
	return authOf(w.parseClouds(), cloud)
}

func (w *world) setAuth(cloud, field, value string) {
	w.t.Helper()
	w.changeClouds(func(clouds map[string]any) { authOf(clouds, cloud)[field] = value })
}

func (w *world) bundle() string { return filepath.Join(filepath.Dir(w.clouds), "ca.pem") }

// writeBundle has the CA bundle name the certificate that Keystone's proxy has now.
func (w *world) writeBundle() {
	w.t.Helper()
	w.replaceFile(w.bundle(), w.secureKeystone.CertificatePEM())
}
