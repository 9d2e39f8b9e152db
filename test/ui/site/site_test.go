// Package site has the documentation's site, which make docs builds, shown by Chromium: in both languages, light and
// dark, on a desk and on a phone.
package site

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

var pictures = flag.String("pictures", "", "folder to write a picture of each page into")

// patience is the longest that a browser may take for what it does in less than a second on an idle machine.
const patience = time.Minute

// shown are the pages that are looked at: each kind of content is on one of them.
var shown = []string{
	"/", "/tutorial", "/learn/1-crd", "/kubectl-network", "/fields", "/flags", "/how-it-works",
	"/code/internal/plan/owner.go", "/zh/", "/zh/tutorial", "/zh/kubectl-network", "/zh/network",
	"/zh/how-it-works", "/zh/credentials", "/zh/monitoring",
}

func TestSite(t *testing.T) {
	const root = "../../../dist/docs"
	if _, err := os.Stat(filepath.Join(root, "index.html")); err != nil {
		t.Skip("make docs has not built the site")
	}
	t.Parallel() // with the other version's builds, which need no browser
	server := httptest.NewServer(pages(http.FileServer(http.Dir(root))))
	t.Cleanup(server.Close)
	b := &browser{t: t, base: server.URL}
	b.start()

	// Each page is loaded in one scheme, and goes to the other before the reader's eyes.
	for _, screen := range []struct {
		name          string
		width, height int64
		schemes       []string
	}{{"desk", 1280, 900, []string{"light", "dark"}}, {"phone", 390, 844, []string{"dark", "light"}}} {
		b.do(chromedp.EmulateViewport(screen.width, screen.height))
		for _, path := range shown {
			t.Run(screen.name+" "+path, func(t *testing.T) {
				b := b.of(t)
				for i, scheme := range screen.schemes {
					b.do(emulation.SetEmulatedMedia().WithFeatures(
						[]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}))
					if i == 0 {
						b.open(path)
					}
					b.await(fmt.Sprintf(`document.documentElement.classList.contains('dark') === %t`, scheme == "dark"))
					b.await(`document.querySelectorAll('pre.diagram').length === 0`)
					b.await(`[...document.images].every((i) => i.complete && i.naturalWidth > 0)`)
					b.await(`document.documentElement.scrollWidth <= innerWidth`)
					b.picture(strings.Join([]string{screen.name, scheme, strings.Trim(path, "/")}, " "))
				}
			})
		}
	}
	b.do(chromedp.EmulateViewport(1280, 900))
	for page, words := range map[string][2]string{"/": {"quota", "QuotaExceeded"}, "/zh/": {"配额", "配额"}} {
		t.Run("search on "+page, func(t *testing.T) {
			b := b.of(t)
			b.open(page)
			b.await(`document.querySelector('.DocSearch-Button') !== null`)
			b.do(chromedp.Click(".DocSearch-Button", chromedp.ByQuery),
				chromedp.SendKeys(".VPLocalSearchBox input", words[0], chromedp.ByQuery))
			b.await(fmt.Sprintf(`document.querySelector('.VPLocalSearchBox .results')?.innerText.includes('%s')`, words[1]))
			b.picture("search " + strings.Trim(page, "/"))
		})
	}
}

// pages serves the file of a page at the page's address.
func pages(files http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/") && !strings.HasPrefix(r.URL.Path, "/assets/") &&
			(filepath.Ext(r.URL.Path) == "" || filepath.Ext(r.URL.Path) == ".go") {
			r.URL.Path += ".html"
		}
		files.ServeHTTP(w, r)
	})
}

// browser shows the pages at a base.
type browser struct {
	t    *testing.T
	base string
	context.Context
}

// start starts Chromium. What a page says to its console as an error fails the test, and so does what it does not find.
func (b *browser) start() {
	b.t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-background-networking", true),
		// What a page would load from elsewhere fails, and the browser's log says so.
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
		chromedp.WSURLReadTimeout(patience))
	ctx, cancel := chromedp.NewExecAllocator(b.t.Context(), options...)
	b.t.Cleanup(cancel)
	b.Context, cancel = chromedp.NewContext(ctx)
	b.t.Cleanup(cancel)
	chromedp.ListenTarget(b.Context, func(event any) {
		switch event := event.(type) {
		case *runtime.EventExceptionThrown:
			b.t.Errorf("a page threw: %s", event.ExceptionDetails.Error())
		case *log.EventEntryAdded:
			if event.Entry.Level == log.LevelError {
				b.t.Errorf("the browser's log has an error: %s %s", event.Entry.Text, event.Entry.URL)
			}
		}
	})
	if err := chromedp.Run(b.Context, log.Enable()); err != nil {
		b.t.Fatalf("starting Chromium, of Debian's package chromium: %v", err)
	}
}

// of is the browser for a part of the test.
func (b *browser) of(t *testing.T) *browser { return &browser{t, b.base, b.Context} }

func (b *browser) do(actions ...chromedp.Action) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.Context, patience)
	defer cancel()
	expect.NoError(b.t, chromedp.Run(ctx, actions...))
}

// open shows a page, and waits until its scripts run.
func (b *browser) open(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.base + path))
	b.await(`document.querySelector('#app')?.__vue_app__ !== undefined`)
}

// await waits until an expression is true. When one page gives way to another, the wait goes on there.
func (b *browser) await(expression string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.Context, patience)
	defer cancel()
	for {
		err := chromedp.Run(ctx, chromedp.Poll(expression, nil, chromedp.WithPollingTimeout(0)))
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			b.t.Fatalf("on the page it is not true: %s: %v", expression, err)
		}
	}
}

func (b *browser) picture(name string) {
	b.t.Helper()
	if *pictures == "" {
		return
	}
	var shot []byte
	b.do(chromedp.CaptureScreenshot(&shot))
	file := filepath.Join(*pictures, strings.NewReplacer("/", "-", " ", "-").Replace(name)+".png")
	expect.NoError(b.t, os.WriteFile(file, shot, 0o644))
}
