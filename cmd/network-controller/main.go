// Command network-controller reconciles Networks with OpenStack Neutron. See network-controller --help.
package main

import (
	"os"

	// The image has no root certificates. If the system has some, only those are used.
	_ "golang.org/x/crypto/x509roots/fallback"

	"cloudteam.ztgame.com/network-controller/internal/app"
	"cloudteam.ztgame.com/network-controller/internal/cli"
)

func main() { os.Exit(cli.Main(app.NewCommand())) }
