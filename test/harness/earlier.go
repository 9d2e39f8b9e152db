package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

// Checkout gives a folder with the repository as it was at a commit. It skips the test if the history lacks the commit.
func (c *ControlPlane) Checkout(t testing.TB, commit string) string {
	t.Helper()
	dir := t.TempDir()
	script := `git -C "$1" cat-file -e "$2^{commit}" || exit 9; git -C "$1" archive "$2" | tar -x -C "$3"`
	cmd := exec.Command("sh", "-c", script, "sh", c.Root, commit, dir)
	output, err := cmd.CombinedOutput()
	if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == 9 {
		t.Skipf("the history lacks commit %s: clone the repository with its whole history", commit)
	}
	if err != nil {
		t.Fatalf("checking commit %s out: %v\n%s", commit, err, output)
	}
	return dir
}

// Earlier gives the path of the network-controller of a commit. The first call builds it, and keeps it in the user's
// cache for all later ones: a commit does not change. It skips the test if the history lacks the commit.
func (c *ControlPlane) Earlier(t testing.TB, commit string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	expect.NoError(t, err)
	binary := filepath.Join(cache, "network-controller", "earlier", commit)
	if _, err := os.Stat(binary); err == nil {
		return binary
	}
	expect.NoError(t, os.MkdirAll(filepath.Dir(binary), 0o750))
	built := fmt.Sprintf("%s.%d", binary, os.Getpid())
	defer os.Remove(built)
	cmd := exec.Command("go", "build", "-o", built, "./cmd/network-controller")
	cmd.Dir = c.Checkout(t, commit)
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building commit %s: %v\n%s", commit, err, output)
	}
	// Another test may have built it meanwhile. This replaces it at once.
	expect.NoError(t, os.Rename(built, binary))
	return binary
}
