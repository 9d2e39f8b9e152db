// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"time"
)

// certificateLifetime is how long a certificate is valid. A control plane is made again at every start, so it only has
// to outlive one run.
const certificateLifetime = 365 * 24 * time.Hour

// clockSkew is how far in the past a certificate begins to be valid, for a machine whose clock is set back meanwhile.
const clockSkew = time.Hour

// authority is a certificate authority that lives in memory: its key is never written, so that nobody can issue more
// certificates of it.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	// pem is the certificate in PEM form.
	pem []byte
}

// keyPair is a certificate and its private key, in PEM form.
type keyPair struct {
	certificate, key []byte
}

// newAuthority makes an authority of that name.
func newAuthority(name string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template, err := newTemplate(pkix.Name{CommonName: name})
	if err != nil {
		return nil, err
	}
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	template.BasicConstraintsValid = true
	template.IsCA = true
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &authority{certificate: certificate, key: key, pem: encode("CERTIFICATE", der)}, nil
}

// client issues a certificate with which a client proves to be user, a member of groups: Kubernetes takes the user from
// the common name and the groups from the organizations.
func (a *authority) client(user string, groups ...string) (keyPair, error) {
	template, err := newTemplate(pkix.Name{CommonName: user, Organization: groups})
	if err != nil {
		return keyPair{}, err
	}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.issue(template)
}

// server issues a certificate for a server that is reached under the names and at the addresses. It serves a client
// too, because an etcd member is both to its peers.
func (a *authority) server(name string, dnsNames []string, addresses []net.IP) (keyPair, error) {
	template, err := newTemplate(pkix.Name{CommonName: name})
	if err != nil {
		return keyPair{}, err
	}
	template.DNSNames, template.IPAddresses = dnsNames, addresses
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	return a.issue(template)
}

func (a *authority) issue(template *x509.Certificate) (keyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keyPair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return keyPair{}, err
	}
	encoded, err := encodeKey(key)
	if err != nil {
		return keyPair{}, err
	}
	return keyPair{certificate: encode("CERTIFICATE", der), key: encoded}, nil
}

// newServiceAccountKey makes the key that signs the tokens of service accounts, in PEM form.
func newServiceAccountKey() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	return encodeKey(key)
}

func newTemplate(subject pkix.Name) (*x509.Certificate, error) {
	// RFC 5280, 4.1.2.2: positive, unique under its issuer, at most 20 octets.
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	return &x509.Certificate{
		SerialNumber: serial.Add(serial, big.NewInt(1)),
		Subject:      subject,
		NotBefore:    time.Now().Add(-clockSkew),
		NotAfter:     time.Now().Add(certificateLifetime),
	}, nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return encode("EC PRIVATE KEY", der), nil
}
