// Package crd has the CustomResourceDefinitions of this version, for programs that compare an installation with them.
package crd

import "embed"

// Files has a file for each CustomResourceDefinition of Networks and what belongs to them.
//
//go:embed cloudteam.ztgame.com_*.yaml
var Files embed.FS
