package e2e

import (
	"syscall"
	"testing"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
	"cloudteam.ztgame.com/network-controller/test/expect"
	"cloudteam.ztgame.com/network-controller/test/harness"
)

// TestImportsByFilter is lifeOfImports, in which the controller is started anew, too.
func TestImportsByFilter(t *testing.T) {
	inTime(t, func(t *testing.T) {
		p := startController(t, "tenant")
		lifeOfImports(t, func(meanwhile func()) {
			meanwhile()
			p.signal(syscall.SIGTERM)
			p.awaitExit(t)
			startController(t, "tenant")
		})
	})
}

// lifeOfImports has objects find what was made by hand, and go on with that whatever is renamed or made afterwards. restart
// starts the controller anew, and has something happen meanwhile.
func lifeOfImports(t *testing.T, restart func(meanwhile func())) {
	namespace, c := newNamespace(t), open(t, "tenant")
	outside := open(t, "admin").CreateOutside(namespace + "-outside")
	name := unique(t, namespace)
	first, _ := handMade(t, c, name, nil)
	second, _ := handMade(t, c, name, nil)
	c.tag(first, "live", "old")
	spec := cloudteamv1.NetworkSpec{
		SubnetSpec: cloudteamv1.SubnetSpec{CIDR: "192.168.0.0/16"},
		Import:     &cloudteamv1.NetworkImport{Filter: &cloudteamv1.NetworkImportFilter{Name: name}},
	}
	apply(t, namespace, "by-name", spec)
	awaitSays(t, namespace, "by-name", cloudteamv1.ConditionReady, cloudteamv1.ReasonImportAmbiguous, first)
	spec.Import.Filter.Tags = []string{"live"}
	apply(t, namespace, "by-both", spec)
	expect.Equal(t, first, awaitReady(t, namespace, "by-both").Status.NetworkID, "the network by name and tag")
	expect.Equal(t, second, awaitReady(t, namespace, "by-name").Status.NetworkID, "the network that is left by its name")

	restart(func() {
		c.Update("networks", first, resource{"name": name + "-renamed"})
		c.tag(first, []string{}...)
	})
	expect.Equal(t, first, awaitReady(t, namespace, "by-both").Status.NetworkID, "the network that was renamed")

	address := c.Create("floatingips", resource{"floating_network_id": outside.ID(), "description": "theirs"}).ID()
	c.Act("floatingips", address, "tags", resource{"tags": []string{name}})
	api := networks.CloudteamV1().FloatingIPs(namespace)
	obj := &cloudteamv1.FloatingIP{Spec: cloudteamv1.FloatingIPSpec{
		ExternalNetwork: outside.ID(),
		Import:          &cloudteamv1.FloatingIPImport{Filter: &cloudteamv1.FloatingIPImportFilter{Tags: []string{name}}},
	}}
	obj.Name = "by-tag"
	harness.Create(t, api, obj)
	is := harness.Await(t, surroundings, api, "by-tag", harness.Ready)
	expect.Equal(t, address, is.Status.FloatingIPID, "the floating IP by its tag")
	harness.Delete(t, api, "by-tag")
	harness.AwaitGone(t, surroundings, api, "by-tag")
	for _, name := range []string{"by-name", "by-both"} {
		remove(t, namespace, name)
	}
	for _, id := range []string{first, second} {
		expect.Equal(t, any(""), c.One("networks", "id="+id)["description"], "the description that is left")
	}
}
