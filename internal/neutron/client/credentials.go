package client

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
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
	// digest is over the contents of all files that the credentials come from. It is a function for the same reason.
	digest func() [sha256.Size]byte
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

// SameAs reports whether both come from the same contents. These are clouds.yaml, secure.yaml, the CA certificates, the
// client certificate and its key. A Secret's keys may contain them.
func (c Credentials) SameAs(other Credentials) bool {
	return c.digest != nil && other.digest != nil && c.digest() == other.digest()
}

// digested records the contents that the credentials come from.
func (c Credentials) digested(contents ...[]byte) Credentials {
	sum := sha256.New()
	for _, content := range contents {
		fmt.Fprintf(sum, "%d:", len(content))
		sum.Write(content)
	}
	digest := [sha256.Size]byte(sum.Sum(nil))
	c.digest = func() [sha256.Size]byte { return digest }
	return c
}

// readPEM reads the certificates and keys that a cloud or, with priority, the OS_ variables name. It is only for the
// digest. An unreadable file is an error when the credentials are parsed, if they need it.
func readPEM(cloud clouds.Cloud) (contents [][]byte) {
	for variable, path := range map[string]string{
		"OS_CACERT": cloud.CACertFile, "OS_CERT": cloud.ClientCertFile, "OS_KEY": cloud.ClientKeyFile,
	} {
		path = cmp.Or(os.Getenv(variable), path)
		if rest, ok := strings.CutPrefix(path, "~/"); ok {
			if home, err := os.UserHomeDir(); err == nil {
				path = filepath.Join(home, rest)
			}
		}
		content, _ := os.ReadFile(path)
		contents = append(contents, append([]byte(variable), content...))
	}
	slices.SortFunc(contents, bytes.Compare)
	return contents
}

// String names the cloud and the address, without secrets.
func (c Credentials) String() string {
	return fmt.Sprintf("cloud %q at %s", c.Name, c.address)
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
	content, err := os.ReadFile(path)
	if err != nil {
		return Credentials{}, fmt.Errorf("cloud %q: reading %s: %w", name, path, pathCause(err))
	}
	// Parse it before gophercloud does, for errors that list the choices.
	var file clouds.Clouds
	if err := yaml.Unmarshal(content, &file); err != nil {
		return Credentials{}, fmt.Errorf("cloud %q: %s is not a clouds.yaml: %w", name, path, yamlProblem(err))
	}
	cloud, ok := file.Clouds[name]
	if !ok {
		return Credentials{}, fmt.Errorf("cloud %q is not in %s: it has %s", name, path, cloudNames(file.Clouds))
	}
	if cloud.AuthInfo == nil {
		// gophercloud panics if a cloud has no auth.
		cloud.AuthInfo = &clouds.AuthInfo{}
		content, err = yaml.Marshal(clouds.Clouds{Clouds: map[string]clouds.Cloud{name: cloud}})
		if err != nil {
			return Credentials{}, fmt.Errorf("cloud %q: %s: %w", name, path, yamlProblem(err))
		}
	}
	secure, err := readSecureFile(filepath.Join(filepath.Dir(path), "secure.yaml"))
	if err != nil {
		return Credentials{}, fmt.Errorf("cloud %q: %w", name, err)
	}
	// The digest's contents are read before the parser reads the files. If a file changes in between, the next digest
	// differs.
	var secrets clouds.Clouds
	if err := yaml.Unmarshal(secure, &secrets); err != nil {
		return Credentials{}, fmt.Errorf("cloud %q: secure.yaml: %w", name, yamlProblem(err))
	}
	contents := append([][]byte{content, secure}, readPEM(cloud)...)
	contents = append(contents, readPEM(secrets.Clouds[name])...)
	credentials, err := parse(name, path, content, secure)
	if err != nil {
		return Credentials{}, err
	}
	return credentials.digested(contents...), nil
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
	authInfo := map[string]string{}
	for key, variables := range map[string][]string{
		"auth_url":                      {"OS_AUTH_URL"},
		"username":                      {"OS_USERNAME"},
		"user_id":                       {"OS_USER_ID", "OS_USERID"},
		"password":                      {"OS_PASSWORD"},
		"token":                         {"OS_TOKEN"},
		"project_id":                    {"OS_PROJECT_ID", "OS_TENANT_ID"},
		"project_name":                  {"OS_PROJECT_NAME", "OS_TENANT_NAME"},
		"user_domain_id":                {"OS_USER_DOMAIN_ID"},
		"user_domain_name":              {"OS_USER_DOMAIN_NAME"},
		"project_domain_id":             {"OS_PROJECT_DOMAIN_ID"},
		"project_domain_name":           {"OS_PROJECT_DOMAIN_NAME"},
		"domain_id":                     {"OS_DOMAIN_ID"},
		"domain_name":                   {"OS_DOMAIN_NAME"},
		"application_credential_id":     {"OS_APPLICATION_CREDENTIAL_ID"},
		"application_credential_name":   {"OS_APPLICATION_CREDENTIAL_NAME"},
		"application_credential_secret": {"OS_APPLICATION_CREDENTIAL_SECRET"},
	} {
		for _, variable := range variables {
			if value := os.Getenv(variable); value != "" {
				authInfo[key] = value
				break
			}
		}
	}
	if authInfo["application_credential_secret"] == "" && authInfo["token"] == "" {
		for _, either := range [][]string{
			{"OS_USERNAME", "OS_USER_ID", "OS_USERID"},
			{"OS_PASSWORD"},
			{"OS_PROJECT_NAME", "OS_PROJECT_ID", "OS_TENANT_NAME", "OS_TENANT_ID"},
		} {
			if !slices.ContainsFunc(either, func(variable string) bool { return os.Getenv(variable) != "" }) {
				return Credentials{}, fmt.Errorf("OS_AUTH_URL is set and %s is not: set it too, or name a cloud of "+
					"clouds.yaml with --cloud", either[0])
			}
		}
	}
	cloud := map[string]any{"auth": authInfo}
	for key, variable := range map[string]string{"cacert": "OS_CACERT", "cert": "OS_CERT", "key": "OS_KEY"} {
		if value := os.Getenv(variable); value != "" {
			cloud[key] = value
		}
	}
	content, err := yaml.Marshal(map[string]any{"clouds": map[string]any{environmentCloud: cloud}})
	if err != nil {
		return Credentials{}, fmt.Errorf("reading the OS_ variables: %w", err)
	}
	contents := readPEM(clouds.Cloud{})
	credentials, err := parse(environmentCloud, "the OS_ variables", content, nil)
	if err != nil {
		return Credentials{}, err
	}
	return credentials.digested(contents...), nil
}

// parse creates credentials from the cloud's entry in content and secure. content is a clouds.yaml that came from
// source; secure is a secure.yaml or nil.
func parse(name, source string, content, secure []byte) (Credentials, error) {
	options := []clouds.ParseOption{
		clouds.WithCloudName(name), clouds.WithCloudsYAML(bytes.NewReader(content)),
		clouds.WithRegion(os.Getenv("OS_REGION_NAME")),
	}
	if secure != nil {
		options = append(options, clouds.WithSecureYAML(bytes.NewReader(secure)))
	}
	auth, endpoint, tlsConfig, err := clouds.Parse(options...)
	if err != nil {
		return Credentials{}, fmt.Errorf("cloud %q: %s: %w", name, source, yamlProblem(err))
	}
	if auth.IdentityEndpoint == "" {
		return Credentials{}, fmt.Errorf("cloud %q: %s gives no auth_url: add auth.auth_url, the address of Keystone",
			name, source)
	}
	if err := checkAuth(auth, inFiles); err != nil {
		return Credentials{}, fmt.Errorf("cloud %q: %s: %w", name, source, err)
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
