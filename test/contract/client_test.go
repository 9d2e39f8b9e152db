package contract

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cloudteam.ztgame.com/network-controller/internal/neutron/neutrontest"
	"cloudteam.ztgame.com/network-controller/internal/osc"
	"cloudteam.ztgame.com/network-controller/test/expect"
)

// runClient is a program that runs commands of OpenStackClient in one process: a start takes two seconds.
//
//go:embed client_test.py
var runClient string

// typed is a command for client_test.py.
type typed struct {
	Command string `json:"command"`
	Cloud   string `json:"cloud"`
	// Parse has the client read the command, and not run it.
	Parse bool `json:"parse"`
}

// answered is what became of it.
type answered struct {
	Status int    `json:"status"`
	Output string `json:"output"`
}

// TestClientRunsTheCommandsOfMessages runs each command of package osc with the OpenStack client of this machine, and has
// it read those in the pages, the samples and the messages of the CRDs.
func TestClientRunsTheCommandsOfMessages(t *testing.T) {
	program, err := exec.LookPath("openstack")
	if err != nil {
		if os.Getenv("CONTRACT_OPENSTACK") != "" {
			t.Fatal("beside a real cloud there has to be its client:", err)
		}
		t.Skip("there is no OpenStack client:", err)
	}
	t.Run("emulator", func(t *testing.T) {
		t.Parallel()
		server := neutrontest.New(neutrontest.Options{Zones: []string{"east", "west"}}).Start(t)
		c, err := newCloud([]byte(server.CloudsYAML()), false)
		expect.NoError(t, err)
		file := filepath.Join(t.TempDir(), "clouds.yaml")
		expect.NoError(t, os.WriteFile(file, []byte(server.CloudsYAML()), 0o600))
		runCommands(t, c, program, file)
	})
	if c := openstack(t); c != nil {
		t.Run("openstack", func(t *testing.T) {
			t.Parallel()
			runCommands(t, c, program, os.Getenv("OS_CLIENT_CONFIG_FILE"))
		})
	}
}

func runCommands(t *testing.T, c *cloud, program, file string) {
	commands := commandsOfMessages(t, c)
	for _, name := range exportedNames(t, "../../internal/osc/osc.go") {
		if !slices.ContainsFunc(commands, func(m messageCommand) bool { return m.name == name }) {
			t.Errorf("osc.%s is not run: add it here", name)
		}
	}
	var all []typed
	for _, m := range commands {
		cloud := "tenant"
		if m.admin {
			cloud = "admin"
		}
		command, _, _ := strings.Cut(m.text, " | grep ")
		all = append(all, typed{Command: command, Cloud: cloud, Parse: m.realOnly && !c.real})
	}
	for _, text := range writtenCommands(t) {
		all = append(all, typed{Command: text, Cloud: "tenant", Parse: true})
	}
	for i, a := range runAll(t, program, file, all) {
		if a.Status != 0 {
			t.Errorf("%s: status %d: %s", all[i].Command, a.Status, a.Output)
		}
		if i < len(commands) && !all[i].Parse && !strings.Contains(a.Output, commands[i].prints) {
			t.Errorf("%s does not print %q: %s", all[i].Command, commands[i].prints, a.Output)
		}
	}
}

// messageCommand is a command of package osc, about what a cloud has.
type messageCommand struct {
	// name is the exported name, and text the command with the arguments.
	name, text string
	// prints is a part of the output.
	prints string
	// admin needs an administrator.
	admin bool
	// realOnly says that the emulator has no such thing.
	realOnly bool
}

// commandsOfMessages has each command of package osc, in an order in which all work.
func commandsOfMessages(t *testing.T, c *cloud) []messageCommand {
	t.Helper()
	external := c.admin.newNetwork(t, object{"router:external": true})
	c.admin.newSubnet(t, external, object{"cidr": "203.0.113.0/24"})
	n := c.tenant.newNetwork(t, nil)
	subnet := c.tenant.newSubnet(t, n, nil)
	router, group := c.tenant.newRouter(t, nil), c.tenant.newGroup(t, nil)
	port := c.tenant.newPort(t, n, object{"security_groups": []string{id(group)}, "fixed_ips": []object{
		{"subnet_id": id(subnet), "ip_address": "10.0.0.77"}}})
	trunk := c.tenant.newTrunk(t, c.tenant.newPort(t, n, nil))
	sub := c.tenant.newPort(t, n, nil)
	c.tenant.subports(t, "add_subports", trunk, sub, 7)
	gone := c.tenant.newPort(t, n, nil)
	unused := c.tenant.newSubnet(t, n, object{"cidr": "10.0.1.0/24"}) // after the ports, which have no address there
	floating := c.tenant.newFloatingIP(t, external, nil)
	example, credential := unique(), unique()
	made := func(command, name string) string {
		return strings.TrimSuffix(strings.TrimSuffix(command, "example"), "NAME") + name
	}
	return []messageCommand{
		{name: "Networks", text: osc.Networks, prints: id(n)},
		{name: "LongNetworks", text: osc.LongNetworks, prints: id(n)},
		{name: "ExternalNetworks", text: osc.ExternalNetworks, prints: id(external), admin: true},
		{name: "Ports", text: osc.Ports, prints: id(port)},
		{name: "Routers", text: osc.Routers, prints: id(router)},
		{name: "QoSPolicies", text: osc.QoSPolicies},
		{name: "SecurityGroups", text: osc.SecurityGroups, prints: id(group)},
		{name: "SubnetPools", text: osc.SubnetPools},
		{name: "FloatingIPs", text: osc.FloatingIPs},
		{name: "LongFloatingIPs", text: osc.LongFloatingIPs},
		{name: "Agents", text: osc.Agents, admin: true, realOnly: true},
		{name: "CreateExample", text: made(osc.CreateExample, example), prints: example},
		{name: "CreateProbe", text: osc.CreateProbe, prints: "[probe]"},
		{name: "DeleteProbe", text: osc.DeleteProbe},
		{name: "CreateCredential", text: made(osc.CreateCredential, credential), prints: credential, realOnly: true},
		{name: "", text: "openstack application credential delete " + credential, realOnly: true},
		{name: "ShowNetwork", text: osc.ShowNetwork(id(n)), prints: id(n)},
		{name: "ShowSubnet", text: osc.ShowSubnet(id(subnet)), prints: "10.0.0.0/24"},
		{name: "ShowRouter", text: osc.ShowRouter(id(router)), prints: id(router)},
		{name: "SubnetsOf", text: osc.SubnetsOf(id(n)), prints: id(subnet)},
		{name: "PortsOf", text: osc.PortsOf(id(n)), prints: "10.0.0.77"},
		{name: "PortsAt", text: osc.PortsAt("10.0.0.77"), prints: id(port)},
		{name: "PortsIn", text: osc.PortsIn(id(group)), prints: id(port)},
		{name: "FloatingIPsOf", text: osc.FloatingIPsOf(id(port))},
		{name: "Disassociate", text: osc.Disassociate(id(floating))},
		{name: "LeaveTrunk", text: osc.LeaveTrunk(id(sub), id(trunk))},
		{name: "DescribeNetwork", text: osc.DescribeNetwork(id(n), "it's mine")},
		{name: "ShowNetwork", text: osc.ShowNetwork(id(n)), prints: "it's mine"},
		{name: "DescribeSubnet", text: osc.DescribeSubnet(id(subnet), "it's mine")},
		{name: "DescribeRouter", text: osc.DescribeRouter(id(router), "")},
		{name: "NameNetwork", text: osc.NameNetwork(id(n), example+"-renamed")},
		{name: "ShowNetwork", text: osc.ShowNetwork(id(n)), prints: example + "-renamed"},
		{name: "NoGateway", text: osc.NoGateway(id(subnet))},
		{name: "DeletePort", text: osc.DeletePort(id(gone))},
		{name: "DeleteSubnet", text: osc.DeleteSubnet(id(unused))},
		{name: "DeleteNetwork", text: osc.DeleteNetwork(example)},
	}
}

// exportedNames are those that a file declares.
func exportedNames(t *testing.T, file string) (names []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	expect.NoError(t, err)
	for name := range parsed.Scope.Objects {
		if ast.IsExported(name) {
			names = append(names, name)
		}
	}
	return names
}

var (
	// written is a command in a page or a message: between backquotes or quotes, or on a line of its own.
	written = regexp.MustCompile("`(openstack [a-z-][^`]*)`|\"(openstack [a-z-][^\"]*)\"|(?m:^ *(?:\\$ )?(openstack [a-z-][^|;#\n]*))")
	// placeholders are what a page has in place of a value.
	placeholders = strings.NewReplacer("…", "X", "<", "", ">", "")
)

// writtenCommands are those in the pages, the samples, and the messages of the CRDs.
func writtenCommands(t *testing.T) (commands []string) {
	t.Helper()
	for _, root := range []string{"../../README.md", "../../docs", "../../config", "../../examples"} {
		expect.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !slices.Contains([]string{".md", ".yaml"}, filepath.Ext(path)) {
				return err
			}
			text, err := os.ReadFile(path)
			for _, found := range written.FindAllStringSubmatch(string(text), -1) {
				command := placeholders.Replace(strings.TrimSpace(found[1] + found[2] + found[3]))
				commands = append(commands, strings.Join(strings.Fields(command), " "))
			}
			return err
		}))
	}
	slices.Sort(commands)
	return slices.Compact(commands)
}

// runAll has one process of the client's Python run all commands. It gives what became of each.
func runAll(t *testing.T, program, file string, all []typed) []answered {
	t.Helper()
	script, err := os.ReadFile(program)
	expect.NoError(t, err)
	first, _, _ := bytes.Cut(script, []byte("\n"))
	python, is := strings.CutPrefix(string(first), "#!")
	if !is || !strings.Contains(python, "python") {
		t.Skipf("%s is no Python script: %s", program, first)
	}
	input, err := json.Marshal(all)
	expect.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), strings.TrimSpace(python), "-c", runClient)
	cmd.Env = append(os.Environ(), "OS_CLIENT_CONFIG_FILE="+file)
	cmd.Stdin = bytes.NewReader(input)
	var failed strings.Builder
	cmd.Stderr = &failed
	output, err := cmd.Output()
	if err != nil {
		t.Fatalf("the client: %v\n%s", err, failed.String())
	}
	var results []answered
	lines := bufio.NewScanner(bytes.NewReader(output))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var a answered
		expect.NoError(t, json.Unmarshal(lines.Bytes(), &a))
		results = append(results, a)
	}
	expect.Equal(t, len(all), len(results), "answers; the client printed %s", failed.String())
	return results
}
