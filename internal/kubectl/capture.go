package kubectl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/util/validation"

	"cloudteam.ztgame.com/network-controller/internal/kubectl/capture"
)

func (f *factory) capture() *cobra.Command {
	o, path := capture.Options{}, ""
	c := &cobra.Command{
		Use:   "capture POD",
		Short: "Write the packets at a Pod's port on a Network to a file, for Wireshark or tcpdump",
		Long: `capture writes the packets that a Pod sends and receives at its port on a Network to a file, as a pcap. The
first limit that is reached ends it; so does Ctrl-C, and the file is whole.

It adds an ephemeral container with the image of the nodes' agents to the Pod, as kubectl debug does. That ends half a
minute after --duration at the latest. It stays in the list of the Pod's containers: nobody can remove it from there.

The file has what the packets carry, such as passwords. You need the rights to get pods, to patch
pods/ephemeralcontainers, which the role edit lacks, and to create pods/exec. The namespace's Pod Security Standard has
to be baseline or privileged.`,
		Example: `  kubectl network capture web-0 -n shop -o web-0.pcap

  # Only the headers, when packets come, for at most five minutes. The Pod is on several Networks:
  kubectl network capture web-0 -n shop --network frontend --duration 5m --snaplen 96 -o - | tcpdump -n -r -`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			o.Pod = strings.TrimPrefix(args[0], "pod/")
			return f.runCapture(c.Context(), o, path)
		},
	}
	c.Flags().StringVarP(&path, "file", "o", "", "File to write, or - for standard output. The default is POD-DATE.pcap")
	c.Flags().StringVar(&o.Network, "network", "", "Network, or NetworkPort, whose port is meant if the Pod has several")
	c.Flags().StringVar(&o.Image, "image", "",
		"Image with the program network-agent. The default is that of the nodes' agents")
	o.Limits.AddFlags(c.Flags())
	return c
}

func (f *factory) runCapture(ctx context.Context, o capture.Options, path string) (err error) {
	namespace, cluster, err := f.where(false)
	if err != nil {
		return err
	}
	if why := validation.IsDNS1123Subdomain(o.Pod); len(why) > 0 {
		return fmt.Errorf("%q is no name of a Pod: %s", o.Pod, strings.Join(why, "; "))
	}
	o.Namespace, o.Container, o.Exec, o.To = namespace, "capture-"+f.id(), f.exec, f.Out
	o.Progress = f.progress
	if path == "-" {
		if to, is := f.Out.(*os.File); is && term.IsTerminal(int(to.Fd())) { //nolint:gosec // a descriptor
			return errors.New("a terminal acts on what packets carry: write -o FILE, or pipe the output into a program")
		}
		return capture.Run(ctx, cluster, o)
	}
	path = cmp.Or(path, o.Pod+"-"+f.now().UTC().Format("20060102T150405Z")+".pcap")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("%w: name another file with -o", err)
	}
	o.To = file
	err = capture.Run(ctx, cluster, o)
	if info, unknown := file.Stat(); unknown != nil || info.Size() == 0 {
		return errors.Join(err, unknown, file.Close(), os.Remove(path))
	}
	fmt.Fprintf(f.ErrOut, "%s has what the packets carry, such as passwords: keep it as you keep a Secret.\n", path)
	return errors.Join(err, file.Close())
}
