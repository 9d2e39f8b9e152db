// Package selection reads and writes the annotation by which a Pod, or the Pod template of a Deployment, declares the
// networks that it uses.
//
// The annotation is that of the Kubernetes Network Plumbing Working Group's "Kubernetes Network Custom Resource
// Definition De-facto Standard", versions 1.2 and 1.3, section 4, "Network Attachment Selection Annotation". Section
// 4.1.1 is the comma-delimited format, section 4.1.2 the JSON list format. Where the standard is silent, what Multus
// does is the measure; where both leave a value without a meaning, it is refused with a sentence that says what to
// write. The choices are:
//
//   - A value that begins with '[' or '{' is JSON, any other the comma-delimited format. Multus takes a value for JSON
//     that has one of [ { " anywhere. The two agree on every valid value, since no name has such a character, and a
//     comma-delimited value that has one is refused.
//   - The comma-delimited format may name the Pod's interface, as in ns/net@eth1. That is Multus's; the standard has
//     it in the JSON format alone.
//   - Names are those that Kubernetes gives to objects, dots included, in both formats. Multus refuses dots in the
//     comma-delimited one; Format writes JSON, where it takes them.
//   - Keys are told apart by their case, as the standard writes them. Programs in Go that decode with encoding/json,
//     Multus among them, take "Name" for "name"; since others do not, such a key is refused.
//   - A key that stands twice in one element is refused: RFC 8259, section 4, leaves open which one counts.
//   - Keys other than name, namespace, interface, ips and mac are kept as they are and not looked into. That holds for
//     the standard's own (cni-args, portMappings, bandwidth, default-route, infiniband-guid, ipam-claim-reference), for
//     extensions (those have a dot), and for keys that older programs wrote, such as "interfaceRequest".
//   - Empty means absent for "namespace" alone, as the standard has it. An empty "interface", "mac" or "ips", and null
//     in any of the five, is refused.
//
// The package is pure: no I/O and the standard library only. All of it may be used from several goroutines at once.
package selection
