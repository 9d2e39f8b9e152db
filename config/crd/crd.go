// Package crd has the CustomResourceDefinitions of this version, for programs that compare an installation with them.
package crd

import "embed"

// The commands that install CustomResourceDefinitions, in the root of a checkout of the repository. Messages name them,
// and a test runs them.
const (
	// Install is for those of Networks and what belongs to them.
	Install = "kubectl apply --server-side -k config/crd"
	// InstallFoos is for that of Foos, the sample, which Install leaves out.
	InstallFoos = "kubectl apply --server-side -f config/crd/samplecontroller.k8s.io_foos.yaml"
)

// Files has a file for each CustomResourceDefinition of Networks and what belongs to them.
//
//go:embed cloudteam.ztgame.com_*.yaml
var Files embed.FS
