// SPDX-License-Identifier: Apache-2.0

package assets

import (
	"fmt"
	"io"
	"os"
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

// progress shows how far a build is: one line that changes on a terminal, else a line every logPace.
type progress struct {
	what    string
	log     Log
	started time.Time
	stop    chan struct{}
	stopped sync.WaitGroup

	mu        sync.Mutex
	doing     string
	total     int
	packages  int
	downloads int
}

func newProgress(what string, log Log) *progress {
	p := &progress{what: what, log: log, started: time.Now(), stop: make(chan struct{})}
	log.Printf("%s: not in the cache, building it from source (minutes the first time)", what)
	pace := logPace
	if log.Terminal {
		pace = terminalPace
	}
	p.stopped.Go(func() {
		tick := time.NewTicker(pace)
		defer tick.Stop()
		for {
			select {
			case <-p.stop:
				return
			case <-tick.C:
				p.show()
			}
		}
	})
	return p
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

// done stops the display and leaves the cursor at the start of an empty line.
func (p *progress) done() {
	close(p.stop)
	p.stopped.Wait()
	if p.log.Terminal {
		_, _ = fmt.Fprint(p.log.Writer, "\r\033[K")
	}
}

func (p *progress) show() {
	line := p.line(time.Since(p.started))
	if p.log.Terminal {
		_, _ = fmt.Fprint(p.log.Writer, "\r\033[K"+line)
		return
	}
	p.log.Printf("%s", line)
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
