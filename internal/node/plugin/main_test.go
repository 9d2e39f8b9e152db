package plugin

import (
	"fmt"
	"os"
	"testing"
)

// TestMain runs the plugin instead of the tests where a container runtime would.
func TestMain(m *testing.M) {
	if os.Getenv("CNI_COMMAND") != "" {
		if err := Main(); err != nil {
			if printErr := err.Print(); printErr != nil {
				fmt.Fprintln(os.Stderr, printErr)
			}
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}
