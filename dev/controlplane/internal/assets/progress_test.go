// SPDX-License-Identifier: Apache-2.0

package assets

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestProgressLine(t *testing.T) {
	for sentence, test := range map[string]struct {
		lines []string
		total int
		want  string
	}{
		"downloads are counted until the packages are known": {
			lines: []string{"go: downloading a v1.0.0", "go: downloading b v1.0.0"},
			want:  "x: compiling, 2 modules downloaded, 1m2s",
		},
		"packages are counted of those that have to be compiled": {
			lines: []string{"go: downloading a v1.0.0", "a/b", "a/c"}, total: 3,
			want: "x: compiling, 2 of 3 packages, 1m2s",
		},
		"after the last package it is the linker that works": {
			lines: []string{"a/b", "a/c"}, total: 2, want: "x: linking, all 2 packages compiled, 1m2s",
		},
		"an error of the compiler is no package": {
			lines: []string{"# a/b", "b.go:1:1: syntax error", "a/b"}, total: 3,
			want: "x: compiling, 1 of 3 packages, 1m2s",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			p := &progress{what: "x", doing: "compiling"}
			p.expect(test.total)
			for _, line := range test.lines {
				p.compiled(line)
			}
			if got := p.line(62 * time.Second); got != test.want {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
		})
	}
}

func TestDisplayPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		d := newDisplay(Log{Writer: &out})
		remove := d.add(&progress{what: "x", doing: "compiling"})
		fetched := &downloads{}
		fetched.set(Etcd, 3e6, 10e6)
		d.add(fetched)
		time.Sleep(logPace + logPace/2) //nolint:forbidigo // virtual time
		remove()
		d.printf("x: built")
		time.Sleep(logPace) //nolint:forbidigo // virtual time
		d.done()
		want := "x: compiling, 10s; fetching: 3 of 10 MB, 10s\nx: built\nfetching: 3 of 10 MB, 20s\n"
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("a log that is no terminal gets a line every %s (-want +got):\n%s", logPace, diff)
		}
	})
}

func TestDisplayRewritesATerminalsLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		d := newDisplay(Log{Writer: &out, Terminal: true})
		d.add(&progress{what: "x", doing: "linking"})
		time.Sleep(terminalPace + terminalPace/2) //nolint:forbidigo // virtual time
		d.printf("a line")
		d.done()
		const clear = "\r\033[K"
		want := clear + "x: linking, 1s" + clear + "a line\n" + clear
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestLineWriter(t *testing.T) {
	var got []string
	w := &lineWriter{line: func(line string) { got = append(got, line) }}
	for _, chunk := range []string{"on", "e\ntwo\r\n\nthr", "ee"} {
		if n, err := w.Write([]byte(chunk)); n != len(chunk) || err != nil {
			t.Fatalf("Write(%q) = %d, %v", chunk, n, err)
		}
	}
	w.flush()
	if diff := cmp.Diff([]string{"one", "two", "three"}, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}
