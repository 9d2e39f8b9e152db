package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
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
func residentBytes(pid int) (float64, error) {
	text := field(fmt.Sprintf("/proc/%d/status", pid), "VmRSS")
	kilobytes, err := strconv.Atoi(strings.TrimSuffix(text, " kB"))
	if err != nil {
		return 0, fmt.Errorf("the system does not tell how much memory process %d has (VmRSS is %q): this figure needs "+
			"Linux", pid, text)
	}
	return float64(kilobytes) * 1024, nil
}
