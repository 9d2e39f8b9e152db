package managed_test

import (
	"encoding/json"
	"strings"
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/controller/managed"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestParseSameClouds(t *testing.T) {
	for flag, want := range map[string]string{
		"":                                      "",
		"http://a:9696=https://a:9696/":         "",
		"http://a/=http://b/,http://b=http://c": "",
		"http://a=http://b,http://a/=http://b/": "",
		"http://a":                              "write old=new",
		"a=b":                                   `"a" is no endpoint`,
		"http://a=ftp://b":                      `"ftp://b" is no endpoint`,
		"http://u:p@a=http://b":                 "is no endpoint",
		"http://a=http://a/":                    "is renamed to itself",
		"http://a=http://b,http://b=http://a":   "is renamed to itself",
		"http://a=http://b,http://a=http://c":   "has two new names",
	} {
		var pairs []string
		if flag != "" {
			pairs = strings.Split(flag, ",")
		}
		_, err := managed.ParseSameClouds(pairs)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", flag, err, want)
		}
	}
}

// renamed is here under another name.
var renamed = client.Identity{Endpoint: "http://neutron.old:9696/", Region: here.Region, ProjectID: here.ProjectID}

const available = "Ready=True Available"

func TestARenamedEndpointIsTheSameCloudByTheOperatorsWord(t *testing.T) {
	for name, c := range map[string]struct {
		pairs []string
		was   client.Identity
		state string
	}{
		"which names it": {[]string{"http://neutron.old:9696=https://neutron.test"}, renamed, available},
		"in two steps": {
			[]string{"http://neutron.old:9696/=http://neutron.mid/", "http://neutron.mid=https://neutron.test/"}, renamed,
			available,
		},
		"and back":    {[]string{"https://neutron.test/=http://neutron.old:9696/"}, renamed, available},
		"not without": {nil, renamed, "Ready=False Stalled=True CloudMismatch"},
		"not for another project": {
			[]string{"http://neutron.old:9696=https://neutron.test"},
			client.Identity{Endpoint: renamed.Endpoint, Region: here.Region, ProjectID: "p2"},
			"Ready=False Stalled=True CloudMismatch",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.Neutron.Lead(t, c.was)
				w.MustSync()
				w.Neutron.Lead(t, here)
				same, err := managed.ParseSameClouds(c.pairs)
				expect.NoError(t, err)
				w.restart()
				w.c.TakeAsSame(same)
				if err := w.sync(); (err == nil) != (c.state == available) {
					t.Errorf("sync: %v", err)
				}
				w.WantState(c.state)
				pinned := client.Identity(*w.status().Cloud)
				var recorded cloudteamv1.CloudStatus
				expect.NoError(t, json.Unmarshal([]byte(w.Get().Annotations[cloudteamv1.AnnotationCloud]), &recorded))
				want := c.was
				remedy := "--same-cloud=http://neutron.old:9696/=https://neutron.test/"
				if c.state == available {
					want = here
				} else if message := w.Ready().Message; strings.Contains(message, remedy) != (c.pairs == nil) {
					t.Errorf("message %q", message)
				}
				if pinned != want || client.Identity(recorded) != want {
					t.Errorf("the status names %s, the record %s, want %s", pinned, recorded, want)
				}
				w.Quiet()
				if c.state == available {
					w.MustSync()
				}
				w.WantCalls()
			}, example())
		})
	}
}
