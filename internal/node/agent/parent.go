package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/klog/v2"

	cloudteamv1 "cloudteam.ztgame.com/network-controller/pkg/apis/cloudteam/v1"
)

// Any project may give a port of its own the hardware address of this node's. Nobody chooses an id. So the node learns
// the id of its port from what the cloud says to each virtual machine, and announces that.

const (
	// metadataService serves the network data of a virtual machine, in the format of OpenStack's config drive.
	metadataService = "http://169.254.169.254/openstack/latest/network_data.json"
	metadataTimeout = 5 * time.Second
	// maxNetworkData is far more bytes than a machine's interfaces need.
	maxNetworkData = 1 << 20
	// unknownInterval is how long an unknown id is not looked for again. A known one is, after announceInterval: somebody
	// may have made the port again.
	unknownInterval = time.Minute
)

// parent is the parent of the node's trunk.
type parent struct {
	mac string
	// portID is the port's id; empty if it is unknown.
	portID string
	// at is when that was read.
	at time.Time
}

// learn returns the id of the port that is the trunk's parent, whose hardware address is given; empty if it is unknown.
// One that was read stays while it cannot be read again.
func (a *Agent) learn(ctx context.Context, mac string) string {
	if a.networkData == "" {
		return ""
	}
	last := a.parent.Load()
	if last == nil || last.mac != mac {
		last = &parent{mac: mac}
	}
	interval := announceInterval
	if last.portID == "" {
		interval = unknownInterval
	}
	if !expired(last.at, interval) {
		return last.portID
	}
	id, err := portOf(ctx, a.networkData, mac)
	if err != nil {
		id = last.portID
	}
	if err != nil && last.at.IsZero() {
		klog.FromContext(ctx).Error(err, "The id of the trunk's parent port is unknown; the controller finds the port by "+
			"its hardware address, and the NetworkPorts of the node show that; retrying", "interval", unknownInterval)
	}
	a.parent.Store(&parent{mac, id, time.Now()})
	if id != last.portID {
		a.portsChanged.Change() // ports may wait for it
	}
	return id
}

// parentMAC is the hardware address of the interface for whose trunk a port is prepared; empty if it is not this
// node's.
func (a *Agent) parentMAC(at *cloudteamv1.PortAttachment) string {
	if at.ParentPortID == "" {
		return at.ParentMAC
	}
	if p := a.parent.Load(); p != nil && p.portID == at.ParentPortID {
		return p.mac
	}
	return ""
}

// portOf finds the id of the port with a hardware address in a machine's network data, which has an URL or a path.
func portOf(ctx context.Context, from, mac string) (string, error) {
	text, err := readNetworkData(ctx, from)
	if err != nil {
		return "", fmt.Errorf("reading the network data (--network-data): %w", err)
	}
	var data struct {
		Links []struct {
			PortID string `json:"vif_id"`
			MAC    string `json:"ethernet_mac_address"`
		} `json:"links"`
	}
	if err := json.Unmarshal(text, &data); err != nil {
		return "", fmt.Errorf("the network data of %s (--network-data) cannot be read: %w", from, err)
	}
	for _, l := range data.Links {
		if sameMAC(l.MAC, mac) && isID(l.PortID) {
			return l.PortID, nil
		}
	}
	return "", fmt.Errorf("the network data of %s (--network-data) has no link with the hardware address %s and a vif_id",
		from, mac)
}

func readNetworkData(ctx context.Context, from string) ([]byte, error) {
	if filepath.IsAbs(from) {
		return os.ReadFile(from)
	}
	ctx, cancel := context.WithTimeout(ctx, metadataTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from, http.NoBody)
	if err != nil {
		return nil, err
	}
	// A proxy is another machine.
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return errors.New("it redirects") },
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", from, response.Status)
	}
	return io.ReadAll(io.LimitReader(response.Body, maxNetworkData))
}

// validNetworkData reports whether a value of --network-data can be.
func validNetworkData(from string) bool {
	return from == "" || filepath.IsAbs(from) || strings.HasPrefix(from, "http://") || strings.HasPrefix(from, "https://")
}
