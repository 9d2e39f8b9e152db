package client

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/gophercloud/gophercloud/v2"
	"go.yaml.in/yaml/v2"

	"cloudteam.ztgame.com/network-controller/internal/osc"
)

// cloudsFile is a clouds.yaml or a secure.yaml with entries, or a clouds-public.yaml with profiles.
type cloudsFile struct {
	Clouds   map[string]entry `yaml:"clouds"`
	Profiles map[string]entry `yaml:"public-clouds"`
}

// mostOfCloudsFile is how many bytes of YAML are read. A real file has a few KiB.
const mostOfCloudsFile = 64 << 10

// parsing is held while a file is parsed: aliases can make megabytes of a few KiB, but only once at a time.
var parsing sync.Mutex

// parseCloudsFile parses a file. Its errors contain no value from it.
func parseCloudsFile(content []byte) (cloudsFile, error) {
	if len(content) > mostOfCloudsFile {
		return cloudsFile{}, fmt.Errorf("it has %d bytes, and at most %d are read: keep the entries that are needed",
			len(content), mostOfCloudsFile)
	}
	parsing.Lock()
	defer parsing.Unlock()
	var file cloudsFile
	if err := yaml.Unmarshal(content, &file); err != nil {
		return cloudsFile{}, yamlProblem(err)
	}
	return file, nil
}

var yamlLine = regexp.MustCompile(`line \d+`)

// yamlProblem keeps the position of a YAML error but not its quotation: the invalid value may be a password.
func yamlProblem(err error) error {
	if line := yamlLine.FindString(err.Error()); line != "" {
		return fmt.Errorf("%s is not valid YAML of the form of a clouds.yaml", line)
	}
	return errors.New("it is not valid YAML of the form of a clouds.yaml")
}

// entry is what a file has about one cloud, with the fields of openstacksdk that decide where and how to log in
// (openstack/config/loader.py). What belongs in auth may also be beside it; what is in auth wins.
type entry struct {
	Auth   authFields `yaml:"auth"`
	Beside authFields `yaml:",inline"`

	// Profile names settings of a vendor; Cloud is its former name.
	Profile      string        `yaml:"profile"`
	Cloud        string        `yaml:"cloud"`
	RegionName   string        `yaml:"region_name"`
	Regions      []regionEntry `yaml:"regions"`
	EndpointType string        `yaml:"endpoint_type"`
	Interface    string        `yaml:"interface"`
	Verify       *bool         `yaml:"verify"`
	Insecure     bool          `yaml:"insecure"`
	CACert       string        `yaml:"cacert"`
	Cert         string        `yaml:"cert"`
	Key          string        `yaml:"key"`
}

// authFields are the options of openstacksdk's log-ins. The variable of each is its name in capitals after OS_.
type authFields struct {
	AuthURL                     string `yaml:"auth_url"`
	AuthType                    string `yaml:"auth_type"`
	AuthPlugin                  string `yaml:"auth_plugin"` // the former name of auth_type
	Username                    string `yaml:"username"`
	UserID                      string `yaml:"user_id"`
	Password                    string `yaml:"password"`
	Token                       string `yaml:"token"`
	ApplicationCredentialID     string `yaml:"application_credential_id"`
	ApplicationCredentialName   string `yaml:"application_credential_name"`
	ApplicationCredentialSecret string `yaml:"application_credential_secret"`
	ProjectID                   string `yaml:"project_id"`
	ProjectName                 string `yaml:"project_name"`
	TenantID                    string `yaml:"tenant_id"` // the former names of a project's
	TenantName                  string `yaml:"tenant_name"`
	UserDomainID                string `yaml:"user_domain_id"`
	UserDomainName              string `yaml:"user_domain_name"`
	ProjectDomainID             string `yaml:"project_domain_id"`
	ProjectDomainName           string `yaml:"project_domain_name"`
	DomainID                    string `yaml:"domain_id"`
	DomainName                  string `yaml:"domain_name"`
	DefaultDomainID             string `yaml:"default_domain_id"`
	DefaultDomainName           string `yaml:"default_domain_name"`
	DefaultDomain               string `yaml:"default_domain"` // an id
	TrustID                     string `yaml:"trust_id"`
	SystemScope                 string `yaml:"system_scope"`
	// IdentityProvider is only for log-ins that are not supported.
	IdentityProvider string `yaml:"identity_provider"`
}

// setFrom sets each field to what value returns for its name in clouds.yaml.
func (a *authFields) setFrom(value func(field string) string) {
	fields := reflect.ValueOf(a).Elem()
	for i := range fields.NumField() {
		fields.Field(i).SetString(value(fields.Type().Field(i).Tag.Get("yaml")))
	}
}

// regionEntry is a region of an entry, with what is different there. A string is its name.
type regionEntry struct {
	Name string `yaml:"name"`
	// Values is a pointer, because a list may have many regions that are only names.
	Values *entry `yaml:"values"`
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (r *regionEntry) UnmarshalYAML(unmarshal func(any) error) error {
	if unmarshal(&r.Name) == nil {
		return nil
	}
	type structure regionEntry // without this method
	return unmarshal((*structure)(r))
}

// fill sets the fields that have no value to those of another entry.
func (e *entry) fill(from entry) { fill(reflect.ValueOf(e).Elem(), reflect.ValueOf(from)) }

func fill(to, from reflect.Value) {
	for i := range to.NumField() {
		switch field := to.Field(i); {
		case field.Kind() == reflect.Struct:
			fill(field, from.Field(i))
		case field.IsZero():
			field.Set(from.Field(i))
		}
	}
}

// vendor returns the name of the entry's profile; empty if it has none.
func (e entry) vendor() string { return cmp.Or(e.Profile, e.Cloud) }

// in returns the entry with what holds in a region. If want is empty, that is the one of region_name or, as in
// openstacksdk, the first of regions.
func (e entry) in(want string) (entry, error) {
	want = cmp.Or(want, e.RegionName)
	if len(e.Regions) == 0 {
		e.RegionName = want
		return e, nil
	}
	names := make([]string, len(e.Regions))
	for i, region := range e.Regions {
		names[i] = region.Name
	}
	at := 0
	if want != "" {
		if at = slices.Index(names, want); at < 0 {
			return entry{}, fmt.Errorf("region_name (or OS_REGION_NAME) is none of the regions of this entry: write one "+
				"of %s, or add it to regions", OneLine(strings.Join(names, ", ")))
		}
	}
	var here entry
	if values := e.Regions[at].Values; values != nil {
		here = *values
	}
	here.fill(e)
	here.RegionName = names[at]
	return here, nil
}

// insecure reports whether certificates are not to be verified.
func (e entry) insecure() bool { return e.Insecure || e.Verify != nil && !*e.Verify }

// endpoint returns which endpoint of the catalog is meant. override wins over the entry's interface.
func (e entry) endpoint(override string) gophercloud.EndpointOpts {
	opts := gophercloud.EndpointOpts{Region: e.RegionName}
	switch cmp.Or(override, e.EndpointType, e.Interface) {
	case "internal", "internalURL":
		opts.Availability = gophercloud.AvailabilityInternal
	case "admin", "adminURL":
		opts.Availability = gophercloud.AvailabilityAdmin
	}
	return opts
}

// naming returns how a message names a field of authFields, with its place.
type naming func(field string) string

func inFile(field string) string {
	if field == "auth_type" {
		return field
	}
	return "auth." + field
}

func inEnvironment(field string) string { return "OS_" + strings.ToUpper(field) }

// authOptions returns what is sent to Keystone: what auth_type says, and nothing else. It refuses what is incomplete or
// not supported.
func (e entry) authOptions(say naming) (gophercloud.AuthOptions, error) {
	a := e.Auth
	fill(reflect.ValueOf(&a).Elem(), reflect.ValueOf(e.Beside))
	auth := gophercloud.AuthOptions{IdentityEndpoint: a.AuthURL, AllowReauth: true}
	var err error
	switch method, unsupported := a.method(say); {
	case unsupported != nil:
		err = unsupported
	case a.AuthURL == "" && e.vendor() != "":
		err = fmt.Errorf("%s is missing, and the profile is not known here: add the address of Keystone, and what else "+
			"the profile means", say("auth_url"))
	case a.AuthURL == "":
		err = fmt.Errorf("%s is missing: add it, the address of Keystone", say("auth_url"))
	case method == byToken && a.Token == "":
		err = fmt.Errorf("the token is missing: give %s", say("token"))
	case method == byToken:
		auth.TokenID, auth.AllowReauth = a.Token, false
		auth.Scope, err = a.scope(say)
	case method == byApplicationCredential:
		auth.ApplicationCredentialSecret = a.ApplicationCredentialSecret
		err = a.setApplicationCredential(&auth, say)
	default:
		auth.Password = a.Password
		if err = a.setUser(&auth, say); err == nil && a.Password == "" {
			err = fmt.Errorf("the password is missing: give %s", say("password"))
		}
		if err == nil {
			auth.Scope, err = a.scope(say)
		}
	}
	if err != nil {
		return gophercloud.AuthOptions{}, err
	}
	return auth, nil
}

// method is a way to log in.
type method int

const (
	byPassword method = iota
	byToken
	byApplicationCredential
)

// unsupported are the auth_types of keystoneauth and its plugins that cannot be used here. An unknown one is not
// repeated in messages, because it may be a misplaced secret.
var unsupported = []string{
	"admin_token", "http_basic", "noauth", "none", "token_endpoint", "v1password", "v3adfspassword", "v3fedkerb",
	"v3kerberos", "v3multifactor", "v3oauth1", "v3oauth2clientcredential", "v3oauth2mtlsclientcredential",
	"v3oidcaccesstoken", "v3oidcauthcode", "v3oidcclientcredentials", "v3oidcdeviceauthz", "v3oidcpassword",
	"v3samlpassword", "v3tokenlessauth", "v3totp", "v3websso",
}

// method returns how to log in. Without auth_type, it is what the secret is for.
func (a authFields) method(say naming) (method, error) {
	const instead = "create an application credential (" + osc.CreateCredential + "), and write its " +
		"id and secret with auth_type v3applicationcredential"
	switch authType := cmp.Or(a.AuthType, a.AuthPlugin); authType {
	case "password", "v3password":
		return byPassword, nil
	case "token", "v3token":
		return byToken, nil
	case "v3applicationcredential":
		return byApplicationCredential, nil
	case "v2password", "v2token":
		return 0, fmt.Errorf("%s %s is of Keystone v2, which is not supported: write v3%s, and an auth_url that ends "+
			"with /v3", say("auth_type"), authType, authType[2:])
	case "":
	default:
		if slices.Contains(unsupported, authType) {
			return 0, fmt.Errorf("%s %s is not supported: %s", say("auth_type"), authType, instead)
		}
		return 0, fmt.Errorf("%s is not password, token or v3applicationcredential, and no other is supported: %s",
			say("auth_type"), instead)
	}
	switch {
	case a.IdentityProvider != "":
		return 0, fmt.Errorf("%s is for single sign-on, which is not supported: %s", say("identity_provider"), instead)
	case a.Password != "":
		return byPassword, nil
	case a.Token != "":
		return byToken, nil
	case cmp.Or(a.ApplicationCredentialID, a.ApplicationCredentialName, a.ApplicationCredentialSecret) != "":
		return byApplicationCredential, nil
	}
	return byPassword, nil
}

// setUser sets the user, by id if there is one, and else by name and domain.
func (a authFields) setUser(auth *gophercloud.AuthOptions, say naming) error {
	if a.UserID != "" {
		auth.UserID = a.UserID
		return nil
	}
	if a.Username == "" {
		return fmt.Errorf("the user is missing: give %s and %s, or %s", say("username"), say("user_domain_name"),
			say("user_id"))
	}
	auth.Username = a.Username
	auth.DomainID, auth.DomainName = a.domain(a.UserDomainID, a.UserDomainName)
	if auth.DomainID == "" && auth.DomainName == "" {
		return fmt.Errorf("the user's domain is missing: give %s or %s", say("user_domain_name"), say("user_domain_id"))
	}
	return nil
}

// domain returns the domain of a user or project by id or by name, not both. As in openstacksdk, an id wins over a
// name, even the id that holds for both domains.
func (a authFields) domain(id, name string) (byID, byName string) {
	if byID = cmp.Or(id, a.DomainID); byID != "" {
		return byID, ""
	}
	if byName = cmp.Or(name, a.DomainName); byName != "" {
		return "", byName
	}
	if byID = cmp.Or(a.DefaultDomainID, a.DefaultDomain); byID != "" {
		return byID, ""
	}
	return "", a.DefaultDomainName
}

func (a authFields) setApplicationCredential(auth *gophercloud.AuthOptions, say naming) error {
	if a.ApplicationCredentialSecret == "" {
		return fmt.Errorf("the application credential's secret is missing: give %s", say("application_credential_secret"))
	}
	if a.ApplicationCredentialID != "" {
		auth.ApplicationCredentialID = a.ApplicationCredentialID
		return nil
	}
	if a.ApplicationCredentialName == "" {
		return fmt.Errorf("the application credential is missing: give %s", say("application_credential_id"))
	}
	auth.ApplicationCredentialName = a.ApplicationCredentialName
	if err := a.setUser(auth, say); err != nil {
		return fmt.Errorf("%s does not suffice without its user: %w; or give %s instead",
			say("application_credential_name"), err, say("application_credential_id"))
	}
	return nil
}

// scope returns what the token is for; nil for what Keystone chooses.
func (a authFields) scope(say naming) (*gophercloud.AuthScope, error) {
	projectID, projectName := cmp.Or(a.ProjectID, a.TenantID), cmp.Or(a.ProjectName, a.TenantName)
	switch {
	case a.TrustID != "":
		return &gophercloud.AuthScope{TrustID: a.TrustID}, nil
	case projectID != "":
		return &gophercloud.AuthScope{ProjectID: projectID}, nil
	case projectName != "":
		id, name := a.domain(a.ProjectDomainID, a.ProjectDomainName)
		if id == "" && name == "" {
			return nil, fmt.Errorf("the project's domain is missing: give %s or %s", say("project_domain_name"),
				say("project_domain_id"))
		}
		return &gophercloud.AuthScope{ProjectName: projectName, DomainID: id, DomainName: name}, nil
	case a.SystemScope != "", a.DomainID != "", a.DomainName != "":
		return nil, fmt.Errorf("the project is missing: give %s and %s, or %s", say("project_name"),
			say("project_domain_name"), say("project_id"))
	}
	return nil, nil
}
