package kubectl

import (
	"fmt"
	"os/exec"
	"runtime"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/internal/kubectl/ask"
	"cloudteam.ztgame.com/network-controller/internal/kubectl/ui"
)

func (f *factory) ui() *cobra.Command {
	port, open, cloudName, everywhere := 0, false, "", false
	c := &cobra.Command{
		Use:   "ui",
		Short: "Show Networks, and what is on them, on a page in your browser",
		Long: `ui serves a page on 127.0.0.1 until Ctrl-C. The page shows the Networks of a namespace, or of all, with their
routers, ports and Pods. It is live, says what is wrong and what to do, and changes nothing.

It uses your kubeconfig and your rights. Nothing is installed in the cluster. The address has a token: who has it can
read what you can read here. With --cloud or OS_CLOUD the page also shows servers and others' ports.`,
		Example: `  # The Networks of a namespace:
  kubectl network ui -n shop

  # Of all namespaces, in your browser at once:
  kubectl network ui -A --open`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			namespace, cluster, err := f.where(everywhere)
			if err != nil {
				return err
			}
			neutron, err := f.portsIn(cloudName)
			if err != nil {
				return err
			}
			// What fails now would fail on the page, where it is harder to see.
			_, err = cluster.Networks.CloudteamV1().Networks(namespace).List(c.Context(), metav1.ListOptions{Limit: 1})
			if err != nil {
				return ask.Networks(err)
			}
			server := &ui.Server{Kubernetes: cluster.Kubernetes, Networks: cluster.Networks, Now: f.now,
				World: ui.NewWorld(cluster, neutron, namespace), Context: f.contextName(), Namespace: namespace}
			if err := server.Listen(port); err != nil {
				return fmt.Errorf("opening the port (--port): %w", err)
			}
			fmt.Fprintf(f.Out, "%s\nOpen it in a browser on this machine. Do not share it: the token lets others read with "+
				"your rights.\nCtrl-C ends it.\n", server.URL())
			if open {
				if err := browse(server.OnceURL()); err != nil {
					fmt.Fprintf(f.ErrOut, "No browser was opened: %v.\n", err)
				}
			}
			group, ctx := errgroup.WithContext(c.Context())
			group.Go(func() error { server.World.Run(ctx); return nil })
			group.Go(func() error { return server.Serve(ctx) })
			return group.Wait()
		},
	}
	c.Flags().IntVar(&port, "port", 0, "Port on 127.0.0.1. The default, 0, takes a free one")
	c.Flags().BoolVar(&open, "open", false, "Open the page in your browser")
	c.Flags().BoolVarP(&everywhere, "all-namespaces", "A", false, "The Networks of all namespaces")
	f.cloudFlag(c, &cloudName)
	return c
}

// contextName is the kubeconfig's context; empty if there is none.
func (f *factory) contextName() string {
	if name := f.config.Context; name != nil && *name != "" {
		return *name
	}
	raw, err := f.config.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return ""
	}
	return raw.CurrentContext
}

// browse opens an address in the user's browser.
func browse(url string) error {
	command := []string{"xdg-open", url}
	switch runtime.GOOS {
	case "darwin":
		command = []string{"open", url}
	case "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler", url}
	}
	return exec.Command(command[0], command[1:]...).Start()
}
