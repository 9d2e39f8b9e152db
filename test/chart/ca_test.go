package chart

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// authority makes a CA, as PEM, and a certificate of it for loopback.
func authority(t *testing.T) (ca string, leaf tls.Certificate) {
	t.Helper()
	sign := func(template, parent *x509.Certificate, key, by *ecdsa.PrivateKey) []byte {
		t.Helper()
		template.SerialNumber = big.NewInt(time.Now().UnixNano())
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
		expect.NoError(t, err)
		return der
	}
	var keys [2]*ecdsa.PrivateKey
	for i := range keys {
		var err error
		if keys[i], err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			t.Fatal(err)
		}
	}
	root := &x509.Certificate{
		Subject: pkix.Name{CommonName: "a cloud's own CA"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	der := sign(root, root, keys[0], keys[0])
	server := &x509.Certificate{
		Subject: pkix.Name{CommonName: "a cloud"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	leaf = tls.Certificate{Certificate: [][]byte{sign(server, root, keys[1], keys[0])}, PrivateKey: keys[1]}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), leaf
}

// mountedCA gives a folder with what the Deployment mounts at /etc/ssl/certs, as a kubelet lays a ConfigMap out; empty
// if it mounts nothing there, as in the image.
func (c *cluster) mountedCA() string {
	c.t.Helper()
	folder := c.t.TempDir()
	pod := c.deployment().Spec.Template.Spec
	for _, mount := range pod.Containers[0].VolumeMounts {
		for _, volume := range pod.Volumes {
			if mount.MountPath != "/etc/ssl/certs" || volume.Name != mount.Name {
				continue
			}
			config := harness.Get(c.t, c.in.Kube.CoreV1().ConfigMaps(name), volume.ConfigMap.Name)
			must := func(err error) {
				c.t.Helper()
				expect.NoError(c.t, err)
			}
			must(os.Mkdir(filepath.Join(folder, "..1"), 0o750))
			must(os.Symlink("..1", filepath.Join(folder, "..data")))
			for key, content := range config.Data {
				must(os.WriteFile(filepath.Join(folder, "..1", key), []byte(content), 0o600))
				must(os.Symlink(filepath.Join("..data", key), filepath.Join(folder, key)))
			}
		}
	}
	return folder
}

// TestPrivateCA has Keystone and Neutron speak TLS with a certificate of a CA that the test makes, and gives the
// controller cloud.ca of the chart. SSL_CERT_DIR stands for the mount at /etc/ssl/certs, and SSL_CERT_FILE for an image
// that has no other roots.
func TestPrivateCA(t *testing.T) {
	if surroundings == nil {
		t.Skip("KUBEBUILDER_ASSETS is not set; run `make test-install`")
	}
	t.Parallel() // it has a control plane of its own
	ca, certificate := authority(t)
	other, _ := authority(t)
	emulator := neutrontest.New(neutrontest.Options{})
	server := httptest.NewUnstartedServer(emulator)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	in := &harness.Surroundings{
		ControlPlane: surroundings.StartEmptyControlPlane(t), Emulator: emulator,
		Binary: surroundings.Binary, CloudsFile: filepath.Join(t.TempDir(), "clouds.yaml"),
	}
	expect.NoError(t, os.WriteFile(in.CloudsFile, []byte(emulator.CloudsYAML(server.URL)), 0o600))
	c := newEmptyCluster(t, in)
	c.install(loadChart(t), false, "cloud.name=tenant")
	start := func() *harness.Process {
		t.Helper()
		return c.start("SSL_CERT_FILE="+filepath.Join(t.TempDir(), "none"), "SSL_CERT_DIR="+c.mountedCA())
	}

	// Without the CA, and with another one of the same name, the log says what to set.
	for _, set := range []string{"", "cloud.ca=" + other} {
		if set != "" {
			c.upgrade("cloud.name=tenant", set)
		}
		process := start()
		in.Eventually(t, func() error {
			const want = "certificate signed by unknown authority: set cloud.ca of the chart, or cacert in clouds.yaml"
			if !strings.Contains(process.Output.String(), want) {
				return fmt.Errorf("the log does not say %q", want)
			}
			return nil
		})
		c.kill(process)
	}

	before := c.deployment().Spec.Template.Annotations
	c.upgrade("cloud.name=tenant", "cloud.ca="+ca)
	if after := c.deployment().Spec.Template.Annotations; after["checksum/ca"] == before["checksum/ca"] {
		t.Error("Pods do not restart with another CA, and a process reads it only once")
	}
	process := start()
	n := &cloudteamv1.Network{ObjectMeta: metav1.ObjectMeta{Name: "private"}}
	n.Spec.CIDR = "10.1.0.0/24"
	networks := in.Networks.CloudteamV1().Networks(metav1.NamespaceDefault)
	harness.Create(t, networks, n)
	if id := c.await("private", cloudteamv1.ReasonAvailable); id == "" || emulator.Calls("POST", "/v2.0/networks") != 1 {
		t.Errorf("the Network is Ready with the network %q, after %v", id, emulator.CallCounts())
	}
	c.kill(process)
}
