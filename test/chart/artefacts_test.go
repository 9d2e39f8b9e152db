package chart

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart/loader"
	"sigs.k8s.io/yaml"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

const (
	// released has a pre-release, which the chart's version, the image's tag and names of files have to bear.
	released = "v9.8.7-rc.1"
	// releasedImage is in a registry with a port, whose colon is not that of the tag.
	releasedImage = "registry.example:5000/" + name + ":" + released
)

// tiny is a program that says its version, in place of one of ours: those take minutes to compile for all platforms.
const tiny = `package main

import "cloudteam.ztgame.com/network-controller/internal/version"

func main() { println(version.Version) }
`

// clone is a clean clone of this repository with what is not committed yet, and with tiny programs.
type clone struct {
	t   *testing.T
	dir string
	// vulnerabilities is a database that knows none.
	vulnerabilities string
}

func newClone(t *testing.T) *clone {
	t.Helper()
	c := &clone{t: t, dir: t.TempDir(), vulnerabilities: t.TempDir()}
	for file, content := range map[string]string{"db.json": `{"modified":"2026-01-01T00:00:00Z"}`, "modules.json": "[]"} {
		c.write(filepath.Join("..", filepath.Base(c.vulnerabilities), "index", file), content, 0o644)
	}
	list := exec.CommandContext(t.Context(), "git", "ls-files", "-z",
		"--cached", "--others", "--exclude-standard", "--deduplicate")
	list.Dir = ".." // see TestMain
	files, err := list.Output()
	expect.NoError(t, err)
	for file := range strings.SplitSeq(strings.TrimRight(string(files), "\x00"), "\x00") {
		info, err := os.Stat(filepath.Join("..", file))
		if os.IsNotExist(err) || strings.HasPrefix(file, "cmd/") {
			continue // deleted, and not committed yet; or of a program
		}
		var content []byte
		if err == nil {
			content, err = os.ReadFile(filepath.Join("..", file))
		}
		expect.NoError(t, err)
		c.write(file, string(content), info.Mode().Perm())
	}
	for _, program := range []string{"network-controller", "network-agent", "neutron-port", "kubectl-network"} {
		c.write(filepath.Join("cmd", program, "main.go"), tiny, 0o644)
	}
	c.git("init", "--quiet")
	c.commit()
	return c
}

func (c *clone) path(file string) string { return filepath.Join(c.dir, file) }

func (c *clone) write(file, content string, mode fs.FileMode) {
	c.t.Helper()
	err := os.MkdirAll(filepath.Dir(c.path(file)), 0o755)
	if err == nil {
		err = os.WriteFile(c.path(file), []byte(content), mode)
	}
	expect.NoError(c.t, err)
}

// run runs a program in the clone, without what `make test-install` gave to this process.
func (c *clone) run(program string, args ...string) (string, error) {
	command := exec.CommandContext(c.t.Context(), program, args...)
	command.Dir = c.dir
	command.Env = append(slices.DeleteFunc(os.Environ(), func(variable string) bool {
		key, _, _ := strings.Cut(variable, "=")
		return slices.Contains([]string{
			"MAKEFLAGS", "MAKELEVEL", "MFLAGS", "VERSION", "IMAGE", "PLATFORMS", "LDFLAGS", "DIST", "BUILDER", "DOWNLOADS",
			"SOURCE_DATE_EPOCH",
		}, key)
	}), "GIT_CONFIG_GLOBAL=/dev/null")
	output, err := command.CombinedOutput()
	return string(output), err
}

func (c *clone) git(args ...string) string {
	c.t.Helper()
	output, err := c.run("git", args...)
	if err != nil {
		c.t.Fatalf("git %v: %v\n%s", args, err, output)
	}
	return strings.TrimSpace(output)
}

func (c *clone) commit() {
	c.t.Helper()
	c.git("add", "--all")
	c.git("-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "--quiet", "--message=test: release")
}

// release runs `make release`.
func (c *clone) release(version, image string) (string, error) {
	return c.run("make", "release", "VERSION="+version, "IMAGE="+image, "GOVULNDB=file://"+c.vulnerabilities)
}

// read reads a file of dist.
func (c *clone) read(file string) string {
	c.t.Helper()
	content, err := os.ReadFile(c.path("dist/" + file))
	expect.NoError(c.t, err)
	return string(content)
}

// files are the names of the files in a folder.
func (c *clone) files(folder string) (names []string) {
	c.t.Helper()
	entries, err := os.ReadDir(c.path(folder))
	expect.NoError(c.t, err)
	for _, entry := range entries {
		if !entry.IsDir() {
			names = append(names, entry.Name())
		}
	}
	return names
}

// TestReleaseIsWhole runs `make release`, of programs that are tiny, and holds what is in dist to what the pages say.
func TestReleaseIsWhole(t *testing.T) {
	c := newClone(t)
	if output, err := c.release(released, releasedImage); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	files := c.files("dist")

	t.Run("each artefact is there", func(t *testing.T) {
		want := []string{
			"SHA256SUMS", "crds.yaml", "install-node-agent.yaml", "install.yaml",
			"kubectl-network_" + released + "_darwin_amd64.tar.gz",
			"kubectl-network_" + released + "_darwin_arm64.tar.gz",
			"kubectl-network_" + released + "_linux_amd64.tar.gz",
			"kubectl-network_" + released + "_linux_arm64.tar.gz",
			"kubectl-network_" + released + "_windows_amd64.zip",
			"kubectl-network_" + released + "_windows_arm64.zip",
			"network-controller-chart_" + released + ".tgz", "network-controller-crds-chart_" + released + ".tgz",
			"network-controller-image.cdx.json", "network-controller-image.tar",
			"network-controller_" + released + "_linux_amd64.tar.gz",
			"network-controller_" + released + "_linux_arm64.tar.gz",
			"network.yaml", "provenance.intoto.json",
		}
		if diff := cmp.Diff(want, files); diff != "" {
			t.Errorf("(-want +in dist):\n%s", diff)
		}
		expect.Equal(t, "", c.git("status", "--porcelain"), "what Git sees of what was made")
		if _, err := os.Stat(c.path("bin/release")); !os.IsNotExist(err) {
			t.Errorf("bin/release is left (%v)", err)
		}
	})
	t.Run("the page names each artefact, and no other", func(t *testing.T) {
		named := artefacts(t, "RELEASE.md")
		for _, file := range files {
			if !slices.ContainsFunc(named, func(n string) bool { return matches(n, file) }) {
				t.Errorf("RELEASE.md does not name %s", file)
			}
		}
		for _, n := range named {
			if !slices.ContainsFunc(files, func(file string) bool { return matches(n, file) }) {
				t.Errorf("RELEASE.md names %s, which is not in dist", n)
			}
		}
		process, err := os.ReadFile("../RELEASE.md")
		expect.NoError(t, err)
		artefact := regexp.MustCompile(`[a-zA-Z0-9./-]+\.(?:tar|json|yaml|tgz)\b|SHA256SUMS`)
		for _, n := range artefact.FindAllString(string(process), -1) {
			n = strings.TrimPrefix(n, "dist/")
			inRepository := strings.Contains(n, "/")
			if !inRepository && !slices.Contains(files, n) {
				t.Errorf("RELEASE.md names %s, which is not in dist", n)
			}
		}
	})
	t.Run("the checksums are those of all other files", func(t *testing.T) {
		check := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "SHA256SUMS")
		check.Dir = c.path("dist")
		if output, err := check.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, output)
		}
		var summed []string
		for line := range strings.Lines(c.read("SHA256SUMS")) {
			summed = append(summed, strings.Fields(line)[1])
		}
		slices.Sort(summed)
		others := slices.DeleteFunc(slices.Clone(files), func(file string) bool { return file == "SHA256SUMS" })
		if diff := cmp.Diff(others, summed); diff != "" {
			t.Errorf("(-in dist +in SHA256SUMS):\n%s", diff)
		}
	})
	t.Run("the provenance is of this commit and of all artefacts", func(t *testing.T) {
		var statement struct {
			Subject []struct {
				Name   string
				Digest map[string]string
			}
			Predicate struct {
				BuildDefinition struct {
					ExternalParameters   map[string]string
					ResolvedDependencies []struct {
						Name   string
						Digest map[string]string
					}
				}
			}
		}
		expect.NoError(t, json.Unmarshal([]byte(c.read("provenance.intoto.json")), &statement))
		built := statement.Predicate.BuildDefinition
		if len(built.ResolvedDependencies) != 1 || built.ResolvedDependencies[0].Name != name ||
			built.ResolvedDependencies[0].Digest["gitCommit"] != c.git("rev-parse", "HEAD") ||
			built.ExternalParameters["version"] != released {
			t.Errorf("it is of %+v", built)
		}
		subjects := map[string]string{}
		for _, s := range statement.Subject {
			subjects[s.Name] = s.Digest["sha256"]
		}
		if subjects[releasedImage] == "" {
			t.Errorf("it says nothing of the image %s, only of %v", releasedImage, subjects)
		}
		for _, file := range files {
			if file == "SHA256SUMS" || file == "provenance.intoto.json" {
				continue // made after it, or itself
			}
			if want := fmt.Sprintf("%x", sha256.Sum256([]byte(c.read(file)))); subjects[file] != want {
				t.Errorf("%s has the checksum %q, want %s", file, subjects[file], want)
			}
		}
	})
	t.Run("Helm loads the chart and installs this image", func(t *testing.T) {
		chart, err := loader.LoadFile(c.path("dist/network-controller-chart_" + released + ".tgz"))
		expect.NoError(t, err)
		if chart.Metadata.Version != strings.TrimPrefix(released, "v") || chart.Metadata.AppVersion != released {
			t.Errorf("the chart is %s of %s", chart.Metadata.Version, chart.Metadata.AppVersion)
		}
		objects, _, err := target{chart: chart}.try(t, "nodeAgent.enabled=true")
		expect.NoError(t, err)
		for _, key := range []string{"Deployment/" + name, "DaemonSet/network-agent"} {
			text, err := yaml.Marshal(objects[key].Object)
			expect.NoError(t, err)
			onlyImage(t, key, string(text))
		}
		crds, err := loader.LoadFile(c.path("dist/network-controller-crds-chart_" + released + ".tgz"))
		expect.NoError(t, err)
		if objects, _, err = (target{chart: crds}).try(t); err != nil || len(objects) != 5 {
			t.Errorf("the chart of the CRDs has %d objects, want 5: %v", len(objects), err)
		}
	})
	t.Run("the manifests have this image", func(t *testing.T) {
		for _, file := range []string{"install.yaml", "install-node-agent.yaml"} {
			onlyImage(t, file, c.read(file))
		}
		expect.Equal(t, 5, strings.Count(c.read("crds.yaml"), "kind: CustomResourceDefinition\n"), "CRDs in crds.yaml")
	})
	t.Run("the image has this name and version", func(t *testing.T) {
		expect.Contains(t, c.read("image/index.json"), `"`+releasedImage+`"`, "the image's name")
		if sbom := c.read("network-controller-image.cdx.json"); !strings.Contains(sbom, `"version": "`+released+`"`) {
			t.Errorf("the SBOM does not have the version:\n%.1000s", sbom)
		}
	})
	t.Run("krew's manifest has the archives", func(t *testing.T) {
		var plugin struct {
			Spec struct {
				Version   string
				Platforms []struct {
					Selector         struct{ MatchLabels map[string]string }
					URI, Sha256, Bin string
				}
			}
		}
		expect.NoError(t, yaml.Unmarshal([]byte(c.read("network.yaml")), &plugin))
		if plugin.Spec.Version != released || len(plugin.Spec.Platforms) != 6 {
			t.Errorf("it is of %s, for %d platforms", plugin.Spec.Version, len(plugin.Spec.Platforms))
		}
		for _, p := range plugin.Spec.Platforms {
			from, file := filepath.Split(p.URI)
			if !strings.HasSuffix(from, "/"+released+"/") {
				t.Errorf("%s is not below a URL of the version", p.URI)
			}
			if !strings.Contains(file, "_"+p.Selector.MatchLabels["os"]+"_"+p.Selector.MatchLabels["arch"]+".") {
				t.Errorf("%s is for %v", file, p.Selector.MatchLabels)
			}
			if sum := fmt.Sprintf("%x", sha256.Sum256([]byte(c.read(file)))); p.Sha256 != sum {
				t.Errorf("%s has the checksum %s, want %s", file, p.Sha256, sum)
			}
		}
	})
	t.Run("the programs say this version", func(t *testing.T) {
		unpacked := t.TempDir()
		for archive, programs := range map[string][]string{
			"network-controller": {"network-controller", "network-agent", "neutron-port"},
			"kubectl-network":    {"kubectl-network"},
		} {
			archive = c.path("dist/" + archive + "_" + released + "_linux_" + runtime.GOARCH + ".tar.gz")
			if output, err := exec.CommandContext(t.Context(), "tar", "-xzf", archive, "-C", unpacked).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, output)
			}
			for _, program := range programs {
				output, err := exec.CommandContext(t.Context(), filepath.Join(unpacked, program), "--version").CombinedOutput()
				if err != nil || strings.TrimSpace(string(output)) != released {
					t.Errorf("%s --version: %s, %v", program, output, err)
				}
			}
			if err := os.Remove(filepath.Join(unpacked, "LICENSE")); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("what cannot be made leaves nothing", func(t *testing.T) {
		// The last programs that are compiled are those of the plugin: the image is done by then.
		c.write("cmd/kubectl-network/main.go", "package main\n\nfunc main() { undefined() }\n", 0o644)
		c.commit()
		output, err := c.release(released, releasedImage)
		if err == nil || !strings.Contains(output, "undefined") {
			t.Errorf("error %v\n%s", err, output)
		}
		for _, left := range []string{"dist", "bin/release"} {
			if _, err := os.Stat(c.path(left)); !os.IsNotExist(err) {
				t.Errorf("%s is left (%v)", left, err)
			}
		}
	})
}

// artefacts are the names in the table of a page's section on a release. An ellipsis is for the rest of a name.
func artefacts(t *testing.T, page string) (named []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", page))
	expect.NoError(t, err)
	_, section, found := strings.Cut(string(text), "`make release VERSION=v0.1.0`")
	section, _, _ = strings.Cut(section, "\n## ")
	if !found {
		t.Fatalf("%s has no section on `make release VERSION=v0.1.0`", page)
	}
	for line := range strings.Lines(section) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cell, _, _ := strings.Cut(line[1:], "|")
		for _, n := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cell, -1) {
			named = append(named, n[1])
		}
	}
	return named
}

// matches tells whether a page's name is that of a file.
func matches(named, file string) bool {
	start, open := strings.CutSuffix(named, "…")
	return named == file || open && strings.HasPrefix(file, start)
}

// onlyImage fails a test whose manifest runs no image, or another one than the release's.
func onlyImage(t *testing.T, what, manifest string) {
	t.Helper()
	images := regexp.MustCompile(`(?m)^[ -]*image: (.*)$`).FindAllStringSubmatch(manifest, -1)
	if len(images) == 0 {
		t.Errorf("%s runs no image", what)
	}
	for _, image := range images {
		expect.Equal(t, releasedImage, image[1], "the image that %s runs", what)
	}
}

// TestReleaseIsRefused gives what nobody should release, and what `make release` says of it. What was made before stays.
func TestReleaseIsRefused(t *testing.T) {
	c := newClone(t)
	c.write("dist/earlier", "", 0o644)
	c.write("untracked.txt", "", 0o644)
	const remedy = "Write one such as VERSION=v1.2.3"
	for _, test := range []struct {
		version, image string
		want           []string
	}{
		{"", name + ":", []string{remedy}},
		{"1.2.3", name + ":1.2.3", []string{"VERSION=1.2.3 ", remedy}},
		{"v1.2", name + ":v1.2", []string{"VERSION=v1.2 ", remedy}},
		{"v1.2.3.4", name + ":v1.2.3.4", []string{remedy}},
		{"v01.2.3", name + ":v01.2.3", []string{remedy}},
		{"v1.2.3-rc..1", name + ":v1.2.3-rc..1", []string{remedy}},
		{"v1.2.3-01", name + ":v1.2.3-01", []string{remedy}},
		{"v1.2.3+build", name + ":v1.2.3+build", []string{remedy}},
		{"e09a432", name + ":e09a432", []string{remedy}},
		{"v1.2.3", name + ":v1.2.2", []string{"IMAGE=" + name + ":v1.2.2 ", "Write IMAGE=" + name + ":v1.2.3"}},
		{"v1.2.3", "registry.example:5000/" + name, []string{"Write IMAGE=registry.example:5000/" + name + ":v1.2.3"}},
		{"v1.2.3", ":v1.2.3", []string{"IMAGE=:v1.2.3 "}},
		{"v1.2.3", name + ":v1.2.3", []string{"?? untracked.txt", "Commit them"}},
		{"v1.2.3-0.rc-1.a", name + ":v1.2.3-0.rc-1.a", []string{"?? untracked.txt"}},
	} {
		output, err := c.release(test.version, test.image)
		if err == nil {
			t.Errorf("VERSION=%s IMAGE=%s: no error", test.version, test.image)
		}
		for _, want := range test.want {
			expect.Contains(t, output, want, "what VERSION=%s IMAGE=%s prints", test.version, test.image)
		}
		if strings.Contains(output, "Compiling") {
			t.Errorf("VERSION=%s IMAGE=%s: it began with\n%s", test.version, test.image, output)
		}
	}
	if left := c.files("dist"); !slices.Equal(left, []string{"earlier"}) {
		t.Errorf("dist has %v", left)
	}
	expect.NoError(t, os.Remove(c.path("untracked.txt")))
	c.vulnerabilities = "/nowhere"
	if output, err := c.release(released, releasedImage); err == nil || strings.Contains(output, "Compiling") {
		t.Errorf("without a database of vulnerabilities it gives %v\n%s", err, output)
	}
}
