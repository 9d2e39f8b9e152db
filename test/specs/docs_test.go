package specs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

// TestTheDocsNameTestsThatExist: a page that names a test as proof must not outlive the test.
func TestTheDocsNameTestsThatExist(t *testing.T) {
	root := filepath.Join("..", "..")
	tests := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	walk(t, root, "_test.go", func(text string) {
		for _, found := range declared.FindAllStringSubmatch(text, -1) {
			tests[found[1]] = true
		}
	})
	named := regexp.MustCompile("`(Test\\w+)`")
	check := func(text string) {
		for _, found := range named.FindAllStringSubmatch(text, -1) {
			if !tests[found[1]] {
				t.Errorf("no test is called %s: mend the page that names it", found[1])
			}
		}
	}
	walk(t, filepath.Join(root, "docs"), ".md", check)
	walk(t, filepath.Join(root, "test", "adversary"), ".md", check)
}

// walk reads the files below a folder whose names end in suffix.
func walk(t *testing.T, folder, suffix string, read func(text string)) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && len(entry.Name()) > 2 {
			return filepath.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(path, suffix) {
			return nil
		}
		text, err := os.ReadFile(path)
		if err == nil {
			read(string(text))
		}
		return err
	})
	expect.NoError(t, err)
}
