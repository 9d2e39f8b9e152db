package harness

import (
	"context"
	"path/filepath"
	"testing"
)

func TestSuitesTakeTurns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "turn")
	giveBack, err := takeTurn(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
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
