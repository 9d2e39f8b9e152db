// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package vm runs virtual machines under QEMU for tests. A machine has Debian's kernel, which has what the kernel of a
// container's host may lack, busybox, and the programs that a test gives it. It has no disk, no network but what the
// test adds, and a shell on a serial line. It is emulated, so it runs everywhere in the same way, and boots in seconds.
package vm

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cloudteam.ztgame.com/network-controller/dev/process"
	"cloudteam.ztgame.com/network-controller/internal/node/nodetest"
)

// EnvKernel names the folder with the kernel, as dev/dataplane/kernel prints it.
const EnvKernel = "DATAPLANE_KERNEL"

// EnvTests names tests of the agent, as go test's -run does, which this package's test runs in a machine.
const EnvTests = "DATAPLANE_VM_TESTS"

// bootPatience bounds how long a machine may take to boot, emulated, on a machine that compiles at the same time.
const bootPatience = 3 * time.Minute

const qemu = "qemu-system-x86_64"

// Needs skips a test where no virtual machine can run. nodetest.Env has it fail instead, but for another
// architecture: the kernel is for one.
func Needs(t testing.TB) {
	t.Helper()
	missing := Missing()
	switch {
	case missing == "":
	case runtime.GOARCH != "amd64":
		t.Skip(missing)
	default:
		nodetest.Skip(t, "%s", missing)
	}
}

// Missing says why virtual machines cannot run here, with the remedy; empty where they can.
func Missing() string {
	if runtime.GOARCH != "amd64" {
		return "virtual machines are for amd64, and this machine is " + runtime.GOARCH
	}
	if os.Getenv(EnvKernel) == "" {
		return "no kernel: " + EnvKernel + " is not set; run `make test-dataplane`"
	}
	for _, program := range []string{qemu, "busybox", "ip", "nsenter", "ldd"} {
		if _, err := exec.LookPath(program); err != nil {
			return "virtual machines need " + program +
				"; run `dev/openstack/openstack up --dataplane`, which installs the packages"
		}
	}
	return ""
}

// Options say what a machine is.
type Options struct {
	// Dir gets the machine's files and logs. It MUST exist, and its path MUST be short enough for a unix socket.
	Dir string
	// Files are the files that the machine has: the path there, and the path here. All can be executed. What a program
	// needs of this machine's libraries comes with it.
	Files map[string]string
	// Devices are arguments of QEMU, for network cards.
	Devices []string
	// Start starts QEMU, such as in namespaces; nil starts it here.
	Start func(path string, args ...string) (*process.Process, error)
}

// Machine is a virtual machine. Its methods are safe for concurrent use.
type Machine struct {
	// Console is the path of what the kernel printed.
	Console string

	process *process.Process
	mu      sync.Mutex
	line    net.Conn
	output  *bufio.Reader
}

// Start starts a machine, and returns when it has booted. Stop MUST be called if there is no error.
func Start(o Options) (_ *Machine, err error) {
	if missing := Missing(); missing != "" {
		return nil, errors.New(missing)
	}
	m := &Machine{Console: filepath.Join(o.Dir, "console.log")}
	files := filepath.Join(o.Dir, "initramfs")
	if err := writeInitramfs(files, o.Files); err != nil {
		return nil, err
	}
	socket := filepath.Join(o.Dir, "shell")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	path, err := exec.LookPath(qemu)
	if err != nil {
		return nil, err
	}
	start := o.Start
	if start == nil {
		start = func(path string, args ...string) (*process.Process, error) {
			return process.Start(process.Program{
				Name: qemu, Path: path, Args: args, Dir: o.Dir, Log: filepath.Join(o.Dir, "qemu.log"), Patience: 10 * time.Second,
			})
		}
	}
	m.process, err = start(path, append([]string{
		"-machine", "pc,accel=tcg", "-cpu", "max", "-m", "768", "-nodefaults", "-display", "none", "-no-reboot",
		"-kernel", filepath.Join(os.Getenv(EnvKernel), "vmlinuz"), "-initrd", files,
		"-append", "console=ttyS0 quiet panic=-1 mitigations=off",
		"-serial", "file:" + m.Console, "-chardev", "socket,id=shell,path=" + socket, "-serial", "chardev:shell",
	}, o.Devices...)...)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			m.Stop()
		}
	}()
	deadline := time.Now().Add(bootPatience)
	if err := listener.(*net.UnixListener).SetDeadline(deadline); err != nil {
		return nil, err
	}
	if m.line, err = listener.Accept(); err != nil {
		return nil, errors.Join(err, m.process.Describe("does not start"))
	}
	m.output = bufio.NewReader(m.line)
	if _, err := m.read(deadline); err != nil {
		console, _ := os.ReadFile(m.Console)
		return nil, errors.Join(fmt.Errorf("the machine does not boot: %w: %s", err, console[max(0, len(console)-2000):]),
			m.process.Describe("does not boot"))
	}
	_, err = io.WriteString(m.line, prologue)
	return m, err
}

// Stop ends the machine at once.
func (m *Machine) Stop() {
	m.process.Kill()
	if m.line != nil {
		_ = m.line.Close()
	}
}

// prologue is what the shell reads first. It would prefer busybox's own ip.
const prologue = "ip() { /usr/sbin/ip \"$@\"; }\n"

// mark begins the line that ends an answer.
const mark = 1

// Run runs lines of shell in the machine and returns what they print. The error says how they ended, and has the same.
func (m *Machine) Run(ctx context.Context, lines string) (string, error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(time.Minute)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := fmt.Fprintf(m.line, "(\n%s\n) </dev/null 2>&1; printf '\\001%%d\\n' $?\n", lines); err != nil {
		return "", err
	}
	output, err := m.read(deadline)
	text := strings.TrimSpace(string(output))
	if err != nil {
		err = fmt.Errorf("in the virtual machine: %.200s: %w: %s", lines, err, text)
	}
	return text, err
}

// read reads an answer to its end.
func (m *Machine) read(deadline time.Time) ([]byte, error) {
	if err := m.line.SetReadDeadline(deadline); err != nil {
		return nil, err
	}
	output, err := m.output.ReadBytes(mark)
	if err != nil {
		return output, err
	}
	code, err := m.output.ReadString('\n')
	output = bytes.ReplaceAll(output[:len(output)-1], []byte("\r\n"), []byte("\n"))
	if code = strings.TrimSpace(code); err == nil && code != "0" {
		err = errors.New("exit status " + code)
	}
	return output, err
}

// Quote makes a word of the shell.
func Quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// initScript is the first process. The shell on the second serial line never ends.
const initScript = `#!/bin/busybox sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
/bin/busybox mkdir -p /proc /sys /dev /run/netns /tmp /sbin /usr/sbin /usr/bin
/bin/busybox --install -s /bin
ln -s /bin/busybox /sbin/modprobe
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
modprobe -a virtio_pci virtio_net
ip link set lo up
hostname vm
stty -F /dev/ttyS1 raw -echo
exec >/dev/ttyS1 2>&1
printf '\0010\n'
# A shell that shows no prompts.
while :; do sh /dev/ttyS1; done
`

// writeInitramfs writes the machine's file system: the kernel's modules, busybox, and files with the libraries that
// they need.
func writeInitramfs(path string, files map[string]string) (err error) {
	all := map[string]string{}
	maps.Copy(all, files)
	for there, here := range map[string]string{
		"/bin/busybox": "busybox", "/usr/sbin/ip": "ip", "/usr/bin/nsenter": "nsenter",
	} {
		if all[there], err = exec.LookPath(here); err != nil {
			return err
		}
	}
	for _, here := range slices.Collect(maps.Values(all)) {
		for _, library := range libraries(here) {
			all[library] = library
		}
	}
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	modules, err := os.Open(filepath.Join(os.Getenv(EnvKernel), "modules.cpio"))
	if err != nil {
		return err
	}
	defer modules.Close()
	if _, err := io.Copy(out, modules); err != nil {
		return err
	}
	// The kernel takes archives one after the other.
	a := &archive{w: bufio.NewWriter(out), folders: map[string]bool{"/": true}}
	a.add("/init", []byte(initScript))
	for _, there := range slices.Sorted(maps.Keys(all)) {
		content, err := os.ReadFile(all[there])
		if err != nil {
			return err
		}
		a.add(there, content)
	}
	a.entry("TRAILER!!!", 0, nil)
	return errors.Join(a.err, a.w.Flush())
}

// libraries are the paths of the shared libraries that a program needs. A static one needs none.
func libraries(program string) []string {
	output, err := exec.Command("ldd", program).Output()
	if err != nil {
		return nil
	}
	var paths []string
	for word := range strings.FieldsSeq(string(output)) {
		if strings.HasPrefix(word, "/") {
			paths = append(paths, strings.TrimSuffix(word, ":"))
		}
	}
	return paths
}

// archive writes the kernel's form of cpio ("newc").
type archive struct {
	w       *bufio.Writer
	folders map[string]bool
	inode   int
	err     error
}

// add adds a program, and the folders above it.
func (a *archive) add(path string, content []byte) {
	a.folder(filepath.Dir(path))
	a.entry(path, 0o100755, content)
}

func (a *archive) folder(path string) {
	if !a.folders[path] {
		a.folder(filepath.Dir(path))
		a.folders[path] = true
		a.entry(path, 0o40755, nil)
	}
}

func (a *archive) entry(path string, mode int, content []byte) {
	name := strings.TrimPrefix(path, "/") + "\x00"
	a.inode++
	a.write(fmt.Appendf(nil, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s",
		a.inode, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name), 0, name))
	a.write(content)
}

// write writes a part, to a multiple of four bytes.
func (a *archive) write(part []byte) {
	_, err := a.w.Write(append(slices.Clip(part), make([]byte, -len(part)&3)...))
	a.err = errors.Join(a.err, err)
}
