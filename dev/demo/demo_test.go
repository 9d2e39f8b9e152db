//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestParse(t *testing.T) {
	for sentence, test := range map[string]struct {
		args      []string
		want      options
		wantError string
	}{
		"the defaults": {want: options{auditInterval: 2 * time.Second}},
		"all flags": {
			args: []string{"--stay", "--dir=x", "--audit-interval=5s", "--short", "--cloud=mine", "--skip=drift,pods"},
			want: options{
				stay: true, short: true, cloud: "mine", auditInterval: 5 * time.Second, dir: "x",
				skip: []string{"drift", "pods"},
			},
		},
		"an unknown step is refused":      {args: []string{"--skip=drift,dirft"}, wantError: "--skip=dirft: no step"},
		"a step that all need is refused": {args: []string{"--skip=create"}, wantError: "write change, drift,"},
		"an argument is refused":          {args: []string{"stay"}, wantError: `"stay"`},
		"a short interval is refused":     {args: []string{"--audit-interval=10ms"}, wantError: "at least 1s"},
	} {
		t.Run(sentence, func(t *testing.T) {
			got, err := parse(test.args, new(bytes.Buffer))
			if test.wantError != "" {
				expect.ErrorSays(t, err, test.wantError)
				return
			}
			expect.NoError(t, err)
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(options{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAwait(t *testing.T) {
	t.Run("it ends when the check is satisfied", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			tries := 0
			err := await(t.Context(), time.Minute, "three tries", func(context.Context) error {
				if tries++; tries < 3 {
					return errors.New("not yet")
				}
				return nil
			})
			if err != nil || tries != 3 {
				t.Errorf("%d tries, %v", tries, err)
			}
		})
	})
	t.Run("it says what was expected and what was there last", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			err := await(t.Context(), time.Minute, "a rose", func(ctx context.Context) error {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				return errors.New("a thorn")
			})
			if err == nil || err.Error() != "expected within 1m0s: a rose. Last: a thorn" {
				t.Errorf("the error is %v", err)
			}
		})
	})
	t.Run("it gives the cause of an interruption", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errInterrupted)
		err := await(ctx, time.Minute, "a rose", func(context.Context) error { return errors.New("no") })
		if !errors.Is(err, errInterrupted) {
			t.Errorf("the error is %v", err)
		}
	})
}

func TestNarratorIsPlainWhereThereIsNoTerminal(t *testing.T) {
	var out bytes.Buffer
	n := newNarrator(&out)
	n.step("Do", "Because")
	n.command("ls")
	n.say("a\n\nb %d", 1)
	n.good("done")
	want := "\n1. Do\n   Because\n   $ ls\n   a\n\n   b 1\n   ✓ done\n"
	expect.Equal(t, want, out.String(), "the output")
	out.Reset()
	n.colours = true
	n.command("ls")
	expect.Equal(t, "   \x1b[36m$ ls\x1b[0m\n", out.String(), "with colours")
}

// A server that closes a connection under the demo sends SIGPIPE, as a reader that goes away does.
func TestOnlyAReaderThatGoesAwayInterrupts(t *testing.T) {
	ctx, _, interrupt, release := untilSignal()
	defer release()
	expect.NoError(t, syscall.Kill(syscall.Getpid(), syscall.SIGPIPE))
	reader, writer, err := os.Pipe()
	expect.NoError(t, err)
	defer writer.Close()
	n := newNarrator(writer)
	n.unheard = interrupt
	n.say("heard")
	if ctx.Err() != nil {
		t.Error("SIGPIPE interrupts")
	}
	expect.NoError(t, reader.Close())
	n.say("unheard")
	if !errors.Is(context.Cause(ctx), errInterrupted) {
		t.Errorf("the cause is %v", context.Cause(ctx))
	}
}

func TestLeftInCloudNamesWhatExistsAndPortsFirst(t *testing.T) {
	var made, unmade cloudteamv1.Network
	made.Namespace, made.Name, made.Status.NetworkID = "default", "example", "4711"
	var waiting, bound cloudteamv1.NetworkPort
	bound.Namespace, bound.Name, bound.Status.PortID = "default", "web-0", "4712"
	want := []string{
		"$ openstack port delete 4712   # default/web-0",
		"$ openstack network delete 4711   # default/example",
	}
	got := leftInCloud([]cloudteamv1.Network{unmade, made}, []cloudteamv1.NetworkPort{waiting, bound})
	expect.Equal(t, want, got, "what is left")
}
