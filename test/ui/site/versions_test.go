package site

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

// The site of two versions, as make docs VERSIONS=v1 builds it below a path. Its pages are few, and none has a diagram:
// of all pages a build takes minutes, and most of it is Mermaid.
func TestReadersChooseAnotherVersion(t *testing.T) {
	const root, site = "../../..", "tools/docs/site"
	programs, err := filepath.Abs(filepath.Join(root, site, "node_modules"))
	expect.NoError(t, err)
	if _, err := os.Stat(programs); err != nil {
		t.Skip("make docs has not installed VitePress")
	}
	t.Parallel()
	dir := t.TempDir()
	run := func(name string, args ...string) string {
		t.Helper()
		command := exec.Command(name, args...)
		command.Dir, command.Env = dir, append(os.Environ(), "DOCS_BASE=/docs/")
		output, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, output)
		}
		return string(output)
	}
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(dir, name)
		expect.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		expect.NoError(t, os.WriteFile(file, []byte(text), 0o755))
	}
	release := func(version string) {
		t.Helper()
		for page, place := range map[string]string{
			"README": "home", "docs/tutorial": "tutorial", "docs/install": "install", "docs/fields": "fields", "CHANGELOG": "changes",
			"README.zh-CN": "首页", "docs/zh/tutorial": "教程",
		} {
			write(page+".md", fmt.Sprintf("# %s of %s\n", place, version))
		}
		run("git", "add", "--all")
		run("git", "-c", "user.name=Site", "-c", "user.email=site@example.com", "commit", "--quiet", "--message", version)
		run("git", "tag", version)
	}

	list := exec.Command("git", "ls-files", "-z", "-co", "--exclude-standard",
		"go.mod", "hack/docs.sh", "tools/docs", "internal/kubectl/ui/assets/icon.svg")
	list.Dir = root
	names, err := list.Output()
	expect.NoError(t, err)
	for name := range bytes.SplitSeq(bytes.TrimSuffix(names, []byte{0}), []byte{0}) {
		text, err := os.ReadFile(filepath.Join(root, string(name)))
		expect.NoError(t, err)
		write(string(name), string(text))
	}
	write("Makefile", "")
	write(site+"/sections.mjs", `export default [{ en: 'Pages', zh: '页面', pages: ['README.md', 'docs/'] }]`)
	write(site+"/node_modules/mermaid/package.json", `{"name": "mermaid", "type": "module", "main": "index.js"}`)
	write(site+"/node_modules/mermaid/index.js", "export default {}")
	installed, err := os.ReadDir(programs)
	expect.NoError(t, err)
	for _, program := range installed {
		if program.Name() == "mermaid" {
			continue
		}
		expect.NoError(t, os.Symlink(filepath.Join(programs, program.Name()), filepath.Join(dir, site, "node_modules", program.Name())))
	}
	run("touch", "-t", "200001010000", site+"/package-lock.json") // It is installed.
	run("git", "init", "--quiet")
	release("v1")
	release("v2")
	t.Log(run("hack/docs.sh", "v1"))

	server := httptest.NewServer(http.StripPrefix("/docs", pages(http.FileServer(http.Dir(filepath.Join(dir, "dist/docs"))))))
	t.Cleanup(server.Close)
	b := &browser{t: t, base: server.URL}
	b.start()
	for _, screen := range []struct {
		name          string
		width, height int64
		menu          string
	}{{"desk", 1280, 900, ".VPNavBarMenu"}, {"phone", 390, 844, ".VPNavScreen"}} {
		for language, home := range map[string]struct{ path, title string }{"en": {"", "home"}, "zh": {"zh/", "首页"}} {
			t.Run(screen.name+" "+language, func(t *testing.T) {
				b := b.of(t)
				b.do(chromedp.EmulateViewport(screen.width, screen.height))
				choice := screen.menu + " select.versions"
				choose := func(key string) {
					t.Helper()
					if screen.name == "phone" {
						b.do(chromedp.Click(".VPNavBarHamburger", chromedp.ByQuery))
					}
					b.do(chromedp.SendKeys(choice, key, chromedp.ByQuery))
				}
				arrive := func(path, title string) {
					t.Helper()
					b.await(fmt.Sprintf(`location.pathname === '%s' && document.querySelector('h1')?.innerText.startsWith('%s')`, path, title))
					b.await(`document.querySelector('#app')?.__vue_app__ !== undefined`)
				}
				shows := func(version string) {
					t.Helper()
					b.await(fmt.Sprintf(`document.querySelector('.VPNavBarMenu select.versions').selectedOptions[0].text === '%s'`, version))
				}

				b.open("/docs/" + home.path + "tutorial")
				shows("v2")
				b.picture(strings.Join([]string{"versions", screen.name, language}, " "))
				choose(kb.ArrowDown)
				arrive("/docs/v1/"+home.path, home.title+" of v1")
				shows("v1")
				choose(kb.ArrowUp)
				arrive("/docs/"+home.path, home.title+" of v2")
				shows("v2")
			})
		}
	}
}
