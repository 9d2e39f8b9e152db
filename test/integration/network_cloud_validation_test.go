package integration

import (
	"strings"
	"testing"
)

func TestMistakesInTheCloudOfANetworkAreRefusedWithOneSentenceEach(t *testing.T) {
	namespace := newNamespace(t)
	refused(t, networks, namespace, networkWith, map[string]mistake{
		"a cloud without a Secret": {
			`{cidr: 192.168.0.0/16, cloud: {name: mine}}`, "spec.cloud.secretName", "Required value",
		},
		"a Secret without a name": {
			`{cidr: 192.168.0.0/16, cloud: {secretName: ""}}`,
			"spec.cloud.secretName", `not the name of a Secret: write one of this namespace, such as "openstack"`,
		},
		"a Secret of another namespace": {
			`{cidr: 192.168.0.0/16, cloud: {secretName: kube-system/openstack}}`,
			"spec.cloud.secretName", "write one of this namespace",
		},
		"a Secret with a name of too many characters": {
			`{cidr: 192.168.0.0/16, cloud: {secretName: ` + strings.Repeat("a", 254) + `}}`,
			"spec.cloud.secretName", "Too long",
		},
		"an entry with a line break": {
			`{cidr: 192.168.0.0/16, cloud: {secretName: openstack, name: "a\nb"}}`,
			"spec.cloud.name", `write the name of an entry below "clouds:"`,
		},
		"an entry with an escape sequence": {
			`{cidr: 192.168.0.0/16, cloud: {secretName: openstack, name: "\e[31mred"}}`,
			"spec.cloud.name", "a control character",
		},
	})
}

func TestCloudNeedsSecretAndEntry(t *testing.T) {
	namespace := newNamespace(t)
	accepted(t, networks, namespace, networkWith, map[string]string{
		"by a Secret with one entry":   `{cidr: 192.168.0.0/16, cloud: {secretName: openstack}}`,
		"by a Secret and an entry":     `{cidr: 192.168.0.0/16, cloud: {secretName: my.open-stack, name: My cloud}}`,
		"by none: the controller's":    `{cidr: 192.168.0.0/16}`,
		"by an entry without anything": `{cidr: 192.168.0.0/16, cloud: {secretName: openstack, name: ""}}`,
	})
	t.Run("and no field names a namespace", func(t *testing.T) {
		object := networkWith(t, `{cidr: 192.168.0.0/16, cloud: {secretName: openstack, namespace: kube-system}}`)
		if _, err := tryCreate(t.Context(), networks, namespace, object); err == nil ||
			!strings.Contains(err.Error(), "unknown field") {
			t.Errorf("a namespace is not refused: %v", err)
		}
	})
}
