package selection_test

import (
	"fmt"
	"net/netip"

	"cloudteam.ztgame.com/network-controller/internal/selection"
)

func ExampleParse() {
	selections, err := selection.Parse("net-a, other/net-b@eth1", "default")
	for _, s := range selections {
		fmt.Printf("%s/%s, interface %q\n", s.Namespace, s.Name, s.Interface)
	}
	fmt.Println(err)

	_, err = selection.Parse(`[{"name":"Net-A"},{"name":"net-b","ips":["10.2.2.300"],"mac":"02:00"}]`, "default")
	fmt.Println(err)
	// Output:
	// default/net-a, interface ""
	// other/net-b, interface "eth1"
	// <nil>
	// networks[0].name: "Net-A" has the character 'N': write a Network's name, at most 253 lower case letters, digits, '-' and '.', each part between dots with a letter or digit at both ends
	// networks[1].ips[0]: "10.2.2.300" is no IP address: write an address such as "192.0.2.10" or "2001:db8::10/64"
	// networks[1].mac: "02:00" is no MAC address: write six bytes such as "fa:16:3e:12:34:56", or leave it out
}

func ExampleFormat() {
	selections, err := selection.Parse(`[{"name":"net-a","default-route":["10.2.2.1"]}]`, "default")
	if err != nil {
		fmt.Println(err)
		return
	}
	selections[0].Addresses = []netip.Prefix{netip.MustParsePrefix("10.2.2.42/24")}
	fmt.Println(selection.Format(selections))
	// Output:
	// [{"name":"net-a","namespace":"default","ips":["10.2.2.42/24"],"default-route":["10.2.2.1"]}] <nil>
}
