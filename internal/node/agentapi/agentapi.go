// Package agentapi is what the CNI plugin and the agent say to each other: HTTP/1.1 with JSON over a unix socket. Both
// ends can have different versions for a while, so unknown fields are ignored, and the paths begin with the contract's
// version.
package agentapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"

	"k8s.io/apimachinery/pkg/types"

	"cloudteam.ztgame.com/network-controller/internal/version"
)

const (
	// DefaultSocket is where the agent listens.
	DefaultSocket = "/run/network-agent/agent.sock"
	// SocketEnv overrides DefaultSocket in the environment of the container runtime, which starts the plugin. A tenant can
	// write a plugin's configuration, but not this.
	SocketEnv = "NETWORK_AGENT_SOCKET"
	// MaxMessage limits a request and an answer, in bytes.
	MaxMessage = 64 << 10
)

// The paths. Status takes GET, the others POST.
const (
	PathPrepare = "/v1/prepare"
	PathPlug    = "/v1/plug"
	PathUnplug  = "/v1/unplug"
	PathCheck   = "/v1/check"
	PathGC      = "/v1/gc"
	PathStatus  = "/v1/status"
)

// Codes of Error. They are CNI's, so that the plugin passes them on.
const (
	CodeInvalidEnvironment uint = 4
	CodeInvalidConfig      uint = 7
	CodeTryAgain           uint = 11
	CodeNotAvailable       uint = 50
	CodeForbidden          uint = 101
	CodeInternal           uint = 999
)

// Request names an interface of a Pod. Unplug needs Sandbox and IfName only.
type Request struct {
	PodNamespace string    `json:"podNamespace,omitempty"`
	PodName      string    `json:"podName,omitempty"`
	PodUID       types.UID `json:"podUID,omitempty"`
	Sandbox      string    `json:"sandbox,omitempty"`
	IfName       string    `json:"ifname,omitempty"`
	Netns        string    `json:"netns,omitempty"`
	// MAC chooses among the Pod's own ports. It proves nothing.
	MAC string `json:"mac,omitempty"`
	// PortID is the port that Prepare named. Plug fails if it is another one.
	PortID string `json:"portID,omitempty"`
}

// Interface is what the plugin makes for a port.
type Interface struct {
	// PortID is the port's id in Neutron.
	PortID string `json:"portID"`
	// Device is the name of the host's end.
	Device string `json:"device"`
	// Alias is the alias of the host's end: the mark by which the agent knows it.
	Alias string `json:"alias"`
	MAC   string `json:"mac"`
	// MTU is in bytes; 0 means the kernel's default.
	MTU       int       `json:"mtu,omitempty"`
	Addresses []Address `json:"addresses,omitempty"`
	// TxChecksumOff says that the switch is in user space and needs complete checksums.
	TxChecksumOff bool `json:"txChecksumOff,omitempty"`
}

// Address is an address of the interface.
type Address struct {
	// Address is the address with its prefix length, such as 192.168.0.7/16.
	Address string `json:"address"`
	// Gateway is the address of the subnet's router; empty where there is none.
	Gateway string `json:"gateway,omitempty"`
}

// Status is what the agent says about itself.
type Status struct {
	Version string `json:"version"`
	// Mode is how the node attaches ports: ovn, ovs or trunk.
	Mode string `json:"mode"`
	// Host is Neutron's name of the node.
	Host string `json:"host"`
}

// Error is a refusal: cause, effect and remedy in words.
type Error struct {
	Code    uint   `json:"code"`
	Message string `json:"message"`
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// Errorf makes an Error.
func Errorf(code uint, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Client calls the agent. It is safe for concurrent use.
type Client struct {
	socket string
	http   *http.Client
}

// NewClient makes a client of the agent at a socket. An empty one means that of the environment, or DefaultSocket.
func NewClient(socket string) *Client {
	if socket == "" {
		socket = os.Getenv(SocketEnv)
	}
	if socket == "" {
		socket = DefaultSocket
	}
	return &Client{socket: socket, http: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
		DisableKeepAlives: true,
	}}}
}

// Prepare waits until Neutron is prepared for the interface's port, and makes room for the interface on this node.
func (c *Client) Prepare(ctx context.Context, r Request) (*Interface, error) {
	answer := &Interface{}
	return answer, c.call(ctx, http.MethodPost, PathPrepare, r, answer)
}

// Plug connects the host's end to the port, and waits until packets flow.
func (c *Client) Plug(ctx context.Context, r Request) error {
	return c.call(ctx, http.MethodPost, PathPlug, r, nil)
}

// Unplug removes what was plugged for an interface of a sandbox. It is no error if there is nothing.
func (c *Client) Unplug(ctx context.Context, r Request) error {
	return c.call(ctx, http.MethodPost, PathUnplug, r, nil)
}

// Check fails if packets do not flow to the interface, and otherwise returns what it has to be.
func (c *Client) Check(ctx context.Context, r Request) (*Interface, error) {
	answer := &Interface{}
	return answer, c.call(ctx, http.MethodPost, PathCheck, r, answer)
}

// GC has the agent remove what no Pod has.
func (c *Client) GC(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, PathGC, Request{}, nil)
}

// Status asks whether the agent can plug interfaces.
func (c *Client) Status(ctx context.Context) (*Status, error) {
	answer := &Status{}
	return answer, c.call(ctx, http.MethodGet, PathStatus, nil, answer)
}

// effect is what follows if the plugin and the agent do not understand each other.
const effect = "interfaces on this node cannot be attached"

// call sends one request. The agent's refusals are of type *Error. So is an agent that does not answer, or
// in another way than this version knows, with CodeTryAgain.
func (c *Client) call(ctx context.Context, method, path string, body, answer any) error {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://network-agent"+path, content)
	if err != nil {
		return err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return c.unreachable(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, MaxMessage))
	if err != nil {
		return c.unreachable(err)
	}
	if response.StatusCode != http.StatusOK {
		refusal := &Error{}
		if json.Unmarshal(text, refusal) != nil || refusal.Code == 0 {
			return Errorf(CodeTryAgain, "the network-agent answers %q to %s, which neutron-port of version %s does not "+
				"understand; %s; have the DaemonSet network-agent run one version, which installs the plugin, too",
				response.Status, path, version.Version, effect)
		}
		return refusal
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return Errorf(CodeTryAgain, "the network-agent's answer to %s is not what neutron-port of version %s expects (%v); "+
			"%s; have the DaemonSet network-agent run one version, which installs the plugin, too", path, version.Version,
			err, effect)
	}
	return nil
}

// unreachable says that the agent did not answer.
func (c *Client) unreachable(err error) error {
	cause := err
	if inner := errors.Unwrap(err); inner != nil {
		cause = inner
	}
	return Errorf(CodeTryAgain, "the network-agent does not answer at %s (%v); %s; look at the Pod of the DaemonSet "+
		"network-agent on this node", c.socket, cause, effect)
}
