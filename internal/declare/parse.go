package declare

import (
	"errors"
	"fmt"
	"net/netip"

	"cloudteam.ztgame.com/network-controller/internal/plan"
	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// parser reads the addresses in a spec and collects the errors. The API server already refuses most invalid addresses.
type parser struct {
	// within is the prefix of the field names.
	within string
	errs   []error
}

// err returns the collected *plan.FieldErrors, joined by errors.Join.
func (p *parser) err() error { return errors.Join(p.errs...) }

func (p *parser) refuse(field, format string, args ...any) {
	p.errs = append(p.errs, &plan.FieldError{Field: p.within + field, Problem: fmt.Sprintf(format, args...)})
}

func (p *parser) addr(field, text string) netip.Addr {
	a, err := netip.ParseAddr(text)
	if err != nil || a.Zone() != "" || a.Is4In6() {
		p.refuse(field, "%q is no address: write one such as 192.168.0.1 or fd00::1", text)
		return netip.Addr{}
	}
	return a
}

func (p *parser) prefix(field, text string) netip.Prefix {
	prefix, err := netip.ParsePrefix(text)
	if err != nil || prefix.Addr().Is4In6() {
		p.refuse(field, "%q is no CIDR: write a network address and prefix length, such as 192.168.0.0/16", text)
		return netip.Prefix{}
	}
	return prefix
}

// routes reads the routes in a field of a subnet or a router.
func routes[R cloudteamv1.HostRoute | cloudteamv1.RouterRoute](p *parser, field string, declared []R) []plan.Route {
	var all []plan.Route
	for i, r := range declared {
		route, field := cloudteamv1.HostRoute(r), fmt.Sprintf("%s[%d]", field, i)
		all = append(all, plan.Route{
			Destination: p.prefix(field+".destination", route.Destination), NextHop: p.addr(field+".nextHop", route.NextHop),
		})
	}
	return all
}
