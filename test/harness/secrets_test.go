package harness

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

// TestPlantedSecretIsFound is what gives the searches that find nothing their worth.
func TestPlantedSecretIsFound(t *testing.T) {
	const password, token = "hunter2/ü+ &canary", "gAAAAABcanary-token"
	var s Secrets
	s.Add("the password", password)
	s.Add("a token", token)
	s.Add("nothing", "")
	body, err := json.Marshal(map[string]string{"token": token})
	expect.NoError(t, err)
	for sentence, c := range map[string]struct {
		text string
		want []string
	}{
		"no secret":             {"all is well with base64 " + base64.StdEncoding.EncodeToString([]byte("all is well")), nil},
		"a part of one":         {token[:len(token)-1], nil},
		"in a line":             {`E1120 "failed" err="` + token + `"`, []string{"a token in plain"}},
		"in JSON":               {string(body), []string{"a token in plain"}},
		"in a query":            {"?p=" + url.QueryEscape(password), []string{"the password escaped for a query"}},
		"in a path":             {"/" + url.PathEscape(password), []string{"the password escaped for a path"}},
		"in a page":             {"<p>hunter2/ü+ &amp;canary</p>", []string{"the password escaped for HTML"}},
		"both":                  {token + password, []string{"a token in plain", "the password in plain"}},
		"the header of another": {"X-Auth-Token: " + strings.ToUpper(token), nil},
	} {
		t.Run(sentence, func(t *testing.T) {
			if diff := cmp.Diff(c.want, s.In(c.text)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	for _, before := range []string{"", "u", "u:", "use", "user"} {
		for _, after := range []string{"", "x", "xy"} {
			for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawURLEncoding} {
				text := fmt.Sprintf("Basic %s, and so on", encoding.EncodeToString([]byte(before+password+after)))
				expect.Equal(t, []string{"the password in base64"}, s.In(text), "%s", text)
			}
		}
	}
}
