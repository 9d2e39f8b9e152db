package inventory

import (
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
)

func TestRefusalOfAnUnknownAttributeNamesTheField(t *testing.T) {
	known := map[string]string{
		"dns_publish_fixed_ip": "dnsPublishFixedIP", "ha": "ha", "distributed": "distributed",
	}
	for reason, want := range map[string]string{
		"Unrecognized attribute(s) 'dns_publish_fixed_ip'": "create: Unrecognized attribute(s) 'dns_publish_fixed_ip': " +
			"this cloud does not have what dnsPublishFixedIP takes, so leave that out",
		"Unrecognized attribute(s) 'ha, zz, distributed'": "create: Unrecognized attribute(s) 'distributed, ha, zz': this " +
			"cloud does not have what distributed, ha takes, so leave that out",
		"Unrecognized attribute(s) 'zz'": "create: Unrecognized attribute(s) 'zz'",
		"Another reason":                 "create: Another reason",
	} {
		refusal := &client.Error{Kind: client.Invalid, Op: "create", Reason: reason}
		if got := namingFields(refusal, known).Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if refusal.Reason != reason {
			t.Errorf("the refusal, which others share, is now %q", refusal.Reason)
		}
	}
}
