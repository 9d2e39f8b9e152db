// SPDX-License-Identifier: Apache-2.0

package assets

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
)

// pins holds a go.mod and a go.sum per module that is built. They are embedded, under names the go command does not
// take for modules of their own, so that the launcher can build anywhere, and not only beside its source.
//
// Each source has its own pair because their requirements do not agree: kwok is made for another Kubernetes minor, and
// Kubernetes asks for an older etcd client than the etcd that serves it. In one module the newer requirement would win
// and change what the other was tested with.
//
//go:embed pins/*.mod pins/*.sum
var pins embed.FS

// pin is a module whose commands are built, at the version that its embedded go.mod names.
type pin struct {
	// name is the base name of the pair of files in pins.
	name string
	// module is the path of the module that is built.
	module string
	// symbols are the string variables that receive a version at link time. They are given the version's form by
	// the function.
	symbols map[string]func(version string) string
}

// kubernetesSymbols are the variables that Kubernetes' own build sets, see KUBE_ROOT/hack/lib/version.sh. The API
// server derives the feature gates it has from gitVersion: without it, it takes itself for v0.0.0.
var kubernetesSymbols = map[string]func(string) string{
	"k8s.io/component-base/version.gitVersion": whole,
	"k8s.io/component-base/version.gitMajor":   part(0),
	"k8s.io/component-base/version.gitMinor":   part(1),
	"k8s.io/client-go/pkg/version.gitVersion":  whole,
	"k8s.io/client-go/pkg/version.gitMajor":    part(0),
	"k8s.io/client-go/pkg/version.gitMinor":    part(1),
}

var (
	kubernetesPin = pin{name: "kubernetes", module: "k8s.io/kubernetes", symbols: kubernetesSymbols}
	// The kubelet has a pin of its own, so that who wants a control plane does not build it, nor what it needs.
	kubeletPin = pin{name: "kubelet", module: "k8s.io/kubernetes", symbols: kubernetesSymbols}
	multusPin  = pin{name: "multus", module: "gopkg.in/k8snetworkplumbingwg/multus-cni.v4"}
	etcdPin    = pin{name: "etcd", module: "go.etcd.io/etcd/server/v3"}
	kwokPin    = pin{
		name:    "kwok",
		module:  "sigs.k8s.io/kwok",
		symbols: map[string]func(string) string{"sigs.k8s.io/kwok/pkg/consts.Version": whole},
	}
)

// recipe is how one component is built.
type recipe struct {
	pin *pin
	// pkg is the import path of the main package.
	pkg string
}

func (c Component) recipe() recipe {
	switch c {
	case Etcd:
		return recipe{&etcdPin, "go.etcd.io/etcd/server/v3"}
	case Kwok:
		return recipe{&kwokPin, "sigs.k8s.io/kwok/cmd/kwok"}
	case Kubelet:
		return recipe{&kubeletPin, "k8s.io/kubernetes/cmd/kubelet"}
	case Multus:
		return recipe{&multusPin, "gopkg.in/k8snetworkplumbingwg/multus-cni.v4/cmd/multus"}
	default:
		return recipe{&kubernetesPin, "k8s.io/kubernetes/cmd/" + string(c)}
	}
}

// Version is the version that is built of c, for example "v3.7.3".
func (c Component) Version() string {
	return c.recipe().pin.version()
}

// gomod and gosum are the embedded files. They are part of the program, so that their absence is a programming error.
func (p *pin) gomod() []byte { return mustRead("pins/" + p.name + ".mod") }
func (p *pin) gosum() []byte { return mustRead("pins/" + p.name + ".sum") }

func mustRead(path string) []byte {
	b, err := pins.ReadFile(path)
	if err != nil {
		panic(err)
	}
	return b
}

// version reads the required version out of the embedded go.mod, which is thereby the one place that states it.
func (p *pin) version() string {
	line := regexp.MustCompile(`(?m)^(?:require|\t)\s*` + regexp.QuoteMeta(p.module) + `\s+(v\S+)`)
	found := line.FindSubmatch(p.gomod())
	if found == nil {
		panic(fmt.Sprintf("pins/%s.mod does not require %s", p.name, p.module))
	}
	return string(found[1])
}

// ldflags are the linker's flags: versions for the symbols, and no debug tables, which nobody reads here and which are
// a third of the size of a binary.
func (p *pin) ldflags() string {
	flags := []string{"-s", "-w"}
	for _, symbol := range sortedKeys(p.symbols) {
		flags = append(flags, "-X", symbol+"="+p.symbols[symbol](p.version()))
	}
	return strings.Join(flags, " ")
}

// digest changes whenever the same version would be built otherwise: another dependency, flag or Stage. It keeps a
// cache that outlives the checkout from answering with another recipe's binaries.
func (r recipe) digest() string {
	h := sha256.New()
	parts := []string{r.pkg, r.pin.ldflags(), string(r.pin.gomod()), string(r.pin.gosum())}
	if r.pin == &kwokPin {
		parts = append(parts, stageFolders...)
	}
	for _, part := range parts {
		_, _ = fmt.Fprintf(h, "%d\n%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))[:8]
}

func whole(version string) string { return version }

// part returns the nth number of a version "vA.B.C".
func part(n int) func(string) string {
	return func(version string) string {
		numbers := strings.Split(strings.TrimPrefix(version, "v"), ".")
		if n >= len(numbers) {
			return ""
		}
		return numbers[n]
	}
}
