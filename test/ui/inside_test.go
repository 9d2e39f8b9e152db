package ui

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/gophercloud/gophercloud/v2"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/dev/inside"
	"cloudteam.ztgame.com/network-controller/dev/process"
	"cloudteam.ztgame.com/network-controller/internal/inspect"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/nightly"
)

// classroom is a controller that streams what it does, a cloud that can be broken, and the page that shows both.
type classroom struct {
	t          *testing.T
	namespace  string
	cloudsFile string
	// kubeconfig leads the controller through front.
	kubeconfig string
	front      *inside.Front
	tenant     *harness.Cloud
	emulator   *process.Process
	controller atomic.Pointer[harness.Process]
	// stream is the address at which each controller says what it does.
	stream string
	// more are arguments of the controllers that start from now on.
	more []string
	page page
}

// TestInside presses each button of the page of make run, and reads what the page shows of it.
func TestInside(t *testing.T) {
	c := &classroom{t: t}
	c.build()
	p := c.page
	object := "network/" + c.namespace + "/student"

	t.Run("a new Network passes all stages", func(t *testing.T) {
		p := p.of(t)
		p.press("create")
		p.await(fmt.Sprintf(`[...document.querySelectorAll('#object option')].some((o) => o.value === %q)`, object))
		p.js(fmt.Sprintf(`location.hash = %q`, object))
		for _, stage := range []string{"reflector", "deltafifo", "indexer", "handlers", "queue", "worker", "plan", "batch",
			"neutron", "inventory", "status"} {
			p.await(rows(stage, ""))
		}
		p.await(`document.querySelector('#events tr[data-what="same"], #events tr[data-what="empty"]')`)
		c.codeIsTrue(p)
		if unsaid := eval[[]string](p, `app.events.map((e) => e.text).filter((text) => !text.endsWith('.'))`); len(unsaid) > 0 {
			t.Errorf("these events have no sentence: %q", unsaid)
		}
	})
	t.Run("arrows join the stages", c.arrowsMeetBoxes)
	t.Run("a status write comes back by the watch", func(t *testing.T) {
		p := p.of(t)
		p.press("edit")
		p.await(lit("write") + ` && ` + lit("watch"))
		c.replay(p, `e.stage === 'status' && e.what === 'written'`)
		p.await(lit("tell") + ` && ` + lit("write") + ` && !` + lit("key")) // and no arrow of another event
		p.js(`window.written = app.active.resourceVersion`)
		p.await(`document.querySelector('.now').innerText.includes(window.written)`)
		c.replay(p, `e.stage === 'reflector' && e.resourceVersion === window.written`)
		p.await(lit("watch"))
		p.do(chromedp.KeyEvent("l"))
	})
	t.Run("a pause pauses the view alone", func(t *testing.T) {
		p := p.of(t)
		c.rests(p)
		p.do(chromedp.KeyEvent("p"))
		p.await(`document.querySelector('#pause').ariaPressed === 'true'`)
		before := eval[int](p, `document.querySelectorAll('#events tr').length`)
		generation := c.generation(t)
		p.press("edit")
		surroundings.Eventually(t, func() error {
			if c.generation(t) == generation {
				return fmt.Errorf("the controller has not acted on the edit")
			}
			return nil
		})
		p.await(`/^The view is \d+ events behind/.test(document.querySelector('#behind').innerText)`)
		if now := eval[int](p, `document.querySelectorAll('#events tr').length`); now != before {
			t.Errorf("the view went from %d to %d events while it was paused", before, now)
		}
		// As a rule, it is the Reflector's. What the last sync says at its end may come before.
		p.js(`window.next = app.events.slice(app.at).find((e) => app.shows(e))`)
		p.click("#step")
		p.await(fmt.Sprintf(`document.querySelectorAll('#events tr').length === %d`, before+1))
		p.await(`document.querySelector('#announcer').textContent.startsWith(
			document.querySelector('[data-stage="' + next.stage + '"] h3').textContent + ': ' + next.text)`)
		p.await(`document.querySelector('.stage.active').dataset.stage === next.stage`)
		p.do(chromedp.KeyEvent("s"))
		p.await(fmt.Sprintf(`document.querySelectorAll('#events tr').length > %d`, before+2))
		p.do(chromedp.KeyEvent("l"))
		p.await(`document.querySelector('#behind').innerText === ''`)
	})
	t.Run("edits become fewer syncs", func(t *testing.T) {
		p := p.of(t)
		p.press("edits")
		p.await(`window.app.events.filter((e) => e.stage === 'handlers' && e.what === 'Update').length >= 20`)
		p.await(`document.querySelector('#said').innerText.startsWith('spec.description was edited 20 times')`)
		c.rests(p) // the next test changes Neutron, and not while this one's edits do
	})
	t.Run("drift is repaired", func(t *testing.T) {
		p := p.of(t)
		p.press("drift")
		p.await(rows("inventory", "moved"))
		p.await(`[...document.querySelectorAll('#events tr[data-stage="plan"]')].some((r) => r.innerText.includes('by-hand'))`)
	})
	t.Run("Pods get ports", func(t *testing.T) {
		p := p.of(t)
		p.press("scale")
		p.await(`[...document.querySelectorAll('#object option')].filter((o) => o.value.startsWith('networkport/')).length >= 3`)
	})
	t.Run("a broken Neutron backs off, and is repaired", func(t *testing.T) {
		p := p.of(t)
		p.press("break")
		p.await(rows("queue", "backs off"))
		p.await(`document.querySelector('.lists .mine')`)
		c.replay(p, `e.stage === 'queue' && e.what === 'backs off'`)
		p.await(lit("retry"))
		c.pictures(p, "inside")
		p.do(chromedp.KeyEvent("l"))
		p.await(lit("due"))
		p.await(`((all) => all.findLastIndex((e) => e.what === 'empty') > all.findLastIndex((e) => e.what === 'backs off'))(
			window.app.events.filter((e) => window.app.shows(e)))`)
	})
	t.Run("a lost answer makes no second network", func(t *testing.T) {
		p := p.of(t)
		p.press("lose")
		p.js(fmt.Sprintf(`location.hash = %q`, object+"-2"))
		p.await(`[...document.querySelectorAll('#events tr[data-stage="neutron"]')].some((r) => r.innerText.includes('Nobody knows'))`)
		p.await(`document.querySelector('#events tr[data-stage="plan"]').dataset.what === 'empty'`)
	})
	t.Run("a missed deletion leaves a tombstone, and is repaired", func(t *testing.T) {
		p := p.of(t)
		missed := object + "-3"
		p.js(fmt.Sprintf(`location.hash = %q`, missed))
		p.press("miss")
		p.await(`document.querySelector('#said').innerText.startsWith('The watch was cut')`)
		for _, is := range [][2]string{{"reflector", "expired"}, {"deltafifo", "tombstone"}, {"indexer", "removed"},
			{"handlers", "tombstone"}, {"worker", "gone"}} {
			p.await(rows(is[0], is[1]))
		}
		c.replay(p, `e.stage === 'handlers' && e.what === 'tombstone'`)
		p.await(`((box) => box.matches('.tombstone.active') && box.innerText.includes('DeletedFinalStateUnknown') &&
			/\.go:\d+/.test(box.innerText))(document.querySelector('[data-stage="handlers"]'))`)
		p.await(lit("call"))
		c.pictures(p, "inside-tombstone")
		c.replay(p, `e.stage === 'deltafifo' && e.what === 'tombstone'`)
		p.await(`document.querySelector('[data-stage="deltafifo"]').matches('.tombstone.active')`)
		p.await(lit("watch") + ` && ` + lit("change"))
		p.do(chromedp.KeyEvent("l"))
		c.codeIsTrue(p)
		surroundings.Eventually(t, func() error {
			if left := c.tenant.List("networks", "name=student-3"); len(left) > 0 {
				return fmt.Errorf("Neutron still has %v", left)
			}
			return nil
		})
	})
	t.Run("a killed controller starts anew", func(t *testing.T) {
		p := p.of(t)
		p.js(fmt.Sprintf(`location.hash = %q`, object))
		c.more = []string{"--resync-period=5s"} // for the resyncs below
		p.press("kill")
		p.await(rows("process", "gone"))
		p.await(rows("process", "started"))
		p.await(`document.querySelector('#events tr[data-what="replaced"]')`)
		p.await(`document.querySelector('#said').innerText.startsWith('The process was killed')`)
	})
	t.Run("a crowd of Networks while Neutron is broken", func(t *testing.T) { c.crowd(p.of(t)) })
	t.Run("a telephone shows it, too", func(t *testing.T) {
		p := p.of(t)
		for _, width := range []int64{1280, 390} {
			p.do(chromedp.EmulateViewport(width, 844))
			p.await(`document.documentElement.scrollWidth <= innerWidth`)
		}
		p.do(chromedp.EmulateViewport(1440, 900))
	})
	t.Run("resyncs were dropped", func(t *testing.T) {
		p := p.of(t)
		p.js(fmt.Sprintf(`location.hash = %q`, object))
		p.await(`app.events.some((e) => app.shows(e) && e.what === 'Resync')`)
		c.replay(p, `e.what === 'Resync'`)
		p.await(lit("call") + ` && /\.go:\d+/.test(document.querySelector('[data-stage="handlers"]').innerText)`)
		p.do(chromedp.KeyEvent("l"))
	})
	t.Run("a deletion takes all with it", func(t *testing.T) {
		p := p.of(t)
		p.js(fmt.Sprintf(`location.hash = %q`, object)) // others were removed before
		p.press("delete")
		p.await(rows("indexer", "removed"))
		p.await(rows("worker", "gone"))
		networks := surroundings.Networks.CloudteamV1().Networks(c.namespace)
		surroundings.Eventually(t, func() error { return harness.NoneLeft(t.Context(), networks) })
	})
	t.Run("others are refused", c.refused)
}

// crowd has many Networks come while Neutron is broken: their events are some times more than the log has rows. The page
// shows an edit of another Network, and its log stays short. In the end all are Ready.
func (c *classroom) crowd(p page) {
	p.t.Helper()
	p.js(`location.hash = ''`)
	p.press("break")
	created := make(chan error, 1)
	size, before := 100, eval[int](p, `app.events.length`)
	if nightly.Is() {
		size = many()
	}
	go func() { created <- createMany(p.t.Context(), "crowd", size) }()
	p.await(fmt.Sprintf(`document.querySelectorAll('#object option').length > %d`, size/2))
	p.holdFrames("while a crowd of Networks comes", frameTimes, 100*time.Millisecond)
	expect.NoError(p.t, <-created)
	networks := surroundings.Networks.CloudteamV1().Networks("crowd")
	err := harness.Poll(nil, crowdPatience, time.Second, func() error {
		all, err := networks.List(p.t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		ready := 0
		for _, n := range all.Items {
			if meta.IsStatusConditionTrue(n.Status.Conditions, cloudteamv1.ConditionReady) {
				ready++
			}
		}
		if ready != size {
			return fmt.Errorf("%d of %d Networks are Ready", ready, size)
		}
		return nil
	})
	expect.NoError(p.t, err)
	p.await(fmt.Sprintf(`document.querySelectorAll('#object option').length > %d`, size))
	if came := eval[int](p, `app.events.length`) - before; came < 5*mostRows {
		p.t.Errorf("the crowd made %d events, which is too few for a log of %d rows", came, mostRows)
	}
	var shown bool
	p.do(chromedp.Evaluate(`new Promise(async (done) => {
		const object = 'network/`+c.namespace+`/student'
		const of = () => app.events.slice(0, app.at).filter((e) => e.stage === 'handlers' && e.what === 'Update' &&
			e.objects?.includes(object)).length
		const before = of()
		await fetch('actions/edit', { method: 'POST' })
		const look = () => of() > before ? done(true) : requestAnimationFrame(look)
		look()
	})`, &shown, awaited))
	if rows := eval[int](p, `document.querySelectorAll('#events tr').length`); rows > mostRows {
		p.t.Errorf("the log has %d rows, want %d at most", rows, mostRows)
	}
	err = harness.Poll(nil, crowdPatience, time.Second, func() error {
		// The API server ends a request after a minute, which a busy machine may need more than once.
		err := networks.DeleteCollection(p.t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{})
		if err != nil {
			return err
		}
		return harness.NoneLeft(p.t.Context(), networks)
	})
	expect.NoError(p.t, err)
}

// mostRows is how many events the log shows.
const mostRows = 500

// crowdPatience is how long many Networks may take to come or to go: a quarter of it on an idle machine.
const crowdPatience = 10 * time.Minute

// frameTimes gives the milliseconds of each of 120 frames.
const frameTimes = `new Promise((done) => {
  const frames = []
  let last = performance.now()
  const next = (now) => {
    frames.push(now - last)
    last = now
    if (frames.length < 121) requestAnimationFrame(next)
    else done(frames.slice(1))
  }
  requestAnimationFrame(next)
})`

// rows is true if the log has an event.
func rows(stage, what string) string {
	selector := fmt.Sprintf(`#events tr[data-stage="%s"]`, stage)
	if what != "" {
		selector += fmt.Sprintf(`[data-what="%s"]`, what)
	}
	return fmt.Sprintf(`document.querySelector('%s')`, selector)
}

// press presses the button of an action.
func (p page) press(action string) {
	p.t.Helper()
	p.click(fmt.Sprintf(`[data-action="%s"]:not([aria-disabled="true"])`, action))
}

func (c *classroom) build() {
	namespace := harness.Namespace("")
	namespace.Name = "school"
	c.namespace = namespace.Name
	harness.Create(c.t, surroundings.Kube.CoreV1().Namespaces(), namespace)
	surroundings.AwaitGate(c.t, c.namespace)
	c.stream = harness.FreeAddress(c.t)
	dir := c.t.TempDir()
	emulator := filepath.Join(dir, "neutron-emulator")
	if output, err := exec.Command("go", "build", "-o", emulator, "./cmd/neutron-emulator").CombinedOutput(); err != nil {
		c.t.Fatalf("building the emulator: %v\n%s", err, output)
	}
	c.cloudsFile = filepath.Join(dir, "clouds.yaml")
	var err error
	c.emulator, err = process.Start(process.Program{Name: "neutron-emulator", Path: emulator,
		Args: []string{"--clouds-yaml=" + c.cloudsFile}, Log: filepath.Join(dir, "emulator.log")})
	expect.NoError(c.t, err)
	c.t.Cleanup(c.emulator.Kill)
	surroundings.Eventually(c.t, func() error { _, err := os.Stat(c.cloudsFile); return err })
	c.kubeconfig = filepath.Join(dir, "kubeconfig")
	if c.front, err = inside.StartFront(surroundings.Kubeconfig, c.kubeconfig); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(c.front.Close)
	expect.NoError(c.t, c.start(c.t.Context()))
	c.t.Cleanup(func() { c.controller.Load().Process.Kill() })
	c.tenant = harness.Open(c.t, c.cloudsFile, "tenant")
	server := &inside.Server{StreamToken: "token of the stream", Stream: func() string { return "http://" + c.stream }}
	server.Actions = inside.World{
		Kube: surroundings.Kube, Networks: surroundings.Networks, Namespace: c.namespace, Restart: c.restart,
		Blind: c.front.Blind,
		Lose:  func() { c.emulator.Signal(syscall.SIGUSR1) }, Break: func() { c.emulator.Signal(syscall.SIGUSR2) },
		Change: func(ctx context.Context, path string, body any) error {
			_, err := c.tenant.Client.Put(ctx, c.tenant.Client.ServiceURL(path), body, nil,
				&gophercloud.RequestOpts{OkCodes: []int{http.StatusOK}})
			return err
		},
	}.Actions()
	expect.NoError(c.t, server.Listen())
	ctx, cancel := context.WithCancel(c.t.Context())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx) }()
	c.t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			c.t.Error(err)
		}
	})
	c.page = page{c.t, browse(c.t)}
	c.page.do(chromedp.Navigate(server.URL()))
	c.page.await(`document.querySelectorAll('#actions button').length === 10`)
}

// start starts a controller, and waits until it is ready.
func (c *classroom) start(ctx context.Context) error {
	p, err := surroundings.Launch([]string{"OS_CLIENT_CONFIG_FILE=" + c.cloudsFile, inspect.EnvToken + "=token of the stream"},
		append([]string{"--kubeconfig", c.kubeconfig, "--cloud", "tenant", "--bind-address", "127.0.0.1:0",
			"--audit-interval", "1s", "--leader-elect=false", "--inspect-address", c.stream}, c.more...)...)
	if err != nil {
		return err
	}
	c.controller.Store(p)
	return harness.Poll(p.Done(), harness.Patience, 20*time.Millisecond, func() error {
		status, body, err := p.Get(ctx, "/readyz")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("it is not ready: %s", body)
		}
		return err
	})
}

// restart kills the controller, and starts another one.
func (c *classroom) restart(ctx context.Context) error {
	c.controller.Load().Process.Kill()
	return c.start(ctx)
}

// rests waits until the controller has acted on the last edit, and the page shows that nothing was left to do.
func (c *classroom) rests(p page) {
	p.t.Helper()
	networks := surroundings.Networks.CloudteamV1().Networks(c.namespace)
	last := harness.Await(p.t, surroundings, networks, "student", func(n *cloudteamv1.Network) error {
		if n.Status.AppliedGeneration != n.Generation {
			return fmt.Errorf("the controller has applied generation %d of %d", n.Status.AppliedGeneration, n.Generation)
		}
		return nil
	})
	p.await(fmt.Sprintf(`((all) => all.some((e) => e.stage === 'reflector' && e.resourceVersion === %q) &&
		all.findLastIndex((e) => e.what === 'empty') > all.findLastIndex((e) => e.what === 'Update'))(
		app.events.filter((e) => app.shows(e)))`, last.ResourceVersion))
}

// generation is the one that the controller has applied.
func (c *classroom) generation(t *testing.T) int64 {
	t.Helper()
	n := harness.Get(t, surroundings.Networks.CloudteamV1().Networks(c.namespace), "student")
	return n.Status.AppliedGeneration
}

// codeIsTrue looks up each line of this repository that the page names.
func (c *classroom) codeIsTrue(p page) {
	p.t.Helper()
	seen := 0
	for _, at := range eval[[]string](p, `[...new Set([...document.querySelectorAll('#events code')].map((e) => e.innerText))]`) {
		file, line, _ := strings.Cut(at, ":")
		content, err := os.ReadFile(filepath.Join(surroundings.Root, file))
		if err != nil {
			if !strings.HasPrefix(at, "k8s.io/client-go/tools/cache/") && at != "" {
				p.t.Errorf("the page names %q", at)
			}
			continue
		}
		seen++
		var number int
		expect.NoError(p.t, json.Unmarshal([]byte(line), &number))
		if is := strings.Split(string(content), "\n")[number-1]; !strings.Contains(is, "ecord") && !strings.Contains(is, "planned") {
			p.t.Errorf("%s is %q", at, is)
		}
	}
	if seen < 8 {
		p.t.Errorf("the page names %d lines of this repository", seen)
	}
}

// pictures takes those of the documentation, of what the paused page shows.
func (c *classroom) pictures(p page, name string) {
	if !*update {
		return
	}
	for _, theme := range []string{"light", "dark"} {
		p.do(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}))
		p.picture(name + "-" + theme + ".png")
	}
}

// lit is true if an arrow is lit.
func lit(arrow string) string {
	return fmt.Sprintf(`document.querySelector('[data-arrow="%s"]').matches('.lit')`, arrow)
}

// replay pauses the view right after the last event of the chosen object for which is is true.
func (c *classroom) replay(p page, is string) {
	p.t.Helper()
	p.await(`app.events.some((e) => app.shows(e) && ` + is + `)`)
	p.js(`app.setMode('pause')`)
	p.js(`app.at = app.events.findLastIndex((e) => app.shows(e) && ` + is + `) + 1`)
	p.js(`app.again()`)
}

// arrowsMeetBoxes compares each arrow's ends with the edges of the boxes that it joins.
func (c *classroom) arrowsMeetBoxes(t *testing.T) {
	p := c.page.of(t)
	for _, problem := range eval[[]string](p, `(() => {
		app.wire()
		const origin = document.querySelector('#flow').getBoundingClientRect()
		return Object.entries(app.arrows).flatMap(([id, { path, from, to }]) => {
			const ends = [path.getPointAtLength(0), path.getPointAtLength(path.getTotalLength())]
			return ends.flatMap(({ x, y }, n) => {
				const box = (n ? to : from).getBoundingClientRect()
				const [left, top] = [x + origin.left, y + origin.top]
				const [dx, dy] = [Math.min(Math.abs(left - box.left), Math.abs(left - box.right)),
					Math.min(Math.abs(top - box.top), Math.abs(top - box.bottom))]
				const within = left > box.left - 1 && left < box.right + 1 && top > box.top - 1 && top < box.bottom + 1
				return within && (from === to || Math.min(dx, dy) < 1) ? [] : [id + ' ' + (n ? 'ends' : 'begins') + ' at ' + left + ' ' + top]
			})
		})
	})()`) {
		t.Error(problem)
	}
}

// refused asks for the page as others would.
func (c *classroom) refused(t *testing.T) {
	at := eval[string](c.page.of(t), "location.href.split('#')[0]")
	host := eval[string](c.page.of(t), "location.host")
	for name, ask := range map[string]struct {
		method, url, host, site string
		status                  int
	}{
		"without the token":  {http.MethodGet, "http://" + host + "/", "", "", http.StatusForbidden},
		"with another token": {http.MethodGet, "http://" + host + "/guess/", "", "", http.StatusForbidden},
		"by another name":    {http.MethodGet, at, "evil.example", "", http.StatusMisdirectedRequest},
		"from another site":  {http.MethodPost, at + "actions/kill", "", "cross-site", http.StatusForbidden},
		"an unknown action":  {http.MethodPost, at + "actions/none", "", "", http.StatusNotFound},
	} {
		request, err := http.NewRequestWithContext(t.Context(), ask.method, ask.url, nil)
		expect.NoError(t, err)
		request.Host = ask.host
		if ask.site != "" {
			request.Header.Set("Sec-Fetch-Site", ask.site)
		}
		answer, err := http.DefaultClient.Do(request)
		expect.NoError(t, err)
		answer.Body.Close()
		if answer.StatusCode != ask.status {
			t.Errorf("%s: %s, want %d", name, answer.Status, ask.status)
		}
	}
}
