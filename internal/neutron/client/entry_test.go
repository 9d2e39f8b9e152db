package client

import (
	"maps"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"pgregory.net/rapid"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

// keystone and names are lines of auth in the entries of the field.
const (
	atKeystone = "auth_url: " + allowedKeystone + "/v3\n"
	ofTheUser  = "username: u\npassword: " + canaryPassword + "\nproject_name: p\n"
	domains    = "user_domain_name: ud\nproject_domain_name: pd\n"
)

// byNames is what an entry with atKeystone, ofTheUser and domains sends.
var byNames = gophercloud.AuthOptions{
	Username: "u", Password: canaryPassword, DomainName: "ud", AllowReauth: true,
	Scope: &gophercloud.AuthScope{ProjectName: "p", DomainName: "pd"},
}

// TestAnEntryMeansWhatItMeansToOpenstacksdk reads entries from a file and from a Secret.
func TestAnEntryMeansWhatItMeansToOpenstacksdk(t *testing.T) {
	byIDs := byNames
	byIDs.DomainID, byIDs.DomainName = "d", ""
	byIDs.Scope = &gophercloud.AuthScope{ProjectName: "p", DomainID: "d"}
	const credential = "application_credential_name: n\napplication_credential_secret: " + canaryPassword + "\n"
	secretIs := func(auth gophercloud.AuthOptions) gophercloud.AuthOptions {
		auth.ApplicationCredentialSecret, auth.AllowReauth = canaryPassword, true
		return auth
	}
	for sentence, c := range map[string]struct {
		auth, beside string
		want         gophercloud.AuthOptions
		region       string
		// refused are parts of the error; it names the cloud in any case.
		refused []string
	}{
		"a profile that is nowhere":  {auth: atKeystone + ofTheUser + domains, beside: "profile: ovh", want: byNames},
		"a cloud as its own profile": {auth: atKeystone + ofTheUser + domains, beside: "cloud: mine", want: byNames},
		"a profile that would have the address": {
			auth: ofTheUser + domains, beside: "profile: ovh", refused: []string{"auth.auth_url is missing", "profile"},
		},
		"domains beside auth":        {auth: atKeystone + ofTheUser, beside: domains, want: byNames},
		"an address beside auth":     {auth: ofTheUser + domains, beside: atKeystone, want: byNames},
		"a domain's id beside names": {auth: atKeystone + ofTheUser + domains + "domain_id: d", want: byIDs},
		"domains by id and by name": {
			auth: atKeystone + ofTheUser + domains + "user_domain_id: d\nproject_domain_id: d", want: byIDs,
		},
		"a default domain": {auth: atKeystone + ofTheUser + "default_domain: d", want: byIDs},
		"a project by its former name": {
			auth: atKeystone + strings.Replace(ofTheUser, "project", "tenant", 1) + domains, want: byNames,
		},
		"a user by id and by name": {
			auth: atKeystone + ofTheUser + domains + "user_id: i",
			want: gophercloud.AuthOptions{UserID: "i", Password: canaryPassword, AllowReauth: true, Scope: byNames.Scope},
		},
		"no project's domain": {
			auth:    atKeystone + ofTheUser + "user_domain_name: ud",
			refused: []string{"give auth.project_domain_name or auth.project_domain_id"},
		},
		"no user": {auth: atKeystone + "password: " + canaryPassword, refused: []string{"give auth.username"}},
		"a domain and no project": {
			auth:    atKeystone + "username: u\npassword: " + canaryPassword + "\ndomain_name: d",
			refused: []string{"give auth.project_name"},
		},
		"regions, the first of which has the address": {
			auth: ofTheUser + domains, want: byNames, region: "RegionOne",
			beside: "regions:\n- {name: RegionOne, values: {auth: {auth_url: '" + allowedKeystone + "/v3'}}}\n- RegionTwo",
		},
		"one region of several": {
			auth: ofTheUser + domains, want: byNames, region: "RegionTwo",
			beside: "region_name: RegionTwo\nregions:\n- RegionOne\n" +
				"- {name: RegionTwo, values: {auth: {auth_url: '" + allowedKeystone + "/v3'}}}",
		},
		"a region that is none of them": {
			auth: atKeystone + ofTheUser + domains, beside: "region_name: c\nregions: [a, b]",
			refused: []string{"region_name", "one of a, b"},
		},
		"an application credential by name, of a user": {
			auth: atKeystone + credential + "username: u\nuser_domain_name: ud", beside: "auth_type: v3applicationcredential",
			want: secretIs(gophercloud.AuthOptions{ApplicationCredentialName: "n", Username: "u", DomainName: "ud"}),
		},
		"an application credential by name alone": {
			auth: atKeystone + credential, beside: "auth_type: v3applicationcredential",
			refused: []string{"auth.application_credential_name does not suffice", "auth.username", "auth.application_credential_id"},
		},
		"an application credential beside a password": {
			auth: atKeystone + ofTheUser + domains + "application_credential_id: i\napplication_credential_secret: " +
				canaryPassword, beside: "auth_type: v3applicationcredential",
			want: secretIs(gophercloud.AuthOptions{ApplicationCredentialID: "i"}),
		},
		"a password beside a token": {
			auth: atKeystone + ofTheUser + domains + "token: " + canaryToken, beside: "auth_type: v3password", want: byNames,
		},
		"a type without what it needs": {
			auth: atKeystone + ofTheUser + domains, beside: "auth_type: token", refused: []string{"give auth.token"},
		},
		"a password for single sign-on": {
			auth:   atKeystone + ofTheUser + domains + "identity_provider: sso\nprotocol: openid\nclient_id: c",
			beside: "auth_type: v3oidcpassword", refused: []string{"auth_type v3oidcpassword is not supported", "v3applicationcredential"},
		},
		"a password for single sign-on, with its type in auth": {
			auth: atKeystone + ofTheUser + domains + "auth_type: v3oidcpassword", refused: []string{"auth_type v3oidcpassword"},
		},
		"a password for single sign-on, without its type": {
			auth: atKeystone + ofTheUser + domains + "identity_provider: sso", refused: []string{"auth.identity_provider"},
		},
		"Keystone v2": {
			auth: atKeystone + ofTheUser + domains, beside: "auth_type: v2password", refused: []string{"write v3password"},
		},
		"a secret where the type belongs": {
			auth: atKeystone + ofTheUser + domains, beside: "auth_type: " + canaryBody, refused: []string{"auth_type is not"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			if c.refused == nil {
				c.want.IdentityEndpoint = allowedKeystone + "/v3"
			}
			file := entryOf(c.auth, c.beside)
			place(t, map[string]string{"clouds.yaml": file}, nil)
			fromFile, fileErr := LoadCredentials("mine")
			fromSecret, secretErr := SecretCredentials("team/x", secretOf(file), "", confinement(t, false))
			for of, got := range map[string]struct {
				Credentials
				err error
			}{"clouds.yaml": {fromFile, fileErr}, "a Secret": {fromSecret, secretErr}} {
				if c.refused == nil {
					expect.NoError(t, got.err)
					expect.Equal(t, c.want, got.auth(), "what %s sends", of)
					expect.Equal(t, c.region, got.endpoint.Region, "the region of %s", of)
					continue
				}
				checkNoSecrets(t, got.err)
				for _, part := range append(c.refused, `cloud "mine"`, "clouds.yaml") {
					expect.ErrorSays(t, got.err, part)
				}
			}
		})
	}
}

func TestAProfileIsReadFromItsFile(t *testing.T) {
	files := map[string]string{
		"clouds.yaml":                         entryOf(ofTheUser+domains, "profile: vendor"),
		"config/openstack/clouds-public.yaml": "public-clouds: {vendor: {region_name: r, auth: {auth_url: '" + allowedKeystone + "/v3', project_name: other}}}",
	}
	place(t, files, nil)
	got, err := LoadCredentials("mine")
	expect.NoError(t, err)
	want := byNames
	want.IdentityEndpoint = allowedKeystone + "/v3"
	expect.Equal(t, want, got.auth(), "what is sent")
	expect.Equal(t, "r", got.endpoint.Region, "region")

	broken := maps.Clone(files)
	broken["clouds-public.yaml"] = "public-clouds: " + canaryBody
	place(t, broken, nil)
	if _, err = LoadCredentials("mine"); err == nil || !strings.Contains(err.Error(), "clouds-public.yaml: line 1") {
		t.Errorf("the file with a broken profile is not named: %v", err)
	}
}

// TestWhatIsTakenCanBeSent draws entries: what gophercloud would refuse at a log-in would look like an outage.
func TestWhatIsTakenCanBeSent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var e entry
		kinds := []string{"", "", "password", "token", "v3applicationcredential"}
		for _, a := range []*authFields{&e.Auth, &e.Beside} {
			a.setFrom(func(field string) string {
				switch {
				case field == "auth_type":
					return rapid.SampledFrom(kinds).Draw(t, field)
				case field == "auth_plugin", field == "identity_provider", !rapid.Bool().Draw(t, field):
					return ""
				}
				return field
			})
		}
		auth, err := e.authOptions(inFile)
		if err != nil {
			return
		}
		scope, err := auth.ToTokenV3ScopeMap()
		if err == nil {
			_, err = auth.ToTokenV3CreateMap(scope)
		}
		if err != nil {
			t.Errorf("it cannot be sent: %v", err)
		}
	})
}
