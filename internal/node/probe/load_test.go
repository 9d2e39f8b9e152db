package probe

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/virtual"
)

// third is another address of this machine.
var third = netip.MustParseAddr("127.0.0.3")

// someBytes is what a transfer of these tests has: more than the kernel buffers.
const someBytes = 32 << 20

func TestProbesMeasureEachOther(t *testing.T) {
	type line struct {
		Result
		of Plan
	}
	said := make(chan line, 100)
	port, all := freePort(t), map[string]netip.Addr{"a": here, "b": there, "c": third}
	for name, own := range all {
		plan := Plan{Name: name, Addresses: []netip.Addr{own}, Port: port, Load: &Load{Bytes: someBytes, Time: time.Hour}}
		plan.Load.With = []netip.Addr{here}
		if own == here {
			plan.Load.First, plan.Load.With = true, []netip.Addr{there, third}
		}
		for other, to := range all {
			if other != name {
				plan.Checks = append(plan.Checks, Check{Kind: KindTCP, To: to, Port: port, Expect: other})
			}
		}
		lines := run(t, plan)
		go func() {
			for lines.Scan() {
				var result Result
				if err := json.Unmarshal(lines.Bytes(), &result); err != nil {
					t.Error(err)
				}
				said <- line{result, plan}
			}
		}()
	}
	for over := 0; over < 4; {
		l := <-said
		switch loads := l.of.Loads(l.Check); {
		case l.OK && l.Waits != (loads && l.Got == nil), l.Got != nil && !loads:
			t.Fatalf("%s: %+v: %+v", l.of.Name, l.of.Checks[l.Check], l.Result)
		case l.Got == nil:
		case l.Got.Error != "" || l.Got.Bytes != someBytes || l.Got.Took <= 0:
			t.Fatalf("%s: %+v: got %+v", l.of.Name, l.of.Checks[l.Check], *l.Got)
		default:
			over++
		}
	}
}

// answering is a probe that answers at an address, for whom its checks are over.
func answering(t *testing.T, load *Load) (p *prober, at string) {
	t.Helper()
	p = &prober{Plan: Plan{Name: "a", Load: load}, settled: make(chan struct{})}
	close(p.settled)
	return p, listening(t, p.answer)
}

// ask connects from an address, reads the greeting, and says something.
func ask(t *testing.T, from netip.Addr, at, says string) *net.TCPConn {
	t.Helper()
	conn, err := dial(t.Context(), from, Check{To: here, Port: netip.MustParseAddrPort(at).Port()})
	expect.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = io.ReadFull(conn, greeting("a"))
	expect.NoError(t, err)
	_, _ = io.WriteString(conn, says) // a probe that does not listen may have closed
	_ = conn.CloseWrite()
	return conn
}

// follows counts the bytes that still come.
func follows(conn io.Reader) int {
	n, _ := io.Copy(io.Discard, conn)
	return int(n)
}

func TestAProbeGeneratesTrafficForNobodyElse(t *testing.T) {
	_, at := answering(t, &Load{Bytes: someBytes, Time: time.Hour, With: []netip.Addr{there}})
	expect.Equal(t, 0, follows(ask(t, there, at, "")), "bytes for who asks for nothing")
	expect.Equal(t, 0, follows(ask(t, third, at, "?")), "bytes for an address outside the test")
	expect.Equal(t, 1+someBytes, follows(ask(t, there, at, "?")), "bytes for the other probe")
	expect.Equal(t, 0, follows(ask(t, there, at, "?")), "bytes for who asks again")
	_, at = answering(t, nil)
	expect.Equal(t, 0, follows(ask(t, there, at, "?")), "bytes where no throughput is measured")
}

func TestTheFirstProbeHasOneTransferAtATime(t *testing.T) {
	p, at := answering(t, &Load{Bytes: someBytes, Time: time.Hour, First: true, With: []netip.Addr{there, third}})
	one := ask(t, there, at, "?")
	_, err := io.ReadFull(one, make([]byte, 1))
	expect.NoError(t, err)
	if p.alone.TryLock() {
		t.Fatal("another transfer could begin")
	}
	two := ask(t, third, at, "?")
	expect.NoError(t, one.Close())
	expect.Equal(t, 1+someBytes, follows(two), "bytes of the second transfer")
}

func TestTheReceiverEndsATransfer(t *testing.T) {
	for sentence, tc := range map[string]struct {
		send   int
		closes bool
		want   Transfer
		fails  bool
	}{
		"when the time is over":      {send: 1000, want: Transfer{Bytes: 1000, Took: 5 * time.Second}},
		"when the bytes are there":   {send: 5000, want: Transfer{Bytes: 4096, Took: 1}},
		"when nothing more can come": {send: 1000, closes: true, want: Transfer{Bytes: 1000, Took: 1}},
		"nothing came in time":       {want: Transfer{Took: 5 * time.Second}, fails: true},
		"nothing came at all":        {closes: true, want: Transfer{Took: 1}, fails: true},
	} {
		t.Run(sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				defer near.Close()
				go func() {
					_, _ = far.Write(make([]byte, tc.send))
					if tc.closes {
						_ = far.Close()
					}
				}()
				got, err := (&Load{Bytes: 4096, Time: 5 * time.Second}).receive(near)
				if got != tc.want || (err != nil) != tc.fails {
					t.Errorf("got %+v, %v; want %+v", got, err, tc.want)
				}
			})
		})
	}
}

// TestASenderWaitsForNoReader has the other side read no more. The addresses of a pipe are none.
func TestASenderWaitsForNoReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &prober{Plan: Plan{Name: "a", Load: &Load{Bytes: someBytes, Time: 5 * time.Second, With: []netip.Addr{{}}}},
			settled: make(chan struct{})}
		close(p.settled)
		near, far := net.Pipe()
		defer near.Close()
		began := time.Now()
		go func() {
			_, _ = io.ReadFull(near, greeting("a"))
			_, _ = near.Write([]byte("?"))
			_, _ = io.ReadFull(near, make([]byte, 1000))
		}()
		p.answer(far)
		expect.Equal(t, p.Load.Time+2*patience, virtual.Since(began), "how long the sender waits, in virtual time")
	})
}

// TestTransfersWaitForChecks has a check fail for ever: the transfers wait for its first attempts.
func TestTransfersWaitForChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		p := &prober{Plan: Plan{Checks: []Check{{Kind: KindInterface, To: nowhere}}}, room: make(chan struct{}, 1),
			out: json.NewEncoder(&log)}
		p.settling.Add(1)
		go p.try(t.Context(), 0)
		p.settling.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		results, _ := ReadLog(log.Bytes())
		expect.Equal(t, enough, results[0].Attempt, "the attempts")
	})
}
