// Package selection reads and writes the annotation that declares the networks of a Pod, or of a Deployment's Pod
// template.
//
// The annotation follows the Kubernetes Network Plumbing Working Group's "Kubernetes Network Custom Resource Definition
// De-facto Standard", versions 1.2 and 1.3, section 4, "Network Attachment Selection Annotation". Section 4.1.1 is the
// comma-delimited format, section 4.1.2 the JSON list format. Where the standard is silent, the package does what
// Multus does. If neither defines a value, the package refuses it and says what to write. The choices are:
//
//   - A value that begins with '[' or '{' is JSON; any other value is comma-delimited. Multus takes a value for JSON
//     if it contains one of [ { " anywhere. The two agree on every valid value. No name contains such a character,
//     and a comma-delimited value that contains one is refused.
//   - The comma-delimited format may name the Pod's interface, as in ns/net@eth1. That is Multus's extension. The
//     standard allows it only in the JSON format.
//   - Names follow Kubernetes' rules for object names in both formats, so dots are allowed. Multus refuses dots in the
//     comma-delimited format. Format writes JSON, where Multus accepts them.
//   - Keys are case-sensitive, as in the standard. Go programs that decode with encoding/json, such as Multus, read
//     "Name" as "name". Others do not, so the package refuses such a key.
//   - A duplicate key in one element is refused. RFC 8259, section 4, does not define which one counts.
//   - Other keys than name, namespace, interface, ips and mac are kept unchanged and not interpreted. These are the
//     standard's own (cni-args, portMappings, bandwidth, default-route, infiniband-guid, ipam-claim-reference),
//     extensions (which contain a dot), and keys of older programs, such as "interfaceRequest".
//   - Empty means absent only for "namespace", as in the standard. An empty "interface", "mac" or "ips" is refused.
//     null is refused in all five.
//
// The package is pure: no I/O and the standard library only. All of it is safe for concurrent use.
package selection
