// SPDX-License-Identifier: Apache-2.0

package assets

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// The pace of progress: a terminal's line is rewritten often enough to be seen moving, a log gets a line now and then.
const (
	terminalPace = 500 * time.Millisecond
	logPace      = 10 * time.Second
)

// Log is where sentences for a person go. The zero value drops them. It is safe for concurrent use as long as its
// Writer is.
type Log struct {
	// Writer receives whole lines.
	Writer io.Writer
	// Terminal says that Writer is a terminal, on which a line may be rewritten.
	Terminal bool
}

// NewLog returns a Log to the file, which is a terminal if it is a character device and TERM does not forbid more than
// plain text.
func NewLog(file *os.File) Log {
	info, err := file.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
	return Log{Writer: file, Terminal: terminal}
}

// Printf writes a line.
func (l Log) Printf(format string, args ...any) {
	if l.Writer != nil {
		_, _ = fmt.Fprintf(l.Writer, format+"\n", args...)
	}
}

// task is something that takes long and can say how far it is.
type task interface {
	line(elapsed time.Duration) string
}

// display shows how far tasks are: one line for all that changes on a terminal, else a line every logPace. It is safe
// for concurrent use. done MUST be called.
type display struct {
	log     Log
	stop    chan struct{}
	stopped sync.WaitGroup

	mu    sync.Mutex
	tasks []shownTask
}

type shownTask struct {
	task
	started time.Time
}

func newDisplay(log Log) *display {
	d := &display{log: log, stop: make(chan struct{})}
	pace := logPace
	if log.Terminal {
		pace = terminalPace
	}
	d.stopped.Go(func() {
		tick := time.NewTicker(pace)
		defer tick.Stop()
		for {
			select {
			case <-d.stop:
				return
			case <-tick.C:
				d.show()
			}
		}
	})
	return d
}

// add shows a task from now on, until what is returned is called.
func (d *display) add(t task) (remove func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tasks = append(d.tasks, shownTask{t, time.Now()})
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.tasks = slices.DeleteFunc(d.tasks, func(s shownTask) bool { return s.task == t })
	}
}

// printf writes a line of its own.
func (d *display) printf(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clear()
	d.log.Printf(format, args...)
}

// done stops the display and leaves the cursor at the start of an empty line.
func (d *display) done() {
	close(d.stop)
	d.stopped.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clear()
}

func (d *display) clear() {
	if d.log.Terminal {
		_, _ = fmt.Fprint(d.log.Writer, "\r\033[K")
	}
}

func (d *display) show() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.tasks) == 0 {
		return
	}
	lines := make([]string, len(d.tasks))
	for i, t := range d.tasks {
		lines[i] = t.line(time.Since(t.started))
	}
	d.clear()
	if d.log.Terminal {
		_, _ = fmt.Fprint(d.log.Writer, strings.Join(lines, "; "))
		return
	}
	d.log.Printf("%s", strings.Join(lines, "; "))
}

// progress tells how far a build is.
type progress struct {
	what string

	mu        sync.Mutex
	doing     string
	total     int
	packages  int
	downloads int
}

// phase names what is being done from now on.
func (p *progress) phase(doing string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doing = doing
}

// expect sets the number of packages that will be compiled.
func (p *progress) expect(total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total = total
}

// downloaded takes a line of the go command's stderr and tells whether it announces a module's download.
func (p *progress) downloaded(line string) bool {
	if !strings.HasPrefix(line, "go: downloading ") {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.downloads++
	return true
}

// compiled takes a line of `go build -v` and tells whether it announces progress: a download, or a package, whose
// import path stands alone on its line.
func (p *progress) compiled(line string) bool {
	if p.downloaded(line) {
		return true
	}
	if strings.ContainsAny(line, " \t") || strings.HasPrefix(line, "#") {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.packages++
	return true
}

func (p *progress) line(elapsed time.Duration) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	line := p.what + ": " + p.doing
	switch {
	case p.total > 0 && p.packages >= p.total:
		// The last package is announced when its compilation begins; what takes long after it is the linker.
		line = fmt.Sprintf("%s: linking, all %d packages compiled", p.what, p.total)
	case p.total > 0:
		line += fmt.Sprintf(", %d of %d packages", p.packages, p.total)
	case p.downloads > 0:
		line += fmt.Sprintf(", %d modules downloaded", p.downloads)
	}
	return line + fmt.Sprintf(", %s", elapsed.Round(time.Second))
}

// downloads tells how far the downloads are that run at the same time. The zero value is one of none.
type downloads struct {
	mu    sync.Mutex
	have  map[Component]int64
	sizes map[Component]int64
}

// set takes the bytes that are there of a component's file, and its size, 0 if unknown.
func (d *downloads) set(c Component, have, size int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.have == nil {
		d.have, d.sizes = map[Component]int64{}, map[Component]int64{}
	}
	d.have[c], d.sizes[c] = have, size
}

func (d *downloads) line(elapsed time.Duration) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var have, size int64
	for c := range d.have {
		have += d.have[c]
		size += d.sizes[c]
	}
	return fmt.Sprintf("fetching: %d of %d MB, %s", have/1e6, max(have, size)/1e6, elapsed.Round(time.Second))
}
