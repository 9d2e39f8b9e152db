package kinds

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned/scheme"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// Each row says of its kind what the CRD says.
func TestRowsAreTheCRDs(t *testing.T) {
	for _, k := range All {
		text, err := os.ReadFile("../../config/crd/" + k.Resource.Group + "_" + k.Resource.Resource + ".yaml")
		expect.NoError(t, err)
		var crd apiextensionsv1.CustomResourceDefinition
		expect.NoError(t, yaml.Unmarshal(text, &crd))
		names := crd.Spec.Names
		if names.Kind != k.Name || names.Plural != k.Resource.Resource || !slices.Contains(names.ShortNames, k.Short) {
			t.Errorf("the CRD of %s has the names %+v, and its row %s and %q", k.Name, names, k.Resource, k.Short)
		}
		if !strings.HasPrefix(k.Finalizer, k.Resource.Group+"/") {
			t.Errorf("%s has the finalizer %q", k.Name, k.Finalizer)
		}
	}
}

// What a row makes, reads and writes is of its kind.
func TestRowsAreAboutTheirTypes(t *testing.T) {
	for _, k := range All {
		obj := k.New()
		if of, _, err := scheme.Scheme.ObjectKinds(obj); err != nil || of[0].Kind != k.Name || OfObject(obj).Name != k.Name {
			t.Errorf("the row of %s makes a %v, %v", k.Name, of, err)
		}
		k.Status(obj).AppliedGeneration = 7
		k.SetSpec(obj, k.New())
		expect.Equal(t, int64(7), k.Status(obj).AppliedGeneration, "the spec of a %s has the status in it", k.Name)
		if found, ok := Of(k.Name); !ok || found.Resource != k.Resource {
			t.Errorf("%s is not found: %v", k.Name, found.Resource)
		}
	}
	to, from := &cloudteamv1.Network{}, &cloudteamv1.Network{}
	from.Name, from.Spec.CIDR = "from", "10.0.0.0/24"
	OfObject(to).SetSpec(to, from)
	if to.Name != "" || to.Spec.CIDR != from.Spec.CIDR {
		t.Errorf("with another spec it is %+v", to)
	}
	if _, ok := Of("Foo"); ok {
		t.Error("there is a row for what has nothing in Neutron")
	}
}

// ownFiles are those of one kind, and of what a kind means for another, such as the references between them.
var ownFiles = regexp.MustCompile(`/(network|networkport|securitygroup|floatingip|consumer)/|/(network|networkport|ports?)\.go$|` +
	`/kustomize/references\.yaml$`)

// A new kind is a row. Of the product's files that exist, it touches those that name each kind, and besides them what it
// means for other kinds. They are to be few.
func TestFewFilesNameEachKind(t *testing.T) {
	const most = 12
	var naming []string
	for _, root := range []string{"internal", "cmd", "pkg/apis", "tools", "config"} {
		expect.NoError(t, filepath.WalkDir("../../"+root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			var words string
			switch {
			case ownFiles.MatchString(path), strings.Contains(path, "zz_generated"), strings.Contains(path, "test/"),
				strings.HasSuffix(path, "_test.go"), strings.Contains(path, "/crd/cloudteam"):
			case filepath.Ext(path) == ".go":
				words, err = wordsOf(path)
			case filepath.Ext(path) == ".yaml":
				text, failed := os.ReadFile(path)
				words, err = string(text), failed
				words, _, _ = strings.Cut(words, "# hack/generate.sh writes what follows.")
			}
			names := func(k Kind) bool {
				return strings.Contains(words, k.Name) || strings.Contains(words, k.Resource.Resource)
			}
			// These have names of their own for what is in Neutron.
			ofNeutron := slices.ContainsFunc([][2]string{
				{"KindGroup", "KindFloatingIP"}, {"CreateGroup", "CreateFloatingIP"}, {"groupActions", "floatingIPActions"},
				{"newGroups", "newFloatingIPs"},
			}, func(of [2]string) bool { return strings.Contains(words, of[0]) && strings.Contains(words, of[1]) })
			if ofNeutron || !slices.ContainsFunc(All, func(k Kind) bool { return !names(k) }) {
				naming = append(naming, path)
			}
			return err
		}))
	}
	if len(naming) > most {
		t.Errorf("%d files name all kinds, want %d at most. Range over kinds.All there:\n%s", len(naming), most,
			strings.Join(naming, "\n"))
	}
	if !slices.Contains(naming, "../../internal/kinds/kinds.go") {
		t.Errorf("it does not find this table among %v", naming)
	}
}

// wordsOf gives the identifiers and strings of a file.
func wordsOf(path string) (words string, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	var s scanner.Scanner
	files := token.NewFileSet()
	s.Init(files.AddFile(path, -1, len(text)), text, nil, 0)
	for {
		switch _, is, word := s.Scan(); is {
		case token.EOF:
			return words, nil
		case token.IDENT, token.STRING:
			words += word + " "
		}
	}
}
