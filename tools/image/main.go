// SPDX-License-Identifier: Apache-2.0

// Command image makes the container image of a release from programs that are compiled, and the documents beside it. It
// needs no daemon, no base image and no network. The same input gives the same bytes.
//
//	image -name=network-controller:v1.2.3 -programs=dist/bin -out=dist   (dist/bin/linux-amd64/network-controller, …)
//
// Into the folder of -out it writes:
//
//	image/                              the image, as an OCI layout
//	network-controller-image.tar        the same in one file, for `ctr images import`, `docker load`, `podman load`
//	network-controller-image.cdx.json   what is in it (SBOM, CycloneDX)
//
// The last line that it prints is the digest. `image provenance` says of files how they were made; see provenance.go.
// `image plugin` packs the kubectl plugin; see plugin.go.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// release is what is true of everything that is made.
type release struct {
	version, revision string
	// time is that of the commit: the time of the build would differ each time.
	time time.Time
}

func main() {
	args, run := os.Args[1:], makeImage
	if len(args) > 0 {
		switch args[0] {
		case "provenance":
			args, run = args[1:], makeProvenance
		case "plugin":
			args, run = args[1:], makePlugin
		}
	}
	if err := run(args); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// parse parses arguments, with the flags that say which release this is.
func (r *release) parse(flags *flag.FlagSet, args []string) error {
	flags.StringVar(&r.version, "version", "", "the version, such as v1.2.3")
	flags.StringVar(&r.revision, "revision", "", "the commit")
	flags.Func("epoch", "the commit's time, in seconds since 1970", func(text string) error {
		var seconds int64
		_, err := fmt.Sscan(text, &seconds)
		r.time = time.Unix(seconds, 0).UTC()
		return err
	})
	if err := flags.Parse(args); err != nil {
		return err
	}
	if r.version == "" || r.revision == "" || r.time.IsZero() {
		return errors.New("-version, -revision or -epoch is missing: run `make image`, which knows them")
	}
	return nil
}

func makeImage(args []string) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	var r release
	name := flags.String("name", "network-controller:latest", "the image's name, which the archive has")
	programs := flags.String("programs", "", "a folder with a folder of programs for each platform, such as linux-amd64")
	out := flags.String("out", "dist", "the folder to write into")
	if err := r.parse(flags, args); err != nil {
		return err
	}
	platforms, err := platformsIn(*programs)
	if err != nil {
		return err
	}
	index, err := buildIndex(r, platforms)
	if err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	layout := filepath.Join(*out, "image")
	if err := writeLayout(layout, *name, index); err != nil {
		return fmt.Errorf("writing the layout %s: %w", layout, err)
	}
	archive := filepath.Join(*out, "network-controller-image.tar")
	if err := writeArchive(archive, layout, r.time); err != nil {
		return fmt.Errorf("writing the archive %s: %w", archive, err)
	}
	sbom := filepath.Join(*out, "network-controller-image.cdx.json")
	if err := writeSBOM(sbom, r, digest.String(), platforms); err != nil {
		return fmt.Errorf("writing the SBOM %s: %w", sbom, err)
	}
	fmt.Printf("%s\n%s\n%s\n", archive, sbom, digest)
	return nil
}

// platform is an operating system and an architecture, with its programs.
type platform struct {
	os, arch string
	// programs are paths, sorted by name.
	programs []string
}

func platformsIn(folder string) ([]platform, error) {
	folders, err := filepath.Glob(filepath.Join(folder, "*-*"))
	if err != nil {
		return nil, err
	}
	var platforms []platform
	for _, dir := range folders {
		programs, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil {
			return nil, err
		}
		system, arch, _ := strings.Cut(filepath.Base(dir), "-")
		platforms = append(platforms, platform{system, arch, programs})
	}
	if len(platforms) == 0 {
		return nil, fmt.Errorf("-programs=%s has no folder such as linux-amd64: run `make image`, which compiles them",
			folder)
	}
	return platforms, nil
}
