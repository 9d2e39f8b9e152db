package managed

import (
	"fmt"
	"net/url"
	"strings"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
)

// SameClouds are endpoints of Neutron that the operator declared to be of one cloud. An endpoint that was renamed
// would otherwise look like another cloud. The zero value has none.
type SameClouds struct {
	// renamed has the new endpoint of each old one.
	renamed map[string]string
}

// ParseSameClouds reads pairs of the form old=new.
func ParseSameClouds(pairs []string) (SameClouds, error) {
	s := SameClouds{renamed: map[string]string{}}
	for _, pair := range pairs {
		was, is, found := strings.Cut(pair, "=")
		if !found {
			return SameClouds{}, fmt.Errorf("%q is no pair: write old=new", pair)
		}
		for _, endpoint := range []*string{&was, &is} {
			parsed, err := url.Parse(*endpoint)
			if err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https" ||
				parsed.User != nil || parsed.RawQuery != "" || parsed.Fragment != "" {
				return SameClouds{}, fmt.Errorf("%q is no endpoint: write a URL such as https://neutron.example.com:9696/",
					*endpoint)
			}
			*endpoint = canonical(*endpoint)
		}
		if earlier, twice := s.renamed[was]; twice && earlier != is {
			return SameClouds{}, fmt.Errorf("%s has two new names, %s and %s: write one", was, earlier, is)
		}
		if s.newest(is) == was {
			return SameClouds{}, fmt.Errorf("%s is renamed to itself: write each endpoint with its newest name", was)
		}
		s.renamed[was] = is
	}
	return s, nil
}

// canonical is an endpoint in the form in which endpoints are compared.
func canonical(endpoint string) string {
	if parsed, err := url.Parse(endpoint); err == nil {
		parsed.Scheme, parsed.Host = strings.ToLower(parsed.Scheme), strings.ToLower(parsed.Host)
		endpoint = parsed.String()
	}
	return strings.TrimRight(endpoint, "/") + "/"
}

// newest is the last of an endpoint's names.
func (s SameClouds) newest(endpoint string) string {
	endpoint = canonical(endpoint)
	for next, renamed := s.renamed[endpoint]; renamed; next, renamed = s.renamed[endpoint] {
		endpoint = next
	}
	return endpoint
}

// same reports whether two identities are the same project of the same cloud.
func (s SameClouds) same(a, b client.Identity) bool {
	if a == b {
		return true // the usual case
	}
	if len(s.renamed) == 0 {
		return false
	}
	a.Endpoint, b.Endpoint = s.newest(a.Endpoint), s.newest(b.Endpoint)
	return a == b
}

// SameNeutron reports whether two identities are of one Neutron, though perhaps of two projects.
func (s SameClouds) SameNeutron(a, b client.Identity) bool {
	a.Endpoint, b.Endpoint = s.newest(a.Endpoint), s.newest(b.Endpoint)
	return a.SameNeutron(b)
}

// TakeAsSame sets the endpoints of one cloud. If called, it MUST be called before Run.
func (r *Reconciler[T]) TakeAsSame(same SameClouds) { r.same = same }
