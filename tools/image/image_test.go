// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	provenancev1 "github.com/in-toto/attestation/go/predicates/provenance/v1"
	attestation "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"
)

// platforms are those of a release. Their order is that of the image's index.
var platforms = []string{"linux-amd64", "linux-arm64"}

// TestImage shares the programs, which take longest.
func TestImage(t *testing.T) {
	from := programs(t)
	for name, test := range map[string]func(t *testing.T, from string){
		"two builds give the same bytes":             testTwoBuilds,
		"it has three programs and nothing else":     testContent,
		"the SBOM names programs and modules":        testSBOM,
		"the provenance is a statement of in-toto's": testProvenance,
	} {
		t.Run(name, func(t *testing.T) { test(t, from) })
	}
}

// programs compiles a small program under the names of the image's, for each platform.
func programs(t *testing.T) string {
	t.Helper()
	source, dir := t.TempDir(), t.TempDir()
	write(t, filepath.Join(source, "go.mod"), "module example.com/small\n\ngo 1.26.0\n")
	write(t, filepath.Join(source, "main.go"), "package main\n\nfunc main() { println(\"up\") }\n")
	for _, platform := range platforms {
		system, arch, _ := strings.Cut(platform, "-")
		for _, name := range []string{"network-agent", "network-controller", "neutron-port"} {
			build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", filepath.Join(dir, platform, name), ".")
			build.Dir = source
			build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch)
			if output, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, output)
			}
		}
	}
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// makeIn makes the image in a new folder.
func makeIn(t *testing.T, programs string) string {
	t.Helper()
	out := t.TempDir()
	err := makeImage([]string{
		"-version=v1.2.3", "-revision=abc123", "-epoch=1700000000", "-name=example/network-controller:v1.2.3",
		"-programs=" + programs, "-out=" + out,
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func testTwoBuilds(t *testing.T, from string) {
	first := makeIn(t, from)
	// Neither the time of the files nor that of the build may show.
	later := time.Now().Add(time.Hour)
	for _, platform := range platforms {
		if err := os.Chtimes(filepath.Join(from, platform, "neutron-port"), later, later); err != nil {
			t.Fatal(err)
		}
	}
	second := makeIn(t, from)
	for _, file := range []string{
		"network-controller-image.tar", "network-controller-image.cdx.json", "image/index.json",
	} {
		a, errA := os.ReadFile(filepath.Join(first, file))
		b, errB := os.ReadFile(filepath.Join(second, file))
		if errA != nil || errB != nil || !bytes.Equal(a, b) {
			t.Errorf("%s of two builds differs (%v, %v)", file, errA, errB)
		}
	}
}

// images opens the image in the folder that it was made in.
func images(t *testing.T, out string) (v1.ImageIndex, []v1.Image) {
	t.Helper()
	root, err := layout.ImageIndexFromPath(filepath.Join(out, "image"))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := root.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("%v, %v", manifest, err)
	}
	index, err := root.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if manifest, err = index.IndexManifest(); err != nil {
		t.Fatal(err)
	}
	var all []v1.Image
	for _, m := range manifest.Manifests {
		image, err := index.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, image)
	}
	return index, all
}

func testContent(t *testing.T, from string) {
	index, all := images(t, makeIn(t, from))
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	if len(all) != len(platforms) {
		t.Fatalf("%d platforms, want %d", len(all), len(platforms))
	}
	for i, image := range all {
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if got := config.OS + "-" + config.Architecture; got != platforms[i] {
			t.Errorf("platform %s, want %s", got, platforms[i])
		}
		if config.Config.User != "65532:65532" {
			t.Errorf("%s: user %q, want one that is not root, by number: the kubelet checks it", platforms[i], config.Config.User)
		}
		if !slices.Equal(config.Config.Entrypoint, []string{"/usr/local/bin/network-controller"}) {
			t.Errorf("%s: entrypoint %v", platforms[i], config.Config.Entrypoint)
		}
		if !slices.Equal(config.Config.Env, []string{"PATH=/usr/local/bin"}) {
			t.Errorf("%s: environment %v", platforms[i], config.Config.Env)
		}
		var files []string
		content := tar.NewReader(mutate.Extract(image))
		for {
			header, err := content.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if header.Uid != 0 || header.Mode&0o022 != 0 {
				t.Errorf("%s belongs to %d with mode %o: the user must not write it", header.Name, header.Uid, header.Mode)
			}
			if header.Typeflag == tar.TypeReg {
				files = append(files, header.Name)
			}
		}
		slices.Sort(files)
		want := []string{"usr/local/bin/network-agent", "usr/local/bin/network-controller", "usr/local/bin/neutron-port"}
		if !slices.Equal(files, want) {
			t.Errorf("%s: files %v, want %v", platforms[i], files, want)
		}
	}
}

func testSBOM(t *testing.T, from string) {
	file, err := os.Open(filepath.Join(makeIn(t, from), "network-controller-image.cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var bom cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(file, cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, c := range *bom.Components {
		found[c.BOMRef] = true
		found[c.Name] = true
	}
	for _, want := range []string{"network-controller@linux/arm64", "neutron-port@linux/amd64", "stdlib"} {
		if !found[want] {
			t.Errorf("the SBOM lacks %s", want)
		}
	}
	for _, d := range *bom.Dependencies {
		for _, ref := range *d.Dependencies {
			if !found[ref] {
				t.Errorf("%s depends on %s, which is no component", d.Ref, ref)
			}
		}
	}
}

// testProvenance reads what is printed by in-toto's own types.
func testProvenance(t *testing.T, from string) {
	out := makeIn(t, from)
	printed := filepath.Join(t.TempDir(), "provenance.json")
	file, err := os.Create(printed)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	stdout := os.Stdout
	os.Stdout = file
	err = makeProvenance([]string{
		"-version=v1.2.3", "-revision=0123456789012345678901234567890123456789-dirty", "-epoch=1700000000", "-builder=https://example.com/ci",
		"-target=image", "-image=" + filepath.Join(out, "image"), filepath.Join(out, "network-controller-image.tar"),
	})
	os.Stdout = stdout
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(printed)
	if err != nil {
		t.Fatal(err)
	}
	var s attestation.Statement
	if err := protojson.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
	if len(s.Subject) != 2 {
		t.Errorf("%d subjects, want the image and its archive", len(s.Subject))
	}
	content, err := json.Marshal(s.Predicate.AsMap())
	if err != nil {
		t.Fatal(err)
	}
	var predicate provenancev1.Provenance
	if err := protojson.Unmarshal(content, &predicate); err != nil {
		t.Fatal(err)
	}
	if err := predicate.Validate(); err != nil {
		t.Error(err)
	}
	if !strings.HasSuffix(predicate.BuildDefinition.BuildType, "/make-image/v1") {
		t.Errorf("the build type is %s", predicate.BuildDefinition.BuildType)
	}
	if !strings.Contains(predicate.BuildDefinition.ResolvedDependencies[0].Name, "not committed") {
		t.Error("the provenance hides that the clone had changes")
	}
}

func TestWhatIsMissingIsSaid(t *testing.T) {
	for want, args := range map[string][]string{
		"run `make image`": {"-version=v1"},
		"has no folder":    {"-version=v1", "-revision=a", "-epoch=1", "-programs=" + t.TempDir()},
	} {
		if err := makeImage(args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
}
