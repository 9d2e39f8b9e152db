package cloudtest

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

type network struct {
	ID string `json:"id"`
}

func (n network) Key() string { return n.ID }

var networks = client.Collection{One: "network", Many: "networks", Bulk: true}

// open gives a tenant of a new cloud, with so many rows on a page, and the cloud's habits.
func open(t *testing.T, rows int) (*client.Cloud, *neutrontest.Habits) {
	t.Helper()
	habits := &neutrontest.Habits{}
	Emulated(t, neutrontest.Options{}, habits.Wrap)
	return again(t, rows), habits
}

func again(t *testing.T, rows int) *client.Cloud {
	t.Helper()
	credentials, err := client.LoadCredentials("tenant")
	expect.NoError(t, err)
	return client.NewCloud(credentials, client.Options{PageSize: rows})
}

func TestListsAreWholeAlthoughAPolicyHidesRowsAndLinksLeadAway(t *testing.T) {
	const rows, made = 10, 25
	c, habits := open(t, rows)
	for n := range made {
		_, err := c.CreateAll(t.Context(), "create network", networks, []map[string]any{
			{"name": fmt.Sprint("n", n), "description": "[owner=c/o]"}})
		expect.NoError(t, err)
	}
	// One that is not ours, which the policy hides.
	_, err := c.CreateAll(t.Context(), "create network", networks, []map[string]any{{"name": "foreign"}})
	expect.NoError(t, err)
	for _, habit := range []neutrontest.Habit{neutrontest.ShortPages, neutrontest.InternalLinks} {
		expect.NoError(t, habits.Set(habit))
		all, err := client.List[network](t.Context(), c, "list networks", networks, url.Values{"fields": {"id", "description"}})
		expect.NoError(t, err)
		if len(all) < made {
			t.Errorf("with the habit %s, %d of %d networks are listed", habit, len(all), made)
		}
	}
}

func TestAWaitUntilADateIsReadAsADuration(t *testing.T) {
	for _, also := range [][]neutrontest.Habit{nil, {neutrontest.NoDate}} {
		c, habits := open(t, 0)
		expect.NoError(t, habits.Set(append(also, neutrontest.DatedRetries)...))
		_, err := c.CreateAll(t.Context(), "create network", networks, []map[string]any{{"name": "n"}})
		e, ok := errors.AsType[*client.Error](err)
		if !ok || e.Kind != client.Throttled || e.Wait <= 0 || e.Wait > 4*time.Second {
			t.Errorf("beside %v: it waits as %+v says", also, err)
		}
		_, err = c.CreateAll(t.Context(), "create network", networks, []map[string]any{{"name": "n"}})
		expect.NoError(t, err)
	}
}

func TestWhatAProxyAnswersIsSaidAndNotQuoted(t *testing.T) {
	c, habits := open(t, 0)
	expect.NoError(t, habits.Set(neutrontest.HTMLErrors))
	_, err := client.List[network](t.Context(), c, "list networks", networks, url.Values{})
	if client.KindOf(err) != client.Transient || !strings.Contains(err.Error(), "service unavailable (HTTP 503)") ||
		strings.Contains(err.Error(), "<") {
		t.Errorf("got %v", err)
	}
}

func TestTheTimeOfAnAnswerMayBeMissing(t *testing.T) {
	c, habits := open(t, 0)
	for habit, has := range map[neutrontest.Habit]bool{neutrontest.NoDate: false, neutrontest.SkewedDates: true} {
		expect.NoError(t, habits.Set(habit))
		var date time.Time
		expect.NoError(t, c.Do(t.Context(), client.Request{Op: "read", Method: http.MethodGet, Path: "networks", Date: &date}))
		expect.Equal(t, !has, date.IsZero(), "whether there is no time with the habit %s", habit)
	}
}

// Keystone's list of versions may name a host that only the cloud's own machines reach.
func TestALogInThatIsLedAwaySaysWhereAndWhatToWrite(t *testing.T) {
	c, habits := open(t, 0)
	expect.NoError(t, habits.Set(neutrontest.InternalLinks))
	_, err := c.Identity(t.Context())
	expect.NoError(t, err)

	file := os.Getenv("OS_CLIENT_CONFIG_FILE")
	content, err := os.ReadFile(file)
	expect.NoError(t, err)
	expect.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(string(content), "/v3", "")), 0o600))
	_, err = again(t, 0).Identity(t.Context())
	for _, want := range []string{"openstack.internal.example", "write /v3 at the end of auth_url"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("it says %v, want %q", err, want)
		}
	}
}
