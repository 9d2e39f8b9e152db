// SPDX-License-Identifier: Apache-2.0

//go:build unix

package cluster

import "testing"

func TestFreePortsAreDifferentAndFree(t *testing.T) {
	ports, err := freePorts(20)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, port := range ports {
		if seen[port] {
			t.Errorf("port %d is given twice", port)
		}
		seen[port] = true
	}
}
