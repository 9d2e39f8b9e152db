// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodes

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// cgroupRoot has a folder per hierarchy with cgroups of version 1, and is the only hierarchy itself with version 2.
const cgroupRoot = "/sys/fs/cgroup"

// cgroupPrefix begins the name of each cgroup of ours; the id of the process that made it and the node follow.
const cgroupPrefix = "network-controller-node-"

// hierarchies are the folders that cgroups can be made in.
func hierarchies() []string {
	if _, err := os.Stat(filepath.Join(cgroupRoot, "cgroup.controllers")); err == nil {
		return []string{cgroupRoot}
	}
	folders, _ := filepath.Glob(filepath.Join(cgroupRoot, "*", "cgroup.procs"))
	for i, procs := range folders {
		folders[i] = filepath.Dir(procs)
	}
	return folders
}

// makeCgroup makes the cgroup that a kubelet keeps its Pods in, and returns its name.
func makeCgroup(node string) (string, error) {
	name := fmt.Sprintf("%s%d-%s", cgroupPrefix, os.Getpid(), node)
	for _, hierarchy := range hierarchies() {
		if err := os.Mkdir(filepath.Join(hierarchy, name), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", err
		}
		// A new cpuset of version 1 has no processors and no memory, and takes no process.
		for _, set := range []string{"cpuset.cpus", "cpuset.mems"} {
			content, err := os.ReadFile(filepath.Join(hierarchy, set))
			if err != nil {
				continue // another hierarchy
			}
			err = os.WriteFile(filepath.Join(hierarchy, name, set), bytes.TrimSpace(content), 0o644)
			if err != nil {
				return "", err
			}
		}
	}
	return name, nil
}

// removeCgroup removes a cgroup and those below it. It fails while a process is left in one.
func removeCgroup(name string) error {
	var errs []error
	for _, hierarchy := range hierarchies() {
		var folders []string
		err := filepath.WalkDir(filepath.Join(hierarchy, name), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				folders = append(folders, path)
			}
			return nil // what is gone is no error
		})
		errs = append(errs, err)
		for _, folder := range slices.Backward(folders) {
			if err := syscall.Rmdir(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, fmt.Errorf("removing the cgroup %s: %w", folder, err))
			}
		}
	}
	return errors.Join(errs...)
}

// removeOldCgroups removes the cgroups of processes that were killed: nothing else outlives those.
func removeOldCgroups() {
	for _, hierarchy := range hierarchies() {
		folders, _ := filepath.Glob(filepath.Join(hierarchy, cgroupPrefix+"*"))
		for _, folder := range folders {
			name := filepath.Base(folder)
			pid, _, _ := strings.Cut(strings.TrimPrefix(name, cgroupPrefix), "-")
			if _, err := os.Stat("/proc/" + pid); errors.Is(err, fs.ErrNotExist) {
				_ = removeCgroup(name)
			}
		}
	}
}
