package harness

import (
	"encoding/base64"
	"html"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

// Secrets are texts that have to show nowhere. The zero value has none; all methods are safe for concurrent use.
type Secrets struct {
	mu sync.Mutex
	// names tell what a form of a secret is.
	names map[string]string
}

// Add adds a secret, which name says in words. An empty one is none.
func (s *Secrets) Add(name, secret string) {
	if secret == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names == nil {
		s.names = map[string]string{}
	}
	for form, text := range map[string]string{
		"in plain": secret, "escaped for a query": url.QueryEscape(secret), "escaped for a path": url.PathEscape(secret),
		"escaped for HTML": html.EscapeString(secret),
	} {
		if text != secret || form == "in plain" {
			s.names[text] = name + " " + form
		}
	}
	// What base64 makes of a text depends on where, of three places, it stands; the digits at its ends are shared with
	// its neighbours.
	for before := range 3 {
		padded := append(make([]byte, before), secret...)
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			digits := encoding.EncodeToString(padded[:len(padded)/3*3])
			if before > 0 {
				digits = digits[min(4, len(digits)):]
			}
			if len(digits) >= 8 {
				s.names[digits] = name + " in base64"
			}
		}
	}
}

// In gives which secrets a text holds, each with the form in which it does.
func (s *Secrets) In(text string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := map[string]bool{}
	for form, name := range s.names {
		if strings.Contains(text, form) {
			found[name] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// AddClouds adds the passwords in a clouds.yaml.
func (s *Secrets) AddClouds(t testing.TB, path string) {
	t.Helper()
	content, err := os.ReadFile(path)
	expect.NoError(t, err)
	var file struct {
		Clouds map[string]struct {
			Auth struct {
				Password string `json:"password"`
			} `json:"auth"`
		} `json:"clouds"`
	}
	expect.NoError(t, yaml.Unmarshal(content, &file))
	for name, cloud := range file.Clouds {
		s.Add("the password of "+name, cloud.Auth.Password)
	}
}

// AddAccount adds the token with which a kubeconfig logs in.
func (s *Secrets) AddAccount(t testing.TB, kubeconfig string) {
	t.Helper()
	config, err := clientcmd.LoadFromFile(kubeconfig)
	expect.NoError(t, err)
	for _, account := range config.AuthInfos {
		s.Add("the ServiceAccount's token", account.Token)
	}
}
