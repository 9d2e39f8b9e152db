package kubectl

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"cloudteam.ztgame.com/network-controller/internal/cli"
	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
)

// errReadOnly is why a command that only reads sends no write.
var errReadOnly = errors.New("this command only reads Neutron")

// callTimeout bounds each call to Neutron. A page of a large cloud may take most of it.
const callTimeout = time.Minute

func (f *factory) cloudFlag(c *cobra.Command, name *string) {
	c.Flags().StringVar(name, "cloud", "", "Entry of your clouds.yaml for Neutron. The default is $OS_CLOUD")
}

// neutron gives the user's cloud, for reading: no write is ever sent. It is nil if the user names none.
func (f *factory) neutron(name string) (*client.Cloud, error) {
	return f.neutronWith(name, client.Options{Permit: func() error { return errReadOnly }})
}

// neutronFor gives the user's cloud to a command that is nothing without it. why says so.
func (f *factory) neutronFor(why, name string) (*client.Cloud, error) {
	cloud, err := f.neutron(name)
	if err == nil {
		err = requireCloud(why, cloud)
	}
	return cloud, err
}

// requireCloud returns an error if the user names no cloud. why says what it is for.
func requireCloud(why string, cloud *client.Cloud) error {
	if cloud != nil {
		return nil
	}
	return errors.New(why + ": name a cloud of your clouds.yaml with --cloud or OS_CLOUD")
}

// neutronWith gives the user's cloud with some options. It is nil if the user names none.
func (f *factory) neutronWith(name string, options client.Options) (*client.Cloud, error) {
	if name == "" && os.Getenv("OS_CLOUD") == "" && os.Getenv("OS_AUTH_URL") == "" {
		return nil, nil
	}
	credentials, err := client.LoadCredentials(name)
	if err != nil {
		return nil, err
	}
	options.Timeout, options.UserAgent = callTimeout, cli.UserAgent("kubectl-network")
	options.Slow = sync.OnceFunc(func() {
		_, _ = fmt.Fprintf(f.ErrOut, "Waiting for %s to answer, up to %s for each call. Ctrl-C ends it.\n", credentials,
			callTimeout)
	})
	return client.NewCloud(credentials, options), nil
}
