package main

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"cloudteam.ztgame.com/network-controller/test/expect"
)

func TestAnOutageEnds(t *testing.T) {
	var l loser
	server := httptest.NewServer(l.wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	defer server.Close()
	status := func(path string) int {
		answer, err := http.Get(server.URL + path)
		expect.NoError(t, err)
		answer.Body.Close()
		return answer.StatusCode
	}
	l.outage(time.Hour)
	if got := status("/networking/v2.0/networks"); got != http.StatusServiceUnavailable {
		t.Errorf("Neutron answers %d", got)
	}
	if got := status("/identity/v3"); got != http.StatusOK {
		t.Errorf("Keystone answers %d", got)
	}
	l.outage(-time.Second)
	if got := status("/networking/v2.0/networks"); got != http.StatusOK {
		t.Errorf("after the outage, Neutron answers %d", got)
	}
}

func TestOneAnswerIsLostAfterTheRequestWasCarriedOut(t *testing.T) {
	var created atomic.Int64 // a connection that is cut orders nothing
	var l loser
	server := httptest.NewServer(l.wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { created.Add(1) })))
	defer server.Close()
	post := func(path string) error {
		answer, err := http.Post(server.URL+path, "application/json", nil)
		if err == nil {
			err = answer.Body.Close()
		}
		return err
	}
	l.arm()
	if err := post("/networking/v2.0/subnets"); err != nil {
		t.Errorf("the answer to another request is lost: %v", err)
	}
	if err := post("/networking/v2.0/networks"); err == nil {
		t.Error("the answer came")
	}
	if err := post("/networking/v2.0/networks"); err != nil {
		t.Errorf("a second answer is lost: %v", err)
	}
	expect.Equal(t, int64(3), created.Load(), "requests that were carried out")
}
