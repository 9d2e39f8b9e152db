package harness

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// installOpenClass creates the class in the sample for a cluster of one team.
func (c *ControlPlane) installOpenClass(ctx context.Context) error {
	content, err := os.ReadFile(filepath.Join(c.Root, "config", "samples", "class-open.yaml"))
	if err != nil {
		return err
	}
	first, _, _ := bytes.Cut(content, []byte("\n---\n"))
	var class cloudteamv1.NetworkClass
	if err := yaml.UnmarshalStrict(first, &class); err != nil {
		return fmt.Errorf("reading the sample of an open class: %w", err)
	}
	_, err = c.Networks.CloudteamV1().NetworkClasses().Create(ctx, &class, metav1.CreateOptions{})
	return err
}
