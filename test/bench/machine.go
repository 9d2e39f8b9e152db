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
	if total, err := strconv.Atoi(strings.TrimSuffix(field("/proc/meminfo", "MemTotal"), " kB")); err == nil {
		parts = append(parts, fmt.Sprintf("%.0f GiB", float64(total)/(1<<20)))
	}
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		parts = append(parts, "Linux "+strings.TrimSpace(string(release)))
	}
	return strings.Join(append(parts, runtime.Version()), ", ")
}

// load is how many processes ran or wanted to, on average, in the last minute; 0 where the system does not tell.
func load() (average float64) {
	if content, err := os.ReadFile("/proc/loadavg"); err == nil {
		_, _ = fmt.Sscan(string(content), &average)
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

// memoryOf is a field of /proc/<pid>/status in bytes: VmRSS is what is in RAM, and VmHWM the most that was.
func memoryOf(pid int, name string) (float64, error) {
	text := field(fmt.Sprintf("/proc/%d/status", pid), name)
	kilobytes, err := strconv.Atoi(strings.TrimSuffix(text, " kB"))
	if err != nil {
		return 0, fmt.Errorf("the system does not show how much memory process %d has (%s is %q): this figure needs "+
			"Linux", pid, name, text)
	}
	return float64(kilobytes) * 1024, nil
}

// addMemory is add of a field of memoryOf, in MiB.
func (r *report) addMemory(id string, pid int, name string) error {
	is, err := memoryOf(pid, name)
	if err == nil {
		r.add(id, is/(1<<20))
	}
	return err
}

// tick is the unit of times in /proc: USER_HZ is 100 on every architecture that Kubernetes is built for.
const tick = 10 * time.Millisecond

// cpuOf is the CPU time that a process has used: fields 14 and 15 of proc_pid_stat(5), in user and in kernel mode.
// Field 2 is its name, in parentheses and with anything in it.
func cpuOf(pid int) (time.Duration, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("the system does not show process %d: this figure needs Linux: %w", pid, err)
	}
	text := string(content)
	fields := strings.Fields(text[strings.LastIndex(text, ")")+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat ends early: %q", pid, text)
	}
	user, err := strconv.Atoi(fields[11])
	kernel, other := strconv.Atoi(fields[12])
	return time.Duration(user+kernel) * tick, errors.Join(err, other)
}

// addCPU is add of the seconds of CPU time that a process has used since it had used before.
func (r *report) addCPU(id string, pid int, before time.Duration) error {
	is, err := cpuOf(pid)
	if err == nil {
		r.add(id, (is - before).Seconds())
	}
	return err
}
