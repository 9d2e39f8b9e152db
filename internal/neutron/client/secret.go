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
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"gopkg.in/yaml.v2"
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
// there must be only one. name names the credentials in messages. It reads no file and no environment variable, and
// refuses entries that name a file. It sends nothing. to limits where the credentials may lead.
//
// Its errors name the field and the remedy. They contain no value from the Secret.
func SecretCredentials(
	name string, data map[string][]byte, entry string, to *Confinement,
) (Credentials, error) {
	content, ok := data[SecretClouds]
	if !ok {
		return Credentials{}, errors.New("it has no key clouds.yaml: add it, with credentials as OpenStack's clients " +
			"read them")
	}
	cloud, err := secretEntry(content, entry)
	if err != nil {
		return Credentials{}, err
	}
	if err := checkReferences(cloud); err != nil {
		return Credentials{}, err
	}
	tlsConfig, err := secretTLS(data)
	if err != nil {
		return Credentials{}, err
	}
	if cloud.Verify != nil && !*cloud.Verify {
		if !to.insecure {
			return Credentials{}, errors.New("clouds.yaml: verify: false is not permitted: take it out, and put the " +
				"certificates of the cloud's authority into the key cacert of the Secret (the operator permits it with " +
				"--permit-insecure-clouds)")
		}
		tlsConfig.InsecureSkipVerify = true
	}
	auth, err := secretAuth(cloud, to)
	if err != nil {
		return Credentials{}, fmt.Errorf("clouds.yaml: %w", err)
	}
	endpoint := gophercloud.EndpointOpts{Region: cloud.RegionName}
	switch cmp.Or(cloud.EndpointType, cloud.Interface) {
	case "internal", "internalURL":
		endpoint.Availability = gophercloud.AvailabilityInternal
	case "admin", "adminURL":
		endpoint.Availability = gophercloud.AvailabilityAdmin
	}
	credentials := newCredentials(name, auth, endpoint, tlsConfig)
	credentials.to = to
	return credentials, nil
}

// secretEntry finds a cloud in a clouds.yaml.
func secretEntry(content []byte, entry string) (clouds.Cloud, error) {
	var file clouds.Clouds
	if err := yaml.Unmarshal(content, &file); err != nil {
		return clouds.Cloud{}, fmt.Errorf("clouds.yaml: %w", yamlProblem(err))
	}
	switch {
	case len(file.Clouds) == 0:
		return clouds.Cloud{}, errors.New(`clouds.yaml has no entry below "clouds:": add one`)
	case entry == "" && len(file.Clouds) > 1:
		return clouds.Cloud{}, fmt.Errorf("clouds.yaml has %d entries: name one of them in spec.cloud.name",
			len(file.Clouds))
	case entry == "":
		for _, only := range file.Clouds {
			return only, nil
		}
	}
	cloud, ok := file.Clouds[entry]
	if !ok {
		return clouds.Cloud{}, fmt.Errorf("clouds.yaml has no entry %q: add it, or name another in spec.cloud.name", entry)
	}
	return cloud, nil
}

// checkReferences refuses references to something outside the Secret. A path or a profile would be looked up in the
// controller's file system.
func checkReferences(cloud clouds.Cloud) error {
	for _, r := range []struct{ field, value, instead string }{
		{"cacert", cloud.CACertFile, "put the certificates themselves into the key cacert of the Secret"},
		{"cert", cloud.ClientCertFile, "put the certificate itself into the key cert of the Secret"},
		{"key", cloud.ClientKeyFile, "put the key itself into the key named key of the Secret"},
		{"profile", cloud.Profile, "write the values that it refers to"},
		{"cloud", cloud.Cloud, "write the values that it refers to"},
	} {
		if r.value != "" {
			return fmt.Errorf("clouds.yaml: %s names something outside the Secret, which is not read: take it out, and %s",
				r.field, r.instead)
		}
	}
	return nil
}

// secretTLS creates a TLS configuration from the PEM in a Secret.
func secretTLS(data map[string][]byte) (*tls.Config, error) {
	config := &tls.Config{}
	if bundle := bytes.TrimSpace(data[SecretCACert]); len(bundle) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(bundle) {
			return nil, errors.New("its key cacert holds no certificate: write certificates in PEM, " +
				"or leave the key out to trust the system's authorities")
		}
	}
	cert, key := bytes.TrimSpace(data[SecretCert]), bytes.TrimSpace(data[SecretKey])
	switch {
	case len(cert) == 0 && len(key) == 0:
		return config, nil
	case len(cert) == 0:
		return nil, errors.New("it has a key named key and none named cert: add the client's certificate, in PEM")
	case len(key) == 0:
		return nil, errors.New("it has a key named cert and none named key: add the certificate's key, in PEM")
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		// The error's own text may reveal the content.
		return nil, errors.New("its keys cert and key are no certificate in PEM with the key that belongs to it: " +
			"write both")
	}
	config.Certificates = []tls.Certificate{pair}
	return config, nil
}

// secretAuth creates the log-in options of an entry as gophercloud's package clouds does. But it ignores environment
// variables, which that package prefers.
func secretAuth(cloud clouds.Cloud, to *Confinement) (gophercloud.AuthOptions, error) {
	given := cloud.AuthInfo
	if given == nil || given.AuthURL == "" {
		return gophercloud.AuthOptions{}, errors.New("auth.auth_url is missing: add it, the address of Keystone")
	}
	address, err := url.Parse(given.AuthURL)
	if err != nil || address.RawQuery != "" || address.Fragment != "" || !to.allows(address) {
		return gophercloud.AuthOptions{}, fmt.Errorf("auth.auth_url is no identity endpoint that the operator allows: "+
			"write one below %s, or have the operator add it to --allowed-identity-endpoints", to.choices())
	}
	auth := gophercloud.AuthOptions{
		IdentityEndpoint:            given.AuthURL,
		Username:                    given.Username,
		UserID:                      given.UserID,
		Password:                    given.Password,
		DomainID:                    cmp.Or(given.UserDomainID, given.DomainID),
		DomainName:                  cmp.Or(given.UserDomainName, given.DomainName),
		TenantID:                    given.ProjectID,
		TenantName:                  given.ProjectName,
		TokenID:                     given.Token,
		ApplicationCredentialID:     given.ApplicationCredentialID,
		ApplicationCredentialName:   given.ApplicationCredentialName,
		ApplicationCredentialSecret: given.ApplicationCredentialSecret,
		AllowReauth:                 given.Token == "",
	}
	switch {
	case given.TrustID != "":
		auth.Scope = &gophercloud.AuthScope{TrustID: given.TrustID}
	case given.ProjectID != "":
		auth.Scope = &gophercloud.AuthScope{ProjectID: given.ProjectID}
	case given.ProjectName != "":
		auth.Scope = &gophercloud.AuthScope{
			ProjectName: given.ProjectName,
			DomainID:    cmp.Or(given.ProjectDomainID, given.DomainID),
			DomainName:  cmp.Or(given.ProjectDomainName, given.DomainName),
		}
	}
	return auth, checkAuth(auth, func(field, _ string) string { return field })
}
