package proxy

import (
	"context"
	"io"
	"log"
	"net/http"
)

// Fault is what becomes of a call that a rule breaks. It runs in a goroutine of the call's own.
type Fault func(*Exchange)

// silent keeps what the HTTP server says of connections that faults have cut out of the tests' output.
var silent = log.New(io.Discard, "", 0)

// detached is a call's context that does not end with the caller's patience.
func detached(r *http.Request) context.Context { return context.WithoutCancel(r.Context()) }

// After has the target carry the call out, and then loses the answer.
func After(ending Fault) Fault {
	return func(x *Exchange) {
		// Where it cannot be forwarded, it is broken all the same.
		_, _ = x.Forward()
		ending(x)
	}
}

// Pass breaks nothing. The rule counts the calls.
func Pass(x *Exchange) {
	a, err := x.Forward()
	if err != nil {
		x.Reset()
	}
	x.Answer(a)
}

// Reset cuts the connection.
func Reset(x *Exchange) { x.Reset() }

// Refuse answers with a status, a body of JSON and headers, given in pairs of name and value.
func Refuse(status int, body string, headers ...string) Fault {
	return func(x *Exchange) {
		a := &Answer{Status: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(body)}
		for i := 0; i+1 < len(headers); i += 2 {
			a.Header.Set(headers[i], headers[i+1])
		}
		x.Answer(a)
	}
}

// Truncate has the call carried out and cuts the connection in the middle of the answer.
func Truncate(x *Exchange) {
	a, err := x.Forward()
	if err != nil {
		x.Reset()
	}
	x.Truncate(a)
}

// Hang neither answers nor cuts the connection until released is closed or the caller goes away; then it is cut.
func Hang(released <-chan struct{}) Fault {
	return func(x *Exchange) {
		x.await(released)
		x.Reset()
	}
}

// Hold has the call wait until released is closed or the caller goes away, and then go on as if nothing had been.
func Hold(released <-chan struct{}) Fault {
	return func(x *Exchange) {
		x.await(released)
		Change(func(*Answer) {})(x)
	}
}

func (x *Exchange) await(released <-chan struct{}) {
	select {
	case <-released:
	case <-x.Request.Context().Done():
	}
}

// Change has the call carried out and the answer changed.
func Change(change func(*Answer)) Fault {
	return func(x *Exchange) {
		a, err := x.Forward()
		if err != nil {
			x.Reset()
		}
		change(a)
		x.Answer(a)
	}
}

// Meanwhile does something when the call has arrived, and then has it go on.
func Meanwhile(do func()) Fault {
	return func(x *Exchange) {
		do()
		Change(func(*Answer) {})(x)
	}
}
