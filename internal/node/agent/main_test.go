package agent

import (
	"fmt"
	"os"
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/node/plugin"
)

// TestMain runs the plugin instead of the tests where a container runtime would.
func TestMain(m *testing.M) {
	if os.Getenv("CNI_COMMAND") != "" {
		if err := plugin.Main(); err != nil {
			if printErr := err.Print(); printErr != nil {
				fmt.Fprintln(os.Stderr, printErr)
			}
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}
