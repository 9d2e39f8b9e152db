package agent

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

// pluginName is the name by which container runtimes find the plugin.
const pluginName = "neutron-port"

// newInstallCommand makes the command that puts the plugin onto a node.
func newInstallCommand() *cobra.Command {
	var from, to string
	command := &cobra.Command{
		Use:   "install-plugin",
		Short: "Copy the CNI plugin neutron-port into the folder of a node's container runtime",
		Long: `install-plugin copies the CNI plugin neutron-port into the folder where the node's container runtime looks
for plugins. A plugin that runs at the same time is not disturbed: the new one takes the old one's name at
once, when it is complete.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if from == "" {
				self, err := os.Executable()
				if err != nil {
					return fmt.Errorf("--from: %w", err)
				}
				from = filepath.Join(filepath.Dir(self), pluginName)
			}
			return installPlugin(from, to)
		},
	}
	command.Flags().StringVar(&from, "from", "", "the plugin; the default is "+pluginName+" beside this program")
	command.Flags().StringVar(&to, "to", "/opt/cni/bin", "the folder of CNI plugins")
	return command
}

// installPlugin copies a program into a folder under the plugin's name. After an error the old one is as it was.
func installPlugin(from, to string) (err error) {
	source, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("--from: %w", err)
	}
	defer source.Close()
	// In the same folder, so that a rename is enough. No CNI plugin's name begins with a dot.
	next, err := os.CreateTemp(to, "."+pluginName+"-")
	if err != nil {
		return fmt.Errorf("--to: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(next.Name())
		}
	}()
	_, err = io.Copy(next, source)
	if err := errors.Join(err, next.Chmod(0o755), next.Sync(), next.Close()); err != nil {
		return fmt.Errorf("copying the plugin to %s: %w", to, err)
	}
	if err := os.Rename(next.Name(), filepath.Join(to, pluginName)); err != nil {
		return fmt.Errorf("--to: %w", err)
	}
	return nil
}
