//go:build unix && !linux

package main

import "context"

// sendPackets says why no packets are shown.
func (s *story) sendPackets(context.Context) error {
	s.n.say("\nNo packets are shown here: Pods need Linux.")
	return nil
}
