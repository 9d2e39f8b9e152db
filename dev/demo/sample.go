//go:build unix

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// The manifests that the demo applies, below the repository's root.
var (
	samplePath           = filepath.Join("config", "samples", "network.yaml")
	deploymentSamplePath = filepath.Join("config", "samples", "deployment.yaml")
)

// builtInSample is applied where the repository has no sample.
const builtInSample = `apiVersion: cloudteam.ztgame.com/v1
kind: Network
metadata:
  name: example-network
spec:
  cidr: "192.168.0.0/16"
  gateway: "192.168.0.1"
`

// sample is the manifest of one object.
type sample struct {
	// path is where a reader finds it.
	path string
	// text is the manifest without comments.
	text   string
	object *unstructured.Unstructured
}

// loadSample reads the repository's sample of a Network, or writes the built-in one into a folder, so that it can be
// applied by hand all the same.
func loadSample(root, dir string) (sample, error) {
	path := samplePath
	content, err := os.ReadFile(filepath.Join(root, path))
	if errors.Is(err, fs.ErrNotExist) {
		path, content = filepath.Join(dir, "network.yaml"), []byte(builtInSample)
		err = os.WriteFile(path, content, 0o600)
	}
	if err != nil {
		return sample{}, fmt.Errorf("the sample: %w", err)
	}
	return parseSample(path, content, "Network")
}

// loadDeploymentSample reads the repository's sample of a Deployment, whose Pods declare the sample's Network.
func loadDeploymentSample(root string) (sample, error) {
	content, err := os.ReadFile(filepath.Join(root, deploymentSamplePath))
	if err != nil {
		return sample{}, fmt.Errorf("the sample: %w: run bin/demo from a whole checkout of the repository", err)
	}
	return parseSample(deploymentSamplePath, content, "Deployment")
}

// parseSample reads a manifest of one object of a kind. Without a namespace it is in "default".
func parseSample(path string, content []byte, kind string) (sample, error) {
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(content, &object.Object); err != nil {
		return sample{}, fmt.Errorf("the sample %s: %w", path, err)
	}
	if object.GetKind() != kind || object.GetName() == "" {
		return sample{}, fmt.Errorf("the sample %s is a %s named %q: it must be one %s with a name",
			path, object.GetKind(), object.GetName(), kind)
	}
	if object.GetNamespace() == "" {
		object.SetNamespace("default")
	}
	return sample{path, withoutComments(string(content)), object}, nil
}

// cidr is the range of a Network's first subnet.
func (s sample) cidr() string {
	cidr, _, _ := unstructured.NestedString(s.object.Object, "spec", "cidr")
	return cidr
}

// description is the user's part of what the network's description will be in Neutron.
func (s sample) description() string {
	description, _, _ := unstructured.NestedString(s.object.Object, "spec", "description")
	return description
}

// withoutComments leaves out lines that are a comment or empty, and markers between documents.
func withoutComments(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if bare := strings.TrimSpace(line); bare != "" && bare != "---" && !strings.HasPrefix(bare, "#") {
			lines = append(lines, line)
		}
	}
	return strings.TrimSuffix(strings.Join(lines, ""), "\n")
}

// lastAddress is the last address of a range that a gateway can have: in IPv4 the one before the broadcast address.
func lastAddress(cidr string) (string, error) {
	prefix, err := netip.ParsePrefix(cidr)
	if err != nil {
		return "", err
	}
	bytes := prefix.Addr().AsSlice()
	for bit := prefix.Bits(); bit < len(bytes)*8; bit++ {
		bytes[bit/8] |= 0x80 >> (bit % 8)
	}
	last, _ := netip.AddrFromSlice(bytes)
	if last.Is4() && prefix.Bits() < 31 {
		last = last.Prev()
	}
	return last.String(), nil
}
