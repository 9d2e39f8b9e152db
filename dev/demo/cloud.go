//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"cloudteam.ztgame.com/network-controller/internal/neutron/client"
	"cloudteam.ztgame.com/network-controller/internal/plan"
)

// cloudPatience bounds one call to the cloud.
const cloudPatience = 30 * time.Second

// resource is a Neutron resource as its JSON has it.
type resource map[string]any

// id is the resource's id.
func (r resource) id() string { return r.text("id") }

// text is a field as a person reads it: none for null, and for lists their items with commas between.
func (r resource) text(field string) string { return textOf(r[field]) }

func textOf(value any) string {
	switch value := value.(type) {
	case nil:
		return "none"
	case []any:
		if len(value) == 0 {
			return "none"
		}
		items := make([]string, len(value))
		for i, item := range value {
			items[i] = textOf(item)
		}
		return strings.Join(items, ", ")
	case map[string]any:
		switch {
		case value["start"] != nil && value["end"] != nil:
			return textOf(value["start"]) + "-" + textOf(value["end"])
		case value["ip_address"] != nil:
			return textOf(value["ip_address"])
		}
	}
	return fmt.Sprint(value)
}

// cloud looks at Neutron, and changes it as a person would, behind the controller's back. It uses its own client,
// so that what the demo shows does not hang on the controller's word.
type cloud struct {
	client *gophercloud.ServiceClient
	// project is the id of the project; empty if the log-in does not tell.
	project string
	// identity names the project and the endpoint.
	identity string
}

// openEmulator logs in to a cloud of the emulator's clouds.yaml.
func openEmulator(ctx context.Context, file, name string) (*cloud, error) {
	return open(ctx, clouds.WithLocations(file), clouds.WithCloudName(name))
}

// environmentCloud is the name of the cloud that the OS_ variables describe, in OpenStack's own clients too.
const environmentCloud = "envvars"

// openNamed logs in to an entry of clouds.yaml, or to environmentCloud. The name that it gives is for a person and
// holds no secret.
func openNamed(ctx context.Context, entry string) (c *cloud, name string, err error) {
	if entry == environmentCloud {
		entry = ""
		// The variables alone count, for the controller too.
		if err := os.Unsetenv("OS_CLOUD"); err != nil {
			return nil, "", err
		}
	}
	// The controller will find its credentials so, and this says best what is missing.
	credentials, err := client.LoadCredentials(entry)
	if err != nil {
		return nil, "", err
	}
	choice := []clouds.ParseOption{clouds.WithCloudName(entry)}
	if entry == "" {
		content, err := json.Marshal(cloudOfEnvironment(os.Environ()))
		if err != nil {
			return nil, "", err
		}
		// JSON is YAML.
		choice = []clouds.ParseOption{
			clouds.WithCloudName(credentials.Name), clouds.WithCloudsYAML(bytes.NewReader(content)),
		}
	}
	c, err = open(ctx, choice...)
	return c, credentials.String(), err
}

// cloudOfEnvironment gives the clouds.yaml that says what the OS_ variables say. The fields of its auth section bear
// the variables' names in lower case, but for three that are older than it.
func cloudOfEnvironment(environ []string) map[string]any {
	older := map[string]string{"userid": "user_id", "tenant_id": "project_id", "tenant_name": "project_name"}
	auth := map[string]string{}
	description := map[string]any{"auth": auth}
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		field, ours := strings.CutPrefix(name, "OS_")
		if !ours || value == "" {
			continue
		}
		switch field = strings.ToLower(field); field {
		case "cacert", "cert", "key", "region_name":
			description[field] = value
		default:
			if newer := older[field]; newer != "" {
				field = newer
				if auth[field] != "" {
					continue
				}
			}
			auth[field] = value
		}
	}
	return map[string]any{"clouds": map[string]any{"environment": description}}
}

func open(ctx context.Context, choice ...clouds.ParseOption) (*cloud, error) {
	auth, endpoint, tlsConfig, err := clouds.Parse(choice...)
	if err != nil {
		return nil, fmt.Errorf("reading the cloud's credentials: %w", err)
	}
	auth.AllowReauth = auth.TokenID == ""
	ctx, cancel := context.WithTimeout(ctx, cloudPatience)
	defer cancel()
	settings := config.WithHTTPClient(http.Client{Timeout: cloudPatience})
	provider, err := config.NewProviderClient(ctx, auth, settings, config.WithTLSConfig(tlsConfig))
	if err != nil {
		return nil, fmt.Errorf("logging in to %s: %w", auth.IdentityEndpoint, err)
	}
	service, err := openstack.NewNetworkV2(provider, endpoint)
	if err != nil {
		return nil, fmt.Errorf("finding Neutron in the catalog of %s: %w", auth.IdentityEndpoint, err)
	}
	c := &cloud{client: service, identity: service.Endpoint}
	if result, ok := provider.GetAuthResult().(tokens.CreateResult); ok {
		if project, err := result.ExtractProject(); err == nil && project != nil {
			c.project = project.ID
			c.identity = fmt.Sprintf("project %s (%s) at %s", project.Name, project.ID, service.Endpoint)
		}
	}
	return c, nil
}

// call sends a request to Neutron at a path such as "networks/<id>" and reads the answer into answer, unless that is
// nil.
func (c *cloud) call(ctx context.Context, method, path string, body, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, cloudPatience)
	defer cancel()
	response, err := c.client.Request(ctx, method, c.client.ServiceURL(path), &gophercloud.RequestOpts{
		JSONBody: body, JSONResponse: answer, OkCodes: []int{http.StatusOK, http.StatusCreated, http.StatusNoContent},
	})
	if response != nil {
		defer response.Body.Close()
	}
	return err
}

// marks are the descriptions by which the controller knows what it made for one object. What bears them is the demo's.
type marks struct {
	network, subnet string
}

// marked lists the resources of a collection that bear exactly the description. Others of the same name, which an
// administrator sees in every project, are not among them.
func (c *cloud) marked(ctx context.Context, collection, description string) ([]resource, error) {
	var answer map[string][]resource
	path := collection + "?description=" + url.QueryEscape(description)
	if err := c.call(ctx, http.MethodGet, path, nil, &answer); err != nil {
		return nil, fmt.Errorf("listing %s: %w", collection, err)
	}
	var ours []resource
	for _, r := range answer[collection] {
		// A cloud that does not know the filter must not hand over everybody's.
		if r["description"] == description {
			ours = append(ours, r)
		}
	}
	return ours, nil
}

// update changes a resource and gives it as it is then.
func (c *cloud) update(ctx context.Context, collection, id string, fields resource) (resource, error) {
	kind := kindOf(collection)
	var answer map[string]resource
	if err := c.call(ctx, http.MethodPut, collection+"/"+id, map[string]any{kind: fields}, &answer); err != nil {
		return nil, fmt.Errorf("changing %s %s: %w", kind, id, err)
	}
	return answer[kind], nil
}

// ports lists the ports of a network that bear the mark of a cluster, whichever object they are for. Those that Neutron
// makes for itself (DHCP, routers) are not among them.
func (c *cloud) ports(ctx context.Context, networkID, clusterUID string) ([]resource, error) {
	var answer map[string][]resource
	if err := c.call(ctx, http.MethodGet, "ports?network_id="+url.QueryEscape(networkID), nil, &answer); err != nil {
		return nil, fmt.Errorf("listing ports: %w", err)
	}
	var ours []resource
	for _, r := range answer["ports"] {
		_, owner, marked := plan.ParseDescription(r.text("description"))
		if marked && owner.Cluster == clusterUID && r["network_id"] == networkID {
			ours = append(ours, r)
		}
	}
	return ours, nil
}

// remove deletes the networks that bear the marks, with their subnets and the same cluster's ports, and tells the
// networks' ids.
func (c *cloud) remove(ctx context.Context, m marks) (removed []string, err error) {
	_, owner, marked := plan.ParseDescription(m.network)
	if !marked {
		return nil, fmt.Errorf("the description %q bears no owner's marker: nothing is deleted by it", m.network)
	}
	networks, err := c.marked(ctx, "networks", m.network)
	for _, ours := range networks {
		// Neutron keeps a network as long as it has ports.
		ports, listed := c.ports(ctx, ours.id(), owner.Cluster)
		if listed != nil {
			return removed, listed
		}
		for _, port := range ports {
			err = errors.Join(err, c.call(ctx, http.MethodDelete, "ports/"+port.id(), nil, nil))
		}
		if err = errors.Join(err, c.call(ctx, http.MethodDelete, "networks/"+ours.id(), nil, nil)); err != nil {
			return removed, err
		}
		removed = append(removed, ours.id())
	}
	return removed, err
}

// token is a valid token for the cloud.
func (c *cloud) token() string { return c.client.Token() }

func kindOf(collection string) string { return strings.TrimSuffix(collection, "s") }

// picture is what Neutron has of one Network.
type picture struct {
	network, subnet resource
}

// networkFields and subnetFields are the fields that a picture shows, by the name that it gives them.
var (
	networkFields = [][2]string{
		{"id", "id"}, {"name", "name"}, {"description", "description"}, {"status", "status"},
		{"revision", "revision_number"},
	}
	subnetFields = [][2]string{
		{"id", "id"}, {"cidr", "cidr"}, {"gateway", "gateway_ip"}, {"pools", "allocation_pools"},
		{"revision", "revision_number"},
	}
)

// render gives the picture's lines, each with what the field was before where that was something else. before may be
// the zero value.
func (p picture) render(before picture) []string {
	var lines []string
	part := func(kind string, fields [][2]string, is, was resource) {
		for i, field := range fields {
			if i > 0 {
				kind = ""
			}
			line := fmt.Sprintf("%-9s %-12s %s", kind, field[0], is.text(field[1]))
			if old := was.text(field[1]); was != nil && old != is.text(field[1]) {
				line += "   (was " + old + ")"
			}
			lines = append(lines, line)
		}
	}
	part("network", networkFields, p.network, before.network)
	part("subnet", subnetFields, p.subnet, before.subnet)
	return lines
}

// picture reads what in Neutron bears the marks. It is an error if that is not exactly one network with one subnet.
func (c *cloud) picture(ctx context.Context, m marks) (picture, error) {
	one := func(collection, description string) (resource, error) {
		ours, err := c.marked(ctx, collection, description)
		if err == nil && len(ours) != 1 {
			err = fmt.Errorf("%d %s in Neutron have the description %s, not 1", len(ours), collection, description)
		}
		if err != nil {
			return nil, err
		}
		return ours[0], nil
	}
	var p picture
	var errs [2]error
	p.network, errs[0] = one("networks", m.network)
	p.subnet, errs[1] = one("subnets", m.subnet)
	return p, errors.Join(errs[:]...)
}
