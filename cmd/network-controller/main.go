// Command network-controller reconciles Networks with OpenStack Neutron. See network-controller --help.
package main

import (
	"os"

	"cloudteam.ztgame.com/network-controller/internal/app"
	"cloudteam.ztgame.com/network-controller/internal/cli"
)

func main() { os.Exit(cli.Main(app.NewCommand())) }
