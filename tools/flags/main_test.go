package main

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheReferenceIsCurrent(t *testing.T) {
	os.Clearenv()
	got, err := os.ReadFile("../../docs/flags.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(page(), string(got)); diff != "" {
		t.Errorf("run make generate (-want +got):\n%s", diff)
	}
}
