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

// eachKind are the files that name each kind, and the texts that each of them needs for a kind. All other files range
// over All.
var eachKind = map[string]func(k Kind) []string{
	"internal/kinds/kinds.go":           func(k Kind) []string { return []string{"row(" + k.Name + ","} },
	"pkg/apis/cloudteam/v1/register.go": func(k Kind) []string { return []string{"&" + k.Name + "{}", "&" + k.Name + "List{}"} },
	"internal/app/controllers.go":       func(k Kind) []string { return []string{"kinds." + k.Name + ":", "p.build" + k.Name + ","} },
	// kubectl network plan
	"internal/kubectl/planning/planning.go": func(k Kind) []string { return []string{"kinds." + k.Name + ":"} },
	// Of the controller, as its Role and as the policy of its account allow it.
	"config/rbac/role.yaml": func(k Kind) []string { return []string{k.Resource.Resource + "/status"} },
	"config/admission/account.yaml": func(k Kind) []string {
		update := "'UPDATE " + k.Resource.Resource + "." + k.Resource.Group
		return []string{"'" + k.Finalizer + "'", update + "'", update + "/status'"}
	},
	"config/rbac/user_roles.yaml": func(k Kind) []string { return []string{k.Resource.Resource} },
	// Who may name a class.
	"config/admission/classes.yaml": func(k Kind) []string {
		if k.Class == nil {
			return nil
		}
		return []string{k.Resource.Resource}
	},
	"config/monitoring/kube-state-metrics.yaml": func(k Kind) []string { return []string{"kind: " + k.Name + "}"} },
}

// A new kind is a row. This finds the other files that have to name it.
func TestFilesNameEachKind(t *testing.T) {
	for file, needs := range eachKind {
		text, err := os.ReadFile("../../" + file)
		expect.NoError(t, err)
		for _, k := range All {
			for _, need := range needs(k) {
				if !strings.Contains(string(text), need) {
					t.Errorf("%s lacks %q for the kind %s: write there for it what the other kinds have", file, need, k.Name)
				}
			}
		}
	}
}

// Each kind has a page and an example. TestPagesDeleteTheSameKinds of test/chart holds that it goes before an uninstall.
func TestEachKindHasAPage(t *testing.T) {
	for _, k := range All {
		name := strings.ToLower(k.Name)
		for _, file := range []string{"docs/" + name + ".md", "config/samples/" + name + ".yaml"} {
			if _, err := os.Stat("../../" + file); err != nil {
				t.Errorf("the kind %s has no %s: write it as the other kinds have it", k.Name, file)
			}
		}
	}
}

// Nobody else names each kind. TestEachKindIsPlanned and TestEachKindHasAStock tell a new kind what it needs in the
// files of packages plan and inventory, where it has another name. Only a kind that brings causes needs a row in why.
func TestFewFilesNameEachKind(t *testing.T) {
	const most = 12
	others := []string{
		"internal/plan/plan.go", "internal/plan/change.go", "internal/neutron/inventory/inventory.go",
		"internal/kubectl/why/why.go",
	}
	if named := len(eachKind) + len(others) - 1; named > most {
		t.Errorf("a new kind touches %d files, want %d at most", named, most)
	}
	found := false
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
			if !ofNeutron && slices.ContainsFunc(All, func(k Kind) bool { return !names(k) }) {
				return err
			}
			file := strings.TrimPrefix(path, "../../")
			_, is := eachKind[file]
			if !is && !slices.Contains(others, file) {
				t.Errorf("%s names all kinds: range over kinds.All there", file)
			}
			found = found || is
			return err
		}))
	}
	if !found {
		t.Error("it does not find the files of eachKind")
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
