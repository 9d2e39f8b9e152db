package neutrontest

import (
	"fmt"
	"regexp"
	"strings"
)

// maxDomain is Neutron's limit on a domain name, in characters, the last full stop not counted.
const maxDomain = 255

var (
	dnsLabel  = regexp.MustCompile(`^[a-zA-Z0-9-]{1,63}$`)
	allDigits = regexp.MustCompile(`^[0-9]+$`)
)

// isDNSDomain refuses what is neither empty nor a domain name that ends with a full stop.
func isDNSDomain(v any) string {
	name, _ := v.(string)
	if name != "" && !strings.HasSuffix(name, ".") {
		return fmt.Sprintf("'%s' is not a FQDN", name)
	}
	if problem := isDNSName(v); problem != "" {
		return problem
	}
	if len(name) > maxDomain-2 {
		return fmt.Sprintf("'%s' contains %d characters. Adding a sub-domain will cause it to exceed the maximum length "+
			"of a FQDN of '%d'", name, len(name), maxDomain)
	}
	return ""
}

// isDNSName refuses what is neither empty nor a name of labels.
func isDNSName(v any) string {
	name, ok := v.(string)
	if !ok {
		return fmt.Sprintf("'%s' is not a valid string", pyString(v))
	}
	if name == "" {
		return ""
	}
	if problem := domainProblem(strings.TrimSuffix(name, ".")); problem != "" {
		return fmt.Sprintf("'%s' not a valid PQDN or FQDN. Reason: %s", name, problem)
	}
	return ""
}

func domainProblem(name string) string {
	if len(name) > maxDomain {
		return fmt.Sprintf("'%s' exceeds the %d character FQDN limit", name, maxDomain)
	}
	labels := strings.Split(name, ".")
	for _, label := range labels {
		switch {
		case label == "":
			return "Encountered an empty component"
		case strings.HasPrefix(label, "-"), strings.HasSuffix(label, "-"):
			return fmt.Sprintf("Name '%s' must not start or end with a hyphen", label)
		case !dnsLabel.MatchString(label):
			return fmt.Sprintf("Name '%s' must be 1-63 characters long, each of which can only be alphanumeric or a "+
				"hyphen", label)
		}
	}
	if last := labels[len(labels)-1]; len(labels) > 1 && allDigits.MatchString(last) {
		return fmt.Sprintf("TLD '%s' must not be all numeric", last)
	}
	return ""
}
