package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// machine says what it runs on. What the system does not tell is left out.
func machine() string {
	parts := []string{fmt.Sprintf("%d CPUs", runtime.NumCPU())}
	if model := field("/proc/cpuinfo", "model name"); model != "" {
		parts[0] += " (" + model + ")"
	}
	if total := memory(); total > 0 {
		parts = append(parts, fmt.Sprintf("%.0f GiB", total))
	}
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		parts = append(parts, "Linux "+strings.TrimSpace(string(release)))
	}
	return strings.Join(append(parts, runtime.Version()), ", ")
}

// memory is how many GiB of RAM there are; 0 where the system does not tell.
func memory() float64 {
	total, err := strconv.Atoi(strings.TrimSuffix(field("/proc/meminfo", "MemTotal"), " kB"))
	if err != nil {
		return 0
	}
	return float64(total) / (1 << 20)
}

// neutronWorkers is how many API workers Neutron starts on this machine where its configuration does not say
// (api_workers): one per CPU, no more than one per 2 GiB, and at least one (_get_worker_count in neutron/service.py).
func neutronWorkers() int {
	workers := runtime.NumCPU()
	if total := memory(); total > 0 {
		workers = min(workers, int(total/2))
	}
	return max(1, workers)
}

// load is how many processes ran or wanted to, on average, in the last minute; 0 where the system does not tell.
func load() float64 {
	content, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(content), " ")
	average, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0
	}
	return average
}

// field reads the first line "name : value" of a file of /proc.
func field(path, name string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(content)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// residentBytes is how much memory of a process is in RAM.
func residentBytes(pid int) (float64, error) { return memoryOf(pid, "VmRSS") }

// peakBytes is the most memory of a process that was in RAM.
func peakBytes(pid int) (float64, error) { return memoryOf(pid, "VmHWM") }

// memoryOf is a field of /proc/<pid>/status in bytes.
func memoryOf(pid int, name string) (float64, error) {
	text := field(fmt.Sprintf("/proc/%d/status", pid), name)
	kilobytes, err := strconv.Atoi(strings.TrimSuffix(text, " kB"))
	if err != nil {
		return 0, fmt.Errorf("the system does not tell how much memory process %d has (%s is %q): this figure needs "+
			"Linux", pid, name, text)
	}
	return float64(kilobytes) * 1024, nil
}

// stat is what /proc/<pid>/stat says of a process.
type stat struct {
	name   string
	parent int
	// cpu is the CPU time that it has used.
	cpu time.Duration
}

// tick is the unit of times in /proc: USER_HZ is 100 on every architecture that Kubernetes is built for.
const tick = 10 * time.Millisecond

// statOf reads the fields of proc_pid_stat(5) by number: 2 is the name, in parentheses and with anything in it, 4 the
// parent, 14 and 15 the times in user and in kernel mode.
func statOf(pid int) (s stat, err error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return s, fmt.Errorf("the system does not tell of process %d: this figure needs Linux: %w", pid, err)
	}
	text := string(content)
	open, shut := strings.Index(text, "("), strings.LastIndex(text, ")")
	if open < 0 || shut < open {
		return s, fmt.Errorf("/proc/%d/stat has no name: %q", pid, text)
	}
	s.name = text[open+1 : shut]
	fields := strings.Fields(text[shut+1:])
	if len(fields) < 13 {
		return s, fmt.Errorf("/proc/%d/stat ends early: %q", pid, text)
	}
	var user, kernel int
	var errs [3]error
	s.parent, errs[0] = strconv.Atoi(fields[1])
	user, errs[1] = strconv.Atoi(fields[11])
	kernel, errs[2] = strconv.Atoi(fields[12])
	s.cpu = time.Duration(user+kernel) * tick
	return s, errors.Join(errs[:]...)
}

// descendant finds the process of a program, of at most 15 characters, that this process, or one that it started,
// started.
func descendant(name string) (int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, fmt.Errorf("the system does not tell which processes there are: this figure needs Linux: %w", err)
	}
	processes := map[int]stat{}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if s, err := statOf(pid); err == nil { // otherwise it has ended
			processes[pid] = s
		}
	}
	for pid, s := range processes {
		if s.name != name {
			continue
		}
		for up := s.parent; up > 1; up = processes[up].parent {
			if up == os.Getpid() {
				return pid, nil
			}
		}
	}
	return 0, fmt.Errorf("there is no process %s", name)
}
