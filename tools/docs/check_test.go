package main

import (
	"os"
	"path/filepath"
	"regexp"
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
		"a missing test": {"```sh\ngo test ./a -run TestB\n```", []string{noPlace, "docs/p.md:2: ./a has no test TestB"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			files := fstest.MapFS{}
			for name, text := range map[string]string{
				"docs/p.md": test.page, "docs/other.md": "# One\n## One\n", "a/a.go": code,
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

// TestTheReadingOrderIsThereAndShort holds the lists of package controller to the tree. A newcomer opens at most 7 files
// from main to the first write, and 15 to the POST of a Network, whose way has 12 steps. Check holds their functions.
func TestTheReadingOrderIsThereAndShort(t *testing.T) {
	doc, err := os.ReadFile("../../internal/controller/doc.go")
	expect.NoError(t, err)
	toFoo, toNetwork, found := strings.Cut(string(doc), "To the POST of a Network it is the first five")
	listed := regexp.MustCompile(`(?m)^//\t(\S+\.go) `)
	first, more := listed.FindAllStringSubmatch(toFoo, -1), listed.FindAllStringSubmatch(toNetwork, -1)
	if !found || len(first) < 6 || len(first) > 7 || len(more) < 5 || 5+len(more) > 15 {
		t.Errorf("the lists have %d and 5 and %d files, want at most 7 and 15", len(first), len(more))
	}
	for _, file := range slices.Concat(first, more) {
		if _, err := os.Stat(filepath.Join("../..", file[1])); err != nil {
			t.Error(err)
		}
	}
	page, err := os.ReadFile("../../docs/how-it-works.md")
	expect.NoError(t, err)
	if steps := regexp.MustCompile(`(?m)^\| \d+ \| `).FindAll(page, -1); len(steps) != 12 {
		t.Errorf("the way of a new Network has %d steps, want 12", len(steps))
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

func TestATranslationThatSaysSoIsAsNewAsItsSource(t *testing.T) {
	const source = "# A\n\nUse `a`,\n`b  c` and StatefulSets.\n\n- one\n- two `d`\n\n| h |\n| --- |\n| `e` |\n\n```sh\nls   # all\n```\n\n```\nA ─▶ B\n```\n"
	const right = "# 甲\n\n用 `b c`、`a` 和 StatefulSet。\n\n> 译者的话 `x`\n\n- 一\n- 二 `d`\n\n| 题 |\n| --- |\n| `e` |\n\n```sh\nls   # 全部\n```\n\n```\n甲 ─▶ 乙\n```\n"
	for sentence, test := range map[string]struct{ old, new, want string }{
		"one with the same parts is right": {},
		"output may be left out":           {old: "\n```sh\nls   # 全部\n```\n"},
		"a row is missing":                 {"| `e` |\n", "", "zh/a.md:21: this is the end, but a.md:11 is a row"},
		"an item is missing":               {"- 一\n", "", "zh/a.md:9: this is a row, but a.md:7 is an item"},
		"a paragraph is added":             {"- 一\n", "补充。\n\n- 一\n", "zh/a.md:7: this is a paragraph, but a.md:6 is an item"},
		"a word of code is missing":        {"`d`", "", "zh/a.md:8: `d` is missing, which a.md:7 has"},
		"a word of code is another":        {"`a` 和", "`A` 和", "zh/a.md:3: `a` is missing, which a.md:3 has\nzh/a.md:3: a.md:3 does not have `A`"},
		"a kind is missing":                {"StatefulSet", "那些", "zh/a.md:3: StatefulSets is missing, which a.md:3 has"},
		"a command is another": {"ls ", "ls -l",
			"zh/a.md:14: a.md has no such block of code: leave commands and outputs as they are there"},
	} {
		t.Run(sentence, func(t *testing.T) {
			text := strings.Replace(right, test.old, test.new, 1) + "\n<!-- translation of a.md at 0 -->\n"
			files := fstest.MapFS{sectionsFile: {}, "Makefile": {}, "a.md": {Data: []byte(source)}, "zh/a.md": {Data: []byte(text)}}
			var got string
			if _, err := Current(files, "zh/a.md"); err != nil {
				got = err.Error()
			}
			expect.Equal(t, test.want, got, "what --current says")
			problems, err := Check(files)
			expect.NoError(t, err)
			expect.Empty(t, problems, "findings while the page lags behind")
			files["zh/a.md"].Data = []byte(strings.Replace(text, "at 0", "at "+digest(page{text: source}), 1))
			problems, err = Check(files)
			expect.NoError(t, err)
			expect.Equal(t, test.want, strings.Join(problems, "\n"), "findings when it says that it is current")
		})
	}
}

func TestATranslationLinksTranslations(t *testing.T) {
	files := fstest.MapFS{
		sectionsFile: {}, "Makefile": {}, "a.md": {}, "b.md": {}, "c.md": {},
		"zh/a.md": {Data: []byte("[英文版](../a.md) [乙](../b.md) [丙](../c.md) [丁](b.md)\n\n<!-- translation of a.md at 0 -->\n")},
		"zh/b.md": {Data: []byte("<!-- translation of b.md at 0 -->\n")},
	}
	got, err := Check(files)
	expect.NoError(t, err)
	expect.Equal(t, []string{"zh/a.md:1: the link ../b.md is to the source of zh/b.md: link the translation"}, got, "findings")
}

func TestTheWordsOfATranslationAreTheCommunitys(t *testing.T) {
	for text, want := range map[string]string{
		"等待响应。": "",
		"等待应答。": "do not write 应答: write 响应",
		"状况（condition）写在 `condition` 里，见[这里](#condition)": "",
		"写在 condition 里":                      "do not write condition: write 状况",
		"| condition | 状况（condition） | 状态 |":  "",
		"`X`: the condition of it is unknown": "",
	} {
		expect.Equal(t, want, checkWords(text), "%s", text)
	}
	c := checker{}
	c.checkTranslation(page{path: "zh/a.md", source: "a.md", text: "终结器、领导者（leader）、领导者"})
	expect.Equal(t, []string{"zh/a.md:1: write 终结器（finalizer） where 终结器 occurs first"}, c.problems, "findings")
}

// notesWords are what readers who come from study notes search for.
var notesWords = strings.Fields(`
	masterURL kubeconfig InClusterConfig ServiceAccount stopCh NewSharedInformerFactory InformerFor NewController AddFunc
	UpdateFunc DeleteFunc ResourceVersion fooInformer deploymentInformer kubeClient exampleClient workqueue WaitForCacheSync
	wait.Until runWorker processNextWorkItem Forget AddRateLimited syncHandler neutron.Delete DeepEqual handleObject
	HandleError DeletedFinalStateUnknown enqueueFoo newDeployment updateFooStatus SuccessSynced ErrResourceExists v1beta1 doc.go types.go
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
	expect.NoError(t, err)
	for folder, phrases := range notesPhrases {
		var text strings.Builder
		for _, p := range all {
			if chinese := strings.HasPrefix(p.path, "docs/zh/"); strings.HasPrefix(p.path, "docs/") && chinese == (folder == "docs/zh") {
				text.WriteString(p.text)
			}
		}
		for _, word := range slices.Concat(notesWords, phrases) {
			expect.Contains(t, text.String(), word, "what readers of the notes search %s for", folder)
		}
	}
}
