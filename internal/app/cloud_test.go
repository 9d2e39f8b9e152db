package app

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/klog/v2/ktesting"

	"cloudteam.ztgame.com/network-controller/internal/metric"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/virtual"
)

// rotation is files of credentials in virtual time, and a Keystone that takes some passwords.
type rotation struct {
	*credentialsFiles
	t    *testing.T
	path string

	mu sync.Mutex
	// taken is the password that Keystone takes; empty for any.
	taken string
	// said is what became of it: "tried", "replaced".
	said []string
}

const cloudsYAML = `clouds:
  c:
    auth:
      auth_url: http://keystone.invalid/v3
      username: u
      project_name: p
      user_domain_name: d
      project_domain_name: d
      password: `

func inRotation(t *testing.T, test func(t *testing.T, r *rotation)) {
	dir := t.TempDir()
	t.Setenv("OS_CLIENT_CONFIG_FILE", filepath.Join(dir, "clouds.yaml"))
	metric.Register()
	synctest.Test(t, func(t *testing.T) {
		logger, ctx := ktesting.NewTestContext(t)
		r := &rotation{t: t, path: filepath.Join(dir, "clouds.yaml")}
		r.write("first")
		load := func() (client.Credentials, error) { return client.LoadCredentials("c") }
		used, err := load()
		expect.NoError(t, err)
		r.credentialsFiles = &credentialsFiles{
			load: load, used: used, look: make(chan struct{}, 1), logger: logger,
			replaced: func() { r.say("replaced") },
			replace: func(context.Context, client.Credentials) error {
				r.say("tried")
				taken := r.take(nil)
				if content, err := os.ReadFile(r.path); err != nil || taken != "" && string(content) != cloudsYAML+taken {
					return errors.New("refused")
				}
				return nil
			},
		}
		ctx, cancel := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() { defer close(done); r.run(ctx) }()
		test(t, r)
		cancel()
		<-done
	})
}

func (r *rotation) write(password string) {
	r.t.Helper()
	expect.NoError(r.t, os.WriteFile(r.path, []byte(cloudsYAML+password), 0o600))
}

func (r *rotation) say(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = append(r.said, what)
}

// take sets the password that Keystone takes, unless it is nil, and gives it.
func (r *rotation) take(password *string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if password != nil {
		r.taken = *password
	}
	return r.taken
}

// heard gives what was said since it was last asked.
func (r *rotation) heard() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	said := r.said
	r.said = nil
	return said
}

func (r *rotation) after(d time.Duration) {
	virtual.Elapse(d)
	synctest.Wait()
}

func (r *rotation) want(what ...string) {
	r.t.Helper()
	expect.Equal(r.t, what, r.heard(), "what was said")
}

func TestChangedCredentialsAreUsedAfterALogIn(t *testing.T) {
	inRotation(t, func(_ *testing.T, r *rotation) {
		r.after(time.Hour)
		r.want()
		r.write("second")
		r.after(credentialsInterval + settling)
		r.want("tried", "replaced")
		r.after(time.Hour)
		r.want()
	})
}

func TestRefusedCredentialsAreRetriedWithBackoff(t *testing.T) {
	inRotation(t, func(t *testing.T, r *rotation) {
		r.take(new("third"))
		r.write("second")
		r.after(credentialsInterval + settling)
		r.want("tried")
		const long = 10 * time.Minute
		for range int(long / time.Second) {
			r.lookNow() // as each failed log-in does
			r.after(time.Second)
		}
		if got, most := len(r.heard()), int(long/credentialsBackoffLast)+5; got > most || got < most/2 {
			t.Errorf("a wrong password was tried %d times in %v, want about %d", got, long, most)
		}
		r.take(new("second"))
		r.after(2 * credentialsBackoffLast)
		r.want("tried", "replaced")
	})
}

func TestCorrectedCredentialsAreTriedAtOnce(t *testing.T) {
	inRotation(t, func(_ *testing.T, r *rotation) {
		r.take(new("third"))
		r.write("second")
		r.after(credentialsInterval + settling)
		r.after(10 * time.Minute)
		r.heard()
		r.write("third")
		r.after(credentialsInterval + settling)
		r.want("tried", "replaced")
	})
}

func TestAFailedLogInTriggersACheckOfTheFiles(t *testing.T) {
	inRotation(t, func(_ *testing.T, r *rotation) {
		r.after(credentialsInterval + time.Millisecond)
		r.write("second")
		r.lookNow()
		r.after(settling)
		r.want("tried", "replaced")
	})
}

// What a file holds in the middle of being written in place may lead elsewhere: without its last lines, to another
// interface of the cloud or another project.
func TestAnIncompleteFileIsNotUsed(t *testing.T) {
	inRotation(t, func(_ *testing.T, r *rotation) {
		r.write("seco")
		r.after(credentialsInterval + settling/2)
		r.write("second")
		r.after(settling)
		r.want()
		r.after(settling)
		r.want("tried", "replaced")
	})
}

func TestUnreadableFilesKeepTheCredentials(t *testing.T) {
	inRotation(t, func(t *testing.T, r *rotation) {
		for _, content := range []string{"clouds: {", "clouds: {other: {}}", ""} {
			expect.NoError(t, os.WriteFile(r.path, []byte(content), 0o600))
			r.after(2 * credentialsInterval)
			r.want()
		}
		expect.NoError(t, os.Remove(r.path))
		r.after(2 * credentialsInterval)
		r.want()
		r.write("first")
		r.after(2 * credentialsInterval)
		r.want()
		r.write("second")
		r.after(credentialsInterval + settling)
		r.want("tried", "replaced")
	})
}
