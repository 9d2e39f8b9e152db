package contract

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

const rulesPath = "/v2.0/security-group-rules"

// noSuchID is of nothing.
const noSuchID = "00000000-0000-4000-8000-000000000000"

// addRules asks for rules of a group, all by one request.
func (s *session) addRules(t testing.TB, group object, rules ...object) answer {
	t.Helper()
	asked := make([]object, len(rules))
	for i, r := range rules {
		asked[i] = with(object{"security_group_id": id(group), "direction": "ingress"}, r)
	}
	return s.do(t, "POST", rulesPath, object{"security_group_rules": asked})
}

// rulesOf are what tells the rules of a group apart, in the order of the alphabet.
func (s *session) rulesOf(t testing.TB, group object) (rules []string) {
	t.Helper()
	got := s.get(t, groupsPath+"/"+id(group)).must(t, http.StatusOK).part(t, "security_group")
	for _, r := range got["security_group_rules"].([]any) {
		rules = append(rules, describeRule(r.(map[string]any)))
	}
	slices.Sort(rules)
	return rules
}

func (s *session) groupRevision(t testing.TB, group object) int {
	t.Helper()
	return revision(s.get(t, groupsPath+"/"+id(group)).must(t, http.StatusOK).part(t, "security_group"))
}

func describeRule(r object) string {
	text := ""
	for _, name := range []string{
		"direction", "ethertype", "protocol", "port_range_min", "port_range_max", "remote_ip_prefix", "remote_group_id",
	} {
		text += asText(r[name]) + " "
	}
	return text[:len(text)-1]
}

func TestNewSecurityGroupLetsEverythingOut(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		r := c.tenant.newGroup(t, nil)
		want := []string{"egress IPv4 - - - - -", "egress IPv6 - - - - -"}
		expect.Equal(t, want, c.tenant.rulesOf(t, r), "the rules of a new group")
		for _, rule := range r["security_group_rules"].([]any) {
			of, told := rule.(object)["belongs_to_default_sg"]
			if told != c.since(neutrontest.RulesTellDefaultGroup) || told && of != false {
				t.Errorf("a rule tells of the default group: %v (%v)", told, of)
			}
		}
		if told := r["security_group_rules"].([]any); len(told) != 2 {
			t.Errorf("the answer to the create tells %d rules, want 2", len(told))
		}
		if got := c.tenant.groupRevision(t, r); got != revision(r) {
			t.Errorf("the create tells revision %d, and it is %d", revision(r), got)
		}
	})
}

// TestSecurityGroupRulesAreKeptInOneForm holds what Neutron makes of rules, and which ones it takes for duplicates.
func TestSecurityGroupRulesAreKeptInOneForm(t *testing.T) {
	inDepth(t, func(t *testing.T, c *cloud) {
		g := c.tenant.newGroup(t, nil)
		want := []string{"egress IPv4 - - - - -", "egress IPv6 - - - - -"}
		for _, test := range []struct {
			ask  object
			want string
			// again are other forms of the same.
			again []object
		}{
			{object{"protocol": "tcp", "port_range_min": 80, "port_range_max": 90},
				"ingress IPv4 tcp 80 90 - -", []object{{"protocol": "6", "port_range_min": 80, "port_range_max": 90}}},
			{object{"protocol": "udp", "port_range_min": 1, "port_range_max": 65535},
				"ingress IPv4 udp - - - -", []object{{"protocol": "udp"}, {"protocol": 17, "remote_ip_prefix": "0.0.0.0/0"}}},
			{object{"ethertype": "IPv6", "protocol": "icmp"}, "ingress IPv6 ipv6-icmp - - - -", []object{
				{"ethertype": "IPv6", "protocol": "ipv6-icmp"}, {"ethertype": "IPv6", "protocol": "58"},
				{"ethertype": "IPv6", "protocol": "1"}, {"ethertype": "IPv6", "protocol": "icmpv6"},
			}},
			{object{"protocol": "icmp", "port_range_min": 8}, "ingress IPv4 icmp 8 - - -", nil},
			{object{"protocol": "icmp", "port_range_min": 8, "port_range_max": 0}, "ingress IPv4 icmp 8 0 - -", nil},
			{object{"protocol": "sctp"}, "ingress IPv4 sctp - - - -", []object{{"protocol": "132"}}},
			{object{"protocol": "gre"}, "ingress IPv4 gre - - - -", []object{{"protocol": "47"}}},
			{object{"protocol": "99"}, "ingress IPv4 99 - - - -", nil},
			{object{"remote_ip_prefix": "10.1.0.0/16"}, "ingress IPv4 - - - 10.1.0.0/16 -", nil},
			{object{"ethertype": "IPv6", "remote_ip_prefix": "fd00:0::/64"}, "ingress IPv6 - - - fd00::/64 -", nil},
			{object{"remote_group_id": id(g)}, "ingress IPv4 - - - - " + id(g), nil},
		} {
			made := c.tenant.addRules(t, g, test.ask).must(t, http.StatusCreated).list(t, "security_group_rules")
			if len(made) != 1 || describeRule(made[0]) != test.want || made[0]["security_group_id"] != id(g) {
				t.Fatalf("%v is told as %v, want %q", test.ask, made, test.want)
			}
			want = append(want, test.want)
			for _, again := range append(test.again, test.ask) {
				c.tenant.addRules(t, g, again).refuses(t, refusal{Status: 409, Type: "SecurityGroupRuleExists"})
			}
		}
		expect.Equal(t, union(want), c.tenant.rulesOf(t, g), "the group's rules")
	})
}

func TestSecurityGroupRuleRefusals(t *testing.T) {
	inDepth(t, func(t *testing.T, c *cloud) {
		g, theirs := c.tenant.newGroup(t, nil), c.admin.newGroup(t, nil)
		for what, test := range map[string]struct {
			ask  object
			want refusal
		}{
			"ports without a protocol": {object{"port_range_min": 1, "port_range_max": 2},
				refusal{Status: 400, Type: "SecurityGroupProtocolRequiredWithPorts"}},
			"ports of a protocol without": {object{"protocol": "gre", "port_range_min": 1, "port_range_max": 2},
				refusal{Status: 400, Type: "SecurityGroupInvalidProtocolForPort"}},
			"one port alone": {object{"protocol": "tcp", "port_range_min": 1},
				refusal{Status: 400, Type: "SecurityGroupInvalidPortRange"}},
			"a code alone": {object{"protocol": "icmp", "port_range_max": 1},
				refusal{Status: 400, Type: "SecurityGroupMissingIcmpType"}},
			"a range of the other family": {object{"ethertype": "IPv6", "remote_ip_prefix": "10.0.0.0/8"},
				refusal{Status: 400, Type: "SecurityGroupRuleParameterConflict"}},
			"ICMPv6 over IPv4": {object{"protocol": "ipv6-icmp"},
				refusal{Status: 400, Type: "SecurityGroupEthertypeConflictWithProtocol"}},
			"two remotes": {object{"remote_ip_prefix": "10.0.0.0/8", "remote_group_id": id(g)},
				refusal{Status: 400, Type: "SecurityGroupMultipleRemoteEntites"}},
			"a group that is not there": {object{"remote_group_id": noSuchID},
				refusal{404, "SecurityGroupNotFound", "Security group " + noSuchID + " does not exist"}},
			"another project's group": {object{"remote_group_id": id(theirs)}, refusal{Status: 404, Type: "SecurityGroupNotFound"}},
		} {
			t.Log(what)
			c.tenant.addRules(t, g, test.ask).refuses(t, test.want)
		}
		c.tenant.addRules(t, theirs, object{}).refuses(t, either(c.since(neutrontest.RulesOfOthersAre403),
			denied("rule:create_security_group_rule"), refusal{Status: 404, Type: "SecurityGroupNotFound"}))
		c.tenant.addRules(t, object{"id": noSuchID}, object{}).refuses(t, refusal{Status: 404, Type: "SecurityGroupNotFound"})
		c.tenant.do(t, "DELETE", rulesPath+"/"+noSuchID, nil).refuses(t, refusal{Status: 404, Type: "SecurityGroupRuleNotFound"})
	})
}

// TestSecurityGroupRulesComeAsAWhole holds that one request adds all rules or none, and what a group's revision does.
// For several rules of one request it moves at least once and at most once for each: Neutron moves it once for as long
// as it holds the group in memory, and Python may drop the group between two rules.
func TestSecurityGroupRulesComeAsAWhole(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		g := c.tenant.newGroup(t, nil)
		last := c.tenant.groupRevision(t, g)
		moved := func(what string, least, most int) {
			t.Helper()
			got := c.tenant.groupRevision(t, g)
			if got < last+least || got > last+most {
				t.Errorf("%s moved the group's revision from %d to %d, want %d to %d more", what, last, got, least, most)
			}
			last = got
		}
		tcp := func(port int) object {
			return object{"protocol": "tcp", "port_range_min": port, "port_range_max": port}
		}
		made := c.tenant.addRules(t, g, tcp(1), tcp(2), tcp(3)).must(t, http.StatusCreated).list(t, "security_group_rules")
		moved("three rules", 1, 3)
		had := c.tenant.rulesOf(t, g)
		c.tenant.addRules(t, g, tcp(4), tcp(2)).refuses(t, refusal{Status: 409, Type: "SecurityGroupRuleExists"})
		if diff := gocmp.Diff(had, c.tenant.rulesOf(t, g)); diff != "" {
			t.Errorf("a refused request changed the rules (-before +after):\n%s", diff)
		}
		moved("a refused request", 0, 0)
		for _, r := range made[:2] {
			c.tenant.do(t, "DELETE", rulesPath+"/"+id(r), nil).must(t, http.StatusNoContent)
			moved("the removal of a rule", 1, 1)
		}
		c.tenant.do(t, "PUT", groupsPath+"/"+id(g), object{"security_group": object{"name": "b"}}).must(t, http.StatusOK)
		moved("a name", 1, 1)
	})
}

func TestSecurityGroupTakesRulesAboutItAlong(t *testing.T) {
	onEveryCloud(t, func(t *testing.T, c *cloud) {
		of, about := c.tenant.newGroup(t, nil), c.tenant.newGroup(t, nil)
		c.tenant.addRules(t, of, object{"remote_group_id": id(about)},
			object{"remote_group_id": id(about), "protocol": "tcp"}).must(t, http.StatusCreated)
		last := c.tenant.groupRevision(t, of)
		stale := []string{"If-Match", "revision_number=99"}
		c.tenant.do(t, "DELETE", groupsPath+"/"+id(about), nil, stale...).refuses(t,
			refusal{Status: 412, Type: "RevisionNumberConstraintFailed"})
		is := ifRevision(c.tenant.groupRevision(t, about))
		c.tenant.do(t, "DELETE", groupsPath+"/"+id(about), nil, is...).must(t, http.StatusNoContent)
		if got := c.tenant.rulesOf(t, of); len(got) != 2 {
			t.Errorf("the other group has the rules %q, want those that let out", got)
		}
		if got := c.tenant.groupRevision(t, of); got < last+1 || got > last+2 {
			t.Errorf("the other group's revision went from %d to %d, want one or two more for both rules", last, got)
		}
	})
}

// asText is a value of a rule; "-" for none.
func asText(v any) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprint(v)
}
