package agent

import (
	"os"
	"path/filepath"
	"testing"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

// TestInstallPlugin replaces a plugin that is in use: whoever has the old file open keeps it.
func TestInstallPlugin(t *testing.T) {
	from, to := filepath.Join(t.TempDir(), "new"), t.TempDir()
	installed := filepath.Join(to, pluginName)
	for path, text := range map[string]string{from: "new", installed: "old"} {
		expect.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	running, err := os.Open(installed)
	expect.NoError(t, err)
	defer running.Close()
	if err := installPlugin(filepath.Join(to, "missing"), to); err == nil {
		t.Error("installing a plugin that is missing succeeded")
	}
	expect.NoError(t, installPlugin(from, to))
	text, err := os.ReadFile(installed)
	if err != nil || string(text) != "new" {
		t.Errorf("installed is %q, %v", text, err)
	}
	if info, err := os.Stat(installed); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("its mode is %v, %v", info.Mode(), err)
	}
	old := make([]byte, 3)
	if _, err := running.Read(old); err != nil || string(old) != "old" {
		t.Errorf("the one that runs became %q, %v", old, err)
	}
	if left, err := os.ReadDir(to); err != nil || len(left) != 1 {
		t.Errorf("left are %v, %v", left, err)
	}
}
