package capture

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/pflag"

	"cloudteam.ztgame.com/network-controller/internal/node/nodetest"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// came is when the packets of tests come.
var came = time.Unix(1_800_000_000, 123_456_789)

// packets is a Source of packets of one length. When all have come, it fails, or is silent.
type packets struct {
	left, length int
	fails        error
}

func (p *packets) Next(beginning []byte) (n, length int, at time.Time, err error) {
	if p.left == 0 && p.fails == nil {
		<-time.After(100 * time.Millisecond) // in a bubble
		return 0, 0, at, os.ErrDeadlineExceeded
	} else if p.left == 0 {
		return 0, 0, at, p.fails
	}
	p.left--
	return copy(beginning, bytes.Repeat([]byte{7}, p.length)), p.length, came, nil
}

func (p *packets) Lost() uint32 { return 3 }

// broken is a writer that is full after some bytes.
type broken struct{ room int }

func (b *broken) Write(content []byte) (int, error) {
	if b.room -= len(content); b.room < 0 {
		return 0, errors.New("it is full")
	}
	return len(content), nil
}

func TestAPcapIsWritten(t *testing.T) {
	var out bytes.Buffer
	_, err := Write(t.Context(), &out, &packets{left: 1, length: 1400, fails: io.EOF}, Limits{time.Minute, 1 << 20, 96})
	if !errors.Is(err, io.EOF) {
		t.Errorf("the source fails with %v", err)
	}
	got := make([]uint32, 10)
	expect.NoError(t, binary.Read(&out, binary.LittleEndian, got))
	// Nanoseconds, version 2.4, 96 bytes of Ethernet's frames; then the time, 96 bytes of 1400.
	expect.Equal(t, []uint32{0xa1b23c4d, 0x00040002, 0, 0, 96, 1, 1_800_000_000, 123_456_789, 96, 1400}, got, "the headers")
	expect.Equal(t, bytes.Repeat([]byte{7}, 96), out.Bytes(), "the packet")
}

func TestLimitsEndACapture(t *testing.T) {
	for sentence, tc := range map[string]struct {
		from   packets
		limits Limits
		// cancels is when the user ends it.
		cancels time.Duration
		frames  int
		took    time.Duration
		says    string
	}{
		"the time": {packets{left: 2, length: 60}, Limits{time.Minute, 1 << 20, 96}, 0, 2, time.Minute,
			"2 packets in 176 bytes. 3 packets lost."},
		"the size": {packets{left: 99, length: 600}, Limits{time.Minute, 2000, 1000}, 0, 3, 0,
			"3 packets in 1872 bytes, as many as --bytes allows. 3 packets lost."},
		"the user": {packets{left: 2, length: 60}, Limits{time.Minute, 1 << 20, 96}, 5 * time.Second, 2, 5 * time.Second,
			"2 packets in 176 bytes. 3 packets lost."},
		"no packets": {packets{}, Limits{time.Second, 1 << 20, 96}, 0, 0, time.Second, "0 packets in 24 bytes. 3 packets lost."},
	} {
		t.Run(sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tc.cancels > 0 {
					time.AfterFunc(tc.cancels, cancel)
				}
				var out bytes.Buffer
				end := time.Now().Add(tc.took)
				says, err := Write(ctx, &out, &tc.from, tc.limits)
				expect.NoError(t, err)
				if now := time.Now(); now.Before(end) || now.After(end.Add(200*time.Millisecond)) { // virtual time
					t.Errorf("it ends at %s, and not at %s", now, end)
				}
				expect.Equal(t, tc.says, says, "what it says")
				expect.Len(t, tc.frames, nodetest.Frames(t, out.Bytes()), "frames")
			})
		})
	}
}

// TestPacketsAreShownWhenTheyCome has somebody read the pcap while it is written.
func TestPacketsAreShownWhenTheyCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, out := io.Pipe()
		ctx, cancel := context.WithCancel(t.Context())
		soon := time.Now().Add(time.Second)
		go func() {
			_, err := Write(ctx, out, &packets{left: 1, length: 60}, Limits{time.Minute, 1 << 20, 96})
			_ = out.CloseWithError(err)
		}()
		first := make([]byte, 24+16+60)
		_, err := io.ReadFull(in, first)
		expect.NoError(t, err)
		expect.Len(t, 1, nodetest.Frames(t, first), "frames")
		if now := time.Now(); now.After(soon) { // virtual time
			t.Errorf("the packet is shown at %s, and not before %s", now, soon)
		}
		cancel()
		_, err = io.ReadAll(in)
		expect.NoError(t, err)
	})
}

func TestAnOutputThatIsFullEndsACapture(t *testing.T) {
	says, err := Write(t.Context(), &broken{room: 100 << 10}, &packets{left: 1000, length: 1000}, Limits{time.Hour, 1 << 20, 1000})
	if err == nil || !strings.Contains(err.Error(), "it is full") || !strings.HasSuffix(says, "lost.") {
		t.Errorf("got %q, %v", says, err)
	}
}

func TestLimitsAreBounded(t *testing.T) {
	read := func(args ...string) Limits {
		var l Limits
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		l.AddFlags(flags)
		expect.NoError(t, flags.Parse(args))
		return l
	}
	byDefault := read()
	expect.NoError(t, byDefault.Validate())
	most := read("--duration=10m", "--bytes=104857600", "--snaplen=262144")
	expect.NoError(t, most.Validate())
	expect.Equal(t, most, read(most.Args()...), "the limits that Args say")
	for _, arg := range []string{
		"--duration=0s", "--duration=10m1s", "--bytes=1023", "--bytes=104857601", "--snaplen=53", "--snaplen=262145",
	} {
		l := read(arg)
		name, _, _ := strings.Cut(arg, "=")
		if err := l.Validate(); err == nil || !strings.HasPrefix(err.Error(), name+" ") {
			t.Errorf("%s: %v", arg, err)
		}
	}
}
