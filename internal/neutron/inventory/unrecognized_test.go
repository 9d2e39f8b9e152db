package inventory

import (
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/test/expect"
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
		expect.Equal(t, want, namingFields(refusal, known).Error(), "the error")
		expect.Equal(t, reason, refusal.Reason, "the reason in the refusal, which others share")
	}
}
