package redact

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestTextsKeepWhatIsNoSecret(t *testing.T) {
	for _, text := range []string{
		"CredentialsRejected: The cloud rejects the log-in.",
		"secretName: network-controller-clouds", `Secret "shop/creds" has no key clouds.yaml`, "the token is missing: give auth.token",
		"https://cloud.example.org:5000/v3?user=a", "docker-pullable://registry.example.org:5000/x@sha256:0123456789",
		"kubectl network why port/web -n shop", "basic authentication fails", "key=shop/web tokens: 5 keys: 3", "author: me",
		`error getting token: Post "https://cloud.example.org/v3": EOF`, `err="error getting token: Get \"https://cloud.example.org\": EOF"`,
		"http://cloud.example.org:5000/v3 failed for me@example.org", `{"url":"http://cloud.example.org:5000","mail":"me@example.org"}`,
		"http://[2001:db8::1]:5000/ fails: me@example.org", "design: a", "signal: killed",
	} {
		var texts Texts
		expect.Equal(t, text, texts.Text(text), "the text")
		expect.Equal(t, 0, len(texts.Removed()), "removed")
	}
	var metrics Texts
	line := `outage{namespace="shop",secret="creds",cloud="a"} 0`
	expect.Equal(t, line, metrics.Text(line, "secret"), "a metric")
}

// wantTexts holds what texts become.
func wantTexts(t *testing.T, all map[string]string) {
	t.Helper()
	for text, want := range all {
		var texts Texts
		expect.Equal(t, want, texts.Text(text), "the text")
	}
}

func TestTextsRemoveSecrets(t *testing.T) {
	wantTexts(t, map[string]string{
		`I0301 "Log-in failed" err="POST: {\"password\": \"a\\\"b c\", \"user\": \"u\"}" cloud="x"`: `I0301 "Log-in failed" err="POST: {\"password\": [redacted], \"user\": \"u\"}" cloud="x"`,
		"password=hunter2 user=u":                                         "password=[redacted] user=u",
		"E0301 token=<\n\tone\n\ttwo\n > user=\"u\"":                      "E0301 token=[redacted] user=\"u\"",
		"map[Authorization:[Bearer abc] X-Auth-Token:[def]]":              "map[Authorization:[redacted] X-Auth-Token:[redacted]]",
		"https://user:p/w@cloud.example.org:5000/v3":                      "https://[redacted]@cloud.example.org:5000/v3",
		"a -----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY----- b": "a [redacted] b",
		"unauthorized: Bearer abcdefgh.ijkl":                              "unauthorized: Bearer [redacted]",
		"token gAAAAABnXyz-0123456789_abcdef== is over":                   "token [redacted] is over",
		"OS_PASSWORD:\n  hunter2\nuser: u":                                "OS_PASSWORD:\n  [redacted]\nuser: u",
	})
}

// TestTextsRemoveKeysByTheirNames has the names that programs give keys and passwords.
func TestTextsRemoveKeysByTheirNames(t *testing.T) {
	for _, name := range []string{"client-key-data: ", "tls.key: ", `"auth":`, "secret_key=", "secretKey: ", "SECRET_KEY_BASE=", "auth_key=",
		"encryption_key=", "encryptionKey=", "passwords=", "password1=", "credentials: ", "https://a.example.org/b?sv=1&sig=", "url_sig=", "Client_Key="} {
		var texts Texts
		expect.Equal(t, "a "+name+"[redacted] b", texts.Text("a "+name+"ab/hunter2 b"), "the text")
	}
	for _, text := range []string{"a LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQ== b"} {
		var texts Texts
		expect.Equal(t, "a [redacted] b", texts.Text(text), "the text")
	}
}

// TestTextsRemoveUsersOfURLs has passwords that should be escaped.
func TestTextsRemoveUsersOfURLs(t *testing.T) {
	for _, user := range []string{"u:hunter2", "u:a hunter2", `u:a"hunter2`, "u:a'hunter2", "u:a/hunter2", "u:a@hunter2", "u@c:a/hunter2", `u:a\"b/hunter2`,
		"hunter2", "u:1@hunter2"} {
		var texts Texts
		expect.Equal(t, "GET https://[redacted]@cloud.example.org:5000/v3 b", texts.Text("GET https://"+user+"@cloud.example.org:5000/v3 b"), "%s", user)
	}
}

// TestTextsRemoveListsAndMaps has values in brackets, as JSON and Go write them.
func TestTextsRemoveListsAndMaps(t *testing.T) {
	wantTexts(t, map[string]string{
		`{"X-Auth-Token":["hunter2"],"b":1}`:                     `{"X-Auth-Token":[redacted],"b":1}`,
		`http.Header{"X-Auth-Token":[]string{"hunter2"}, "B":1}`: `http.Header{"X-Auth-Token":[redacted], "B":1}`,
		`{"token":{"id":"hunt}er2","a":["b"]},"b":1}`:            `{"token":[redacted],"b":1}`,
		`err="{\"token\":{\"id\":\"hunt}er2\"}}" b=1`:            `err="{\"token\":[redacted]}" b=1`,
		"map[X-Auth-Token:[a hunter2] B:[c]]":                    "map[X-Auth-Token:[redacted] B:[c]]",
		"token: [a\nb":                                           "token: [redacted]\nb",
		"\"token\": [\n  \"hunter2\",\n  \"b\"\n]\nb":            "\"token\": [redacted]\n]\nb",
	})
}

// TestTextsRemoveKeysAlone has keys, and what only begins like one.
func TestTextsRemoveKeysAlone(t *testing.T) {
	begin, end, key := "-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----", strings.Repeat("Ab+/", 16)
	far := strings.Repeat("a line\n", 200)
	wantTexts(t, map[string]string{
		"Event: " + begin + "\nanother: line\n" + far:                              "Event: [redacted]\nanother: line\n" + far,
		"Event: " + begin + "\nanother: line\n" + far + end:                        "Event: [redacted]\nanother: line\n" + far + end,
		"a " + begin + "\n" + key + "\n" + key + "\nAb==\n" + end + " b":           "a [redacted] b",
		"a " + begin + "\n" + key + "\n" + key:                                     "a [redacted]",
		`err="` + begin + `\n` + key + `\n` + key + `\nAb==\n` + end + `\n" b=1`:   `err="[redacted]\n" b=1`,
		"I0 a] " + begin + "\nI0 a] " + key + "\nI0 a] Ab==\nI0 a] " + end + "\nb": "I0 a] [redacted]\nb",
		strings.Repeat(begin+" a ", 1<<14):                                         strings.Repeat("[redacted] a ", 1<<14), // in linear time
		begin + "\nDEK-Info: a\n\n" + key + "\nAb==\n" + end:                       "[redacted]",
	})
}

// TestTextsRemoveBlocks has values in the lines below their names, as YAML writes them.
func TestTextsRemoveBlocks(t *testing.T) {
	wantTexts(t, map[string]string{
		"password: |\n  hunter2\n\n  more\nuser: u":         "password: [redacted]\nuser: u",
		"a:\n  password: >-\n    hunter2\n    b\n  user: u": "a:\n  password: [redacted]\n  user: u",
		"token:\n- hunter2\n- b c\nuser: u":                 "token:\n[redacted]\nuser: u",
		"- token:\n  - hunter2\n  user: u":                  "- token:\n  [redacted]\n  user: u",
		"token:\n  id: hunter2\n  b: hunter2\nuser: u":      "token:\n  [redacted]\nuser: u",
		"a:\n  token:\n  user: u":                           "a:\n  token:\n  user: u",
	})
}

// TestValuesShowNoSecret has all that JSON has below the name of a secret.
func TestValuesShowNoSecret(t *testing.T) {
	for document, want := range map[string]string{
		`{"token":{"id":"hunter2"},"user":"u"}`:        `{"token":"[redacted]","user":"u"}`,
		`{"password":{"value":["hunter2"]}}`:           `{"password":"[redacted]"}`,
		`{"password":12345}`:                           `{"password":"[redacted]"}`,
		`{"token":null,"secret":true}`:                 `{"secret":true,"token":null}`,
		`[{"name":"OS_PASSWORD","value":"hunter2"}]`:   `[{"name":"OS_PASSWORD","value":"[redacted]"}]`,
		`{"credentials":{"secretRef":{"name":"a"}}}`:   `{"credentials":{"secretRef":{"name":"a"}}}`,
		`{"credentials":{"a":{"password":"hunter2"}}}`: `{"credentials":{"a":{"password":"[redacted]"}}}`,
	} {
		var value any
		expect.NoError(t, json.Unmarshal([]byte(document), &value))
		var texts Texts
		got, err := json.Marshal(texts.Value(value))
		expect.NoError(t, err)
		expect.Equal(t, want, string(got), "the value")
	}
}

// TestTextsShowNoSecretInAnyPlace draws secrets, and what programs write them in.
func TestTextsShowNoSecretInAnyPlace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"password", "OS_PASSWORD", "adminPass", "client_secret", "X-Auth-Token", "token", "apiKey",
			"application_credential_secret", "Cookie", "aws-secret-access-key"}).Draw(t, "name")
		secret := "zq" + rapid.StringMatching(`[!#-~]{6,30}`).Draw(t, "secret") + "qz" // no blank and no double quote
		quotable := secret + rapid.StringMatching(`[ -~]{0,9}`).Draw(t, "more") + "qz"
		quoted := strconv.Quote(quotable)
		document, _ := json.Marshal(map[string]any{"a": map[string]any{name: quotable}, "b": 1})
		url := "https://user:" + strings.NewReplacer("@", "%40", "<", "%3C", ">", "%3E", "'", "%27", `\`, "%5C", "/", "%2F").Replace(secret) +
			"@cloud.example.org"
		place := rapid.SampledFrom([]string{
			fmt.Sprintf("%s=%s other=1", name, secret), fmt.Sprintf("%s: %s\nother: 1", name, secret), name + "=" + quoted + " other=1",
			string(document), "I0301 msg err=" + strconv.Quote(string(document)) + " other=1",
			"I0301 msg err=" + strconv.Quote(strconv.Quote(string(document))) + " other=1", url, strconv.Quote("GET " + url + ": refused"),
			"Authorization: Basic " + secret, fmt.Sprintf("%v", map[string]string{name: secret}),
		}).Draw(t, "place")
		var texts Texts
		got := texts.Text("before " + place + "\nafter")
		if core := secret[:6]; strings.Contains(got, core) || !strings.Contains(got, "before") || !strings.HasSuffix(got, "\nafter") {
			t.Fatalf("%q\nis shown as\n%q", place, got)
		}
		var object any
		expect.NoError(t, json.Unmarshal(document, &object))
		if shown := fmt.Sprint(texts.Value(object)); strings.Contains(shown, secret[:6]) || len(texts.Removed()) == 0 {
			t.Fatalf("%s is shown as %s", document, shown)
		}
	})
}
