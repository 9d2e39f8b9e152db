// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestKubeconfigHoldsEverything(t *testing.T) {
	content := kubeconfig("https://127.0.0.1:1234", []byte("the CA"), keyPair{[]byte("certificate"), []byte("key")})
	got := map[string]string{}
	for _, field := range regexp.MustCompile(`(?m)^ +([a-z-]+): (\S+)$`).FindAllSubmatch(content, -1) {
		name, value := string(field[1]), string(field[2])
		if strings.HasSuffix(name, "-data") {
			decoded, err := base64.StdEncoding.DecodeString(value)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			value = string(decoded)
		}
		got[name] = value
	}
	want := map[string]string{
		"server":                     "https://127.0.0.1:1234",
		"certificate-authority-data": "the CA",
		"client-certificate-data":    "certificate",
		"client-key-data":            "key",
		"cluster":                    contextName,
		"user":                       contextName,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fields (-want +got):\n%s\nof\n%s", diff, content)
	}
}

func TestWriteKubeconfig(t *testing.T) {
	ours, newer := []byte(kubeconfigHeader+"old"), []byte(kubeconfigHeader+"new")
	for sentence, test := range map[string]struct {
		have []byte
		ok   bool
	}{
		"a file that does not exist is made":       {ok: true},
		"a file of ours is replaced":               {have: ours, ok: true},
		"a file of somebody else is left as it is": {have: []byte("apiVersion: v1\n")},
		"an empty file is somebody else's":         {have: []byte{}},
	} {
		t.Run(sentence, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "kubeconfig")
			if test.have != nil {
				if err := os.WriteFile(path, test.have, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			err := WriteKubeconfig(path, newer)
			if (err == nil) != test.ok {
				t.Fatalf("error %v, want none: %t", err, test.ok)
			}
			want := test.have
			if test.ok {
				want = newer
			}
			got, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("content (-want +got):\n%s", diff)
			}
			if info, err := os.Stat(path); test.ok && (err != nil || info.Mode().Perm() != 0o600) {
				t.Errorf("mode %v, %v; want 0600, as it holds a key", info.Mode(), err)
			}
		})
	}
}

func TestRemoveKubeconfigLeavesTheSuccessors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	mine, successors := []byte(kubeconfigHeader+"mine"), []byte(kubeconfigHeader+"another's")
	if err := WriteKubeconfig(path, successors); err != nil {
		t.Fatal(err)
	}
	if err := RemoveKubeconfig(path, mine); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the successor's is gone: %v", err)
	}
	if err := RemoveKubeconfig(path, successors); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the own file stayed: %v", err)
	}
	if err := RemoveKubeconfig(path, successors); err != nil {
		t.Errorf("a file that is gone already: %v", err)
	}
}
