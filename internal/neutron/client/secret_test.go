package client

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

const allowedKeystone = "https://keystone.test:5000"

// confinement allows the given identity endpoints, and allowedKeystone where there are none.
func confinement(t *testing.T, insecure bool, allowed ...string) *Confinement {
	t.Helper()
	if len(allowed) == 0 {
		allowed = []string{allowedKeystone}
	}
	c, err := NewConfinement(allowed, Credentials{}, insecure)
	expect.NoError(t, err)
	return c
}

// entryOf is a clouds.yaml of one entry, with more lines in auth and beside it.
func entryOf(auth, beside string) string {
	indented := func(lines, by string) string {
		var all strings.Builder
		for line := range strings.Lines(lines) {
			all.WriteString(by + line)
		}
		return all.String()
	}
	return "clouds:\n  mine:\n    auth:\n" + indented(auth, "      ") + "\n" + indented(beside, "    ") + "\n"
}

const passwordAuth = "auth_url: " + allowedKeystone + "/v3\nusername: u\npassword: " + canaryPassword +
	"\nproject_name: p\nuser_domain_name: d\nproject_domain_id: i"

func secretOf(cloudsYAML string) map[string][]byte {
	return map[string][]byte{SecretClouds: []byte(cloudsYAML)}
}

func TestASecretIsReadAsACloudsYAML(t *testing.T) {
	// None of them is read.
	for _, variable := range []string{
		"OS_CACERT", "OS_CERT", "OS_KEY", "OS_REGION_NAME", "OS_INTERFACE", "OS_CLOUD", "OS_CLIENT_CONFIG_FILE",
	} {
		t.Setenv(variable, "/nonexistent")
	}
	for sentence, c := range map[string]struct {
		auth, beside string
		want         gophercloud.AuthOptions
		endpoint     gophercloud.EndpointOpts
	}{
		"a password, scoped to a project by its name": {
			passwordAuth, "region_name: r\ninterface: internal",
			gophercloud.AuthOptions{
				Username: "u", Password: canaryPassword, DomainName: "d", AllowReauth: true,
				Scope: &gophercloud.AuthScope{ProjectName: "p", DomainID: "i"},
			},
			gophercloud.EndpointOpts{Region: "r", Availability: gophercloud.AvailabilityInternal},
		},
		"an application credential": {
			"auth_url: " + allowedKeystone + "/v3\napplication_credential_id: a\napplication_credential_secret: " +
				canaryPassword, "auth_type: v3applicationcredential\nendpoint_type: adminURL",
			gophercloud.AuthOptions{
				ApplicationCredentialID: "a", ApplicationCredentialSecret: canaryPassword, AllowReauth: true,
			},
			gophercloud.EndpointOpts{Availability: gophercloud.AvailabilityAdmin},
		},
		"a token, which cannot be renewed": {
			"auth_url: " + allowedKeystone + "/v3\ntoken: " + canaryToken + "\nproject_id: p", "verify: true",
			gophercloud.AuthOptions{
				TokenID: canaryToken, Scope: &gophercloud.AuthScope{ProjectID: "p"},
			},
			gophercloud.EndpointOpts{},
		},
		"a trust": {
			"auth_url: " + allowedKeystone + "/v3\nuser_id: u\npassword: " + canaryPassword + "\ntrust_id: t", "",
			gophercloud.AuthOptions{
				UserID: "u", Password: canaryPassword, AllowReauth: true, Scope: &gophercloud.AuthScope{TrustID: "t"},
			},
			gophercloud.EndpointOpts{},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			for _, entry := range []string{"", "mine"} {
				got, err := SecretCredentials("team/x", secretOf(entryOf(c.auth, c.beside)), entry, confinement(t, false))
				expect.NoError(t, err)
				c.want.IdentityEndpoint = allowedKeystone + "/v3"
				expect.Equal(t, c.want, got.auth(), "what is sent")
				expect.Equal(t, c.endpoint, got.endpoint, "what is looked for in the catalog")
				if text := fmt.Sprintf("%v %+v %#v", got, got, got); strings.Contains(text, canaryPassword) ||
					!strings.Contains(text, `cloud "team/x"`) {
					t.Errorf("it is printed as %s", text)
				}
			}
		})
	}
}

func TestWhatASecretLacksIsSaidWithoutWhatItHas(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	expect.NoError(t, os.WriteFile(file, []byte(canaryBody), 0o600))
	two := entryOf(passwordAuth, "") + "  other:\n    auth: {}\n"
	for sentence, c := range map[string]struct {
		data    map[string][]byte
		entry   string
		allowed []string
		want    string
	}{
		"it has no clouds.yaml":        {map[string][]byte{"x": nil}, "", nil, "no key clouds.yaml: add it"},
		"clouds.yaml is no YAML":       {secretOf("clouds: {" + canaryPassword), "", nil, "not valid YAML"},
		"clouds.yaml is another file":  {secretOf("users: []"), "", nil, `no entry below "clouds:": add one`},
		"a value is of another form":   {secretOf("clouds: {mine: {auth: " + canaryPassword + "}}"), "", nil, "line 1"},
		"the entry is not there":       {secretOf(two), "third", nil, `no entry "third": add it, or name another`},
		"there are two, and none said": {secretOf(two), "", nil, "has 2 entries: name one of them in spec.cloud.name"},
		"there is no auth":             {secretOf("clouds: {mine: {}}"), "", nil, "auth.auth_url is missing: add it"},
		"the CA bundle is a file":      {secretOf(entryOf(passwordAuth, "cacert: "+file)), "", nil, "cacert names something outside the Secret"},
		"the certificate is a file":    {secretOf(entryOf(passwordAuth, "cert: "+file)), "", nil, "key cert of the Secret"},
		"the key is a file":            {secretOf(entryOf(passwordAuth, "key: "+file)), "", nil, "key named key of the Secret"},
		"nothing is verified":          {secretOf(entryOf(passwordAuth, "verify: false")), "", nil, "--permit-insecure-clouds"},
		"nothing is to be secure":      {secretOf(entryOf(passwordAuth, "insecure: true")), "", nil, "--permit-insecure-clouds"},
		"a region leads elsewhere": {
			secretOf(entryOf(passwordAuth, "regions: [{name: r, values: {auth: {auth_url: 'https://"+canaryBody+".test'}}}]")),
			"", nil, "no identity endpoint",
		},
		"the CA bundle is none": {
			map[string][]byte{SecretClouds: []byte(entryOf(passwordAuth, "")), SecretCACert: []byte(canaryBody)}, "", nil,
			"key cacert holds no certificate",
		},
		"the certificate has no key": {
			map[string][]byte{SecretClouds: []byte(entryOf(passwordAuth, "")), SecretCert: []byte(canaryBody)}, "", nil,
			"add the certificate's key",
		},
		"the key has no certificate": {
			map[string][]byte{SecretClouds: []byte(entryOf(passwordAuth, "")), SecretKey: []byte(canaryBody)}, "", nil,
			"add the client's certificate",
		},
		"certificate and key are none": {
			map[string][]byte{
				SecretClouds: []byte(entryOf(passwordAuth, "")), SecretCert: []byte(canaryBody), SecretKey: []byte(canaryBody),
			}, "", nil, "no certificate in PEM with the key",
		},
		"Keystone is another": {
			secretOf(entryOf(strings.ReplaceAll(passwordAuth, "keystone.test", canaryBody+".test"), "")), "", nil,
			"write one below https://keystone.test:5000, or have the operator add it to --allowed-identity-endpoints",
		},
		"a user is in the address, whatever is allowed": {
			secretOf(entryOf(strings.ReplaceAll(passwordAuth, "https://", "https://"+canaryBody+"@"), "")), "",
			[]string{"*"}, "no identity endpoint",
		},
		"the address is no URL, whatever is allowed": {
			secretOf(entryOf("auth_url: "+canaryPassword, "")), "", []string{"*"}, "write one below an http or https URL",
		},
		"the address is a file's, whatever is allowed": {
			secretOf(entryOf("auth_url: file://"+file, "")), "", []string{"*"}, "no identity endpoint",
		},
		"the password is missing": {
			secretOf(entryOf(strings.ReplaceAll(passwordAuth, "password:", "x-password:"), "")), "", nil,
			"the password is missing: give auth.password",
		},
		"the user's domain is missing": {
			secretOf(entryOf(strings.ReplaceAll(passwordAuth, "user_domain_name", "x"), "")), "", nil,
			"give auth.user_domain_name or auth.user_domain_id",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			_, err := SecretCredentials("team/x", c.data, c.entry, confinement(t, false, c.allowed...))
			checkNoSecrets(t, err)
			if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "OS_") {
				t.Errorf("error %q, want %q and no variable", err, c.want)
			}
		})
	}
}

func TestASecretBringsItsOwnCertificates(t *testing.T) {
	cert, key := pemPair(t)
	data := secretOf(entryOf(passwordAuth, "verify: false"))
	data[SecretCACert], data[SecretCert], data[SecretKey] = cert, cert, key
	got, err := SecretCredentials("team/x", data, "", confinement(t, true))
	expect.NoError(t, err)
	if got.tls.RootCAs == nil || len(got.tls.Certificates) != 1 || !got.tls.InsecureSkipVerify {
		t.Errorf("CA bundle %t, %d client certificates, insecure %t", got.tls.RootCAs != nil, len(got.tls.Certificates),
			got.tls.InsecureSkipVerify)
	}
	if _, err := tls.X509KeyPair(cert, key); err != nil {
		t.Fatal(err)
	}
}

func TestSameAsComparesEverythingThatALogInUses(t *testing.T) {
	cert, key := pemPair(t)
	read := func(data map[string][]byte, entry string) Credentials {
		t.Helper()
		c, err := SecretCredentials("team/x", data, entry, confinement(t, false))
		expect.NoError(t, err)
		return c
	}
	was := read(secretOf(entryOf(passwordAuth, "")), "")
	unread := secretOf(entryOf(passwordAuth, ""))
	unread["other"] = []byte("x")
	if !was.SameAs(read(unread, "")) {
		t.Error("a key that is not read makes them others")
	}
	if !was.SameAs(read(secretOf(entryOf(passwordAuth, "")), "mine")) {
		t.Error("the only entry, by its name, differs from itself")
	}
	trusting := secretOf(entryOf(passwordAuth, ""))
	trusting[SecretCACert] = cert
	withCert := secretOf(entryOf(passwordAuth, ""))
	withCert[SecretCert], withCert[SecretKey] = cert, key
	for name, other := range map[string]Credentials{
		"another region":         read(secretOf(entryOf(passwordAuth, "region_name: r")), ""),
		"another CA bundle":      read(trusting, ""),
		"a client's certificate": read(withCert, ""),
		"another password":       read(secretOf(entryOf(strings.Replace(passwordAuth, canaryPassword, "other", 1), "")), ""),
	} {
		if was.SameAs(other) {
			t.Errorf("%s makes no difference", name)
		}
	}
}

// pemPair is a certificate that signs itself, and its key.
func pemPair(t *testing.T) (cert, key []byte) {
	t.Helper()
	certificate, _ := selfSigned(t, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	encoded, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	expect.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
}

// TestASecretCostsLittleMemory: who may write Secrets must not fill the controller's memory with one.
func TestASecretCostsLittleMemory(t *testing.T) {
	for what, content := range map[string]string{
		"regions":         "clouds: {a: {regions: [" + strings.Repeat("a,", 32<<10-20) + "]}}",
		"regions by name": "x: &x [" + strings.Repeat("a,", 1000) + "]\nclouds:\n" + many(200, "  c%d: {regions: *x}\n"),
		"too long":        "clouds: {a: {regions: [" + strings.Repeat("a,", 512<<10) + "]}}",
	} {
		t.Run(what, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := parseCloudsFile([]byte(content))
			runtime.ReadMemStats(&after)
			if took := after.TotalAlloc - before.TotalAlloc; took > 100<<20 {
				t.Errorf("%d bytes of YAML take %d MiB", len(content), took>>20)
			}
			expect.Equal(t, err == nil, what == "regions", "the error is %v", err)
		})
	}
}

// many writes a line n times, with a number.
func many(n int, line string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, line, i)
	}
	return b.String()
}
