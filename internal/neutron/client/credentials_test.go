package client

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
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
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
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
		"the name that is given is taken": {
			cloud: "a", files: []string{"cwd/clouds.yaml"}, want: "http://a.cwd.invalid/v3",
		},
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
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, credentials.auth().IdentityEndpoint); diff != "" {
				t.Errorf("auth_url (-want +got):\n%s", diff)
			}
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

func TestAnInvalidCloudsFileNamesTheRemedy(t *testing.T) {
	const named = "OS_CLIENT_CONFIG_FILE"
	for name, test := range map[string]struct {
		prepare func(t *testing.T, cwd string)
		cloud   string
		// mentions are parts of the error.
		mentions []string
	}{
		"no cloud is named": {
			prepare:  func(*testing.T, string) {},
			mentions: []string{"--cloud", "OS_CLOUD", "OS_AUTH_URL"},
		},
		"no file is anywhere": {
			prepare: func(*testing.T, string) {}, cloud: "a", mentions: []string{`cloud "a"`, "OS_CLIENT_CONFIG_FILE"},
		},
		"the named file is not there": {
			prepare: func(t *testing.T, cwd string) { t.Setenv(named, filepath.Join(cwd, "absent.yaml")) },
			cloud:   "a", mentions: []string{"absent.yaml", "no such file"},
		},
		"a directory stands in the file's place": {
			prepare: func(t *testing.T, cwd string) { writeFile(t, "", cwd, "clouds.yaml", "file") },
			cloud:   "a", mentions: []string{"clouds.yaml", "is a directory"},
		},
		"a file that cannot be read is not passed over": {
			prepare: func(t *testing.T, cwd string) {
				if err := os.Symlink("clouds.yaml", filepath.Join(cwd, "clouds.yaml")); err != nil {
					t.Fatal(err)
				}
				writeFile(t, cloudsYAML("config", "a"), os.Getenv("XDG_CONFIG_HOME"), "openstack", "clouds.yaml")
			},
			cloud: "a", mentions: []string{"clouds.yaml", "too many levels of symbolic links"},
		},
		"an unknown cloud is answered with the known ones": {
			prepare: func(t *testing.T, cwd string) { writeFile(t, cloudsYAML("cwd", "b", "a"), cwd, "clouds.yaml") },
			cloud:   "c", mentions: []string{`cloud "c"`, "a, b"},
		},
		"an empty file has no clouds": {
			prepare: func(t *testing.T, cwd string) { writeFile(t, "", cwd, "clouds.yaml") },
			cloud:   "c", mentions: []string{"no clouds"},
		},
		"auth_url is missing": {
			prepare: func(t *testing.T, cwd string) {
				writeFile(t, "clouds: {a: {auth: {username: u, password: "+canaryPassword+", user_domain_name: d, "+
					"project_id: p}}}", cwd, "clouds.yaml")
			},
			cloud: "a", mentions: []string{"auth_url"},
		},
		"the file for cacert is missing": {
			prepare: func(t *testing.T, cwd string) {
				writeFile(t, cloudsYAML("cwd", "a")+"    cacert: /nowhere/ca.pem\n", cwd, "clouds.yaml")
			},
			cloud: "a", mentions: []string{"/nowhere/ca.pem", "no such file"},
		},
		"the file for cacert holds no certificate": {
			prepare: func(t *testing.T, cwd string) {
				path := writeFile(t, canaryBody, cwd, "ca.pem")
				writeFile(t, cloudsYAML("cwd", "a")+"    cacert: "+path+"\n", cwd, "clouds.yaml")
			},
			cloud: "a", mentions: []string{"ca.pem", "CA"},
		},
		"broken YAML in the line of the password is not quoted": {
			prepare: func(t *testing.T, cwd string) {
				writeFile(t, "clouds:\n  a:\n    auth:\n      password: {"+canaryPassword+"\n", cwd, "clouds.yaml")
			},
			cloud: "a", mentions: []string{"clouds.yaml", "line"},
		},
		"a password that reads as an alias is not quoted": {
			prepare: func(t *testing.T, cwd string) {
				writeFile(t, "clouds:\n  a:\n    auth:\n      password: *"+canaryPassword+"\n", cwd, "clouds.yaml")
			},
			cloud: "a", mentions: []string{"clouds.yaml"},
		},
		"a value of the wrong form is not quoted": {
			prepare: func(t *testing.T, cwd string) {
				writeFile(t, "clouds:\n  a:\n    auth: "+canaryPassword+"\n", cwd, "clouds.yaml")
			},
			cloud: "a", mentions: []string{"line 3"},
		},
		"a file that is one string is not quoted": {
			prepare: func(t *testing.T, cwd string) { writeFile(t, canaryPassword, cwd, "clouds.yaml") },
			cloud:   "a", mentions: []string{"clouds.yaml"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			cwd, _ := bareEnvironment(t)
			test.prepare(t, cwd)
			_, err := LoadCredentials(test.cloud)
			if err == nil {
				t.Fatal("no error")
			}
			for _, part := range test.mentions {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error does not mention %q: %v", part, err)
				}
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

func TestSecureFileIsMergedFromBesideTheCloudsFile(t *testing.T) {
	_, config := bareEnvironment(t)
	writeFile(t, "clouds: {a: {auth: {auth_url: 'http://x.invalid/v3', username: u, user_domain_name: d, project_id: p}}}",
		config, "openstack", "clouds.yaml")
	writeFile(t, "clouds: {a: {auth: {password: "+canaryPassword+"}}}", config, "openstack", "secure.yaml")
	credentials, err := LoadCredentials("a")
	if err != nil {
		t.Fatal(err)
	}
	if credentials.auth().Password != canaryPassword {
		t.Error("the password of secure.yaml was not taken")
	}
}

// fullEnvironment are the variables of a user and a project in domains of their own.
var fullEnvironment = map[string]string{
	"OS_AUTH_URL": "http://env.invalid/v3", "OS_USERNAME": "u", "OS_PASSWORD": canaryPassword,
	"OS_PROJECT_NAME": "p", "OS_USER_DOMAIN_NAME": "ud", "OS_PROJECT_DOMAIN_NAME": "pd", "OS_REGION_NAME": "r",
	"OS_INTERFACE": "internal",
}

func TestEnvironmentAloneIsEnough(t *testing.T) {
	bareEnvironment(t)
	for key, value := range fullEnvironment {
		t.Setenv(key, value)
	}
	credentials, err := LoadCredentials("")
	if err != nil {
		t.Fatal(err)
	}
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
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("credentials (-want +got):\n%s", diff)
	}
	if !a.AllowReauth {
		t.Error("a password does not log in again when the token has run out")
	}
}

func TestIncompleteEnvironmentNamesWhatIsMissing(t *testing.T) {
	for _, missing := range []string{"OS_USERNAME", "OS_PASSWORD", "OS_PROJECT_NAME"} {
		t.Run("without "+missing, func(t *testing.T) {
			bareEnvironment(t)
			for key, value := range fullEnvironment {
				t.Setenv(key, value)
			}
			t.Setenv(missing, "")
			_, err := LoadCredentials("")
			if err == nil || !strings.Contains(err.Error(), missing) {
				t.Errorf("the error does not name %s: %v", missing, err)
			}
		})
	}
}

func TestTokenOrApplicationCredentialNeedsNoPassword(t *testing.T) {
	for name, env := range map[string]map[string]string{
		"a token": {"OS_TOKEN": canaryToken},
		"an application credential": {
			"OS_APPLICATION_CREDENTIAL_ID": "id", "OS_APPLICATION_CREDENTIAL_SECRET": canaryPassword,
		},
	} {
		t.Run(name, func(t *testing.T) {
			bareEnvironment(t)
			t.Setenv("OS_AUTH_URL", "http://env.invalid/v3")
			for key, value := range env {
				t.Setenv(key, value)
			}
			credentials, err := LoadCredentials("")
			if err != nil {
				t.Fatal(err)
			}
			if got, want := credentials.auth().AllowReauth, env["OS_TOKEN"] == ""; got != want {
				t.Errorf("logs in again: %t, want %t", got, want)
			}
		})
	}
}

func TestEveryPasswordSurvivesTheEnvironment(t *testing.T) {
	bareEnvironment(t)
	for key, value := range fullEnvironment {
		t.Setenv(key, value)
	}
	rapid.Check(t, func(t *rapid.T) {
		password := rapid.StringOf(rapid.RuneFrom([]rune("aZ0 \t\n:#'\"\\%~!&*{}[]|>-@`é\u0085\u2028\U0001F600"))).
			Filter(func(s string) bool { return s != "" }).Draw(t, "password")
		//nolint:usetesting // rapid's T has no Setenv; the test's own has noted what to put back
		if err := os.Setenv("OS_PASSWORD", password); err != nil {
			t.Fatal(err)
		}
		credentials, err := LoadCredentials("")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(password, credentials.auth().Password); diff != "" {
			t.Fatalf("password (-want +got):\n%s", diff)
		}
	})
}

func TestCredentialsArePrintedWithoutSecrets(t *testing.T) {
	bareEnvironment(t)
	for key, value := range fullEnvironment {
		t.Setenv(key, value)
	}
	credentials, err := LoadCredentials("")
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		for name, value := range map[string]any{
			"the value": credentials, "a pointer": &credentials, "a slice": []Credentials{credentials},
			"a map": map[string]Credentials{"a": credentials},
		} {
			text := fmt.Sprintf(format, value)
			if strings.Contains(text, canaryPassword) || strings.Contains(text, fmt.Sprintf("%x", canaryPassword)) {
				t.Errorf("%s of %s shows the password: %s", format, name, text)
			}
		}
	}
	for name, value := range map[string]any{
		"the value": credentials, "a pointer": &credentials, "a Cloud": NewCloud(credentials, Options{}),
	} {
		content, err := json.Marshal(value)
		if strings.Contains(string(content), canaryPassword) {
			t.Errorf("JSON of %s shows the password: %s (%v)", name, content, err)
		}
	}
	if want := `cloud "environment" at http://env.invalid/v3`; credentials.String() != want {
		t.Errorf("String gives %q, want %q", credentials.String(), want)
	}
}

func TestSecureFileThatCannotBeUsedIsNoSecretAndNotPassedOver(t *testing.T) {
	const clouds = "clouds: {NAME: {auth: {auth_url: 'http://x.invalid/v3', username: u, user_domain_name: d, " +
		"project_id: p}}}"
	for name, test := range map[string]struct {
		content string
		link    bool
		mention string
	}{
		"an alias in it is not quoted": {
			content: "clouds:\n  NAME:\n    auth:\n      password: *" + canaryPassword + "\n", mention: "secure.yaml",
		},
		"a value of the wrong form is not quoted": {
			content: "clouds:\n  NAME:\n    auth: " + canaryPassword + "\n", mention: "secure.yaml: line 3",
		},
		"one that cannot be opened is not passed over": {link: true, mention: "secure.yaml: too many levels"},
	} {
		t.Run(name, func(t *testing.T) {
			cwd, _ := bareEnvironment(t)
			writeFile(t, strings.ReplaceAll(clouds, "NAME", "a"), cwd, "clouds.yaml")
			if test.link {
				if err := os.Symlink("secure.yaml", filepath.Join(cwd, "secure.yaml")); err != nil {
					t.Fatal(err)
				}
			} else {
				writeFile(t, strings.ReplaceAll(test.content, "NAME", "a"), cwd, "secure.yaml")
			}
			_, err := LoadCredentials("a")
			if err == nil {
				t.Fatal("no error")
			}
			if strings.Contains(err.Error(), canaryPassword) {
				t.Errorf("the error quotes the file: %v", err)
			}
			if !strings.Contains(err.Error(), test.mention) {
				t.Errorf("the error does not mention %q: %v", test.mention, err)
			}
		})
	}
}

func TestCloudMayBearTheNameEnvironment(t *testing.T) {
	cwd, _ := bareEnvironment(t)
	writeFile(t, "clouds: {environment: {auth: {auth_url: 'http://x.invalid/v3', username: u, user_domain_name: d, "+
		"project_id: p}}}", cwd, "clouds.yaml")
	writeFile(t, "clouds: {environment: {auth: {password: "+canaryPassword+"}}}", cwd, "secure.yaml")
	credentials, err := LoadCredentials("environment")
	if err != nil {
		t.Fatal(err)
	}
	if credentials.auth().Password != canaryPassword {
		t.Error("secure.yaml was not read for a cloud of this name")
	}
}

func TestEmptySecureFileSaysNothing(t *testing.T) {
	cwd, _ := bareEnvironment(t)
	writeFile(t, cloudsYAML("cwd", "a"), cwd, "clouds.yaml")
	writeFile(t, "# nothing yet\n", cwd, "secure.yaml")
	if _, err := LoadCredentials("a"); err != nil {
		t.Fatal(err)
	}
}
func TestCloudWithoutAuthIsAnErrorOrGetsItFromSecureFile(t *testing.T) {
	for name, test := range map[string]struct {
		clouds, secure string
		wantError      string
	}{
		"an entry that is null":       {clouds: "clouds: {a: }", wantError: "auth_url"},
		"an entry without auth":       {clouds: "clouds: {a: {region_name: r}}", wantError: "auth_url"},
		"an entry whose auth is null": {clouds: "clouds: {a: {auth: }}", wantError: "auth_url"},
		"auth that is all in secure.yaml": {
			clouds: "clouds: {a: {region_name: r}}",
			secure: "clouds: {a: {auth: {auth_url: 'http://x.invalid/v3', username: u, password: p, user_domain_name: d, " +
				"project_id: p}}}",
		},
		"a secure.yaml that says nothing of the cloud": {
			clouds: "clouds: {a: {auth: }}", secure: "clouds: {b: }", wantError: "auth_url",
		},
	} {
		t.Run(name, func(t *testing.T) {
			cwd, _ := bareEnvironment(t)
			writeFile(t, test.clouds, cwd, "clouds.yaml")
			if test.secure != "" {
				writeFile(t, test.secure, cwd, "secure.yaml")
			}
			_, err := LoadCredentials("a")
			switch {
			case test.wantError == "" && err != nil:
				t.Fatal(err)
			case test.wantError != "" && (err == nil || !strings.Contains(err.Error(), test.wantError)):
				t.Errorf("the error does not mention %s: %v", test.wantError, err)
			}
		})
	}
}
func TestCredentialsThatKeystoneCannotTakeAreRefusedAtOnce(t *testing.T) {
	for name, test := range map[string]struct {
		unset   []string
		set     map[string]string
		mention string
	}{
		"a user name without a domain": {unset: []string{"OS_USER_DOMAIN_NAME"}, mention: "OS_USER_DOMAIN_NAME"},
		"a project name without a domain": {
			unset: []string{"OS_PROJECT_DOMAIN_NAME"}, mention: "OS_PROJECT_DOMAIN_NAME",
		},
		"a user by name and id": {set: map[string]string{"OS_USER_ID": "id"}, mention: "OS_ variables"},
	} {
		t.Run(name, func(t *testing.T) {
			bareEnvironment(t)
			for key, value := range fullEnvironment {
				t.Setenv(key, value)
			}
			for _, key := range test.unset {
				t.Setenv(key, "")
			}
			for key, value := range test.set {
				t.Setenv(key, value)
			}
			_, err := LoadCredentials("")
			if err == nil || !strings.Contains(err.Error(), test.mention) {
				t.Errorf("the error does not mention %s: %v", test.mention, err)
			}
		})
	}

	t.Run("a user name without a domain in clouds.yaml", func(t *testing.T) {
		cwd, _ := bareEnvironment(t)
		writeFile(t, "clouds: {a: {auth: {auth_url: 'http://x.invalid/v3', username: u, password: "+canaryPassword+
			", project_id: p}}}", cwd, "clouds.yaml")
		_, err := LoadCredentials("a")
		if err == nil || !strings.Contains(err.Error(), "user_domain_name") {
			t.Errorf("the error does not say what is missing: %v", err)
		}
	})
}

func TestVariablesOfDashboardAreTaken(t *testing.T) {
	// The openrc that Horizon hands out gives the project's id and name, and the project's domain by id.
	bareEnvironment(t)
	for key, value := range fullEnvironment {
		t.Setenv(key, value)
	}
	t.Setenv("OS_PROJECT_ID", "pid")
	t.Setenv("OS_PROJECT_DOMAIN_NAME", "")
	t.Setenv("OS_PROJECT_DOMAIN_ID", "default")
	t.Setenv("OS_IDENTITY_API_VERSION", "3")
	credentials, err := LoadCredentials("")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("pid", credentials.auth().Scope.ProjectID); diff != "" {
		t.Errorf("project (-want +got):\n%s", diff)
	}
}
func TestPrintingCredentialsShowsNoSecret(t *testing.T) {
	credentials := passwordCredentials("http://user:"+canaryPassword+"@x.invalid/v3", canaryPassword)
	type holder struct{ inner Credentials }
	cloud := NewCloud(credentials, Options{})
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x"} {
		for name, value := range map[string]any{
			"credentials": credentials, "an unexported field": holder{credentials}, "a Cloud": cloud, "what holds a Cloud": struct{ inner *Cloud }{cloud},
		} {
			text := fmt.Sprintf(format, value)
			if strings.Contains(text, canaryPassword) || strings.Contains(text, fmt.Sprintf("%x", canaryPassword)) {
				t.Errorf("%s of %s shows the password: %s", format, name, text)
			}
		}
	}
	if text := new(Credentials).String(); text == "" {
		t.Error("the zero Credentials have no String")
	}
}
