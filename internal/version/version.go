// Package version names the build that all binaries of this project are of.
package version

// Version is set by the linker.
var Version = "v0.0.0"
