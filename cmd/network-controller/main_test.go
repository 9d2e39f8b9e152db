package main

import (
	"crypto/x509"
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// TestMain is a process on a system without root certificates, if its parent says so.
func TestMain(m *testing.M) {
	if os.Getenv("TEST_ROOTS") == "" {
		os.Exit(m.Run())
	}
	// Whoever signed it, an unknown certificate is refused by its roots, not for want of roots.
	pool, err := x509.SystemCertPool()
	if err != nil || pool.Equal(x509.NewCertPool()) {
		fmt.Println("no roots:", err)
		os.Exit(1)
	}
}

// TestRootCertificates holds that a public cloud can be reached from an image without root certificates.
func TestRootCertificates(t *testing.T) {
	c := exec.Command(os.Args[0])
	c.Env = []string{"TEST_ROOTS=1", "SSL_CERT_FILE=/nonexistent/file", "SSL_CERT_DIR=/nonexistent"}
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
