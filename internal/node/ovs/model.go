package ovs

import "github.com/ovn-kubernetes/libovsdb/model"

// The columns of Open vSwitch's database that the agent reads. The names are the schema's.
type (
	rootRow struct {
		UUID        string            `ovsdb:"_uuid"`
		Bridges     []string          `ovsdb:"bridges"`
		ExternalIDs map[string]string `ovsdb:"external_ids"`
		NextCfg     int               `ovsdb:"next_cfg"`
		CurCfg      int               `ovsdb:"cur_cfg"`
	}
	bridgeRow struct {
		UUID         string   `ovsdb:"_uuid"`
		Name         string   `ovsdb:"name"`
		Ports        []string `ovsdb:"ports"`
		DatapathType string   `ovsdb:"datapath_type"`
	}
	portRow struct {
		UUID        string            `ovsdb:"_uuid"`
		Name        string            `ovsdb:"name"`
		Interfaces  []string          `ovsdb:"interfaces"`
		Tag         *int              `ovsdb:"tag"`
		ExternalIDs map[string]string `ovsdb:"external_ids"`
		OtherConfig map[string]string `ovsdb:"other_config"`
	}
	interfaceRow struct {
		UUID        string            `ovsdb:"_uuid"`
		Name        string            `ovsdb:"name"`
		OFPort      *int              `ovsdb:"ofport"`
		Error       *string           `ovsdb:"error"`
		ExternalIDs map[string]string `ovsdb:"external_ids"`
	}
)

func databaseModel() (model.ClientDBModel, error) {
	return model.NewClientDBModel("Open_vSwitch", map[string]model.Model{
		"Open_vSwitch": &rootRow{}, "Bridge": &bridgeRow{}, "Port": &portRow{}, "Interface": &interfaceRow{},
	})
}
