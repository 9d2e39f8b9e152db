//go:build unix && !linux

package main

import "context"

// sendPackets says why no packets are shown.
func sendPackets(_ context.Context, s *story) error {
	s.n.say("\nNo packets are shown here: Pods need Linux.")
	return nil
}
