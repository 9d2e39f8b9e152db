// Package neutrontest is an OpenStack cloud in memory, as far as a network controller can see one: a Keystone v3 that
// hands out tokens and a catalog, and a Neutron v2.0 that keeps networks, subnets, ports and routers.
//
// What it answers, the real services answered first: status codes, error bodies, the attributes of every resource, the
// moments at which a revision_number moves. The suite in test/contract runs the same requests against this package and
// against a real Keystone and Neutron (ML2 with vxlan tenant networks), so that a test which passes here means
// something there. It answers as one of the [Releases] does; a [Fact] is what one of them changed.
//
// A kind of resource has a file with its type, which embeds standard, its schema and its [resources]. [Server] has a
// field for it; [New] makes its table, and has it in its list of kinds (server.go). One with a quota is in quotas.go,
// and one that an extension brings in extensions.go. Requests on a path below a resource are actions: see trunks.go.
// A suite in test/contract first asks a real Neutron what it answers.
//
// The package needs the standard library alone and imports nothing of this project, so that no mistake of the code
// under test can hide in it. A [Server] is an [http.Handler]; [Server.Start] serves it on loopback for clients that
// want a socket, and [Server.CloudsYAML] gives the file by which OpenStack clients find it.
package neutrontest
