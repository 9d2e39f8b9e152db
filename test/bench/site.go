package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/test/harness"
	"cloudteam.ztgame.com/network-controller/test/proxy"
)

// cloudName is the cloud of clouds.yaml that is used: that of a project's member.
const cloudName = "tenant"

// call is a request that arrived at Neutron's proxy.
type call struct {
	at            time.Time
	method, shape string
	// uri is path and query; body is what it brought.
	uri  string
	body []byte
	// answer is what Neutron answered, of a create.
	answer []byte
}

// lists reports whether it is a page of a list of a whole collection, as an audit asks for it.
func (c call) lists() bool {
	return c.method == "GET" && !strings.Contains(c.shape, "{id}")
}

// begins reports whether it is the first page of a list of all networks, with which an audit begins.
func (c call) begins() bool {
	return c.shape == "/v2.0/networks" && c.firstPage()
}

// firstPage reports whether it is the first page of a list.
func (c call) firstPage() bool { return c.lists() && !strings.Contains(c.uri, "marker=") }

// writes are those of calls that change something in Neutron.
func writes(calls []call) (found []call) {
	for _, c := range calls {
		if c.method != "GET" {
			found = append(found, c)
		}
	}
	return found
}

// site is a cloud with a proxy in front, through which both the controller and the bare loops go. It is safe for
// concurrent use.
type site struct {
	// cloudsFile leads to the proxies.
	cloudsFile string
	// endpoint is the proxy's address of Neutron, token a token and project the id of its project.
	endpoint, token, project string
	// direct is Neutron without the proxy.
	direct *harness.Neutron

	keystone, neutron *proxy.Proxy

	mu    sync.Mutex
	calls []call
}

// openSite makes an emulated cloud that works on as many calls at a time as workers says, or opens the real one. It is
// closed with the group.
func (b *bench) openSite(ctx context.Context, workers int) (*site, error) {
	cloudsFile := b.CloudsFile
	if b.emulated() {
		settings := neutrontest.Options{}
		if b.delay == "real" && b.cloud != fleet {
			settings.Delay, settings.Workers = neutrontest.MeasuredDelay, workers
		}
		listener, err := neutrontest.New(settings).Listen("127.0.0.1:0", nil)
		if err != nil {
			return nil, err
		}
		b.after(func() { listener.Close() })
		cloudsFile = b.file("clouds-" + strings.ReplaceAll(listener.URL, "/", "") + ".yaml")
		if err := os.WriteFile(cloudsFile, []byte(listener.CloudsYAML()), 0o600); err != nil {
			return nil, err
		}
	}
	direct, err := harness.LogIn(ctx, cloudsFile, cloudName)
	if err != nil {
		return nil, err
	}
	front, err := os.CreateTemp(b.dir, "clouds-*.yaml")
	if err != nil {
		return nil, err
	}
	front.Close()
	s := &site{cloudsFile: front.Name(), direct: direct}
	s.keystone, s.neutron, err = harness.FrontCloud(cloudsFile, s.cloudsFile, []string{cloudName}, direct.Client.Endpoint,
		proxy.Options{}, proxy.Options{Arrived: s.arrived, Answered: s.answered})
	if err != nil {
		return nil, err
	}
	b.after(s.keystone.Close)
	b.after(s.neutron.Close)
	fronted, err := harness.LogIn(ctx, s.cloudsFile, cloudName)
	if err != nil {
		return nil, err
	}
	s.endpoint, s.token, s.project = fronted.Client.ResourceBaseURL(), fronted.Client.Token(), fronted.Project
	return s, nil
}

func (s *site) arrived(c proxy.Call) {
	at := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, call{
		at: at, method: c.Method, shape: c.Shape, uri: c.Request.URL.RequestURI(), body: c.Body,
	})
}

// answered keeps the answers to creates: bodies are told apart by their memory, which they share with the call.
func (s *site) answered(c proxy.Call, a *proxy.Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.Method != "POST" || len(c.Body) == 0 {
		return
	}
	for i := len(s.calls) - 1; i >= 0; i-- {
		if len(s.calls[i].body) > 0 && &s.calls[i].body[0] == &c.Body[0] {
			s.calls[i].answer = a.Body
			return
		}
	}
}

// mark is a place in the log of the calls.
func (s *site) mark() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.calls)
}

// since gives the calls that came after a mark.
func (s *site) since(mark int) []call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls[mark:])
}

// auditPatience is how long a few audits may take. It only ends a run that hangs.
const auditPatience = 30 * time.Minute

// audits are the calls of the first n whole audits since mark, each from its first call to the next one's.
func (s *site) audits(ctx context.Context, mark, n int) ([][]call, error) {
	var whole [][]call
	err := await(ctx, auditPatience, func() error {
		whole = nil
		calls := s.since(mark)
		first := slices.IndexFunc(calls, call.begins)
		for first >= 0 && len(whole) < n {
			length := slices.IndexFunc(calls[first+1:], call.begins)
			if length < 0 {
				break
			}
			whole = append(whole, calls[first:first+1+length])
			first += 1 + length
		}
		if len(whole) < n {
			return fmt.Errorf("%d whole audits of %d", len(whole), n)
		}
		return nil
	})
	return whole, err
}

// firstLists are the pages of the first list of each kind, and the first read of the quota: each has a pace of its own.
func firstLists(calls []call) (once []call) {
	begun := map[string]int{}
	for _, c := range calls {
		if c.firstPage() {
			begun[c.shape]++
		}
		if c.lists() && begun[c.shape] == 1 {
			once = append(once, c)
		}
	}
	return once
}

// auditLimit is how many calls an audit of n Networks without ports may take: the pages of networks and subnets, and
// one call each for ports, routers, RBAC policies, security groups, floating IPs, counts of addresses, and the quota.
// A page that is nine tenths full has another one after it (nearlyFull in internal/neutron/client).
func auditLimit(calls []call, n int) float64 {
	page := n
	for _, c := range calls {
		if address, err := url.ParseRequestURI(c.uri); err == nil && c.begins() {
			if limit, err := strconv.Atoi(address.Query().Get("limit")); err == nil && limit > 0 {
				page = limit
			}
		}
	}
	return float64(2*((n+page/10)/page+1) + 7)
}
