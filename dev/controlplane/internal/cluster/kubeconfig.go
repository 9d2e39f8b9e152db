// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"encoding/base64"
	"fmt"
)

// contextName names the cluster, the user and the context in a kubeconfig.
const contextName = "network-controller-dev"

// kubeconfig returns a kubeconfig, as YAML, for the server at url. Everything is inline, so the file may be copied.
// Base64, a URL of a scheme, an address and a port, and the name above need no quoting in YAML.
func kubeconfig(url string, ca []byte, user keyPair) []byte {
	b64 := base64.StdEncoding.EncodeToString
	return fmt.Appendf(nil, `apiVersion: v1
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
