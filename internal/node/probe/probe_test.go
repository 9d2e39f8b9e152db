package probe

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"syscall"
	"testing"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

var (
	here  = netip.MustParseAddr("127.0.0.1")
	there = netip.MustParseAddr("127.0.0.2")
	v6    = netip.MustParseAddr("::1")
	// nowhere is of a range for documentation: no interface has it.
	nowhere = netip.MustParseAddr("192.0.2.1")
)

// freePort is a port that nothing listens on, at any of the addresses. It is below the kernel's range for who asks for
// any port, so that no other program gets it before the probe listens.
func freePort(t *testing.T) uint16 {
	t.Helper()
	const first, lastAndOne = 20000, 32000
	for range 100 {
		port := uint16(first + rand.IntN(lastAndOne-first))
		if isFree(here, port) && isFree(there, port) && isFree(v6, port) {
			return port
		}
	}
	t.Fatal("no port is free at all addresses")
	return 0
}

// isFree reports whether nobody listens at an address, which this machine may lack.
func isFree(address netip.Addr, port uint16) bool {
	listener, err := net.Listen("tcp", netip.AddrPortFrom(address, port).String())
	if err != nil {
		return !errors.Is(err, syscall.EADDRINUSE)
	}
	_ = listener.Close()
	return true
}

// run runs a probe until the test ends, and gives its results as they come.
func run(t *testing.T, plan Plan) *bufio.Scanner {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	read, write := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		Run(ctx, plan, write)
	}()
	t.Cleanup(func() {
		cancel()
		_ = read.Close()
		<-done
	})
	return bufio.NewScanner(read)
}

// next gives the next line of a probe.
func next(t *testing.T, lines *bufio.Scanner) (result Result) {
	t.Helper()
	if !lines.Scan() {
		t.Fatal("the probe says no more:", lines.Err())
	}
	expect.NoError(t, json.Unmarshal(lines.Bytes(), &result))
	return result
}

func TestProbesReachEachOther(t *testing.T) {
	port := freePort(t)
	run(t, Plan{Name: "b", Addresses: []netip.Addr{there}, Port: port})
	// It listens at another port: ::1 is the only loopback address of IPv6, and "c" has it, too.
	plan := Plan{Name: "a", Addresses: []netip.Addr{here}, Port: freePort(t), Checks: []Check{
		{Kind: KindInterface, To: here}, {Kind: KindICMP, To: there},
		{Kind: KindTCP, To: there, Port: port, Expect: "b"}, {Kind: KindTCP, To: there, Port: port},
	}}
	if listener, err := net.Listen("tcp", "[::1]:0"); err != nil {
		t.Log("this machine has no IPv6:", err)
	} else {
		_ = listener.Close()
		run(t, Plan{Name: "c", Addresses: []netip.Addr{v6}, Port: port})
		plan.Addresses = append(plan.Addresses, v6)
		plan.Checks = append(plan.Checks, Check{Kind: KindICMP, To: v6}, Check{Kind: KindTCP, To: v6, Port: port, Expect: "c"})
	}
	lines := run(t, plan)
	for passed := 0; passed < len(plan.Checks); {
		result := next(t, lines)
		switch {
		case result.OK:
			passed++
		case result.Cause == CauseNotAllowed && plan.Checks[result.Check].Kind == KindICMP:
			t.Log("this machine lets nobody ping without a capability:", result.Error)
			passed++
		case result.Cause != CauseRefused || result.Attempt > 5: // the other one may not listen yet
			t.Fatalf("%+v: %+v", plan.Checks[result.Check], result)
		}
	}
}

// listening has each connection to an address served until the test ends, and returns the address.
func listening(t *testing.T, serve func(net.Conn)) (at string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	expect.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
	return listener.Addr().String()
}

func TestAttemptsFailWithTheirCause(t *testing.T) {
	serve := func(answer string) uint16 {
		at := listening(t, func(conn net.Conn) {
			_, _ = io.WriteString(conn, answer)
			_ = conn.Close()
		})
		return netip.MustParseAddrPort(at).Port()
	}
	whole := string(greeting("b"))
	for sentence, tc := range map[string]struct {
		from  netip.Addr
		check Check
		want  Cause
	}{
		"nothing listens":                    {here, Check{KindTCP, here, freePort(t), "b"}, CauseRefused},
		"another program answers":            {here, Check{KindTCP, here, serve("SSH-2.0\r\n"), "b"}, CauseStranger},
		"another probe answers":              {here, Check{KindTCP, here, serve(string(greeting("c"))), "b"}, CauseStranger},
		"more comes than a probe sends":      {here, Check{KindTCP, here, serve(whole + "!"), "b"}, CauseStranger},
		"large packets get lost":             {here, Check{KindTCP, here, serve(whole[:1400]), "b"}, CauseStalled},
		"nothing comes":                      {here, Check{KindTCP, here, serve(""), "b"}, CauseStalled},
		"the Pod lacks its address, TCP":     {nowhere, Check{KindTCP, here, serve(whole), "b"}, CauseNoAddress},
		"the interface lacks its address":    {here, Check{Kind: KindInterface, To: nowhere}, CauseNoAddress},
		"the Pod has no address of a family": {here, Check{Kind: KindICMP, To: v6}, CauseNoAddress},
		"the plan is a newer version's":      {here, Check{Kind: "SCTP", To: here}, CauseNotAllowed},
	} {
		t.Run(sentence, func(t *testing.T) {
			p := &prober{Plan: Plan{Addresses: []netip.Addr{tc.from}}}
			err := p.attempt(t.Context(), tc.check)
			if err == nil || causeOf(err) != tc.want {
				t.Errorf("got %v, which counts as %s, want %s", err, causeOf(err), tc.want)
			}
		})
	}
}

func TestANeighbourMayStartLater(t *testing.T) {
	port := freePort(t)
	lines := run(t, Plan{Name: "a", Addresses: []netip.Addr{here},
		Checks: []Check{{Kind: KindTCP, To: there, Port: port, Expect: "b"}}, Port: freePort(t)})
	if first := next(t, lines); first.OK || first.Cause != CauseRefused || first.Attempt != 1 {
		t.Fatalf("the first attempt gives %+v", first)
	}
	run(t, Plan{Name: "b", Addresses: []netip.Addr{there}, Port: port})
	for result := next(t, lines); !result.OK; result = next(t, lines) {
		if result.Attempt > 5 {
			t.Fatalf("still %+v", result)
		}
	}
}

func TestReadLog(t *testing.T) {
	log := `{"check":0,"attempt":1,"ok":false,"cause":"NoAnswer"}
panic: something

{"check":0,"attempt":2,"ok":true,"took":400000}
{"check":1,"attempt":1,"ok":fal`
	results, other := ReadLog([]byte(log))
	if got := fmt.Sprintf("%+v %q", results, other); got !=
		`map[0:{Check:0 Attempt:2 OK:true Took:400µs Cause: Error: Waits:false Got:<nil>}] "{\"check\":1,\"attempt\":1,\"ok\":fal"` {
		t.Error(got)
	}
	for _, line := range []string{"", "{}", "[]", "null", `{"check":3}`} {
		if results, _ := ReadLog([]byte(line)); len(results) != 0 {
			t.Errorf("%q gives %+v", line, results)
		}
	}
}

func TestAPlanIsNeeded(t *testing.T) {
	for _, text := range []string{"", "{", `{"addresses":["x"]}`} {
		if _, err := ReadPlan(text); err == nil {
			t.Errorf("%q is taken for a plan", text)
		}
	}
	want := Plan{Name: "a", Addresses: []netip.Addr{here, v6}, Port: 8080, Checks: []Check{{KindTCP, v6, 8080, "b"}}}
	text, err := json.Marshal(want)
	expect.NoError(t, err)
	if got, err := ReadPlan(string(text)); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %+v, %v", got, err)
	}
}
