package integration

import (
	"strings"
	"testing"
)

func TestMistakesInTheCloudOfANetworkAreRefusedWithOneSentenceEach(t *testing.T) {
	namespace := newNamespace(t)
	refused(t, networks, namespace, networkWith, `cidr: 192.168.0.0/16, `, []mistake{
		{`cloud: {name: mine}`, "cloud.secretName", "Required value"},
		{`cloud: {secretName: ""}`,
			"cloud.secretName", `not the name of a Secret: write one of this namespace, such as "openstack"`},
		{`cloud: {secretName: kube-system/openstack}`, "cloud.secretName", "write one of this namespace"},
		{`cloud: {secretName: ` + strings.Repeat("a", 254) + `}`, "cloud.secretName", "Too long"},
		{`cloud: {secretName: openstack, name: "a\nb"}`, "cloud.name", `write the name of an entry below "clouds:"`},
		{`cloud: {secretName: openstack, name: "\e[31mred"}`, "cloud.name", "a control character"},
	})
}

func TestCloudNeedsSecretAndEntry(t *testing.T) {
	namespace := newNamespace(t)
	accepted(t, networks, namespace, networkWith, "", []string{
		`cidr: 192.168.0.0/16`,
		`cidr: 192.168.0.0/16, cloud: {secretName: openstack}`,
		`cidr: 192.168.0.0/16, cloud: {secretName: my.open-stack, name: My cloud}`,
		`cidr: 192.168.0.0/16, cloud: {secretName: openstack, name: ""}`,
	})
	t.Run("and no field names a namespace", func(t *testing.T) {
		object := networkWith(t, `{cidr: 192.168.0.0/16, cloud: {secretName: openstack, namespace: kube-system}}`)
		if _, err := tryCreate(t.Context(), networks, namespace, object); err == nil ||
			!strings.Contains(err.Error(), "unknown field") {
			t.Errorf("a namespace is not refused: %v", err)
		}
	})
}
