package main

import (
	"os"
	"testing"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestTheReferenceIsCurrent(t *testing.T) {
	os.Clearenv()
	got, err := os.ReadFile("../../docs/flags.md")
	expect.NoError(t, err)
	expect.Equal(t, page(), string(got), "run make generate")
}
