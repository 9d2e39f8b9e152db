// Package probe checks from inside a Pod whether packets reach its neighbours on a Network. `kubectl network conntest`
// starts it as `network-agent probe`. It also answers the probes of other Pods. It needs no rights in the cluster, no
// root and no capability: its plan is in its environment, and its results are lines of JSON in its log.
package probe

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// PlanEnv is the environment variable with the Plan, in JSON.
const PlanEnv = "NETWORK_PROBE_PLAN"

// Kind is what a Check sends.
type Kind string

// The kinds of checks.
const (
	// KindInterface looks for the Pod's own address on its interfaces. It sends nothing.
	KindInterface Kind = "interface"
	// KindICMP sends an echo request.
	KindICMP Kind = "ICMP"
	// KindTCP connects. If a probe has to answer, its name and many full packets have to come.
	KindTCP Kind = "TCP"
)

// Cause is why an attempt failed.
type Cause string

// The causes.
const (
	// CauseNoAnswer: nothing came back in time.
	CauseNoAnswer Cause = "NoAnswer"
	// CauseRefused: the host answers that nothing listens there, or that it does not want the packet.
	CauseRefused Cause = "Refused"
	// CauseNoRoute: the Pod, or a router, has no way there.
	CauseNoRoute Cause = "NoRoute"
	// CauseNoAddress: the Pod lacks the address that the packets have to come from.
	CauseNoAddress Cause = "NoAddress"
	// CauseStalled: the connection was made, and then not all packets came.
	CauseStalled Cause = "Stalled"
	// CauseStranger: another program than the expected probe answers.
	CauseStranger Cause = "Stranger"
	// CauseNotAllowed: the Pod may not send echo requests. Then nothing is known of the network.
	CauseNotAllowed Cause = "NotAllowed"
)

// Plan is what a probe does.
type Plan struct {
	// Name is what it answers to other probes. No two probes of a test have the same.
	Name string `json:"name"`
	// Addresses are the Pod's own on the Network. It listens on these alone, and all its packets come from these, so that
	// no other network of the Pod can answer in place of this one.
	Addresses []netip.Addr `json:"addresses"`
	// Port is the TCP port that it listens on.
	Port   uint16  `json:"port"`
	Checks []Check `json:"checks"`
	// Load is set if the test measures throughput, too.
	Load *Load `json:"load,omitempty"`
}

// Check is one connection that is to work.
type Check struct {
	Kind Kind       `json:"kind"`
	To   netip.Addr `json:"to"`
	// Port is for KindTCP.
	Port uint16 `json:"port,omitempty"`
	// Expect is the name of the probe that has to answer by TCP. Empty means that any program may.
	Expect string `json:"expect,omitempty"`
}

// Result is the outcome of one attempt at a Check, and a line of the log.
type Result struct {
	// Check is the check's index in the plan.
	Check int `json:"check"`
	// Attempt counts from 1. There is none after a success.
	Attempt int           `json:"attempt"`
	OK      bool          `json:"ok"`
	Took    time.Duration `json:"took,omitempty"`
	Cause   Cause         `json:"cause,omitempty"`
	// Error is the operating system's, or what was found.
	Error string `json:"error,omitempty"`
	// Waits is true while a transfer still follows the check; see Plan.Loads. Got is the transfer once it is over.
	Waits bool      `json:"waits,omitempty"`
	Got   *Transfer `json:"got,omitempty"`
}

const (
	// patience bounds each wait of an attempt.
	patience = 2 * time.Second
	// pause is between two attempts: a neighbour may not run yet.
	pause = time.Second
	// bulk is how many bytes a probe sends to who connects: enough for packets of the largest size in any MTU.
	bulk = 64 << 10
	// maxParallel bounds the checks at one time, and maxConnections those of others.
	maxParallel, maxConnections = 16, 64
)

// ReadPlan reads a Plan as PlanEnv has it.
func ReadPlan(text string) (Plan, error) {
	var plan Plan
	if text == "" {
		return plan, errors.New(PlanEnv + " is empty: `kubectl network conntest` starts this program with a plan")
	}
	if err := json.Unmarshal([]byte(text), &plan); err != nil {
		return plan, fmt.Errorf("reading %s: %w", PlanEnv, err)
	}
	return plan, nil
}

// ReadLog gives the last Result of each Check, by its index, and the last line that is no Result: what a program says
// before it ends. A log that is cut off, or another program's, is no error.
func ReadLog(log []byte) (results map[int]Result, other string) {
	results = map[int]Result{}
	for line := range bytes.Lines(log) {
		var result Result
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if json.Unmarshal(line, &result) != nil || result.Attempt < 1 {
			other = string(line)
			continue
		}
		results[result.Check] = result
	}
	return results, other
}

// Run answers other probes and writes a line for each attempt, until ctx is done. It tries each check until it
// succeeds.
func Run(ctx context.Context, plan Plan, out io.Writer) {
	p := &prober{Plan: plan, out: json.NewEncoder(out), room: make(chan struct{}, maxParallel),
		settled: make(chan struct{})}
	var all sync.WaitGroup
	p.settling.Add(len(plan.Checks))
	all.Go(func() { p.settling.Wait(); close(p.settled) })
	for _, address := range plan.Addresses {
		all.Go(func() { p.serve(ctx, address) })
	}
	for i := range plan.Checks {
		all.Go(func() { p.try(ctx, i) })
	}
	all.Wait()
	<-ctx.Done()
}

type prober struct {
	Plan
	// room has a place for each check that may run at a time.
	room chan struct{}
	// settling counts the checks that have neither passed nor failed enough times. settled is closed when none is left.
	settling sync.WaitGroup
	settled  chan struct{}
	// alone is held for a transfer by the first probe. asked has the addresses that have asked for one.
	alone sync.Mutex
	asked sync.Map

	mu  sync.Mutex
	out *json.Encoder
}

func (p *prober) say(result Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.out.Encode(result) // nobody reads the log any more
}

// try attempts a check until it succeeds, or until it is clear that it cannot be made. A transfer may follow a success.
func (p *prober) try(ctx context.Context, i int) {
	settle := sync.OnceFunc(p.settling.Done)
	defer settle()
	for attempt := 1; ; attempt++ {
		select {
		case p.room <- struct{}{}:
		case <-ctx.Done():
			return
		}
		began := time.Now()
		err := p.attempt(ctx, p.Checks[i])
		<-p.room
		if ctx.Err() != nil {
			return
		}
		result := Result{Check: i, Attempt: attempt, OK: err == nil}
		if err == nil {
			result.Took, result.Waits = time.Since(began), p.Loads(i)
		} else {
			result.Cause, result.Error = causeOf(err), err.Error()
		}
		p.say(result)
		if err == nil || attempt >= enough {
			settle()
		}
		if result.Waits {
			got := p.load(ctx, p.Checks[i])
			result.Waits, result.Got = false, &got
			p.say(result)
		}
		if err == nil || result.Cause == CauseNotAllowed || !rest(ctx, pause) {
			return
		}
	}
}

// rest waits, and reports whether ctx is still alive.
func rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (p *prober) attempt(ctx context.Context, c Check) error {
	if c.Kind == KindInterface {
		return hasAddress(c.To)
	}
	i := p.source(c.To)
	if i < 0 {
		return failure{CauseNoAddress, fmt.Errorf("the Pod has no address of the family of %s on the Network", c.To)}
	}
	switch c.Kind {
	case KindICMP:
		return ping(p.Addresses[i], c.To)
	case KindTCP:
		return connect(ctx, p.Addresses[i], c)
	}
	return failure{CauseNotAllowed, fmt.Errorf("this version knows no check %q", c.Kind)}
}

// source is the index of the Pod's address that packets to another one come from; -1 if it has none.
func (p *prober) source(to netip.Addr) int {
	return slices.IndexFunc(p.Addresses, func(own netip.Addr) bool { return own.Is4() == to.Is4() })
}

// failure is an error whose cause is known.
type failure struct {
	cause Cause
	error
}

func (f failure) Unwrap() error { return f.error }

// causeOf is the cause of an attempt's error.
func causeOf(err error) Cause {
	if f, ok := errors.AsType[failure](err); ok {
		return f.cause
	}
	for cause, numbers := range map[Cause][]error{
		CauseRefused:   {syscall.ECONNREFUSED, syscall.ECONNRESET},
		CauseNoRoute:   {syscall.ENETUNREACH, syscall.EHOSTUNREACH},
		CauseNoAddress: {syscall.EADDRNOTAVAIL},
	} {
		if slices.ContainsFunc(numbers, func(number error) bool { return errors.Is(err, number) }) {
			return cause
		}
	}
	return CauseNoAnswer
}

func hasAddress(own netip.Addr) error {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return err
	}
	for _, address := range all {
		if prefix, err := netip.ParsePrefix(address.String()); err == nil && prefix.Addr().Unmap() == own {
			return nil
		}
	}
	return failure{CauseNoAddress, fmt.Errorf("no interface of the Pod has %s", own)}
}

// ping sends an echo request from an address, and waits for the reply. It uses the kernel's sockets for that, which
// need no capability where the sysctl net.ipv4.ping_group_range has the process's group, also for IPv6.
func ping(from, to netip.Addr) error {
	network, request, reply, protocol := "udp4", icmp.Type(ipv4.ICMPTypeEcho), icmp.Type(ipv4.ICMPTypeEchoReply), 1
	if to.Is6() {
		network, request, reply, protocol = "udp6", ipv6.ICMPTypeEchoRequest, ipv6.ICMPTypeEchoReply, 58
	}
	socket, err := icmp.ListenPacket(network, from.String())
	if errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EPROTONOSUPPORT) {
		return failure{CauseNotAllowed, err}
	} else if err != nil {
		return err
	}
	defer socket.Close()
	if err := socket.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	token := rand.Text()
	message, err := (&icmp.Message{Type: request, Body: &icmp.Echo{Seq: 1, Data: []byte(token)}}).Marshal(nil)
	if err != nil {
		return err
	}
	if _, err := socket.WriteTo(message, net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, 0))); err != nil {
		return err
	}
	answer := make([]byte, 1500)
	for {
		n, _, err := socket.ReadFrom(answer)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return failure{CauseNoAnswer, fmt.Errorf("no reply in %s", patience)}
		} else if err != nil {
			return err
		}
		got, err := icmp.ParseMessage(protocol, answer[:n])
		if err != nil || got.Type != reply {
			continue
		}
		if echo, ok := got.Body.(*icmp.Echo); ok && string(echo.Data) == token {
			return nil
		}
	}
}

// dial connects from an address.
func dial(ctx context.Context, from netip.Addr, c Check) (*net.TCPConn, error) {
	dialer := net.Dialer{Timeout: patience, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}
	conn, err := dialer.DialContext(ctx, "tcp", netip.AddrPortFrom(c.To, c.Port).String())
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

// connect connects from an address. Of a probe it reads the name and all that comes.
func connect(ctx context.Context, from netip.Addr, c Check) error {
	conn, err := dial(ctx, from, c)
	if err != nil {
		return err
	}
	defer conn.Close()
	if c.Expect == "" {
		return nil
	}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_ = conn.CloseWrite() // it asks for nothing
	want := greeting(c.Expect)
	got, err := io.ReadAll(io.LimitReader(conn, int64(len(want))+1))
	switch {
	case len(got) > 0 && !bytes.HasPrefix(want, got[:min(len(got), len(c.Expect))]), len(got) > len(want):
		return failure{CauseStranger, errors.New("another program than the probe answers there")}
	case len(got) < len(want):
		return failure{CauseStalled, fmt.Errorf("connected, and then %d of %d bytes came: %w", len(got), len(want),
			cmp.Or(err, io.ErrUnexpectedEOF))}
	}
	return nil
}

// greeting is what a probe sends to who connects.
func greeting(name string) []byte {
	return append([]byte(name+"\n"), make([]byte, bulk)...)
}

// serve answers other probes at an address, as soon as the Pod has it.
func (p *prober) serve(ctx context.Context, own netip.Addr) {
	at := net.JoinHostPort(own.String(), strconv.Itoa(int(p.Port)))
	var listener net.Listener
	for err := error(nil); listener == nil; {
		if listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", at); err != nil && !rest(ctx, pause) {
			return
		}
	}
	defer context.AfterFunc(ctx, func() { listener.Close() })()
	room := make(chan struct{}, maxConnections)
	for {
		conn, err := listener.Accept()
		if err != nil {
			if ctx.Err() != nil || !rest(ctx, pause) {
				return
			}
			continue
		}
		room <- struct{}{}
		go func() {
			defer func() { <-room }()
			p.answer(conn)
		}()
	}
}
