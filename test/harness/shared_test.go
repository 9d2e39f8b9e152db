package harness

import (
	"context"
	"path/filepath"
	"testing"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestSuitesTakeTurns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "turn")
	giveBack, err := takeTurn(t.Context(), path)
	expect.NoError(t, err)
	over, end := context.WithCancel(t.Context())
	end()
	if _, err := takeTurn(over, path); err == nil {
		t.Fatal("two have their turn at a time")
	}
	giveBack()
	if giveBack, err = takeTurn(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	giveBack()
}
