// Package cli is what the command lines of the processes have in common.
package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json

	"cloudteam.ztgame.com/network-controller/internal/redact"
	"cloudteam.ztgame.com/network-controller/internal/version"
)

// Signals returns a context that the first SIGINT or SIGTERM ends. That also restores the default handling, so that a
// second one ends the process at once.
func Signals() context.Context {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx
}

// Main runs a command line until a signal, and returns the exit status of the process.
func Main(command *cobra.Command) int {
	if err := command.ExecuteContext(Signals()); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", command.Name(), err)
		return 1
	}
	return 0
}

// Options are the values of a process's flags.
type Options interface {
	AddFlags(flags *pflag.FlagSet)
	// Validate reports the first that cannot be.
	Validate() error
}

// Daemon completes the command line of a process that runs until its context is done: it takes flags and no arguments,
// has flags for logs, and returns errors without printing them. section is the heading of its own flags in --help.
func Daemon(command *cobra.Command, section string, options Options, run func(context.Context) error) {
	logging := logsapi.NewLoggingConfiguration()
	command.Version, command.Args = version.Version, cobra.NoArgs
	command.SilenceUsage, command.SilenceErrors = true, true
	command.RunE = func(command *cobra.Command, _ []string) error {
		if err := options.Validate(); err != nil {
			return err
		}
		if err := logsapi.ValidateAndApply(logging, nil); err != nil {
			return err
		}
		defer logs.FlushLogs()
		return run(command.Context())
	}
	var sections cliflag.NamedFlagSets
	options.AddFlags(sections.FlagSet(section))
	var all pflag.FlagSet
	logsapi.AddFlags(logging, &all)
	for _, name := range []string{"logging-format", "v", "vmodule"} { // others need a feature gate, or nobody needs them
		sections.FlagSet("logging").AddFlag(all.Lookup(name))
	}
	Removed(sections.FlagSet("logging"), map[string]string{"log-flush-frequency": "remove it: logs are flushed each 5s"})
	for _, flags := range sections.FlagSets {
		command.Flags().AddFlagSet(flags)
	}
	cliflag.SetUsageAndHelpFunc(command, sections, 100)
}

// Removed adds flags that a process had until the last release and refuses now: by name, what to write instead.
func Removed(flags *pflag.FlagSet, instead map[string]string) {
	for name, remedy := range instead {
		flags.AddFlag(&pflag.Flag{Name: name, Value: removed(remedy), NoOptDefVal: "true", Hidden: true})
	}
}

type removed string

func (r removed) Set(string) error { return errors.New("this release has no such flag: " + string(r)) }
func (removed) String() string     { return "" }
func (removed) Type() string       { return "string" }

// UserAgent names a program and its version to an API.
func UserAgent(program string) string { return program + "/" + version.Version }

// KubeConfig says how a program reaches the API server: by a kubeconfig file, at an address, or, without either, as the
// Pod that it runs in.
func KubeConfig(program, master, kubeconfig string) (*rest.Config, error) {
	config, err := (*rest.Config)(nil), error(nil)
	if kubeconfig == "" && master == "" {
		config, err = rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			return nil, errors.New("not running in a Pod: set --kubeconfig to the path of a kubeconfig file")
		}
	} else {
		config, err = clientcmd.BuildConfigFromFlags(master, kubeconfig)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the Kubernetes configuration: %w", err)
	}
	config.UserAgent = UserAgent(program)
	// client-go's errors quote the response, which may quote the request's credentials.
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return redact.Transport{Next: next, Secrets: authorization}
	})
	return config, nil
}

// authorization returns the credentials in a request to the API server.
func authorization(r *http.Request) []string {
	_, password, _ := r.BasicAuth()
	_, credentials, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return []string{credentials, password}
}
