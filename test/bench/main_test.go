package main

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	// The benchmarks start this program once more, as the bare informer.
	if kubeconfig := os.Getenv(informerVariable); kubeconfig != "" {
		fail(runInformer(kubeconfig))
		return
	}
	os.Exit(m.Run())
}
