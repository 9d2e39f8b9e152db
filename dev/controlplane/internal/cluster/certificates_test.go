// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func testAuthority(t *testing.T) *authority {
	t.Helper()
	a, err := newAuthority("test-ca", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// leaf parses the pair, which also proves that its key belongs to its certificate.
func leaf(t *testing.T, pair keyPair) *x509.Certificate {
	t.Helper()
	parsed, err := tls.X509KeyPair(pair.certificate, pair.key)
	if err != nil {
		t.Fatal(err)
	}
	return parsed.Leaf
}

func TestCertificates(t *testing.T) {
	a, other := testAuthority(t), testAuthority(t)
	client, err := a.client("alice", "admins", "users")
	if err != nil {
		t.Fatal(err)
	}
	server, err := a.server("etcd", []string{"localhost"}, []net.IP{net.ParseIP("127.0.0.1")})
	if err != nil {
		t.Fatal(err)
	}
	roots := func(a *authority) *x509.CertPool {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(a.pem)
		return pool
	}
	serverUse, clientUse := x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth
	for sentence, test := range map[string]struct {
		pair  keyPair
		ca    *authority
		host  string
		use   x509.ExtKeyUsage
		after time.Duration
		valid bool
	}{
		"a client proves itself to who trusts the authority": {pair: client, ca: a, use: clientUse, valid: true},
		"a client is nobody to who trusts another":           {pair: client, ca: other, use: clientUse},
		"a client cannot pose as a server":                   {pair: client, ca: a, use: serverUse},
		"a server is trusted at its address": {
			pair: server, ca: a, host: "127.0.0.1", use: serverUse, valid: true,
		},
		"a server is trusted under its name": {
			pair: server, ca: a, host: "localhost", use: serverUse, valid: true,
		},
		"a server is not trusted elsewhere":    {pair: server, ca: a, host: "127.0.0.2", use: serverUse},
		"a server may be the client of a peer": {pair: server, ca: a, use: clientUse, valid: true},
		"a certificate is no longer valid after its lifetime": {
			pair: client, ca: a, use: clientUse, after: certificateLifetime + time.Hour,
		},
		"a certificate was valid before a clock was set back": {
			pair: client, ca: a, use: clientUse, after: -clockSkew / 2, valid: true,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			_, err := leaf(t, test.pair).Verify(x509.VerifyOptions{
				Roots: roots(test.ca), DNSName: test.host, CurrentTime: time.Now().Add(test.after),
				KeyUsages: []x509.ExtKeyUsage{test.use},
			})
			if (err == nil) != test.valid {
				t.Errorf("valid %t, want %t: %v", err == nil, test.valid, err)
			}
		})
	}
	subject := leaf(t, client).Subject
	if subject.CommonName != "alice" {
		t.Errorf("the user is %q", subject.CommonName)
	}
	// DER sorts a set by its encoding.
	groups := slices.Sorted(slices.Values(subject.Organization))
	if diff := cmp.Diff([]string{"admins", "users"}, groups); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
}
