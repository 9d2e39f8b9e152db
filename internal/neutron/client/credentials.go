package client

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"gopkg.in/yaml.v2"
)

// Credentials are what a log-in to one project of one cloud needs. They show no secret, however they or a value that
// contains them are printed. The zero value cannot log in.
type Credentials struct {
	// Name is the cloud's name in clouds.yaml, or "environment".
	Name string

	// address is Keystone's address, without secrets.
	address string
	// auth returns the secrets. It is a function because fmt does not look into functions. It prints fields and pointers
	// of any structure without calling String.
	auth     func() gophercloud.AuthOptions
	endpoint gophercloud.EndpointOpts
	tls      *tls.Config
	// to limits where they may lead; nil for the operator's own, which have no limits.
	to *Confinement
}

func newCredentials(
	name string, auth gophercloud.AuthOptions, endpoint gophercloud.EndpointOpts, tlsConfig *tls.Config,
) Credentials {
	address := "an auth_url that is no URL"
	if parsed, err := url.Parse(auth.IdentityEndpoint); err == nil {
		address = parsed.Redacted()
	}
	return Credentials{
		Name:     name,
		address:  address,
		auth:     func() gophercloud.AuthOptions { return auth },
		endpoint: endpoint,
		tls:      tlsConfig,
	}
}

// SameAs reports whether both log in with the same secrets, to the same project and endpoint, with the same
// trust.
func (c Credentials) SameAs(other Credentials) bool {
	if c.auth == nil || other.auth == nil {
		return false
	}
	return reflect.DeepEqual(c.auth(), other.auth()) && c.endpoint.Region == other.endpoint.Region &&
		c.endpoint.Availability == other.endpoint.Availability && sameTLS(c.tls, other.tls)
}

// sameTLS compares the settings that credentials make. A certificate has one key only, so that is not compared.
func sameTLS(a, b *tls.Config) bool {
	return a.InsecureSkipVerify == b.InsecureSkipVerify && a.RootCAs.Equal(b.RootCAs) &&
		slices.EqualFunc(a.Certificates, b.Certificates, func(a, b tls.Certificate) bool {
			return slices.EqualFunc(a.Certificate, b.Certificate, bytes.Equal)
		})
}

// String names the cloud and the address, without secrets.
func (c Credentials) String() string {
	return fmt.Sprintf("cloud %q at %s", c.Name, c.address)
}

// advise adds to an error what to set if the credentials lack the CA of a server.
func (c Credentials) advise(err error) {
	e, ok := errors.AsType[*Error](err)
	switch {
	case !ok || !e.untrusted:
	case c.to != nil:
		e.Reason += ": put the certificate of the CA that signed it into the key cacert of the Secret"
	default:
		e.Reason += ": set cloud.ca of the chart, or cacert in clouds.yaml, to the certificate of the CA that signed it"
	}
}

// secretsOf returns the secrets that a request to Keystone or Neutron may contain.
func (c Credentials) secretsOf(r *http.Request) []string {
	secrets := []string{r.Header.Get("X-Auth-Token")}
	if c.auth != nil {
		auth := c.auth()
		secrets = append(secrets, auth.Password, auth.Passcode, auth.TokenID, auth.ApplicationCredentialSecret)
	}
	return secrets
}

// GoString is String, so that %#v prints no secret either.
func (c Credentials) GoString() string { return c.String() }

// LoadCredentials finds credentials as OpenStack's own clients do. It reads the cloud with the given name, or that of
// OS_CLOUD if name is empty, from clouds.yaml. That file is OS_CLIENT_CONFIG_FILE, or it is in the current directory,
// ~/.config/openstack or /etc/openstack. If neither names a cloud, it reads OS_AUTH_URL and the other OS_ variables. It
// sends nothing.
//
// Its errors say what to set or fix, and contain no value from the file.
func LoadCredentials(name string) (Credentials, error) {
	if name == "" {
		name = os.Getenv("OS_CLOUD")
	}
	if name == "" {
		if os.Getenv("OS_AUTH_URL") == "" {
			return Credentials{}, errors.New("no cloud is named: give --cloud or set OS_CLOUD to a name in " +
				"clouds.yaml, or set OS_AUTH_URL, OS_USERNAME, OS_PASSWORD, OS_PROJECT_NAME and their domains")
		}
		return credentialsFromEnvironment()
	}
	path, err := findCloudsFile()
	if err != nil {
		return Credentials{}, fmt.Errorf("cloud %q: %w", name, err)
	}
	return LoadCredentialsFrom(path, name)
}

// LoadCredentialsFrom reads a cloud from a clouds.yaml, and from secure.yaml beside it, as LoadCredentials does.
func LoadCredentialsFrom(path, name string) (Credentials, error) {
	credentials, err := credentialsFromFiles(path, name)
	if err != nil {
		return Credentials{}, fmt.Errorf("cloud %q: %w", name, err)
	}
	return credentials, nil
}

func credentialsFromFiles(path, name string) (Credentials, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return Credentials{}, fmt.Errorf("reading %s: %w", path, pathCause(err))
	}
	// Parse it before gophercloud does, for errors that list the choices.
	var file clouds.Clouds
	if err := yaml.Unmarshal(content, &file); err != nil {
		return Credentials{}, fmt.Errorf("%s is not a clouds.yaml: %w", path, yamlProblem(err))
	}
	cloud, ok := file.Clouds[name]
	if !ok {
		return Credentials{}, fmt.Errorf("it is not in %s, which has %s", path, cloudNames(file.Clouds))
	}
	if cloud.AuthInfo == nil {
		cloud.AuthInfo = &clouds.AuthInfo{} // gophercloud panics if a cloud has no auth
	}
	secure, err := readSecureFile(filepath.Join(filepath.Dir(path), "secure.yaml"))
	if err != nil {
		return Credentials{}, err
	}
	return parse(name, path, cloud, secure)
}

// readSecureFile reads the secrets file beside clouds.yaml; nil if there is none. It decodes it here, because
// gophercloud's error would quote the invalid value.
func readSecureFile(path string) ([]byte, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, pathCause(err))
	}
	var file clouds.Clouds
	if err := yaml.Unmarshal(content, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", path, yamlProblem(err))
	}
	if len(file.Clouds) == 0 {
		// gophercloud treats a file without a document as broken.
		return nil, nil
	}
	return content, nil
}

// environmentCloud is the cloud's name for credentials from the OS_ variables.
const environmentCloud = "environment"

// credentialsFromEnvironment reads the OS_ variables with the parser of clouds.yaml, because that one distinguishes the
// domains of user and project.
func credentialsFromEnvironment() (Credentials, error) {
	auth := &clouds.AuthInfo{
		AuthURL:                     os.Getenv("OS_AUTH_URL"),
		Username:                    os.Getenv("OS_USERNAME"),
		UserID:                      cmp.Or(os.Getenv("OS_USER_ID"), os.Getenv("OS_USERID")),
		Password:                    os.Getenv("OS_PASSWORD"),
		Token:                       os.Getenv("OS_TOKEN"),
		ProjectID:                   cmp.Or(os.Getenv("OS_PROJECT_ID"), os.Getenv("OS_TENANT_ID")),
		ProjectName:                 cmp.Or(os.Getenv("OS_PROJECT_NAME"), os.Getenv("OS_TENANT_NAME")),
		UserDomainID:                os.Getenv("OS_USER_DOMAIN_ID"),
		UserDomainName:              os.Getenv("OS_USER_DOMAIN_NAME"),
		ProjectDomainID:             os.Getenv("OS_PROJECT_DOMAIN_ID"),
		ProjectDomainName:           os.Getenv("OS_PROJECT_DOMAIN_NAME"),
		DomainID:                    os.Getenv("OS_DOMAIN_ID"),
		DomainName:                  os.Getenv("OS_DOMAIN_NAME"),
		ApplicationCredentialID:     os.Getenv("OS_APPLICATION_CREDENTIAL_ID"),
		ApplicationCredentialName:   os.Getenv("OS_APPLICATION_CREDENTIAL_NAME"),
		ApplicationCredentialSecret: os.Getenv("OS_APPLICATION_CREDENTIAL_SECRET"),
	}
	missing := ""
	switch {
	case auth.ApplicationCredentialSecret != "" || auth.Token != "":
	case auth.Username == "" && auth.UserID == "":
		missing = "OS_USERNAME"
	case auth.Password == "":
		missing = "OS_PASSWORD"
	case auth.ProjectName == "" && auth.ProjectID == "":
		missing = "OS_PROJECT_NAME"
	}
	if missing != "" {
		return Credentials{}, fmt.Errorf("OS_AUTH_URL is set and %s is not: set it too, or name a cloud of "+
			"clouds.yaml with --cloud", missing)
	}
	return parse(environmentCloud, "the OS_ variables", clouds.Cloud{AuthInfo: auth}, nil)
}

// parse creates credentials from a cloud's entry in a clouds.yaml, which came from source. secure is a secure.yaml or
// nil. It also reads the OS_ variables for the region, the interface and TLS.
func parse(name, source string, cloud clouds.Cloud, secure []byte) (Credentials, error) {
	fail := func(err error) (Credentials, error) { return Credentials{}, fmt.Errorf("%s: %w", source, err) }
	content, err := yaml.Marshal(clouds.Clouds{Clouds: map[string]clouds.Cloud{name: cloud}})
	if err != nil {
		return fail(err)
	}
	options := []clouds.ParseOption{clouds.WithCloudName(name), clouds.WithCloudsYAML(bytes.NewReader(content))}
	if secure != nil {
		options = append(options, clouds.WithSecureYAML(bytes.NewReader(secure)))
	}
	auth, endpoint, tlsConfig, err := clouds.Parse(options...)
	if err != nil {
		return fail(yamlProblem(err))
	}
	if auth.IdentityEndpoint == "" {
		return fail(errors.New("auth_url is missing: add auth.auth_url, the address of Keystone"))
	}
	if err := checkAuth(auth, inFiles); err != nil {
		return fail(err)
	}
	auth.AllowReauth = auth.TokenID == ""
	return newCredentials(name, auth, endpoint, tlsConfig), nil
}

// checkAuth refuses what gophercloud would refuse to send to Keystone. There it would look like an outage, but it is
// permanent. hint names a field for users, with its variable if that is read.
func checkAuth(auth gophercloud.AuthOptions, hint func(field, variable string) string) error {
	if auth.TokenID != "" {
		return nil
	}
	var noUserDomain gophercloud.ErrDomainIDOrDomainName
	var noProjectDomain gophercloud.ErrScopeDomainIDOrDomainName
	var noPassword gophercloud.ErrMissingPassword
	scope, err := auth.ToTokenV3ScopeMap()
	if err == nil {
		_, err = auth.ToTokenV3CreateMap(scope)
	}
	switch {
	case errors.As(err, &noUserDomain):
		return fmt.Errorf("the user's domain is missing, or given by name and by id: give one of %s and %s",
			hint("user_domain_name", "OS_USER_DOMAIN_NAME"), hint("user_domain_id", "OS_USER_DOMAIN_ID"))
	case errors.As(err, &noProjectDomain):
		return fmt.Errorf("the project's domain is missing, or given by name and by id: give one of %s and %s",
			hint("project_domain_name", "OS_PROJECT_DOMAIN_NAME"), hint("project_domain_id", "OS_PROJECT_DOMAIN_ID"))
	case errors.As(err, &noPassword):
		return fmt.Errorf("the password is missing: give %s, in clouds.yaml or in secure.yaml beside it",
			hint("auth.password", "OS_PASSWORD"))
	}
	return err
}

func inFiles(field, variable string) string { return field + " (" + variable + ")" }

// findCloudsFile searches where OpenStack's clients do. gophercloud would, too, but it ignores a file without read
// permission.
func findCloudsFile() (string, error) {
	if path := os.Getenv("OS_CLIENT_CONFIG_FILE"); path != "" {
		return path, nil
	}
	places := []string{"clouds.yaml"}
	if config, err := os.UserConfigDir(); err == nil {
		places = append(places, filepath.Join(config, "openstack", "clouds.yaml"))
	}
	places = append(places, filepath.Join("/etc", "openstack", "clouds.yaml"))
	for _, path := range places {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			return path, nil
		}
	}
	return "", fmt.Errorf("no clouds.yaml is in %s: put one there, or set OS_CLIENT_CONFIG_FILE to its path",
		strings.Join(places, ", "))
}

func cloudNames(known map[string]clouds.Cloud) string {
	if len(known) == 0 {
		return "no clouds"
	}
	return strings.Join(slices.Sorted(maps.Keys(known)), ", ")
}

// pathCause removes the path from a file error, because the message already has it.
func pathCause(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	return err
}

var yamlLine = regexp.MustCompile(`line \d+`)

// yamlProblem keeps the position of a YAML error but not its quotation: the invalid value may be a password.
func yamlProblem(err error) error {
	var typeError *yaml.TypeError
	if errors.As(err, &typeError) || strings.HasPrefix(err.Error(), "yaml:") {
		if line := yamlLine.FindString(err.Error()); line != "" {
			return fmt.Errorf("%s is not valid YAML of this form", line)
		}
		return errors.New("it is not valid YAML of this form")
	}
	return err
}
