package client

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"

	"github.com/gophercloud/gophercloud/v2"
)

// The keys of a Secret with credentials. All except the first are optional.
const (
	// SecretClouds contains a clouds.yaml.
	SecretClouds = "clouds.yaml"
	// SecretCACert contains the trusted CA certificates, in PEM, instead of the system's.
	SecretCACert = "cacert"
	// SecretCert and SecretKey contain the client's certificate and its key, in PEM.
	SecretCert = "cert"
	SecretKey  = "key"
)

// SecretCredentials reads a user's credentials from a Secret. entry names the entry of its clouds.yaml; if it is empty,
// there must be only one. of names the credentials in messages. It reads no file and no environment variable, and
// refuses entries that name a file. It sends nothing. to limits where the credentials may lead.
//
// Its errors name the field and the remedy. They contain no value from the Secret.
func SecretCredentials(
	of string, data map[string][]byte, entry string, to *Confinement,
) (Credentials, error) {
	content, ok := data[SecretClouds]
	if !ok {
		return Credentials{}, errors.New("it has no key clouds.yaml: add it, with credentials as OpenStack's clients " +
			"read them")
	}
	name, e, err := secretEntry(content, entry)
	if err != nil {
		return Credentials{}, fmt.Errorf("clouds.yaml: %w", err)
	}
	tlsConfig, err := secretTLS(data)
	if err != nil {
		return Credentials{}, err
	}
	auth, err := secretAuth(e, to)
	if err != nil {
		return Credentials{}, fmt.Errorf("clouds.yaml: cloud %q: %w", name, err)
	}
	tlsConfig.InsecureSkipVerify = e.insecure()
	credentials := newCredentials(of, auth, e.endpoint(""), tlsConfig)
	credentials.to = to
	return credentials, nil
}

// secretEntry finds a cloud in a clouds.yaml, and its name there.
func secretEntry(content []byte, name string) (string, entry, error) {
	file, err := parseCloudsFile(content)
	if err != nil {
		return "", entry{}, err
	}
	switch {
	case len(file.Clouds) == 0:
		return "", entry{}, errors.New(`it has no entry below "clouds:": add one`)
	case name == "" && len(file.Clouds) > 1:
		return "", entry{}, fmt.Errorf("it has %d entries: name one of them in spec.cloud.name", len(file.Clouds))
	case name == "":
		for name = range file.Clouds { // the only one
		}
	}
	e, ok := file.Clouds[name]
	if !ok {
		return "", entry{}, fmt.Errorf("it has no entry %q: add it, or name another in spec.cloud.name", name)
	}
	if e, err = e.in(""); err != nil {
		err = fmt.Errorf("cloud %q: %w", name, err)
	}
	return name, e, err
}

// secretAuth returns what is sent to Keystone. It refuses what would be read outside the Secret, and what the operator
// does not permit.
func secretAuth(e entry, to *Confinement) (gophercloud.AuthOptions, error) {
	for _, r := range []struct{ field, value, instead string }{
		{"cacert", e.CACert, "put the certificates themselves into the key cacert of the Secret"},
		{"cert", e.Cert, "put the certificate itself into the key cert of the Secret"},
		{"key", e.Key, "put the key itself into the key named key of the Secret"},
	} {
		if r.value != "" {
			return gophercloud.AuthOptions{}, fmt.Errorf("%s names something outside the Secret, which is not read: take "+
				"it out, and %s", r.field, r.instead)
		}
	}
	if e.insecure() && !to.insecure {
		return gophercloud.AuthOptions{}, errors.New("verify: false is not permitted: take it out, and put the " +
			"certificates of the cloud's authority into the key cacert of the Secret (the operator permits it with " +
			"--permit-insecure-clouds)")
	}
	if at := cmp.Or(e.Auth.AuthURL, e.Beside.AuthURL); at != "" {
		address, err := url.Parse(at)
		if err != nil || address.RawQuery != "" || address.Fragment != "" || !to.allows(address) {
			return gophercloud.AuthOptions{}, fmt.Errorf("auth.auth_url is no identity endpoint that the operator allows: "+
				"write one below %s, or have the operator add it to --allowed-identity-endpoints", to.choices())
		}
	}
	return e.authOptions(inFile)
}

// secretTLS creates a TLS configuration from the PEM in a Secret.
func secretTLS(data map[string][]byte) (*tls.Config, error) {
	return newTLS(
		pemFile{"its key cacert", bytes.TrimSpace(data[SecretCACert])},
		pemFile{"its key named cert", bytes.TrimSpace(data[SecretCert])},
		pemFile{"its key named key", bytes.TrimSpace(data[SecretKey])},
	)
}

// pemFile is the content of a file in PEM, or none, and what messages call its place.
type pemFile struct {
	place   string
	content []byte
}

// newTLS creates a TLS configuration. Without ca, the system's authorities are trusted; without cert and key, the
// client shows no certificate.
func newTLS(ca, cert, key pemFile) (*tls.Config, error) {
	config := &tls.Config{}
	if len(ca.content) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(ca.content) {
			return nil, fmt.Errorf("%s holds no certificate: write CA certificates in PEM, or leave it out to trust the "+
				"system's authorities", ca.place)
		}
	}
	switch {
	case len(cert.content) == 0 && len(key.content) == 0:
		return config, nil
	case len(cert.content) == 0:
		return nil, fmt.Errorf("%s is there without %s: add the client's certificate, in PEM", key.place, cert.place)
	case len(key.content) == 0:
		return nil, fmt.Errorf("%s is there without %s: add the certificate's key, in PEM", cert.place, key.place)
	}
	pair, err := tls.X509KeyPair(cert.content, key.content)
	if err != nil {
		// The error's own text may reveal the content.
		return nil, fmt.Errorf("%s and %s are no certificate in PEM with the key that belongs to it: write both",
			cert.place, key.place)
	}
	config.Certificates = []tls.Certificate{pair}
	return config, nil
}
