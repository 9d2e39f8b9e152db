package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
)

// bulkSize is how many resources the bare loops create in one request.
const bulkSize = 25

// bare does a controller's work at Neutron and nothing else: the same requests with the same bodies, over connections
// that are kept open, with one token.
type bare struct {
	site   *site
	client *http.Client
	// cluster takes the place of the UID of kube-system in what is created, so that no controller takes it for its own.
	cluster string
}

func newBare(s *site) *bare {
	return &bare{
		site:    s,
		client:  &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}, Timeout: 10 * time.Minute},
		cluster: string(uuid.NewUUID()),
	}
}

// send sends a request to an address below the endpoint, or to a path of the server's, and gives what is answered.
func (l *bare) send(ctx context.Context, method, address string, body []byte) ([]byte, error) {
	if strings.HasPrefix(address, "/") {
		address = l.site.neutron.URL().String() + address
	} else {
		address = l.site.endpoint + address
	}
	request, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("X-Auth-Token", l.site.token)
	if len(body) > 0 {
		request.Header.Set("Content-Type", "application/json")
	}
	answer, err := l.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s %s: %s: %s", method, address, answer.Status, content)
	}
	return content, err
}

// post creates n resources of a collection in one request and gives their ids.
func (l *bare) post(ctx context.Context, collection string, n int, resources map[string]any) ([]string, error) {
	body, err := json.Marshal(resources)
	if err != nil {
		return nil, err
	}
	content, err := l.send(ctx, http.MethodPost, collection, body)
	if err != nil {
		return nil, err
	}
	ids := createdIDs(content)
	if len(ids) != n {
		return nil, fmt.Errorf("of %d %s that were asked for, %d were made", n, collection, len(ids))
	}
	return ids, nil
}

func (l *bare) marker() string { return "[owner=" + l.cluster + "/" + string(uuid.NewUUID()) + "]" }

// create makes n networks with a subnet each, in bulk, some requests at a time, and gives the networks' ids.
func (l *bare) create(ctx context.Context, prefix string, n, atATime int) ([]string, error) {
	ids := make([]string, n)
	chunks := slices.Collect(slices.Chunk(ids, bulkSize))
	err := inParallel(ctx, atATime, len(chunks), func(ctx context.Context, i int) error {
		var networks, subnets []map[string]any
		for j := range chunks[i] {
			name, marker := nameOf(prefix, i*bulkSize+j), l.marker()
			networks = append(networks, map[string]any{"name": name, "description": marker, "admin_state_up": true})
			subnets = append(subnets, map[string]any{
				"name": name, "description": marker, "cidr": cidr, "ip_version": 4, "gateway_ip": gateway,
				"enable_dhcp":      true,
				"allocation_pools": []map[string]any{{"start": "192.168.0.2", "end": "192.168.255.254"}},
				"dns_nameservers":  []string{}, "host_routes": []string{},
			})
		}
		made, err := l.post(ctx, "networks", len(networks), map[string]any{"networks": networks})
		if err != nil {
			return err
		}
		copy(chunks[i], made)
		for j, id := range made {
			subnets[j]["network_id"] = id
		}
		_, err = l.post(ctx, "subnets", len(subnets), map[string]any{"subnets": subnets})
		return err
	})
	return ids, err
}

// remove deletes networks, which take their subnets along. Ids that are empty are passed over.
func (l *bare) remove(ctx context.Context, ids []string, atATime int) error {
	return inParallel(ctx, atATime, len(ids), func(ctx context.Context, i int) error {
		if ids[i] == "" {
			return nil
		}
		_, err := l.send(ctx, http.MethodDelete, "networks/"+ids[i], nil)
		return err
	})
}

// sweep removes what a benchmark leaves in a cloud that stays: the networks whose names begin with a prefix, and the
// ports on them.
func (l *bare) sweep(ctx context.Context, prefix string) error {
	ports, err := l.list(ctx, "ports")
	if err != nil {
		return err
	}
	networks, err := l.list(ctx, "networks")
	if err != nil {
		return err
	}
	for _, network := range networks {
		if !strings.HasPrefix(network.Name, prefix) {
			continue
		}
		for _, port := range ports {
			if port.Network != network.ID {
				continue
			}
			if _, err := l.send(ctx, http.MethodDelete, "ports/"+port.ID, nil); err != nil {
				return err
			}
		}
		if _, err := l.send(ctx, http.MethodDelete, "networks/"+network.ID, nil); err != nil {
			return err
		}
	}
	return nil
}

// listed is what a list is asked for. The network is a port's.
type listed struct {
	ID, Name string
	Network  string `json:"network_id"`
}

// list gives all of a collection that the project has.
func (l *bare) list(ctx context.Context, collection string) ([]listed, error) {
	content, err := l.send(ctx, http.MethodGet, collection+"?project_id="+l.site.project, nil)
	if err != nil {
		return nil, err
	}
	var all map[string][]listed
	err = json.Unmarshal(content, &all)
	return all[collection], err
}

// best tries numbers of requests at a time and gives the one with which a bare loop creates n networks fastest.
func (l *bare) best(ctx context.Context, b *bench, prefix string, n int, choices ...int) (int, error) {
	best, shortest := choices[0], time.Duration(0)
	for i, choice := range choices {
		began := time.Now()
		ids, err := l.create(ctx, fmt.Sprintf("%s-try%d", prefix, choice), n, choice)
		if err != nil {
			return 0, err
		}
		took := time.Since(began)
		b.say("bare, %d at a time in bulk of %d: %d networks in %s", choice, bulkSize, n, took.Round(time.Millisecond))
		if i == 0 || took < shortest {
			best, shortest = choice, took
		}
		if b.cloud == openStack {
			if err := l.remove(ctx, ids, choice); err != nil {
				return 0, err
			}
		}
	}
	return best, nil
}

// replay sends recorded calls again, one after another. The UID of the cluster that they were for becomes another one,
// and ids of what was created then become those of what is created now, which it returns.
func (l *bare) replay(ctx context.Context, calls []call, cluster string) (created []string, err error) {
	replaced := []string{cluster, l.cluster}
	for _, c := range calls {
		renew := strings.NewReplacer(replaced...)
		content, err := l.send(ctx, c.method, renew.Replace(c.uri), []byte(renew.Replace(string(c.body))))
		if err != nil {
			return created, err
		}
		if was, is := createdIDs(c.answer), createdIDs(content); len(was) == 1 && len(is) == 1 {
			replaced = append(replaced, was[0], is[0])
			created = append(created, is[0])
		}
	}
	return created, nil
}

// createdIDs are the ids in the answer to a create, in bulk or not.
func createdIDs(answer []byte) (ids []string) {
	var resources map[string]json.RawMessage
	if json.Unmarshal(answer, &resources) != nil {
		return nil
	}
	for _, text := range resources {
		if !bytes.HasPrefix(text, []byte("[")) {
			text = slices.Concat([]byte("["), text, []byte("]"))
		}
		var many []struct{ ID string }
		if json.Unmarshal(text, &many) != nil {
			return nil
		}
		for _, one := range many {
			if one.ID != "" {
				ids = append(ids, one.ID)
			}
		}
	}
	return ids
}
