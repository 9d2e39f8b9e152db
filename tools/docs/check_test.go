package main

import (
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestTheDocsOfThisRepositoryAreRight(t *testing.T) {
	problems, err := Check(os.DirFS("../.."))
	expect.NoError(t, err)
	for _, problem := range problems {
		t.Error(problem)
	}
}

func TestCheck(t *testing.T) {
	const code = "package a\n\nconst C = 1\n\n// +marker\ntype T[X any] struct{ field X }\n\nfunc (t *T[X]) M() {}\n"
	const noPlace = "docs/other.md:1: the page has no place on the site: add it to " + sectionsFile
	for sentence, test := range map[string]struct {
		page string
		want []string
	}{
		"what exists is right": {want: []string{noPlace}, page: "# A `b` c, d\n[x](#a-b-c-d) [y](other.md#one-1) [z](../a/a.go#T.M) [`C`](../a/a.go#C)\n" +
			"```sh\nmake X=1 test\ngo test ./a -run 'TestA'\nkubectl apply -f config/x.yaml\n```\n"},
		"links of code blocks are none": {want: []string{noPlace}, page: "```\n[x](nowhere.md)\n```\nand `[x](nowhere.md)`\n"},
		"a missing file":                {"[x](nowhere.md)", []string{noPlace, "docs/p.md:1: the link nowhere.md is broken: there is no docs/nowhere.md"}},
		"a missing anchor": {"\n[x](other.md#two)",
			[]string{noPlace, "docs/p.md:2: the link other.md#two is broken: docs/other.md has no heading with the anchor two"}},
		"a missing symbol": {"[x](../a/a.go#T.N)",
			[]string{noPlace, "docs/p.md:1: the link ../a/a.go#T.N is broken: a/a.go declares no T.N"}},
		"a missing target": {"```\n$ make nothing\n```", []string{noPlace, "docs/p.md:2: make has no target nothing"}},
		"a missing file in a command": {"```sh\nkubectl apply \\\n  -f config/y.yaml\n```",
			[]string{noPlace, "docs/p.md:2: there is no config/y.yaml"}},
		"a translation with its source's commands": {want: []string{noPlace},
			page: "```\n$ ls   # 列出\n```\n<!-- translation of docs/learn/x.md at 0 -->"},
		"a translation with a command of its own": {want: []string{noPlace, "docs/p.md:2: docs/learn/x.md has no such command: ls -l"},
			page: "```\n$ ls -l\n```\n<!-- translation of docs/learn/x.md at 0 -->"},
		"a column that says where what exists is": {want: []string{noPlace}, page: "| x | here |\n| --- | --- |\n" +
			"| y | [`T.M`](../a/a.go#T.M), [`a.C`](../a/a.go#C), `a/a.go`: `--workers`, `make test`, `cache.Store` |\n" +
			"| z | [`T`](../a/a.go#T): `field`, `C`; `+marker` in [`a.go`](../a/a.go) |\n" +
			"\n| x | y |\n| --- | --- |\n| `z` | `z` |\n"},
		"a column that says where a missing function is": {"| here |\n| --- |\n| `a/a.go`: `N` |\n",
			[]string{noPlace, "docs/p.md:3: no file or package that the cell names declares N: a/a.go"}},
		"a column that says where a missing file is": {"| here |\n| --- |\n| `a/b.go` |\n",
			[]string{noPlace, "docs/p.md:3: there is no a/b.go: write its path from the repository's root, or link it"}},
		"a column with a link of another name": {"| here |\n| --- |\n| [`N`](../a/a.go#C) |\n",
			[]string{noPlace, "docs/p.md:3: the link text N is not the name of what it opens: ../a/a.go#C"}},
		"a column with a flag that is missing": {"| here |\n| --- |\n| `--worker` |\n",
			[]string{noPlace, "docs/p.md:3: docs/flags.md has no flag --worker"}},
		"a column with a marker that is missing": {"| here |\n| --- |\n| `+mark` in `a/a.go` |\n",
			[]string{noPlace, "docs/p.md:3: +mark is in none of the files that the cell names: a/a.go"}},
		"a translation without a row": {
			page: "| 本项目 |\n| --- |\n| `a/a.go` |\n<!-- translation of docs/learn/y.md at 0 -->",
			want: []string{noPlace, "docs/p.md:1: its column 本项目 lacks C, which docs/learn/y.md has in line 3"}},
		"a missing test": {"```sh\ngo test ./a -run TestB\n```", []string{noPlace, "docs/p.md:2: ./a has no test TestB"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			files := fstest.MapFS{}
			for name, text := range map[string]string{
				"docs/p.md": test.page, "docs/other.md": "# One\n## One\n", "a/a.go": code,
				"docs/learn/x.md":              "```sh\nls   # list\n```\n",
				"docs/learn/y.md":              "| here |\n| --- |\n| `a/a.go`: `C` |\n",
				"docs/flags.md":                "| `--workers` | int |\n",
				"tools/docs/site/sections.mjs": "['docs/p.md', 'docs/flags.md', 'docs/learn/']", "docs/zh/p.md": "",
				"a/a_test.go": "package a\n\nfunc TestA() {}\n", "Makefile": "test: assets\n\tgo test\n", "config/x.yaml": "",
			} {
				files[name] = &fstest.MapFile{Data: []byte(text)}
			}
			got, err := Check(files)
			expect.NoError(t, err)
			slices.Sort(got)
			expect.Equal(t, test.want, got, "findings")
		})
	}
}

func TestIdiomsAreRefused(t *testing.T) {
	const (
		owned = `"of its own" is an idiom: write its own ..., or separate`
		led   = `"leads nowhere" is an idiom: write be associated with, connect to, be for, or cause`
		again = `"anew" is an idiom: write again`
	)
	for sentence, test := range map[string]struct{ page, code, want string }{
		"a page":                        {page: "# P\n\nIt leads\nnowhere.\n", want: "p.md:3: " + led},
		"a table":                       {page: "| a | b |\n| --- | --- |\n| c | a cloud of its own |\n", want: "p.md:3: " + owned},
		"code of a page may have any":   {page: "`it leads nowhere`\n```\nmade anew\n```\n"},
		"what is its own kind is plain": {page: "A port of its own project, and no more than one.\n"},
		"a message": {code: "import \"fmt\"\n\nvar err = fmt.Errorf(\"it \"+\n\t\"leads \"+\n\t\"nowhere\")\n",
			want: "a/a.go:5: " + led},
		"an operand of a message":       {code: "var s = f() + g(\"make it anew\")\n", want: "a/a.go:3: " + again},
		"a docstring":                   {code: "// F makes it anew.\nfunc F() {}\n", want: "a/a.go:3: " + again},
		"a docstring of a field":        {code: "type t struct {\n\t// F is made anew.\n\tF int\n}\n", want: "a/a.go:4: " + again},
		"other comments may have any":   {code: "// f makes it anew.\nfunc f() {}\n"},
		"a name that is such a word":    {code: "// Told is a name.\nvar Told = \"told\"\n"},
		"a generated file may have any": {code: "// F makes it anew.\nfunc F() {}\n", page: "zz_generated.go"},
		"a test may have any":           {code: "// F makes it anew.\nfunc F() {}\n", page: "a_test.go"},
	} {
		t.Run(sentence, func(t *testing.T) {
			files := fstest.MapFS{sectionsFile: {Data: nil}, "Makefile": {Data: []byte("test:\n")}}
			name := "a/a.go"
			if strings.HasSuffix(test.page, ".go") {
				name, test.page = "a/"+test.page, ""
			}
			files[name] = &fstest.MapFile{Data: []byte("package a\n\n" + test.code)}
			files["p.md"] = &fstest.MapFile{Data: []byte(test.page)}
			got, err := Check(files)
			expect.NoError(t, err)
			expect.Equal(t, test.want, strings.Join(got, "\n"), "findings")
		})
	}
}

func TestTheIndexOfDecisionsHasThemAll(t *testing.T) {
	files := fstest.MapFS{
		sectionsFile: {Data: []byte("['docs/adr/']")}, "Makefile": {Data: []byte("test:\n")},
		decisions:               {Data: []byte("# Decisions\n\n[1. A](0001-a.md)\n")},
		"docs/adr/0001-a.md":    {Data: []byte("# 1. A\n")},
		"docs/adr/0002-rare.md": {Data: []byte("# 2. Rare\n")},
	}
	got, err := Check(files)
	expect.NoError(t, err)
	expect.Equal(t, []string{"docs/adr/0002-rare.md:1: the decision has no topic: link it in " + decisions}, got, "findings")
}

func TestATranslationLagsBehindUntilItIsMarked(t *testing.T) {
	files := fstest.MapFS{
		"a.md": {Data: []byte("# A\n")}, "zh/a.md": {Data: []byte("# 甲\n\n<!-- translation of a.md at 0 -->\n")},
		"zh/b.md": {Data: []byte("# 乙\n")},
	}
	want := []string{"zh/a.md lags behind a.md: translate what changed, then run go run ./tools/docs --current=zh/a.md"}
	got, err := Lagging(files)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("(-want +got):\n%s%v", diff, err)
	}
	text, err := Current(files, "zh/a.md")
	expect.NoError(t, err)
	files["zh/a.md"].Data = []byte(text)
	if got, err := Lagging(files); err != nil || len(got) > 0 {
		t.Errorf("after it was marked: %q, %v", got, err)
	}
	files["a.md"].Data = []byte("# B\n")
	if got, err := Lagging(files); err != nil || len(got) != 1 {
		t.Errorf("after its source changed: %q, %v", got, err)
	}
	if _, err := Current(files, "zh/b.md"); err == nil {
		t.Error("a page that is no translation is marked")
	}
}

// notesWords are what readers who come from study notes search for.
var notesWords = strings.Fields(`
	masterURL kubeconfig InClusterConfig ServiceAccount stopCh NewSharedInformerFactory InformerFor NewController AddFunc
	UpdateFunc DeleteFunc ResourceVersion fooInformer deploymentInformer kubeClient exampleClient workqueue WaitForCacheSync
	wait.Until runWorker processNextWorkItem Forget AddRateLimited syncHandler neutron.Delete DeepEqual handleObject
	DeletedFinalStateUnknown enqueueFoo newDeployment updateFooStatus SuccessSynced ErrResourceExists v1beta1 doc.go types.go
	register.go deepcopy-gen=package groupName genclient noStatus runtime.Object NetworkList filter MUX admission registry
	etcd Initializer ./build-container Deployment.yaml Reflector ListAndWatch Store Indexer Operator
`)

// notesPhrases are those with spaces, in each language.
var notesPhrases = map[string][]string{
	"docs":    {"FIX ME", "creating rs-pod", "super version", "kubectl logs -f", "delta FIFO", "actual state", "level trigger"},
	"docs/zh": {"FIX ME", "creating rs-pod", "super version", "kubectl logs -f", "delta FIFO", "实际状态", "水平触发", "调谐"},
}

func TestTheWordsOfTheNotesAreFoundInBothLanguages(t *testing.T) {
	all, err := pages(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	for folder, phrases := range notesPhrases {
		var text strings.Builder
		for _, p := range all {
			if chinese := strings.HasPrefix(p.path, "docs/zh/"); strings.HasPrefix(p.path, "docs/") && chinese == (folder == "docs/zh") {
				text.WriteString(p.text)
			}
		}
		for _, word := range slices.Concat(notesWords, phrases) {
			if !strings.Contains(text.String(), word) {
				t.Errorf("%s has no %q, which readers of the notes search for", folder, word)
			}
		}
	}
}
