// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// kubeconfigHeader is the first line of every kubeconfig of ours. WriteKubeconfig overwrites no file without it.
const kubeconfigHeader = "# Written by controlplane; gone when it stops.\n"

// contextName names the cluster, the user and the context in a kubeconfig.
const contextName = "network-controller-dev"

// kubeconfig returns a kubeconfig, as YAML, for the server at url. Everything is inline, so the file may be copied.
// Base64, a URL of a scheme, an address and a port, and the name above need no quoting in YAML.
func kubeconfig(url string, ca []byte, user keyPair) []byte {
	b64 := base64.StdEncoding.EncodeToString
	return fmt.Appendf(nil, kubeconfigHeader+`apiVersion: v1
kind: Config
current-context: %[1]s
clusters:
- name: %[1]s
  cluster:
    server: %[2]s
    certificate-authority-data: %[3]s
contexts:
- name: %[1]s
  context:
    cluster: %[1]s
    user: %[1]s
users:
- name: %[1]s
  user:
    client-certificate-data: %[4]s
    client-key-data: %[5]s
`, contextName, url, b64(ca), b64(user.certificate), b64(user.key))
}

// WriteKubeconfig writes the content of a kubeconfig to path, readable by its owner alone, in one step for whoever
// reads path meanwhile. It refuses to overwrite a file that no control plane wrote: a person's own kubeconfig may be
// the only copy of credentials.
func WriteKubeconfig(path string, content []byte) error {
	if err := CheckKubeconfigPath(path); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".kubeconfig-")
	if err != nil {
		return fmt.Errorf("write the kubeconfig: %w", err)
	}
	// os.CreateTemp makes a file of mode 0600, and the rename keeps that.
	_, err = file.Write(content)
	err = errors.Join(err, file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write the kubeconfig: %w", err), os.Remove(file.Name()))
	}
	return nil
}

// CheckKubeconfigPath returns an error if WriteKubeconfig would refuse to write to path.
func CheckKubeconfigPath(path string) error {
	have, err := os.ReadFile(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("read the kubeconfig that would be replaced: %w", err)
	case !bytes.HasPrefix(have, []byte(kubeconfigHeader)):
		return fmt.Errorf("%s exists and was not written by controlplane: name another file", path)
	}
	return nil
}

// RemoveKubeconfig removes the file at path if its content is still the given one. A later control plane may have put
// its own there.
func RemoveKubeconfig(path string, content []byte) error {
	have, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil || !bytes.Equal(have, content) {
		return err
	}
	return os.Remove(path)
}
