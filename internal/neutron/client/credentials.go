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
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
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
	file, err := readCloudsFile(path)
	if err != nil {
		return Credentials{}, err
	}
	own, ok := file.Clouds[name]
	if !ok {
		return Credentials{}, fmt.Errorf("it is not in %s, which has %s", path, cloudNames(file.Clouds))
	}
	secure, err := readOptionalFile(filepath.Join(filepath.Dir(path), "secure.yaml"))
	if err != nil {
		return Credentials{}, err
	}
	whole := secure.Clouds[name]
	whole.fill(own)
	if vendor := whole.vendor(); vendor != "" {
		profiles, err := readProfiles()
		if err != nil {
			return Credentials{}, err
		}
		whole.fill(profiles.Profiles[vendor])
	}
	return credentialsOf(name, path, whole, inFile)
}

// readOptionalFile reads a file of the form of clouds.yaml that need not be there.
func readOptionalFile(path string) (cloudsFile, error) {
	file, err := readCloudsFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return cloudsFile{}, nil
	}
	return file, err
}

func readCloudsFile(path string) (cloudsFile, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return cloudsFile{}, fmt.Errorf("reading %s: %w", path, pathCause(err))
	}
	file, err := parseCloudsFile(content)
	if err != nil {
		return cloudsFile{}, fmt.Errorf("%s: %w", path, err)
	}
	return file, nil
}

// readProfiles reads the file with the operator's profiles of clouds. Without one, an entry has to be complete.
// openstacksdk also has profiles of its own, which are not part of this program.
func readProfiles() (cloudsFile, error) {
	for _, place := range configPlaces("clouds-public.yaml") {
		if _, err := os.Stat(place); !errors.Is(err, fs.ErrNotExist) {
			return readCloudsFile(place)
		}
	}
	return cloudsFile{}, nil
}

// environmentCloud is the cloud's name for credentials from the OS_ variables.
const environmentCloud = "environment"

func credentialsFromEnvironment() (Credentials, error) {
	var fromVariables entry
	fromVariables.Auth.setFrom(func(field string) string { return os.Getenv(inEnvironment(field)) })
	auth := &fromVariables.Auth
	auth.UserID = cmp.Or(auth.UserID, os.Getenv("OS_USERID"))
	credentials, err := credentialsOf(environmentCloud, "the OS_ variables", fromVariables, inEnvironment)
	switch {
	case err != nil:
		return Credentials{}, fmt.Errorf("%w; or name a cloud of clouds.yaml with --cloud", err)
	case credentials.auth().Password != "" && credentials.auth().Scope == nil:
		return Credentials{}, errors.New("the OS_ variables: the project is missing: set OS_PROJECT_NAME and " +
			"OS_PROJECT_DOMAIN_NAME; or name a cloud of clouds.yaml with --cloud")
	}
	return credentials, nil
}

// credentialsOf creates credentials from an entry that came from source. It reads the OS_ variables for the region, the
// interface and TLS.
func credentialsOf(name, source string, e entry, say naming) (Credentials, error) {
	fail := func(err error) (Credentials, error) { return Credentials{}, fmt.Errorf("%s: %w", source, err) }
	e, err := e.in(os.Getenv("OS_REGION_NAME"))
	if err != nil {
		return fail(err)
	}
	auth, err := e.authOptions(say)
	if err != nil {
		return fail(err)
	}
	var files [3]pemFile
	for i, of := range [...]struct{ field, path string }{
		{"cacert", cmp.Or(os.Getenv("OS_CACERT"), e.CACert)},
		{"cert", cmp.Or(os.Getenv("OS_CERT"), e.Cert)},
		{"key", cmp.Or(os.Getenv("OS_KEY"), e.Key)},
	} {
		if files[i], err = readPEM(of.field, of.path); err != nil {
			return fail(err)
		}
	}
	tlsConfig, err := newTLS(files[0], files[1], files[2])
	if err != nil {
		return fail(err)
	}
	tlsConfig.InsecureSkipVerify = e.insecure()
	return newCredentials(name, auth, e.endpoint(os.Getenv("OS_INTERFACE")), tlsConfig), nil
}

// readPEM reads the file that a field names; none if path is empty.
func readPEM(field, path string) (pemFile, error) {
	if path == "" {
		return pemFile{place: field}, nil
	}
	if below, isHome := strings.CutPrefix(path, "~/"); isHome {
		home, err := os.UserHomeDir()
		if err != nil {
			return pemFile{}, fmt.Errorf("%s: %w", field, err)
		}
		path = filepath.Join(home, below)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return pemFile{}, fmt.Errorf("%s: reading %s: %w", field, path, pathCause(err))
	}
	return pemFile{field + " (" + path + ")", bytes.TrimSpace(content)}, nil
}

// findCloudsFile searches where OpenStack's clients do. It does not skip a file without read permission.
func findCloudsFile() (string, error) {
	if path := os.Getenv("OS_CLIENT_CONFIG_FILE"); path != "" {
		return path, nil
	}
	places := configPlaces("clouds.yaml")
	for _, path := range places {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			return path, nil
		}
	}
	return "", fmt.Errorf("no clouds.yaml is in %s: put one there, or set OS_CLIENT_CONFIG_FILE to its path",
		strings.Join(places, ", "))
}

// configPlaces are the paths at which OpenStack's clients look for a file, in their order.
func configPlaces(file string) []string {
	places := []string{file}
	if config, err := os.UserConfigDir(); err == nil {
		places = append(places, filepath.Join(config, "openstack", file))
	}
	return append(places, filepath.Join("/etc", "openstack", file))
}

func cloudNames(known map[string]entry) string {
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
