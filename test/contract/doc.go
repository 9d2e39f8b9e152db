// Package contract holds what this project relies on in Keystone and Neutron, as requests and the answers to them.
//
// Each test is run against the emulator of each release (internal/neutron/neutrontest), always, and against a real
// cloud if one is at hand, with the same code on all. An answer that only the emulator gives can thus not find its way
// into the project: it fails here. What differs between releases is a fact of neutrontest, for which tests ask by name.
//
// A real cloud is asked for by the environment: CONTRACT_OPENSTACK=1, and OS_CLIENT_CONFIG_FILE with the path of a
// clouds.yaml that has a cloud "admin" (role admin) and a cloud "tenant" (role member, another project), both with
// passwords:
//
//	CONTRACT_OPENSTACK=1 OS_CLIENT_CONFIG_FILE=clouds.yaml go test ./test/contract/...
//
// With -short the real cloud is asked a quarter of the requests (inDepth), the emulator all of them.
//
// It must be a Neutron with ML2 whose tenant networks are vxlan on a physical network of 1500 bytes, with the default
// limits and policies, with the zones "east" and "west" for networks, whose agents serve none, and without quotas for
// the two projects. It is Neutron 21, 26 or 29: its extensions tell which. The tests touch nothing that they did not
// make, and remove what they made.
package contract
