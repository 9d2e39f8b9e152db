// Command neutron-port is the CNI plugin for ports in OpenStack Neutron. Container runtimes start it; see
// docs/dataplane.md.
package main

import (
	"fmt"
	"os"

	"cloudteam.ztgame.com/network-controller/internal/node/plugin"
)

func main() {
	if err := plugin.Main(); err != nil {
		if printErr := err.Print(); printErr != nil {
			fmt.Fprintln(os.Stderr, "neutron-port:", err, printErr)
		}
		os.Exit(1)
	}
}
