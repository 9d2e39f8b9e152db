// SPDX-License-Identifier: Apache-2.0

package assets

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"path"
	"regexp"
	"strings"
)

// pins holds a go.mod and a go.sum for each recipe, and the checksums of releases. They are embedded, under names that
// the go command does not take for modules, so that the launcher can build anywhere, and not only beside its source.
//
// Each recipe has its own pair, because a module has one version of each of its requirements. Those that several
// recipes and the project share are of one version nevertheless, so that the build cache has each package once.
//
//go:embed pins/*.mod pins/*.sum pins/releases.sha256
var pins embed.FS

// recipe is what is built together: the programs of one module, at the version that its embedded go.mod names.
type recipe struct {
	// pin is the base name of the pair of files in pins.
	pin string
	// module is the path of the module that is built.
	module string
	// packages are the import paths of the main packages.
	packages map[Component]string
	// stamped are the packages whose variables gitVersion, gitMajor and gitMinor receive the version at link time, as
	// Kubernetes' own build does. The API server derives its feature gates from gitVersion.
	stamped []string
}

// recipes are in the order in which they are built. What serves the API comes first, because a control plane can start
// with it.
var recipes = []recipe{
	{pin: "etcd", module: "go.etcd.io/etcd/server/v3", packages: map[Component]string{Etcd: "go.etcd.io/etcd/server/v3"}},
	kubernetes(KubeAPIServer),
	kubernetes(KubeControllerManager, KubeScheduler),
	kubernetes(Kubelet),
	{
		pin: "multus", module: "gopkg.in/k8snetworkplumbingwg/multus-cni.v4",
		packages: map[Component]string{Multus: "gopkg.in/k8snetworkplumbingwg/multus-cni.v4/cmd/multus"},
	},
}

func kubernetes(components ...Component) recipe {
	packages := map[Component]string{}
	for _, c := range components {
		packages[c] = "k8s.io/kubernetes/cmd/" + string(c)
	}
	return recipe{
		pin: "kubernetes", module: "k8s.io/kubernetes", packages: packages,
		stamped: []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"},
	}
}

// Version is the version that is built of c, for example "v3.7.3". A Node has that of Kubernetes.
func (c Component) Version() string {
	for _, r := range recipes {
		if r.packages[c] != "" {
			return r.version()
		}
	}
	return KubeAPIServer.Version()
}

// pinned returns an embedded file. All of them are part of the program, so that an absence is a programming error.
func pinned(name string) []byte {
	content, err := pins.ReadFile(path.Join("pins", name))
	if err != nil {
		panic(err)
	}
	return content
}

// version reads the required version out of the embedded go.mod, which is thereby the one place that states it.
func (r recipe) version() string {
	line := regexp.MustCompile(`(?m)^(?:require|\t)\s*` + regexp.QuoteMeta(r.module) + `\s+(v\S+)`)
	found := line.FindSubmatch(pinned(r.pin + ".mod"))
	if found == nil {
		panic(fmt.Sprintf("pins/%s.mod does not require %s", r.pin, r.module))
	}
	return string(found[1])
}

// ldflags are the linker's flags: the version, and no debug tables, which nobody reads here and which are a third of
// the size of a program.
func (r recipe) ldflags() string {
	flags := []string{"-s", "-w"}
	numbers := strings.Split(strings.TrimPrefix(r.version(), "v"), ".")
	for _, pkg := range r.stamped {
		flags = append(flags, "-X", pkg+".gitVersion="+r.version(),
			"-X", pkg+".gitMajor="+numbers[0], "-X", pkg+".gitMinor="+numbers[1])
	}
	return strings.Join(flags, " ")
}

// digest changes whenever something would be built otherwise: another version, dependency or flag.
func digest() string {
	h := sha256.New()
	for _, r := range recipes {
		for _, part := range []string{r.ldflags(), string(pinned(r.pin + ".mod")), string(pinned(r.pin + ".sum"))} {
			_, _ = fmt.Fprintf(h, "%d\n%s", len(part), part)
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}
