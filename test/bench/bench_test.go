package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestEachGroupCanBeMeasured measures a very small everything, so that the program does not rot. What the figures are is
// no matter here.
func TestEachGroupCanBeMeasured(t *testing.T) {
	var table, progress bytes.Buffer
	err := run(t.Context(), []string{
		"--only=small,cold,fleet,start,pool,policies,failover", "--rounds=1", "--networks=5", "--cold=5", "--fleet=5",
		"--objects=5", "--replicas=2", "--policy-pods=3", "--events=10", "--idle=10s", "--lease-duration=3s",
		"--controller-flag=--pool-cooldown=1s",
	}, &table, &progress)
	if err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	t.Logf("%s\n%s", progress.String(), table.String())
	if strings.Contains(table.String(), "not measured") {
		t.Error("something was not measured")
	}
}

// TestSizingCanBeMeasured is the same for the group that has a table of its own.
func TestSizingCanBeMeasured(t *testing.T) {
	var table, progress bytes.Buffer
	err := run(t.Context(), []string{"--cloud=sizing", "--sizes=3", "--delay=none", "--idle=10s"}, &table, &progress)
	if err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	t.Logf("%s\n%s", progress.String(), table.String())
	if strings.Contains(table.String(), "not measured") {
		t.Error("something was not measured")
	}
}
