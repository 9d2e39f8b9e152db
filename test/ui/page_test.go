package ui

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/nightly"
)

// page is the page in a browser.
type page struct {
	t *testing.T
	context.Context
}

// do runs actions in the browser.
func (p page) do(actions ...chromedp.Action) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.Context, harness.Patience)
	defer cancel()
	expect.NoError(p.t, chromedp.Run(ctx, actions...))
}

// js runs a statement.
func (p page) js(statement string) {
	p.t.Helper()
	eval[bool](p, statement+"; true")
}

// eval gives the value of an expression.
func eval[T any](p page, expression string) (value T) {
	p.t.Helper()
	p.do(chromedp.Evaluate(expression, &value))
	return value
}

// awaited has a promise's value for the result.
func awaited(e *runtime.EvaluateParams) *runtime.EvaluateParams { return e.WithAwaitPromise(true) }

// of is the page for a part of the test.
func (p page) of(t *testing.T) page { return page{t, p.Context} }

// await waits until an expression is true.
func (p page) await(expression string) {
	p.t.Helper()
	surroundings.Eventually(p.t, func() error {
		if !eval[bool](p, "Boolean("+expression+")") {
			return fmt.Errorf("on the page it is not true: %s\nThe page says:\n%s", expression,
				eval[string](p, "document.body.innerText.slice(0, 3000)"))
		}
		return nil
	})
}

// click clicks an element as the page's own code does, in one step: a watch may draw the element again between finding it
// and a click of the mouse. a_click_outlives_a_change has the mouse.
func (p page) click(selector string) {
	p.t.Helper()
	p.await(fmt.Sprintf(`(() => { const e = document.querySelector(%q); e?.click(); return e })()`, selector))
}

// picture takes one for the documentation, once what moves has come to rest.
func (p page) picture(name string) {
	p.t.Helper()
	if !*update {
		return
	}
	var shot []byte
	var rests bool
	p.do(chromedp.Evaluate(`Promise.allSettled(document.getAnimations().map((a) => a.finished)).then(() => true)`, &rests,
		awaited), chromedp.CaptureScreenshot(&shot))
	expect.NoError(p.t, os.WriteFile(filepath.Join(surroundings.Root, "docs", "images", name), shot, 0o644))
}

// TestPage shows a small cluster, and then one with many Networks.
func TestPage(t *testing.T) {
	startController(t)
	s := &scene{t: t}
	s.build()
	p := page{t, browse(t)}
	p.do(chromedp.Navigate(startPage(t, "-A", "--cloud", "tenant")))
	p.await(`document.querySelectorAll('.lane').length >= 5`)

	t.Run("the token leaves the address", func(t *testing.T) {
		if at := eval[string](p, "location.href"); strings.Contains(at, "token") {
			t.Errorf("the address is %s", at)
		}
	})
	t.Run("it shows what the API has", s.shown(p))
	t.Run("a fault shows with its remedy, and goes", s.fault(p))
	t.Run("a click outlives a change", s.press(p))
	t.Run("a change shows at once", s.change(p))
	t.Run("each view has a link, and the keyboard reaches all", s.links(p))
	s.pictures(p)
	t.Run("many Networks", s.many(p))
}

// scene is the small cluster.
type scene struct{ t *testing.T }

// of is the scene for a part of the test.
func (s *scene) of(t *testing.T) *scene { return &scene{t} }

// create makes a resource in Neutron that stays: the cloud goes with the test.
func (s *scene) create(c *harness.Cloud, kind string, body harness.Resource) string {
	s.t.Helper()
	made, err := c.Neutron.Create(s.t.Context(), kind+"s", body)
	expect.NoError(s.t, err)
	return made.ID()
}

func (s *scene) network(namespace, name string, spec cloudteamv1.NetworkSpec) {
	s.t.Helper()
	harness.Create(s.t, surroundings.Networks.CloudteamV1().Networks(namespace), &cloudteamv1.Network{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: spec})
}

func (s *scene) port(namespace, name, network string) {
	s.t.Helper()
	harness.Create(s.t, surroundings.Networks.CloudteamV1().NetworkPorts(namespace), &cloudteamv1.NetworkPort{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       cloudteamv1.NetworkPortSpec{NetworkName: network}})
}

func (s *scene) deployment(namespace, name, network string, replicas int32) {
	s.t.Helper()
	pod := harness.PodOn("", network)
	pod.Labels = map[string]string{"app": name}
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "PASSWORD", Value: "hunter2hunter2"}}
	harness.Create(s.t, surroundings.Kube.AppsV1().Deployments(namespace), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: pod.Labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}},
	})
}

// await waits until a Network is Ready, and gives it.
func (s *scene) await(namespace, name string) *cloudteamv1.Network {
	s.t.Helper()
	networks := surroundings.Networks.CloudteamV1().Networks(namespace)
	return harness.Await(s.t, surroundings, networks, name, harness.Ready)
}

func (s *scene) build() {
	admin := harness.Open(s.t, surroundings.CloudsFile, "admin")
	public := s.create(admin, "network", harness.Resource{"name": "public", "router:external": true})
	s.create(admin, "subnet", harness.Resource{
		"network_id": public, "cidr": "203.0.113.0/24", "ip_version": 4, "enable_dhcp": false})
	for _, name := range []string{"shop", "platform"} {
		namespace := harness.Namespace(name)
		namespace.Name, namespace.GenerateName = name, ""
		harness.Create(s.t, surroundings.Kube.CoreV1().Namespaces(), namespace)
		surroundings.AwaitGate(s.t, name)
	}
	routed := &cloudteamv1.RouterSpec{ExternalNetwork: "public"}
	subnet := func(cidr, gateway string) cloudteamv1.SubnetSpec {
		return cloudteamv1.SubnetSpec{CIDR: cidr, Gateway: gateway}
	}
	s.network("shop", "frontend", cloudteamv1.NetworkSpec{SubnetSpec: subnet("10.20.0.0/24", ""), Router: routed,
		AdditionalSubnets: []cloudteamv1.SubnetSpec{subnet("fd20::/64", "")}})
	router := s.await("shop", "frontend").Status.Router.ID
	s.network("shop", "backend", cloudteamv1.NetworkSpec{
		SubnetSpec: subnet("10.21.0.0/24", ""), Router: &cloudteamv1.RouterSpec{Existing: router}})
	s.network("shop", "payments", cloudteamv1.NetworkSpec{SubnetSpec: subnet("10.22.0.0/29", "")})
	s.network("platform", "monitoring", cloudteamv1.NetworkSpec{SubnetSpec: subnet("10.30.0.0/22", ""), Router: routed})
	s.network("platform", "storage", cloudteamv1.NetworkSpec{
		SubnetSpec: subnet("172.16.40.0/24", "none"), DriftPolicy: cloudteamv1.DriftPolicyReport, MTU: new(int32(1400))})
	storage := s.await("platform", "storage").Status.NetworkID
	s.await("shop", "payments")
	s.await("platform", "monitoring")
	s.deployment("shop", "web", "frontend,backend", 6)
	s.deployment("shop", "cart", "backend", 3)
	s.deployment("platform", "prometheus", "monitoring", 2)
	for i := range 5 {
		s.port("shop", fmt.Sprintf("vault-%d", i), "payments")
	}
	tenant := harness.Open(s.t, surroundings.CloudsFile, "tenant")
	for i := range 3 {
		s.create(tenant, "port", harness.Resource{"network_id": storage, "name": fmt.Sprintf("ceph-%d", i),
			"device_owner": "compute:nova", "device_id": fmt.Sprintf("5f2b6c1%d-0d6b-4a7e-9a53-2f1f0c9d7e4%d", i, i)})
	}
	tenant.Update("networks", storage, harness.Resource{"mtu": 1300})
	surroundings.Eventually(s.t, func() error {
		pods, err := surroundings.Kube.CoreV1().Pods("").List(s.t.Context(), metav1.ListOptions{LabelSelector: "app"})
		if err != nil {
			return err
		}
		if running := harness.Running(pods.Items); running != 11 {
			return fmt.Errorf("%d Pods are Running, want 11", running)
		}
		return nil
	})
}

// node is what kubectl network tree -o json prints.
type node struct {
	Kind, Name, Problem string
	Children            []node
}

// cards are what the page has to have of a tree: the Networks and the ports.
func (n node) cards() (ids []string) {
	if n.Kind == "Network" || n.Kind == "NetworkPort" || n.Kind == "port" || n.Kind == "router" || n.Kind == "outside" {
		ids = append(ids, n.Kind+"/"+n.Name)
	}
	for _, child := range n.Children {
		ids = append(ids, child.cards()...)
	}
	return ids
}

func plug(t *testing.T, arguments ...string) []byte {
	t.Helper()
	command := exec.CommandContext(t.Context(), plugin, append(arguments, "--kubeconfig", surroundings.AdminKubeconfig)...)
	command.Env = append(os.Environ(), "OS_CLIENT_CONFIG_FILE="+surroundings.CloudsFile, "OS_CLOUD=tenant")
	output, err := command.Output()
	if err != nil {
		t.Fatalf("%s: %v", strings.Join(arguments, " "), err)
	}
	return output
}

// shown compares the page with kubectl network tree, and the details with the API.
func (s *scene) shown(p page) func(t *testing.T) {
	return func(t *testing.T) {
		s, p := s.of(t), p.of(t)
		surroundings.Eventually(t, func() error {
			var trees []node
			if err := json.Unmarshal(plug(t, "tree", "-A", "-o", "json"), &trees); err != nil {
				return err
			}
			var want []string
			for _, tree := range trees {
				want = append(want, tree.cards()...)
			}
			slices.Sort(want)
			want = slices.Compact(want)
			// All that fits on the largest screen.
			p.do(chromedp.EmulateViewport(2400, 4000))
			got := eval[[]string](p, `[...new Set([...document.querySelectorAll('.map [data-id]')].map((e) => e.dataset.id))].sort()`)
			if !slices.Equal(got, want) {
				return fmt.Errorf("the page has\n%s\nand kubectl network tree\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			return nil
		})
		p.do(chromedp.EmulateViewport(1440, 900))
		n := s.await("shop", "frontend")
		p.js(`location.hash = '#sel=Network/shop/frontend'`)
		p.await(fmt.Sprintf(`document.querySelector('#details')?.innerText.includes(%q)`, n.Status.NetworkID))
		p.js(`location.hash = '#sel=Network/shop/frontend&tab=YAML'`)
		p.await(`document.querySelector('#details pre')?.innerText.includes('cidr: 10.20.0.0/24')`)
		if yaml := eval[string](p, `document.querySelector('#details pre').innerText`); strings.Contains(yaml, "managedFields") {
			t.Errorf("the YAML has managed fields:\n%s", yaml)
		}
		p.js(`location.hash = '#sel=Network/shop/frontend&tab=Events'`)
		p.await(`document.querySelectorAll('#details .events li').length > 0`)
		// The page waits for no timer: the watch tells of an Event.
		harness.Create(t, surroundings.Kube.CoreV1().Events("shop"), &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "told"}, Type: "Normal", Reason: "ToldByWatch", Message: "now",
			InvolvedObject: corev1.ObjectReference{Kind: "Network", Namespace: "shop", Name: "frontend", UID: n.UID},
		})
		p.await(`document.querySelector('#details .events')?.innerText.includes('ToldByWatch')`)
		p.js(`location.hash = '#sel=Deployment/shop/web&tab=YAML'`)
		p.await(`document.querySelector('#details pre')?.innerText.includes('kind: Deployment')`)
		pods, err := surroundings.Kube.CoreV1().Pods("shop").List(t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
		expect.NoError(t, err)
		p.js(fmt.Sprintf(`location.hash = '#tab=YAML&sel=Pod/shop/%s'`, pods.Items[0].Name))
		p.await(`document.querySelector('#details pre')?.innerText.includes('name: PASSWORD')`)
		if eval[bool](p, `document.documentElement.innerHTML.includes('hunter2')`) {
			t.Error("the page shows the value of a Pod's environment variable")
		}
		p.js(`location.hash = ''`)
		// Each port has an address in a subnet of its lane.
		p.await(`[...document.querySelectorAll('.lane')].every((lane) =>
			[...lane.querySelectorAll('[role="meter"]')].reduce((sum, m) => sum + Number(m.getAttribute('aria-valuenow')), 0) >=
			lane.querySelectorAll('[data-id^="NetworkPort/"]').length)`)
	}
}

// fault asks for a port too much, and takes it back.
func (s *scene) fault(p page) func(t *testing.T) {
	return func(t *testing.T) {
		s, p := s.of(t), p.of(t)
		s.port("shop", "vault-5", "payments")
		p.await(`document.querySelector('[data-id="NetworkPort/shop/vault-5"]')?.innerText.includes('AddressesExhausted')`)
		p.click(`[data-id="NetworkPort/shop/vault-5"]`)
		p.await(`document.querySelector('#details .remedy') !== null`)
		var answer struct{ Remedy string }
		expect.NoError(t, json.Unmarshal(plug(t, "why", "networkport/vault-5", "-n", "shop", "-o", "json"), &answer))
		if shown := eval[string](p, `document.querySelector('#details .remedy').innerText`); shown != answer.Remedy {
			t.Errorf("the page says %q, and kubectl network why %q", shown, answer.Remedy)
		}
		p.await(`document.querySelector('[data-only="bad"] .badge').innerText === '1'`)
		err := surroundings.Networks.CloudteamV1().NetworkPorts("shop").Delete(t.Context(), "vault-0", metav1.DeleteOptions{})
		expect.NoError(t, err)
		p.await(`document.querySelector('[data-only="bad"] .badge').innerText === '0'`)
		p.await(`document.querySelector('#details .box.ok') !== null`)
		p.js(`location.hash = ''`)
	}
}

// press has a Network's lane drawn anew between the press and the release of the mouse.
func (s *scene) press(p page) func(t *testing.T) {
	return func(t *testing.T) {
		s, p := s.of(t), p.of(t)
		const button = `document.querySelector('[data-id="Network/shop/payments"]')`
		at := eval[struct{ X, Y float64 }](p, `(({x, y, width, height}) => ({X: x + width / 2, Y: y + height / 2}))(`+
			button+`.getBoundingClientRect())`)
		mouse := func(event input.MouseType) {
			p.do(chromedp.MouseEvent(event, at.X, at.Y, chromedp.ButtonType(input.Left), chromedp.ClickCount(1)))
		}
		p.js(`window.before = ` + button)
		mouse(input.MousePressed)
		s.port("shop", "vault-6", "payments")
		p.await(button + ` !== window.before`)
		mouse(input.MouseReleased)
		p.await(`document.querySelector('#details h2')?.innerText === 'payments'`)
		err := surroundings.Networks.CloudteamV1().NetworkPorts("shop").Delete(t.Context(), "vault-6", metav1.DeleteOptions{})
		expect.NoError(t, err)
		p.js(`location.hash = ''`)
	}
}

// change has a Network come and go, and the page follow.
func (s *scene) change(p page) func(t *testing.T) {
	return func(t *testing.T) {
		s, p := s.of(t), p.of(t)
		s.network("shop", "another", cloudteamv1.NetworkSpec{SubnetSpec: cloudteamv1.SubnetSpec{CIDR: "10.60.0.0/24"}})
		p.await(`document.querySelector('[data-key="shop/another"]') !== null`)
		err := surroundings.Networks.CloudteamV1().Networks("shop").Delete(t.Context(), "another", metav1.DeleteOptions{})
		expect.NoError(t, err)
		p.await(`document.querySelector('[data-key="shop/another"]') === null`)
	}
}

// links goes through the views by keys, and comes back by links.
func (*scene) links(p page) func(t *testing.T) {
	return func(t *testing.T) {
		p := p.of(t)
		p.do(chromedp.KeyEvent("m"))
		p.await(`location.hash === '#view=table' && document.querySelectorAll('tbody tr[data-key]').length === 5`)
		if rows := eval[string](p, `document.querySelector('table').getAttribute('aria-rowcount')`); rows != "6" {
			t.Errorf("readers of the screen are told of %s rows, want 6", rows)
		}
		// backend is behind frontend's router, and reaches what that reaches.
		const outside = `document.querySelector('tr[data-key="shop/%s"] td:last-child code').title`
		reached := eval[string](p, fmt.Sprintf(outside, "frontend"))
		if got := eval[string](p, fmt.Sprintf(outside, "backend")); got != reached || reached == "" {
			t.Errorf("outside of backend is %q, and outside of frontend, on the same router, %q", got, reached)
		}
		cut := eval[[]string](p, `[...document.querySelectorAll('thead th')].filter((h) => h.scrollWidth > h.clientWidth).map((h) => h.innerText)`)
		expect.Empty(t, cut, "the headers of these columns are cut")
		p.js(fmt.Sprintf(`window.app.go({ q: %q })`, reached))
		p.await(`[...document.querySelectorAll('tbody tr[data-key]')].map((r) => r.dataset.key).join() ===
			'shop/backend,shop/frontend,platform/monitoring'`)
		p.js(fmt.Sprintf(`window.app.go({ q: '', sel: 'outside/%s' })`, reached))
		p.await(`document.querySelectorAll('#details .links li').length === 3`)
		p.js(`window.app.go({ sel: 'Network/shop/backend' })`)
		p.await(fmt.Sprintf(`document.querySelector('#details dl')?.innerText.includes(%q)`, reached))
		p.js(`window.app.go({ sel: '' })`)
		p.do(chromedp.KeyEvent("/"))
		p.await(`document.activeElement.id === 'search'`)
		p.js(`document.activeElement.select()`) // the driver types the key, too, which people do not see
		p.do(chromedp.KeyEvent("172.16"))
		p.await(`document.querySelectorAll('tbody tr[data-key]').length === 1 && location.hash.includes('q=172.16')`)
		p.js(`document.activeElement.blur()`)
		p.do(chromedp.KeyEvent("j"), chromedp.KeyEvent("\r"))
		p.await(`location.hash.includes('sel=Network%2Fplatform%2Fstorage') && document.querySelector('#details table')?.innerText.includes('1300')`)
		link := eval[string](p, "location.href")
		p.do(chromedp.Navigate("about:blank"), chromedp.Navigate(link))
		p.await(`document.querySelectorAll('tbody tr[data-key]').length === 1 && document.querySelector('#details h2')?.innerText === 'storage'`)
		p.js(`location.hash = ''`)
		p.await(`document.querySelectorAll('.lane').length === 5`)
	}
}

func (s *scene) pictures(p page) {
	if !*update {
		return
	}
	s.port("shop", "vault-6", "payments")
	p.await(`document.querySelector('[data-only="bad"] .badge').innerText === '1'`)
	for _, theme := range []string{"light", "dark"} {
		p.do(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}))
		p.js(`location.hash = ''`)
		p.await(`document.querySelectorAll('.lane').length === 5`)
		p.picture("ui-map-" + theme + ".png")
		p.js(`location.hash = '#sel=NetworkPort/shop/vault-6'`)
		p.await(`document.querySelector('#details .remedy') !== null`)
		p.picture("ui-details-" + theme + ".png")
		p.js(`location.hash = '#view=table'`)
		p.await(`document.querySelectorAll('tbody tr[data-key]').length === 5`)
		p.picture("ui-table-" + theme + ".png")
	}
	p.js(`location.hash = ''`)
}

// many has many Networks beside a fault. The document has those that are in view.
func (s *scene) many(p page) func(t *testing.T) {
	return func(t *testing.T) {
		p := p.of(t)
		s := s.of(t)
		s.port("shop", "vault-8", "payments") // which has no address left
		p.await(`document.querySelector('[data-only="bad"] .badge').innerText > '0'`)
		expect.NoError(t, createMany(t.Context(), "many", many()))
		p.await(fmt.Sprintf(`document.querySelector('#count').innerText.startsWith((%d).toLocaleString('en') + ' ')`, many()+5))
		for _, view := range []string{"map", "table"} {
			p.js(`location.hash = '#view=` + view + `'`)
			p.await(`document.querySelectorAll('.` + view + ` [data-key]').length > 0`)
			p.holdFrames(view+", while it scrolls through many Networks", scrollThrough, 50*time.Millisecond)
			if n := eval[int](p, `document.querySelectorAll('[data-key]').length`); n > 60 {
				t.Errorf("%d Networks are in the document, of which few are in view", n)
			}
		}
		p.js(`location.hash = ''; window.app.go({ q: 'tenant-07' })`)
		p.await(`document.querySelectorAll('[data-key]').length === 10`)
		// The fault still shows, and leads to its remedy.
		p.js(`location.hash = '#sel=NetworkPort/shop/vault-8'`)
		p.await(`document.querySelector('[data-only="bad"] .badge').innerText > '0'`)
		p.await(`document.querySelector('#details .remedy') !== null`)
	}
}

// many is how many Networks a page has to do with that fit on no screen.
func many() int {
	if nightly.Is() {
		return 1000
	}
	return 250
}

// createMany creates a namespace with so many Networks.
func createMany(ctx context.Context, namespace string, n int) error {
	if _, err := surroundings.Kube.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	networks := surroundings.Networks.CloudteamV1().Networks(namespace)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i := range n {
		group.Go(func() error {
			_, err := networks.Create(ctx, &cloudteamv1.Network{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("tenant-%03d", i)},
				Spec: cloudteamv1.NetworkSpec{
					SubnetSpec: cloudteamv1.SubnetSpec{CIDR: fmt.Sprintf("10.%d.%d.0/24", 100+i/250, i%250)}},
			}, metav1.CreateOptions{})
			return err
		})
	}
	return group.Wait()
}

// holdFrames runs a script that gives the milliseconds of frames, and in a nightly run holds the processor time that the
// page's main thread took for each, by the mean. The time of the clock is only told: whatever else the machine does adds
// to it.
func (p page) holdFrames(when, script string, most time.Duration) {
	p.t.Helper()
	var frames []float64
	before := p.mainThread()
	p.do(chromedp.Evaluate(script, &frames, awaited))
	each := (p.mainThread() - before) / time.Duration(len(frames))
	p.t.Run("frames, "+when, func(t *testing.T) {
		nightly.Only(t, "it compares times")
		slices.Sort(frames)
		t.Logf("%d frames, %.1f ms of the main thread each; median %.1f ms, the worst %.1f ms", len(frames),
			each.Seconds()*1e3, frames[len(frames)/2], frames[len(frames)-1])
		if each > most {
			t.Errorf("a frame takes %v of the main thread, want %v at most", each, most)
		}
	})
}

// mainThread is the processor time that the page's main thread took so far.
func (p page) mainThread() (took time.Duration) {
	p.t.Helper()
	p.do(performance.Enable().WithTimeDomain(performance.EnableTimeDomainThreadTicks),
		chromedp.ActionFunc(func(ctx context.Context) error {
			metrics, err := performance.GetMetrics().Do(ctx)
			for _, m := range metrics {
				if m.Name == "TaskDuration" {
					took = time.Duration(m.Value * float64(time.Second))
				}
			}
			return err
		}))
	return took
}

// scrollThrough scrolls from the first Network to the last in 120 frames, and gives the milliseconds of each.
const scrollThrough = `new Promise((done) => {
  const box = document.querySelector('.map, .table')
  const end = box.scrollHeight - box.clientHeight
  const frames = []
  let last = performance.now()
  const next = (now) => {
    frames.push(now - last)
    last = now
    box.scrollTop = end * frames.length / 120
    if (frames.length < 120) requestAnimationFrame(next)
    else done(frames.slice(1))
  }
  requestAnimationFrame(next)
})`
