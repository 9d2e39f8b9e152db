package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestItServesUntilItIsToldToStop(t *testing.T) {
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	// A file that others can read must not stay so.
	expect.NoError(t, os.WriteFile(file, []byte("old"), 0o644))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	reader, writer := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- run(ctx, []string{"--clouds-yaml=" + file, "--delay=1ms"}, writer, io.Discard) }()

	output := make([]byte, 0, 256)
	for bytes.Count(output, []byte("\n")) < 2 {
		part := make([]byte, 256)
		n, err := reader.Read(part)
		expect.NoError(t, err)
		output = append(output, part[:n]...)
	}
	lines := strings.Split(string(output), "\n")
	url, ok := strings.CutPrefix(lines[0], "neutron-emulator: listening on ")
	if !ok || lines[1] != "neutron-emulator: clouds.yaml: "+file {
		t.Fatalf("it says %q", output)
	}
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), "auth_url: "+url+"/identity/v3\n") {
		t.Errorf("clouds.yaml (%v):\n%s", err, text)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("clouds.yaml: %v, mode %v, want 0600", err, info.Mode())
	}
	response, err := http.Get(url + "/identity/v3")
	expect.NoError(t, err)
	if err := response.Body.Close(); err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("Keystone answers %d (%v)", response.StatusCode, err)
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("it stopped with %v", err)
	}
}

func TestWrongCommandLinesSayWhatIsRight(t *testing.T) {
	for args, want := range map[string]string{
		"--delay=soon":       "write a non-negative duration",
		"--delay=-1s":        "non-negative",
		"stray":              "see --help",
		"--listen=nowhere:x": "choose another address",
		"--neutron=22":       "none of the releases [21 26 29]",
		"--habits=down,no":   "write some of [delete404 dnssorted down emptydesc",

		"--external-network=public":               "write NAME=CIDR",
		"--external-network=public=2001:db8::/64": "an IPv4 CIDR",
	} {
		err := run(t.Context(), []string{args}, io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", args, err, want)
		}
	}
	var help bytes.Buffer
	if err := run(t.Context(), []string{"--help"}, io.Discard, &help); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("--help: %v", err)
	}
	if !strings.Contains(help.String(), "Example") {
		t.Errorf("--help shows no example:\n%s", help.String())
	}
}
