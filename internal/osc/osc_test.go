package osc

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

// a command, whole or its beginning. "openstack --os-cloud=NAME" is the reader's own addition.
var command = regexp.MustCompile(`openstack (\S*--\S+ )?(address|application|availability|extension|floating|network|port|` +
	`project|quota|role|router|security|server|subnet|token|user)\b`)

// TestOnlyThisPackageHasCommands holds that each command of OpenStackClient in a message is here, where a test runs it.
func TestOnlyThisPackageHasCommands(t *testing.T) {
	read := 0
	for _, root := range []string{"../../internal", "../../cmd", "../../dev"} {
		expect.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") ||
				filepath.Dir(path) == "../../internal/osc" {
				return err
			}
			read++
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if text, is := n.(*ast.BasicLit); is && text.Kind == token.STRING && command.MatchString(text.Value) {
					t.Errorf("%s: write a constant or function of package osc in place of %s", set.Position(text.Pos()), text.Value)
				}
				return true
			})
			return nil
		}))
	}
	if read < 100 {
		t.Errorf("only %d files were read", read)
	}
}

func TestAnIDIsOneWord(t *testing.T) {
	expect.Equal(t, `openstack router show '$(curl evil)'`, ShowRouter("$(curl evil)"), "the command")
	expect.Equal(t, `openstack subnet delete 'a'\''; b'`, DeleteSubnet("a'; b"), "the command")
	expect.Equal(t, "openstack router show 5a4b-1", ShowRouter("5a4b-1"), "the command")
}

func TestDescriptionIsOneWord(t *testing.T) {
	expect.Equal(t, `openstack network set --description 'it'\''s $(mine)' 4711`, DescribeNetwork("4711", "it's $(mine)"),
		"the command")
}
