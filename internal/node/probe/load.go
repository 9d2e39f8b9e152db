package probe

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"
)

// Load is a probe's part in a measurement of throughput.
type Load struct {
	// Bytes and Time bound each transfer.
	Bytes int64         `json:"bytes"`
	Time  time.Duration `json:"time"`
	// First is true for the one probe that takes part in all transfers. It has no two at a time.
	First bool `json:"first,omitempty"`
	// With are the addresses of the probes that send to this one. It sends to each of them once, and to nobody else.
	With []netip.Addr `json:"with,omitempty"`
}

// Transfer is what a probe got.
type Transfer struct {
	Bytes int64         `json:"bytes"`
	Took  time.Duration `json:"took"`
	// Error is why there is no figure.
	Error string `json:"error,omitempty"`
}

// Loads reports whether a transfer follows a check that passes, from the address that was checked.
func (p Plan) Loads(i int) bool {
	c := p.Checks[i]
	return p.Load != nil && c.Kind == KindTCP && c.Expect != "" && slices.Contains(p.Load.With, c.To)
}

const (
	// enough is how often a check fails before transfers no longer wait for it: on a full network, checks fail.
	enough = 5
	// chunk is the size of a read and of a write.
	chunk = 256 << 10
)

// turn waits until the checks are over and this probe may take part in a transfer. The function that it gives ends it.
func (p *prober) turn() (over func()) {
	<-p.settled
	if !p.Load.First {
		return func() {}
	}
	p.alone.Lock()
	return p.alone.Unlock
}

// load gets a transfer from the probe that a check has reached. If that is gone, TCP finds out.
func (p *prober) load(ctx context.Context, c Check) (got Transfer) {
	defer p.turn()()
	conn, err := dial(ctx, p.Addresses[p.source(c.To)], c)
	if err == nil {
		defer conn.Close()
		defer context.AfterFunc(ctx, func() { conn.Close() })()
		_ = conn.SetLinger(0) // the other one ends at once, too
		if _, err = conn.Write([]byte("?")); err == nil {
			_, err = io.ReadFull(conn, append(greeting(c.Expect), '!')) // which comes when it is the other one's turn
		}
	}
	if err == nil {
		got, err = p.Load.receive(conn)
	}
	if err != nil {
		got.Error = err.Error()
	}
	return got
}

// receive counts what comes until the bytes are there, or the time is over.
func (l *Load) receive(conn net.Conn) (Transfer, error) {
	began := time.Now()
	_ = conn.SetReadDeadline(began.Add(l.Time))
	// A mere Writer: io.Discard itself reads in small pieces.
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, io.LimitReader(conn, l.Bytes), make([]byte, chunk))
	if n == 0 {
		err = cmp.Or(err, io.ErrUnexpectedEOF)
	} else if errors.Is(err, os.ErrDeadlineExceeded) {
		err = nil
	}
	return Transfer{Bytes: n, Took: max(time.Since(began), 1)}, err
}

// answer greets who connects. A probe of Load.With may then ask for a transfer.
func (p *prober) answer(conn net.Conn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(2 * patience))
	_, err := conn.Write(greeting(p.Name)) // who connected sees what is missing
	who, _ := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil || p.Load == nil || !slices.Contains(p.Load.With, who.Addr()) {
		return
	}
	buffer := make([]byte, chunk)
	if n, _ := conn.Read(buffer[:1]); n == 0 {
		return // a check asks for nothing
	}
	if _, again := p.asked.LoadOrStore(who.Addr(), true); again {
		return
	}
	defer p.turn()()
	_ = conn.SetDeadline(time.Now().Add(p.Load.Time + 2*patience))
	for left := 1 + p.Load.Bytes; left > 0 && err == nil; { // one says that it begins
		var n int
		n, err = conn.Write(buffer[:min(left, chunk)])
		left -= int64(n)
	}
}
