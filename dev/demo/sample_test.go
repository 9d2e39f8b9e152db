//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"cloudteam.ztgame.com/network-controller/internal/selection"
)

func TestLastAddress(t *testing.T) {
	for cidr, want := range map[string]string{
		"192.168.0.0/16": "192.168.255.254",
		"10.0.0.64/26":   "10.0.0.126",
		"10.0.0.0/31":    "10.0.0.1",
		"fd00::/64":      "fd00::ffff:ffff:ffff:ffff",
	} {
		if got, err := lastAddress(cidr); err != nil || got != want {
			t.Errorf("lastAddress(%s) = %s, %v; want %s", cidr, got, err, want)
		}
	}
	if got, err := lastAddress("192.168.0.0"); err == nil {
		t.Errorf("lastAddress of an address without a length = %s", got)
	}
}

func TestLoadSample(t *testing.T) {
	const bare = `apiVersion: cloudteam.ztgame.com/v1
kind: Network
metadata:
  name: example-network
spec:
  cidr: "192.168.0.0/16"
  gateway: "192.168.0.1"`
	for sentence, test := range map[string]struct {
		// file is the repository's sample; empty for none.
		file      string
		want      string
		wantError string
	}{
		"without a file, the built-in sample is written where it can be applied from": {
			want: bare,
		},
		"comments are for those who read the file": {
			file: "# why\n---\n" + bare + "\n\n  # dhcp: false\n",
			want: bare,
		},
		"what is no Network is refused": {
			file:      "kind: Pod\nmetadata: {name: x}\n",
			wantError: "is a Pod",
		},
		"what is no YAML is refused": {
			file:      "\t",
			wantError: "network.yaml",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			root, dir := t.TempDir(), t.TempDir()
			path := filepath.Join(root, samplePath)
			if test.file != "" {
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(test.file), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := loadSample(root, dir)
			if test.wantError != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantError) {
					t.Errorf("the error is %v, want one with %q", err, test.wantError)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got.text); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
			if got.object.GetNamespace() != "default" || got.object.GetName() != "example-network" ||
				got.cidr() != "192.168.0.0/16" {
				t.Errorf("the object is %v", got.object)
			}
			if test.file == "" {
				path = got.path
			}
			if _, err := os.Stat(path); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestLoadDeploymentSample(t *testing.T) {
	root := filepath.Join("..", "..")
	got, err := loadDeploymentSample(root)
	if err != nil {
		t.Fatal(err)
	}
	on, err := loadSample(root, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	declared, _, _ := unstructured.NestedString(got.object.Object,
		"spec", "template", "metadata", "annotations", selection.Annotation)
	if got.object.GetNamespace() != on.object.GetNamespace() || declared != on.object.GetName() {
		t.Errorf("its Pods are on %s, in the namespace %s; the demo's Network is %s, in %s",
			declared, got.object.GetNamespace(), on.object.GetName(), on.object.GetNamespace())
	}
	if _, err := loadDeploymentSample(t.TempDir()); err == nil || !strings.Contains(err.Error(), "whole checkout") {
		t.Errorf("where there is none, the error is %v", err)
	}
}
