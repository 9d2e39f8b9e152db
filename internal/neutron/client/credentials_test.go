package client

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

// bareEnvironment takes every variable and file away that credentials could come from, and returns the empty folders
// that now are the current directory and $XDG_CONFIG_HOME.
func bareEnvironment(t *testing.T) (cwd, config string) {
	t.Helper()
	for _, pair := range os.Environ() {
		if name, _, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "OS_") {
			t.Setenv(name, "")
		}
	}
	cwd, config = t.TempDir(), t.TempDir()
	t.Chdir(cwd)
	t.Setenv("XDG_CONFIG_HOME", config)
	t.Setenv("HOME", t.TempDir())
	return cwd, config
}

func writeFile(t *testing.T, content string, path ...string) string {
	t.Helper()
	name := filepath.Join(path...)
	expect.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
	expect.NoError(t, os.WriteFile(name, []byte(content), 0o600))
	return name
}

// cloudsYAML has one cloud of each name; the auth_url tells the place that it was read from.
func cloudsYAML(place string, names ...string) string {
	var b strings.Builder
	b.WriteString("clouds:\n")
	for _, name := range names {
		fmt.Fprintf(&b, "  %s:\n    auth:\n      auth_url: http://%s.%s.invalid/v3\n      username: u\n"+
			"      password: %s\n      project_name: p\n      user_domain_name: ud\n      project_domain_name: pd\n"+
			"    region_name: yaml-region\n", name, name, place, canaryPassword)
	}
	return b.String()
}

func TestCloudIsChosenAndFoundAsOpenStackClientsDo(t *testing.T) {
	for name, test := range map[string]struct {
		cloud string
		env   map[string]string
		// files are under "cwd" or "config"; each holds the clouds a and b.
		files []string
		want  string
	}{
		"OS_CLOUD is taken where no name is given": {
			env: map[string]string{"OS_CLOUD": "b"}, files: []string{"cwd/clouds.yaml"}, want: "http://b.cwd.invalid/v3",
		},
		"the name that is given goes before OS_CLOUD": {
			cloud: "a", env: map[string]string{"OS_CLOUD": "b"}, files: []string{"cwd/clouds.yaml"},
			want: "http://a.cwd.invalid/v3",
		},
		"a name goes before OS_AUTH_URL": {
			cloud: "a", env: map[string]string{"OS_AUTH_URL": "http://env.invalid/v3"},
			files: []string{"cwd/clouds.yaml"}, want: "http://a.cwd.invalid/v3",
		},
		"the current directory goes before the user's configuration": {
			cloud: "a", files: []string{"cwd/clouds.yaml", "config/openstack/clouds.yaml"}, want: "http://a.cwd.invalid/v3",
		},
		"the user's configuration is found": {
			cloud: "a", files: []string{"config/openstack/clouds.yaml"}, want: "http://a.config.invalid/v3",
		},
		"OS_CLIENT_CONFIG_FILE goes before every place": {
			cloud: "a", env: map[string]string{"OS_CLIENT_CONFIG_FILE": "CONFIG/other/my.yaml"},
			files: []string{"cwd/clouds.yaml", "config/other/my.yaml"}, want: "http://a.config.invalid/v3",
		},
	} {
		t.Run(name, func(t *testing.T) {
			cwd, config := bareEnvironment(t)
			for _, file := range test.files {
				place, path, _ := strings.Cut(file, "/")
				writeFile(t, cloudsYAML(place, "a", "b"), map[string]string{"cwd": cwd, "config": config}[place], path)
			}
			for key, value := range test.env {
				t.Setenv(key, strings.ReplaceAll(value, "CONFIG", config))
			}
			credentials, err := LoadCredentials(test.cloud)
			expect.NoError(t, err)
			expect.Equal(t, test.want, credentials.auth().IdentityEndpoint, "auth_url")
		})
	}
}

func TestSystemWideCloudsFileComesLast(t *testing.T) {
	cwd, config := bareEnvironment(t)
	_, err := findCloudsFile()
	if _, statErr := os.Stat("/etc/openstack/clouds.yaml"); statErr == nil {
		t.Skip("this machine has a system-wide clouds.yaml")
	}
	if err == nil {
		t.Fatal("a clouds.yaml was found where there is none")
	}
	places := []string{
		"clouds.yaml", filepath.Join(config, "openstack", "clouds.yaml"), "/etc/openstack/clouds.yaml",
	}
	if want := strings.Join(places, ", "); !strings.Contains(err.Error(), want) {
		t.Errorf("the error does not name the places in their order, %s: %v (in %s)", want, err, cwd)
	}
}

// entryA is a clouds.yaml with an entry "a" that has what follows in auth.
func entryA(auth string) string {
	return "clouds: {a: {auth: {auth_url: 'http://x.invalid/v3', username: u, project_id: p" + auth + "}}}"
}

func TestUnusableCredentialsNameTheRemedyAndNoSecret(t *testing.T) {
	noPassword := entryA(", user_domain_name: d")
	for name, test := range map[string]struct {
		// files are in the current directory, or below config/; "->" begins a link's target. env is the environment.
		files, env map[string]string
		// yaml is the only file, clouds.yaml, in which the cloud "a" is looked for unless another is named.
		yaml, cloud string
		// mentions are parts of the error.
		mentions []string
	}{
		"no cloud is named":   {mentions: []string{"--cloud", "OS_CLOUD", "OS_AUTH_URL"}},
		"no file is anywhere": {cloud: "a", mentions: []string{`cloud "a"`, "OS_CLIENT_CONFIG_FILE"}},
		"the named file is not there": {
			env:   map[string]string{"OS_CLIENT_CONFIG_FILE": "absent.yaml"},
			cloud: "a", mentions: []string{"absent.yaml", "no such file"},
		},
		"a directory stands in the file's place": {
			files: map[string]string{"clouds.yaml/file": ""}, cloud: "a", mentions: []string{"clouds.yaml", "is a directory"},
		},
		"a file that cannot be read is not passed over": {
			files: map[string]string{"clouds.yaml": "->clouds.yaml", "config/openstack/clouds.yaml": cloudsYAML("config", "a")},
			cloud: "a", mentions: []string{"clouds.yaml", "too many levels of symbolic links"},
		},
		"an unknown cloud is answered with the known ones": {
			yaml: cloudsYAML("cwd", "b", "a"), cloud: "c", mentions: []string{`cloud "c"`, "a, b"},
		},
		"an empty file has no clouds": {yaml: "\n", cloud: "c", mentions: []string{"no clouds"}},
		"auth_url is missing": {
			yaml: "clouds: {a: {auth: {username: u, password: " + canaryPassword + "}}}", mentions: []string{"auth_url"},
		},
		"an entry is null": {yaml: "clouds: {a: }", mentions: []string{"auth_url"}},
		"secure.yaml has no entry": {
			files: map[string]string{"clouds.yaml": "clouds: {a: {auth: }}", "secure.yaml": "clouds: {b: }"},
			cloud: "a", mentions: []string{"auth_url"},
		},
		"a user name without a domain in clouds.yaml": {
			yaml: entryA(", password: " + canaryPassword), mentions: []string{"user_domain_name"},
		},
		"the file for cacert is missing": {
			yaml:     cloudsYAML("cwd", "a") + "    cacert: /nowhere/ca.pem\n",
			mentions: []string{"/nowhere/ca.pem", "no such file"},
		},
		"the file for cacert holds no certificate": {
			files: map[string]string{"ca.pem": canaryBody, "clouds.yaml": cloudsYAML("cwd", "a") + "    cacert: ca.pem\n"},
			cloud: "a", mentions: []string{"ca.pem", "CA"},
		},
		"broken YAML in the line of the password is not quoted": {
			yaml:     "clouds:\n  a:\n    auth:\n      password: {" + canaryPassword + "\n",
			mentions: []string{"clouds.yaml", "line"},
		},
		"a password that reads as an alias is not quoted": {
			yaml: "clouds:\n  a:\n    auth:\n      password: *" + canaryPassword + "\n", mentions: []string{"clouds.yaml"},
		},
		"a value of the wrong form is not quoted": {
			yaml: "clouds:\n  a:\n    auth: " + canaryPassword + "\n", mentions: []string{"line 3"},
		},
		"a file that is one string is not quoted": {yaml: canaryPassword, mentions: []string{"clouds.yaml"}},
		"a value of the wrong form in secure.yaml is not quoted": {
			files: map[string]string{"clouds.yaml": noPassword, "secure.yaml": "clouds:\n  a:\n    auth: " + canaryPassword + "\n"},
			cloud: "a", mentions: []string{"secure.yaml: line 3"},
		},
		"a secure.yaml that cannot be opened is not passed over": {
			files: map[string]string{"clouds.yaml": noPassword, "secure.yaml": "->secure.yaml"},
			cloud: "a", mentions: []string{"secure.yaml: too many levels"},
		},
		"no user in the environment":     {env: with("OS_USERNAME", ""), mentions: []string{"OS_USERNAME"}},
		"no password in the environment": {env: with("OS_PASSWORD", ""), mentions: []string{"OS_PASSWORD"}},
		"no project in the environment":  {env: with("OS_PROJECT_NAME", ""), mentions: []string{"OS_PROJECT_NAME"}},
		"a user name without a domain":   {env: with("OS_USER_DOMAIN_NAME", ""), mentions: []string{"OS_USER_DOMAIN_NAME"}},
		"a project without a domain":     {env: with("OS_PROJECT_DOMAIN_NAME", ""), mentions: []string{"OS_PROJECT_DOMAIN_NAME"}},
		"single sign-on":                 {env: with("OS_AUTH_TYPE", "v3oidcpassword"), mentions: []string{"OS_AUTH_TYPE v3oidcpassword"}},
	} {
		t.Run(name, func(t *testing.T) {
			if test.yaml != "" {
				test.files, test.cloud = map[string]string{"clouds.yaml": test.yaml}, cmp.Or(test.cloud, "a")
			}
			place(t, test.files, test.env)
			_, err := LoadCredentials(test.cloud)
			if err == nil {
				t.Fatal("no error")
			}
			for _, part := range test.mentions {
				expect.ErrorSays(t, err, part)
			}
			for _, canary := range []string{canaryPassword, canaryBody} {
				if strings.Contains(err.Error(), canary[:len(canary)-2]) {
					t.Errorf("the error quotes the file: %v", err)
				}
			}
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("the error is more than one line: %q", err)
			}
		})
	}
}

// place puts files and variables, and nothing else, where credentials come from: files below config/ into the user's
// configuration, others into the current directory.
func place(t *testing.T, files, env map[string]string) {
	t.Helper()
	cwd, config := bareEnvironment(t)
	for name, content := range files {
		in := cwd
		if of, below := strings.CutPrefix(name, "config/"); below {
			in, name = config, of
		}
		if to, link := strings.CutPrefix(content, "->"); !link {
			writeFile(t, content, in, name)
		} else if err := os.Symlink(to, filepath.Join(in, name)); err != nil {
			t.Fatal(err)
		}
	}
	for key, value := range env {
		t.Setenv(key, value)
	}
}

// with is fullEnvironment with other values of variables, given as key, value and so on.
func with(changes ...string) map[string]string {
	env := maps.Clone(fullEnvironment)
	for at := 0; at < len(changes); at += 2 {
		env[changes[at]] = changes[at+1]
	}
	return env
}

func TestUsableCredentials(t *testing.T) {
	user, password := entryA(", user_domain_name: d"), "clouds: {a: {auth: {password: "+canaryPassword+"}}}"
	environment := func(text string) string { return strings.Replace(text, "{a:", "{environment:", 1) }
	for name, test := range map[string]struct {
		files, env map[string]string
		cloud      string
		// project is the project's id, if it is named by that. token is true for what cannot be renewed.
		project string
		token   bool
	}{
		"secure.yaml beside clouds.yaml": {
			files:   map[string]string{"config/openstack/clouds.yaml": user, "config/openstack/secure.yaml": password},
			project: "p", cloud: "a",
		},
		"auth that is all in secure.yaml": {
			files: map[string]string{"clouds.yaml": "clouds: {a: {region_name: r}}",
				"secure.yaml": entryA(", user_domain_name: d, password: " + canaryPassword)}, project: "p", cloud: "a",
		},
		"a secure.yaml with nothing in it": {
			files:   map[string]string{"clouds.yaml": cloudsYAML("cwd", "a"), "secure.yaml": "# nothing yet\n"},
			project: "", cloud: "a",
		},
		"a cloud with the name environment": {
			files:   map[string]string{"clouds.yaml": environment(user), "secure.yaml": environment(password)},
			project: "p", cloud: "environment",
		},
		"a token": {env: map[string]string{"OS_AUTH_URL": "http://env.invalid/v3", "OS_TOKEN": canaryToken}, token: true},
		"an application credential": {env: map[string]string{
			"OS_AUTH_URL": "http://env.invalid/v3", "OS_APPLICATION_CREDENTIAL_ID": "id",
			"OS_APPLICATION_CREDENTIAL_SECRET": canaryPassword,
		}},
		// It gives the project's id and name, and the project's domain by id.
		"the openrc of Horizon": {
			env: with("OS_PROJECT_ID", "pid", "OS_PROJECT_DOMAIN_NAME", "", "OS_PROJECT_DOMAIN_ID", "default",
				"OS_IDENTITY_API_VERSION", "3"), project: "pid",
		},
	} {
		t.Run(name, func(t *testing.T) {
			place(t, test.files, test.env)
			credentials, err := LoadCredentials(test.cloud)
			expect.NoError(t, err)
			a := credentials.auth()
			if a.AllowReauth == test.token {
				t.Errorf("logs in again: %t", a.AllowReauth)
			}
			if secret := a.Password + a.TokenID + a.ApplicationCredentialSecret; secret != canaryPassword && secret != canaryToken {
				t.Errorf("the secret is %q", secret)
			}
			if test.project != "" && a.Scope.ProjectID != test.project {
				t.Errorf("the project is %q, want %q", a.Scope.ProjectID, test.project)
			}
		})
	}
}

// fullEnvironment are the variables of a user and a project in domains of their own.
var fullEnvironment = map[string]string{
	"OS_AUTH_URL": "http://env.invalid/v3", "OS_USERNAME": "u", "OS_PASSWORD": canaryPassword,
	"OS_PROJECT_NAME": "p", "OS_USER_DOMAIN_NAME": "ud", "OS_PROJECT_DOMAIN_NAME": "pd", "OS_REGION_NAME": "r",
	"OS_INTERFACE": "internal",
}

func TestEnvironmentAloneIsEnough(t *testing.T) {
	place(t, nil, fullEnvironment)
	credentials, err := LoadCredentials("")
	expect.NoError(t, err)
	a := credentials.auth()
	got := map[string]string{
		"name": credentials.Name, "auth_url": a.IdentityEndpoint, "user": a.Username, "password": a.Password,
		"user domain": a.DomainName, "project": a.Scope.ProjectName, "project domain": a.Scope.DomainName,
		"region": credentials.endpoint.Region, "interface": string(credentials.endpoint.Availability),
	}
	want := map[string]string{
		"name": "environment", "auth_url": "http://env.invalid/v3", "user": "u", "password": canaryPassword,
		"user domain": "ud", "project": "p", "project domain": "pd", "region": "r", "interface": "internal",
	}
	expect.Equal(t, want, got, "credentials")
	if !a.AllowReauth {
		t.Error("a password does not log in again when the token has run out")
	}
}

func TestEveryPasswordSurvivesTheEnvironment(t *testing.T) {
	place(t, nil, fullEnvironment)
	rapid.Check(t, func(t *rapid.T) {
		password := rapid.StringOf(rapid.RuneFrom([]rune("aZ0 \t\n:#'\"\\%~!&*{}[]|>-@`é\u0085\u2028\U0001F600"))).
			Filter(func(s string) bool { return s != "" }).Draw(t, "password")
		//nolint:usetesting // rapid's T has no Setenv; the test's own has noted what to put back
		expect.NoError(t, os.Setenv("OS_PASSWORD", password))
		credentials, err := LoadCredentials("")
		expect.NoError(t, err)
		expect.Equal(t, password, credentials.auth().Password, "password")
	})
}

func TestPrintingCredentialsShowsNoSecret(t *testing.T) {
	credentials := passwordCredentials("http://user:"+canaryPassword+"@x.invalid/v3", canaryPassword)
	type holder struct{ inner Credentials }
	cloud := NewCloud(credentials, Options{})
	for name, value := range map[string]any{
		"the value": credentials, "a pointer": &credentials, "a slice": []Credentials{credentials},
		"a map": map[string]Credentials{"a": credentials}, "an unexported field": holder{credentials}, "a Cloud": cloud,
		"what holds a Cloud": struct{ inner *Cloud }{cloud},
	} {
		for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
			text := fmt.Sprintf(format, value)
			if strings.Contains(text, canaryPassword) || strings.Contains(text, fmt.Sprintf("%x", canaryPassword)) {
				t.Errorf("%s of %s shows the password: %s", format, name, text)
			}
		}
		if content, err := json.Marshal(value); strings.Contains(string(content), canaryPassword) {
			t.Errorf("JSON of %s shows the password: %s (%v)", name, content, err)
		}
	}
	credentials = passwordCredentials("http://x.invalid/v3", canaryPassword)
	if want := `cloud "test" at http://x.invalid/v3`; credentials.String() != want {
		t.Errorf("String gives %q, want %q", credentials.String(), want)
	}
	if text := new(Credentials).String(); text == "" {
		t.Error("the zero Credentials have no String")
	}
}
